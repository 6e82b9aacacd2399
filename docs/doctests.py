"""An extension of griffe: examples in docstrings (`>>>`) are shown as code, and not as quotations."""  # noqa: INP001

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *\n).+)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Put a fence around every example."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ARG002  griffe asks for this signature
        """Rewrite the docstring of whatever was found."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(found: re.Match[str]) -> str:
    indent = found["indent"]
    return f"{indent}```pycon\n{found[0]}\n{indent}```"
