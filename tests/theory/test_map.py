"""docs/theory/map.md names what exists, and nothing that exists is missing."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from steadfed.theory import paper, remarks, robustness, sharp

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "theory" / "map.md").read_text(encoding="utf-8")
FUNCTIONS = sorted(set(re.findall(r"`((?:theory|aggregators|simulation)\.[\w.]+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`([\w/]+\.py::test_\w+)`", TEXT)))
ROWS = [
    line
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| paper", "| convergence", "| robustness"))
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_map_exist(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(f"steadfed.{module}"), attribute))


@pytest.mark.parametrize("name", TESTS)
def test_tests_of_the_map_exist(name: str) -> None:
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_row_names_a_function_and_a_test() -> None:
    assert [row for row in ROWS if not re.search(r"`[\w.]+`.*\| .*`[\w/]+\.py::test_\w+`", row)] == []
    assert len(ROWS) > 40


def test_every_formula_is_on_the_map() -> None:
    formulas = [f"theory.paper.{name}" for name in paper.__all__ if inspect.isfunction(getattr(paper, name))]
    formulas += [f"theory.remarks.{name}" for name in remarks.__all__]
    formulas += [f"theory.robustness.{name}" for name in robustness.__all__ if name[0].islower()]
    here = inspect.unwrap
    own = [name for name, each in vars(sharp).items() if inspect.isfunction(here(each)) and not name.startswith("_")]
    formulas += [f"theory.sharp.{name}" for name in own if here(getattr(sharp, name)).__module__ == sharp.__name__]
    assert [name for name in formulas if name not in FUNCTIONS] == []


@pytest.mark.parametrize(
    "label",
    [
        *(f"Theorem {number}" for number in range(1, 5)),
        *(f"Lemma {number}" for number in range(1, 5)),
        *(f"Claim {number}" for number in range(1, 6)),
        *("Fact 1", "Assumption 1", "Assumption 2", "Algorithm 1", "Algorithm 2"),
    ],
)
def test_every_numbered_statement_of_the_paper_is_on_the_map(label: str) -> None:
    assert any(re.search(rf"\b{label}\b", row.split("|")[1]) for row in ROWS)
