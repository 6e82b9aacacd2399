"""Objects by import path."""

from __future__ import annotations

from pathlib import Path

import pytest

from steadfed._core.importing import import_object
from steadfed.errors import ParameterError


def test_attributes_of_attributes_are_found() -> None:
    assert import_object("pathlib:Path.home", "a function") == Path.home


@pytest.mark.parametrize("path", ["", "torch", "torch.nn", ":Linear", "torch:", "torch.:nn", "a b:c", "torch:nn..x"])
def test_paths_that_are_no_paths_are_refused(path: str) -> None:
    with pytest.raises(ParameterError, match=r"the import path of a model is written 'package.module:attribute', got"):
        import_object(path, "a model")


def test_missing_modules_are_named() -> None:
    with pytest.raises(ParameterError, match="there is no module 'no_such_module'; is it installed"):
        import_object("no_such_module:thing", "a model")


def test_missing_attributes_are_answered_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"pathlib.Path has no 'hom', did you mean 'home'"):
        import_object("pathlib:Path.hom", "a model")


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("broken_a", "import no_such_module\n", r"no module 'no_such_module' \(imported by broken_a\)"),
        ("broken_b", "1 / 0\n", "importing broken_b failed with ZeroDivisionError: division by zero"),
        ("broken_c", "def\n", "importing broken_c failed with SyntaxError"),
    ],
)
def test_modules_that_fail_to_load_say_why(
    name: str, code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ParameterError, match=said):
        import_object(f"{name}:thing", "a model")
