"""Mutants of a module: the same source with one small mistake in it, found in the syntax tree and made in the text.

Left alone are annotations, decorators, strings and what stands inside f-strings: no behaviour that a test could see.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

SWAPPED = {
    ast.Lt: ("<", "<=", ">="), ast.LtE: ("<=", "<", ">"), ast.Gt: (">", ">=", "<="), ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
"""An operator as it is written, and what is written instead: for an order its other edge and its opposite."""
SKIPPED = frozenset({"annotation", "returns", "decorator_list", "type_params"})
DECIDED = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant)
"""Conditions that other changes turn round already."""


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `stop` of a source become `text`."""

    start: int
    stop: int
    text: bytes


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake. Known by the function and the lines that it changes, wherever the module lies."""

    function: str
    was: str
    becomes: str
    number: int
    """Which of the equal changes of equal lines in the function, from 1."""
    line: int
    source: str

    @property
    def name(self) -> str:
        """All that identifies it among the mutants of its module."""
        number = f" ({self.number})" if self.number > 1 else ""
        return f"{self.function}: {self.was}  →  {self.becomes}{number}"


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a source, in the order of the text.

    >>> for mutant in mutants("def f(x):\\n    return x if x > 0 else -x"):
    ...     print(mutant.becomes)
    return None
    return x if x >= 0 else -x
    return x if x <= 0 else -x
    return x if x > 1 else -x
    return x if x > 0 else x
    """
    maker = _Maker(source.encode())
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for function, edit in maker.edits(ast.parse(source), ""):
        mutated = (maker.text[: edit.start] + edit.text + maker.text[edit.stop :]).decode()
        was, becomes = maker.lines(edit)
        seen[function, was, becomes] += 1
        line = maker.text.count(b"\n", 0, edit.start) + 1
        found.append(Mutant(function, was, becomes, seen[function, was, becomes], line, mutated))
    return found


def sample(every: list[Mutant], number: int) -> list[Mutant]:
    """Return so many mutants, in the order of the text: always the same ones, whatever else the module holds."""
    ranked = sorted(every, key=lambda mutant: hashlib.sha256(mutant.name.encode()).digest())
    return sorted(ranked[:number], key=every.index)


class _Maker:
    """Finds what can be changed in a text."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends; the tree counts columns in bytes."""
        last, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[last - 1] + column

    def lines(self, edit: Edit) -> tuple[str, str]:
        """Return the lines that an edit touches, before and after, without their breaks."""
        start = self.text.rfind(b"\n", 0, edit.start) + 1
        stop = self.text.find(b"\n", edit.stop)
        stop = len(self.text) if stop < 0 else stop
        after = self.text[start : edit.start] + edit.text + self.text[edit.stop : stop]
        return " ".join(self.text[start:stop].decode().split()), " ".join(after.decode().split())

    def edits(self, node: ast.AST, function: str) -> Iterator[tuple[str, Edit]]:
        """Yield the edits of a node and of all below it, with the function that they are in."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            function = f"{function}.{node.name}" if function else node.name
        yield from ((function or "module", edit) for edit in self._own(node))
        for name, value in ast.iter_fields(node):
            if name in SKIPPED or isinstance(node, ast.JoinedStr):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.edits(child, function)

    def _own(self, node: ast.AST) -> Iterator[Edit]:
        for one, operator, other in _operators(node):
            yield from self._swapped(one, operator, other)
        match node:
            case ast.BoolOp():
                yield from self._without_an_operand(node)
            case ast.UnaryOp(op=ast.Not() | ast.USub() as operator):
                start = self.span(node)[0]
                yield Edit(start, start + (3 if isinstance(operator, ast.Not) else 1), b"")
            case ast.Constant(value=bool() | int() | float() as value):
                yield Edit(*self.span(node), _other(value).encode())
            case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
                yield Edit(*self.span(value), b"None")
            case ast.Raise() | ast.Expr(value=ast.Call()):
                yield Edit(*self.span(node), b"pass")
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield from self._negated(test)
            case ast.comprehension(ifs=conditions):
                for condition in conditions:
                    yield from self._negated(condition)

    def _swapped(self, one: ast.expr, operator: ast.AST, other: ast.expr) -> Iterator[Edit]:
        """Yield the edits of an operator, which stands between two expressions that may be in brackets."""
        if type(operator) not in SWAPPED:
            return
        (_, start), (stop, _) = self.span(one), self.span(other)
        written, *instead = (each.encode() for each in SWAPPED[type(operator)])
        place = self.text.index(written, start, stop)
        yield from (Edit(place, place + len(written), each) for each in instead)

    def _without_an_operand(self, node: ast.BoolOp) -> Iterator[Edit]:
        """Yield the edits that leave out one condition of several; brackets between two of them stay whole."""
        for one, other in pairwise(node.values):
            between = self.text[self.span(one)[1] : self.span(other)[0]]
            if not {*b"()"} & {*between}:
                yield Edit(self.span(one)[0], self.span(other)[0], b"")
                yield Edit(self.span(one)[1], self.span(other)[1], b"")

    def _negated(self, condition: ast.expr) -> Iterator[Edit]:
        if not isinstance(condition, DECIDED):
            start, stop = self.span(condition)
            yield Edit(start, stop, b"not (" + self.text[start:stop] + b")")


def _operators(node: ast.AST) -> list[tuple[ast.expr, ast.AST, ast.expr]]:
    """Return the operators of a node, each with the expressions on its sides."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=others):
            return list(zip([left, *others[:-1]], operators, others, strict=True))
        case ast.BoolOp(op=operator, values=values):
            return [(one, operator, other) for one, other in pairwise(values)]
        case ast.BinOp(left=one, op=operator, right=other) | ast.AugAssign(target=one, op=operator, value=other):
            return [(one, operator, other)]
    return []


def _other(value: bool | float) -> str:
    """Return another constant: the other truth, the next whole number, twice as much."""
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1)
    return repr(2.0 * value) if value else "1.0"
