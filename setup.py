"""What pyproject.toml cannot say: the long description, in which links lead somewhere.

The README links to files beside it. On a package index they are not beside it: with the address of the repository in
STEADFED_HOME (`make dist HOME_URL=https://…`) links become absolute and the project has URLs. Without it, as in every
build of a clone, a link is its text and a picture is left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from setuptools import setup

LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<target>[^)]+)\)")
PAGES = {
    "Homepage": "",
    "Documentation": "/tree/main/docs",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/blob/main/SECURITY.md",
}


def long_description(readme: str, home: str) -> str:
    """Return the README with links that lead somewhere from everywhere."""

    def absolute(found: re.Match[str]) -> str:
        picture, text, target = found["picture"], found["text"], found["target"]
        if not home:
            return "" if picture else text
        return f"{picture}[{text}]({home}/{'raw' if picture else 'blob'}/main/{target})"

    return LINK.sub(absolute, readme)


if __name__ == "__main__":
    address = os.environ.get("STEADFED_HOME", "").rstrip("/")
    if address and not address.startswith("https://"):
        raise SystemExit(f"STEADFED_HOME must be the https:// address of the repository, got {address!r}")
    setup(
        long_description=long_description((Path(__file__).parent / "README.md").read_text(encoding="utf-8"), address),
        long_description_content_type="text/markdown",
        project_urls={name: address + page for name, page in PAGES.items()} if address else {},
    )
