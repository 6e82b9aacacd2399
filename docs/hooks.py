"""Hooks of mkdocs: files of the repository that lie outside docs/ are part of the site, below repository/.

Links keep the form that works in the repository, such as ../benchmarks/README.md; here they are turned towards the
copies. A folder is its README. Markdown becomes a page, anything else is copied as it is.
Formulas of docstrings become TeX, notebooks pages.
"""  # noqa: INP001  mkdocs loads it by its path

from __future__ import annotations

import os
import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.append(str(Path(__file__).parent))
import notebooks
from typesetting import formulas

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
ALWAYS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md")
SHELF = "repository"
NOTEBOOK = ".ipynb"
FROM_DOCSTRINGS = ("rules.md", "attacks.md")
"""Pages whose formulas are in Unicode, as in the docstrings that they are made of."""


def on_config(config: Any) -> Any:
    """Put every decision into the navigation, at the end of its last part."""
    (inside,) = config.nav[-1].values()
    inside.append({"Decisions": [f"decisions/{path.name}" for path in sorted((ROOT / "docs/decisions").glob("*.md"))]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the files that are always there, and those that some page links to."""
    for file in [file for file in files if file.src_uri.endswith(NOTEBOOK)]:
        page = file.src_uri.removesuffix(NOTEBOOK) + ".md"
        files.append(File.generated(config, page, content=notebooks.markdown(Path(str(file.abs_src_path)))))
    waiting = [ROOT / name for name in ALWAYS]
    for file in files.documentation_pages():
        waiting += _linked(Path(str(file.abs_src_path))) if file.abs_src_path else []
    added: set[Path] = set()
    while waiting:
        path = _file(waiting.pop())
        if path is None or path in added or (ROOT / "docs") in path.parents:
            continue
        added.add(path)
        name = f"{SHELF}/{path.relative_to(ROOT).as_posix()}"
        if path.suffix == ".md":
            files.append(File.generated(config, name, content=path.read_text(encoding="utf-8")))
            waiting += _linked(path)
        else:
            files.append(File.generated(config, name, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001  mkdocs asks for these names
    """Turn links between docs/ and the rest of the repository towards their places in the site; colour commands."""
    place = PurePosixPath(page.file.src_uri)
    here = ROOT / place.relative_to(SHELF) if place.parts[0] == SHELF else ROOT / "docs" / place

    def turned(found: re.Match[str]) -> str:
        target = _file(here.parent / found[1])
        if target is None:
            return found[1]
        inside = (ROOT / "docs") in target.parents
        name = target.relative_to(ROOT / "docs") if inside else Path(SHELF) / target.relative_to(ROOT)
        name = name.with_suffix(".md") if name.suffix == NOTEBOOK else name
        return Path(os.path.relpath(name, place.parent)).as_posix()

    if page.file.src_uri in FROM_DOCSTRINGS:
        markdown = formulas.page(markdown)
    return LINK.sub(turned, markdown).replace("```console\n", "```bash\n")  # of console, only prompts have colours


def _linked(path: Path) -> list[Path]:
    return [path.parent / target for target in LINK.findall(path.read_text(encoding="utf-8"))]


def _file(path: Path) -> Path | None:
    """Return the file of the repository that a link means, or None if there is none."""
    path = Path(os.path.normpath(path))
    if path.is_dir():
        path /= "README.md"
    return path if path.is_file() and ROOT in path.parents else None
