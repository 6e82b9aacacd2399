"""Mutants are what they are said to be, and the table is about files that exist."""

from __future__ import annotations

import ast

import pytest
from tests.mutants.operators import mutants, sample
from tests.mutants.table import ROOT, TARGETS, Target, equivalents


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = 0 < a <= n", ["x = 0 <= a <= n", "x = 0 >= a <= n", "x = 0 < a < n", "x = 0 < a > n", "x = 1 < a <= n"]),
        ("x = a and b", ["x = a or b", "x = b", "x = a"]),
        ("x = (a or b) and c", ["x = (a or b) or c", "x = (a and b) and c", "x = (b) and c", "x = (a) and c"]),
        ("x = not (a)", ["x = (a)"]),
        ("x = -(a - b)", ["x = (a - b)", "x = -(a + b)"]),
        ("σ = τ // κ", ["σ = τ * κ"]),
        ("x += y", ["x -= y"]),
        ("x = f(1, flag=True)", ["x = f(2, flag=True)", "x = f(1, flag=False)"]),
        ("x = 0.0, 0.25", ["x = 1.0, 0.25", "x = 0.0, 0.5"]),
        ("raise ValueError(text)", ["pass"]),
        ("call(a)", ["pass"]),
        ("x = a if b(c) else d", ["x = a if not (b(c)) else d"]),
        ("x = [a for a in b if c]", ["x = [a for a in b if not (c)]"]),
        ("x: int | None = a | b", ["x: int | None = a & b"]),
        ("x = f'{a + b}', 'text', None", []),
    ],
)
def test_a_line_has_these_mutants(was: str, becomes: list[str]) -> None:
    assert [mutant.becomes for mutant in mutants(was)] == becomes


def test_a_mutant_is_the_source_with_one_change_and_knows_its_place() -> None:
    source = """
@cached(1)
class A:
    "Text."

    def f(self, x: "1 + 1" = 3) -> None:
        return g(
            x
        )
"""
    default, nothing = mutants(source)
    assert default.source == source.replace("= 3", "= 4")
    assert (default.function, default.line) == ("A.f", 6)
    assert nothing.source == source.replace("g(\n            x\n        )", "None")
    assert nothing.name == "A.f: return g( x )  →  return None"


def test_equal_changes_of_equal_lines_are_told_apart() -> None:
    assert [mutant.name for mutant in mutants("a += b\na += b")] == [
        "module: a += b  →  a -= b",
        "module: a += b  →  a -= b (2)",
    ]


def test_the_sample_does_not_depend_on_what_else_a_module_holds() -> None:
    lines = [f"def f{index}(a, b):\n    return a + b\n" for index in range(30)]
    chosen = [mutant.name for mutant in sample(mutants("".join(lines)), 8)]
    assert [mutant.name for mutant in sample(mutants("\n\n".join(reversed(lines))), 8)] == chosen[::-1]
    later = {mutant.name for mutant in sample(mutants("".join(lines[:-1])), 8)}
    assert len({*chosen} - later) <= 2
    assert {*chosen} != {mutant.name for mutant in mutants("".join(lines))[:8]}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.module)
def test_modules_and_tests_of_the_table_exist_and_every_mutant_of_a_module_is_python(target: Target) -> None:
    assert all((ROOT / name).exists() for name in target.tests), target.tests
    source = (ROOT / target.path).read_text(encoding="utf-8")
    same = ast.dump(ast.parse(source))
    for mutant in sample(mutants(source), 30):
        assert ast.dump(ast.parse(mutant.source)) != same, mutant.name


def test_known_equivalents_are_mutants_of_modules_in_the_table() -> None:
    sources = {target.module: (ROOT / target.path).read_text(encoding="utf-8") for target in TARGETS}
    for module, reasons in equivalents().items():
        assert {*reasons} <= {mutant.name for mutant in mutants(sources[module])}, module
        assert all(len(reason) > 20 for reason in reasons.values()), module
