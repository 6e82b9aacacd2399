"""An extension of griffe: examples are code, formulas TeX; annotations: no validators; `import x as x` is public."""  # noqa: INP001

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.append(str(Path(__file__).parent))
from typesetting.formulas import page

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *\n).+)*", re.MULTILINE)


VALIDATOR = re.compile(r", BeforeValidator\(\w+\)")


class Reading(griffe.Extension):
    """Make docstrings and annotations fit to be read on a page."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ARG002  griffe asks for this signature
        """Put a fence around every example, and typeset formulas."""
        if obj.docstring is not None:
            obj.docstring.value = page(EXAMPLE.sub(_fenced, obj.docstring.value))

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:  # noqa: ARG002
        """Leave out what only turns a number into a number."""
        if attr.annotation is not None and VALIDATOR.search(str(attr.annotation)):
            attr.annotation = VALIDATOR.sub("", str(attr.annotation))

    def on_alias_instance(self, *, node: ast.AST | griffe.ObjectNode, alias: griffe.Alias, **kwargs: Any) -> None:  # noqa: ARG002
        """Take what a package imports under its own name for a name of the package."""
        if isinstance(node, ast.ImportFrom) and any(each.name == each.asname == alias.name for each in node.names):
            alias.public = True


def _fenced(found: re.Match[str]) -> str:
    indent = found["indent"]
    return f"{indent}```pycon\n{found[0]}\n{indent}```"
