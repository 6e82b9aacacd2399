"""The names at the top of the package: cheap, complete, and the same for people, type checkers and Python."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import holdfast
from holdfast import _OTHERS, _RULES, aggregators
from holdfast.aggregators import RULES


def lazy_imports() -> dict[str, str]:
    """Return the names that a type checker is told of, and where from; "*" is every name of a module."""
    tree = ast.parse(Path(holdfast.__file__).read_text(encoding="utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {
        each.name: str(node.module) for node in guarded.body if isinstance(node, ast.ImportFrom) for each in node.names
    }


def test_a_type_checker_is_told_of_the_same_names_as_python() -> None:
    assert lazy_imports() == {"*": _RULES, **_OTHERS}


def test_every_name_leads_to_what_it_names() -> None:
    for name in dir(holdfast):
        assert hasattr(holdfast, name), name
    for name, module in _OTHERS.items():
        assert getattr(holdfast, name) is getattr(import_module(module), name)


def test_every_rule_and_nothing_private_is_at_the_top() -> None:
    names = set(dir(holdfast))
    assert {kind.__name__ for kind in RULES.values()} <= names
    assert {"Aggregation", "Aggregator", "RunConfig", "ServerView", "Stop", "errors"} <= names
    assert {name for name in names if name.startswith("_")} == {"__version__"}
    assert not names & {"Any", "TYPE_CHECKING", "annotations", "import_module", "base", "registry"}
    assert holdfast.Krum is aggregators.Krum


@pytest.mark.parametrize("name", ["Krumm", "mean", "rage", "base", "_RULE", "Path"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'holdfast' has no attribute '{name}'"):
        getattr(holdfast, name)


@pytest.mark.parametrize("code", ["import holdfast", "from holdfast import errors", "from holdfast import cli"])
def test_importing_the_package_does_not_load_torch(code: str) -> None:
    command = [sys.executable, "-c", f"{code}; import sys; sys.exit('torch' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0  # noqa: S603  our own code
