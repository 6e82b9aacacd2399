"""What the source of a function comes to: a hash that changes with it, and not with its neighbours in the file."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from steadfed._core.digests import sha256


def source_digest(found: Any, path: str) -> str | None:
    """Return the SHA-256 of the source of what was imported from a path; None if it has none, as code in C.

    Hashed are the statements at the top of its module that bring about the name and the names that these use, and so
    on; and those that bind no name, such as calls, as they may do anything. So an edit of another rule in the same file
    changes nothing. What other modules hold is not looked at.
    """
    module_name, _, attribute = path.partition(":")
    name = attribute.partition(".")[0]
    if inspect.isroutine(found) or isinstance(found, type):
        name = found.__qualname__.partition(".")[0]
        module_name = getattr(found, "__module__", None) or ""  # methods written in C have none
    try:
        source = inspect.getsource(sys.modules[module_name])
    except (KeyError, OSError, TypeError):
        return None
    return sha256(relevant_source(source, name).encode())


def relevant_source(source: str, name: str) -> str:
    r"""Return the statements of a module that bring about a name; all of it if none says so.

    >>> text = "import math\n\ndef half(x):\n    return x / TWO\n\nTWO = 2\n\ndef other(x):\n    return math.floor(x)\n"
    >>> print(relevant_source(text, "half"))
    def half(x):
        return x / TWO
    TWO = 2
    """
    try:
        statements = [each for each in ast.parse(source).body if not _is_idle(each)]
    except (SyntaxError, ValueError, RecursionError):
        return source
    bound = [frozenset(_bound(each)) for each in statements]
    if not any(name in each for each in bound):
        return source
    wanted, chosen = {name}, {place for place, each in enumerate(bound) if not each}
    for place in chosen:
        wanted |= _used(statements[place])
    while more := {place for place, each in enumerate(bound) if each & wanted} - chosen:
        chosen |= more
        for place in more:
            wanted |= _used(statements[place])
    lines = source.splitlines()
    return "\n".join(line for place in sorted(chosen) for line in _lines(statements[place], lines))


def _is_idle(statement: ast.stmt) -> bool:
    """Tell docstrings, and what only happens when the module is the program."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module binds."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((each.asname or each.name).partition(".")[0] for each in statement.names)
    else:
        for each in ast.walk(statement):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                yield each.id
            elif isinstance(each, (ast.FunctionDef, ast.ClassDef)):
                yield each.name


def _used(statement: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}


def _lines(statement: ast.stmt, lines: list[str]) -> list[str]:
    """Return the lines of a statement, its decorators among them."""
    decorated = getattr(statement, "decorator_list", [])
    first = min(each.lineno for each in [statement, *decorated])
    return lines[first - 1 : statement.end_lineno]
