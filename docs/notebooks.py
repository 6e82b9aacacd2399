"""Notebooks of the documentation: `python docs/notebooks.py docs/guides/tutorial.ipynb` executes one.

    .ipynb ──► played: its cells in one namespace, in this process ──► written back, compared by tests
           ──► markdown: a page of the site

No kernel is needed: the cells are plain Python, and what is shown is what `_repr_html_`, `_repr_png_` and `repr` say.
"""  # noqa: INP001  a script beside the hooks of mkdocs

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RICH = ("image/png", "text/html")
"""What is shown instead of plain text, the first that there is."""


def played(path: Path) -> dict[str, Any]:
    """Return a notebook with what its cells show when they are executed one after the other, in the current folder."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, cell in enumerate(cells, 1):
        cell["execution_count"] = number
        cell["outputs"] = list(_outputs("".join(cell["source"]), f"{path.name}, cell {number}", names, number))
    return notebook


def plain(notebook: dict[str, Any]) -> list[list[str]]:
    """Return what every cell shows as plain text and as nothing else: what must not change."""
    return [
        [
            "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
            for output in cell["outputs"]
            if not set(RICH) & set(output.get("data", {}))
        ]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def markdown(path: Path) -> str:
    """Return a notebook, with what it shows, as a page."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _outputs(source: str, name: str, names: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Execute a cell, and yield what it prints and what its last line is."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)  # noqa: S102  the project's own notebooks
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # noqa: S307
    if text := printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    if value is not None:
        data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
        if (html := _asked(value, "_repr_html_")) is not None:
            data["text/html"] = html.splitlines(keepends=True)
        if (png := _asked(value, "_repr_png_")) is not None:
            data["image/png"] = base64.b64encode(png).decode()
        yield {"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}}


def _asked(value: Any, method: str) -> Any:
    return getattr(value, method)() if hasattr(value, method) else None


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="a plot" src="data:image/png;base64,{data["image/png"]}">'
    if "text/html" in data:
        return f'<div class="shown">{"".join(data["text/html"]).replace(chr(10) + chr(10), chr(10))}</div>'
    return f"```text\n{''.join(output.get('text', data.get('text/plain', ''))).rstrip()}\n```"


if __name__ == "__main__":
    for notebook in map(Path, sys.argv[1:]):
        place = notebook.resolve()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            found = played(place)
            os.chdir(place.parent)
        place.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
