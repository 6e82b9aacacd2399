"""A report as one HTML file that is whole: it opens from disk, without a network, on a phone and in the dark.

    Report ──► panels as JSON ───────┐
    page/report.html.j2 ─────────────┼──► one file; page/*.js draw what is scrolled to, and later the rest
    plots and Plotly, compressed ────┘

What runs in the page is named in its policy by its hash, so text that slipped through as a script would not run; no
address may be asked for anything. Plotly (4.8 MB) and what it draws lie in the file compressed (2 MB, and a sixth) and
are inflated by the browser when the first plot comes into sight: browsers can since 2023 (Chromium 80, Firefox 113,
Safari 16.4).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from steadfed._core.durable import replace_file
from steadfed._core.wording import harmless, prose
from steadfed.errors import RunError
from steadfed.reports._render.formulas import formulas
from steadfed.reports._render.plotly import panel_json
from steadfed.reports.panels import Panel, Report

TEMPLATES, PLOTS = "jinja2", "plotly"
"""The packages of the extra."""
FOLDER = Path(__file__).with_name("page")
"""Where report.html.j2, report.css and the scripts are."""
DRAWING = ("numbers.js", "plots.js", "report.js")
"""The scripts that draw panels, in the order in which they run."""
_FRAME = ("key", "kind", "title", "caption", "height", "fold")
"""What the page knows of a plot before it is drawn."""
_ESCAPES = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def write_page(report: Report, path: Path) -> None:
    """Write a report as a page, as a whole or not at all.

    Raises:
        RunError: it cannot be written, or the extra is not installed.
    """
    content = render(report).encode()
    try:
        replace_file(path, content)
    except OSError as error:
        raise RunError(
            f"cannot write the report {str(path)!r}: {error.strerror}; give another place with --out"
        ) from None


def render(report: Report) -> str:
    """Return a report as the text of a page; the same report gives the same text.

    Raises:
        RunError: the extra is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise missing_package(TEMPLATES) from None
    environment = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"shown": harmless, "prose": prose, "folded": folded}
    panels = [panel_json(panel) for section in report.sections for panel in section.panels]
    drawn = {panel["key"]: _split(panel) for panel in panels if "figure" in panel}
    named = dict.fromkeys(panel["formula"]["name"] for panel in panels if "formula" in panel)
    scripts = [asset(name) for name in (*DRAWING, "page.js")]
    return environment.get_template("report.html.j2").render(
        report=report,
        policy=_policy(*(script.encode() for script in scripts), *([plotly_script()] if drawn else [])),
        style=asset("report.css"),
        panels=embed(panels),
        formulas={name: formulas()[name].mathml for name in named},
        plots=_pack(json.dumps(drawn, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()),
        plotly=_pack_plotly() if drawn else "",
        scripts=scripts,
    )


def folded(panels: Sequence[Panel]) -> list[tuple[str, list[Panel]]]:
    """Return panels side by side that are folded away under one name, or are open, together.

    >>> from steadfed.reports.panels import Text
    >>> texts = [Text(key=name, title="", paragraphs=(), fold=fold) for name, fold in zip("abcd", ["", "x", "x", ""])]
    >>> [(fold, [panel.key for panel in each]) for fold, each in folded(texts)]
    [('', ['a']), ('x', ['b', 'c']), ('', ['d'])]
    """
    return [(fold, [*each]) for fold, each in groupby(panels, key=lambda panel: panel.fold)]


def asset(name: str) -> str:
    """Return report.css or a script, such as a live page needs to draw panels."""
    return (FOLDER / name).read_text(encoding="utf-8")


def plotly_script() -> bytes:
    """Return Plotly for browsers, from the package of that name.

    Raises:
        RunError: the extra is not installed.
    """
    found = importlib.util.find_spec(PLOTS)
    places = [] if found is None else [Path(place) for place in found.submodule_search_locations or ()]
    scripts = [script for place in places if (script := place / "package_data" / "plotly.min.js").is_file()]
    if not scripts:
        raise missing_package(PLOTS)
    return scripts[0].read_bytes()


def missing_package(package: str, extra: str = "report") -> RunError:
    """Return the error that says how to install what a report needs."""
    return RunError(f"{package} is not installed, and a report needs it: pip install 'steadfed[{extra}]'")


def embed(value: Any) -> str:
    r"""Return JSON that may stand inside an element of a page: nothing in it ends the element.

    >>> embed(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _policy(*scripts: bytes) -> str:
    """Return what the page may do: run these scripts, style itself, show pictures that it made; and nothing else."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(each).digest()).decode()}'" for each in scripts)
    allowed = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    return f"{allowed}; base-uri 'none'; form-action 'none'"


def _split(panel: dict[str, Any]) -> dict[str, Any]:
    """Take out of a panel, and return, what is needed only when it is drawn: most of the page."""
    return {name: panel.pop(name) for name in [*panel] if name not in _FRAME}


def _pack(content: bytes) -> str:
    """Return something compressed, in letters that may stand in a page."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


@cache
def _pack_plotly() -> str:
    return _pack(plotly_script())
