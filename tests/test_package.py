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
from steadfed import aggregators
from steadfed.aggregators import RULES

ROOT = Path(steadfed.__file__).parent


SOURCES = {
    ".".join(("steadfed", *path.parent.relative_to(ROOT).parts)): path.read_text(encoding="utf-8")
    for path in sorted(ROOT.rglob("__init__.py"))
    if not any(part.startswith("_") for part in path.parent.relative_to(ROOT).parts)
}
MODULES = [
    ".".join(("steadfed", *path.relative_to(ROOT).with_suffix("").parts))
    for path in sorted(ROOT.rglob("[a-z]*.py"))
    if not any(part.startswith("_") for part in path.relative_to(ROOT).parts)
]
LAZY = [name for name, source in SOURCES.items() if "lazy_names(" in source]


def names_for_type_checkers(package: str) -> dict[str, str]:
    """Return the names that a type checker is told of, and where from; "*" is every name of a module."""
    tree = ast.parse(SOURCES[package])
    tests = {"TYPE_CHECKING", "_typing.TYPE_CHECKING"}
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) in tests)
    return {
        each.name: str(node.module) for node in guarded.body if isinstance(node, ast.ImportFrom) for each in node.names
    }


def said_by(package: str) -> list[str]:
    """Return the names that a package exports."""
    module = import_module(package)
    return list(getattr(module, "__all__", re.findall(r"(\w+) as \1\b", SOURCES[package])))


def test_there_are_packages_whose_names_are_imported_when_they_are_used() -> None:
    assert set(LAZY) >= {"steadfed.flower", "steadfed.reports", "steadfed.simulation", "steadfed.sweeps.runs"}


@pytest.mark.parametrize("package", LAZY)
def test_names_that_are_imported_when_they_are_used_are_the_same_for_everybody(package: str) -> None:
    module = import_module(package)
    told = names_for_type_checkers(package)
    star = told.pop("*", None)
    told |= {} if star is None else dict.fromkeys(said_by(star), star)
    assert set(told) <= set(module.__all__) <= set(dir(module))
    for name, place in told.items():
        assert getattr(module, name) is getattr(import_module(place), name)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Fedration'"):
        _ = module.Fedration


@pytest.mark.parametrize("package", [name for name in SOURCES if name != "steadfed"])
def test_a_package_shows_its_public_names_and_modules_and_nothing_else(package: str) -> None:
    module = import_module(package)
    below = {path.stem for path in Path(str(module.__file__)).parent.iterdir()}
    assert {name for name in dir(module) if not name.startswith("_")} <= {*said_by(package), *below}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_shows_its_public_names_and_nothing_else(name: str) -> None:
    module = import_module(name)
    assert dir(module) == sorted(module.__all__)
    for each in module.__all__:
        assert not each.startswith("_")
        assert hasattr(module, each)


def test_there_are_modules_that_show_their_names() -> None:
    assert set(MODULES) >= {"steadfed.errors", "steadfed.extend", "steadfed.flower.client", "steadfed.theory.sharp"}


def test_every_rule_that_its_package_exports_is_at_the_top() -> None:
    exported = set(said_by("steadfed.aggregators"))
    classes = {kind.__name__ for kind in RULES.values()}
    missing = classes - exported
    assert not missing, f"export {sorted(missing)} in steadfed/aggregators/__init__.py"
    missing = exported - set(steadfed.__all__)
    assert not missing, f"add {sorted(missing)} to __all__ of steadfed/__init__.py, in the order of `ruff check --fix`"


def test_every_name_leads_to_what_it_names() -> None:
    assert set(dir(steadfed)) == {*steadfed.__all__, "__version__"}
    for name in dir(steadfed):
        assert hasattr(steadfed, name), name
    assert steadfed.Krum is aggregators.Krum


def test_a_star_imports_what_dir_shows() -> None:
    names: dict[str, object] = {}
    exec("from steadfed import *", names)  # noqa: S102  our own code
    assert set(names) - {"__builtins__"} == set(steadfed.__all__)


@pytest.mark.parametrize(
    "name", ["Krumm", "mean", "rage", "base", "_RULE", "Path", "Any", "TYPE_CHECKING", "annotations"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'steadfed' has no attribute '{name}'"):
        getattr(steadfed, name)


@pytest.mark.parametrize(
    "code", ["import steadfed; dir(steadfed)", "from steadfed import errors", "from steadfed import _cli"]
)
def test_importing_the_package_does_not_load_torch(code: str) -> None:
    command = [sys.executable, "-c", f"{code}; import sys; sys.exit('torch' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0  # noqa: S603  our own code


def test_everything_but_flower_is_held_to_not_importing_flower() -> None:
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("forbidden_modules") == ["flwr"])
    there = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {path.stem for path in ROOT.glob("[a-z]*.py")}
    assert set(contract["source_modules"]) == {f"steadfed.{name}" for name in there - {"flower"}}


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
