"""The names at the top of the package: cheap, complete, and the same for people, type checkers and Python."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import steadfed
from steadfed import _OTHERS, _RULES, aggregators
from steadfed.aggregators import RULES

ROOT = Path(steadfed.__file__).parent


SOURCES = {
    ".".join(("steadfed", *path.parent.relative_to(ROOT).parts)): path.read_text(encoding="utf-8")
    for path in sorted(ROOT.rglob("__init__.py"))
    if not any(part.startswith("_") for part in path.parent.relative_to(ROOT).parts)
}
LAZY = [name for name, source in SOURCES.items() if "lazy_names(" in source]


def names_for_type_checkers(package: str) -> dict[str, str]:
    """Return the names that a type checker is told of, and where from; "*" is every name of a module."""
    tree = ast.parse(SOURCES[package])
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {
        each.name: str(node.module) for node in guarded.body if isinstance(node, ast.ImportFrom) for each in node.names
    }


def test_a_type_checker_is_told_of_the_same_names_as_python() -> None:
    assert names_for_type_checkers("steadfed") == {"*": _RULES, **_OTHERS}


def test_there_are_packages_whose_names_are_imported_when_they_are_used() -> None:
    assert set(LAZY) >= {"steadfed.flower", "steadfed.reports", "steadfed.simulation", "steadfed.sweeps.runs"}


@pytest.mark.parametrize("package", LAZY)
def test_names_that_are_imported_when_they_are_used_are_the_same_for_everybody(package: str) -> None:
    module = import_module(package)
    told = names_for_type_checkers(package)
    assert set(told) <= set(module.__all__) <= set(dir(module))
    for name, place in told.items():
        assert getattr(module, name) is getattr(import_module(place), name)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Fedration'"):
        _ = module.Fedration


@pytest.mark.parametrize("package", [name for name in SOURCES if name != "steadfed"])
def test_a_package_shows_its_public_names_and_modules_and_nothing_else(package: str) -> None:
    module = import_module(package)
    said = getattr(module, "__all__", re.findall(r"(\w+) as \1\b", SOURCES[package]))
    below = {path.stem for path in Path(str(module.__file__)).parent.iterdir()}
    assert {name for name in dir(module) if not name.startswith("_")} <= {*said, *below}


def test_every_name_leads_to_what_it_names() -> None:
    for name in dir(steadfed):
        assert hasattr(steadfed, name), name
    for name, module in _OTHERS.items():
        assert getattr(steadfed, name) is getattr(import_module(module), name)


def test_every_rule_and_nothing_private_is_at_the_top() -> None:
    names = set(dir(steadfed))
    assert {kind.__name__ for kind in RULES.values()} <= names
    assert {"Aggregation", "Aggregator", "RunConfig", "ServerView", "Stop", "errors"} <= names
    assert {name for name in names if name.startswith("_")} == {"__version__"}
    assert not names & {"Any", "TYPE_CHECKING", "annotations", "import_module", "base", "registry"}
    assert steadfed.Krum is aggregators.Krum


@pytest.mark.parametrize("name", ["Krumm", "mean", "rage", "base", "_RULE", "Path"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'steadfed' has no attribute '{name}'"):
        getattr(steadfed, name)


@pytest.mark.parametrize("code", ["import steadfed", "from steadfed import errors", "from steadfed import _cli"])
def test_importing_the_package_does_not_load_torch(code: str) -> None:
    command = [sys.executable, "-c", f"{code}; import sys; sys.exit('torch' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0  # noqa: S603  our own code


def test_files_that_are_no_python_are_part_of_the_package() -> None:
    """An editable installation has them anyway; a wheel has those that pyproject.toml names."""
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    named = {
        path
        for package, patterns in project["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in ROOT.parent.joinpath(*package.split(".")).glob(pattern)
    }
    there = {path for path in ROOT.rglob("*.*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert there <= named, sorted(there - named)
