"""The files of the live page: a table of names, so that no visitor's path ever reaches the disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

from starlette.requests import Request
from starlette.responses import Response

from steadfed.reports._render.html import DRAWING, asset, plotly_script

FOLDER = Path(__file__).with_name("page")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
OWN = ("live.html", "live.css", "live.js", "list.js", "run.js", "stream.js", "icon.svg")
"""What is in the folder of the live page."""
SHARED = ("report.css", *DRAWING)
"""What it draws with, as reports do."""
PLOTLY = "plotly.min.js"


@final
@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file as it is sent."""

    content: bytes
    media_type: str
    tag: str

    def response(self, request: Request) -> Response:
        """Return the file, or that the browser has it already."""
        headers = {"etag": self.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type=self.media_type)


@cache
def asset_named(name: str) -> Asset | None:
    """Return a file of the live page by its name; None if there is no such file."""
    if name == PLOTLY:
        content = plotly_script()
    elif name in SHARED:
        content = asset(name).encode()
    elif name in OWN:
        content = (FOLDER / name).read_bytes()
    else:
        return None
    kind = _TYPES[Path(name).suffix]
    return Asset(content=content, media_type=kind, tag=f'"{hashlib.sha256(content).hexdigest()[:32]}"')
