"""The package as it is imported."""

from __future__ import annotations

import importlib.util
import sys

import pytest


@pytest.mark.parametrize("name", ["steadfed.flower", "steadfed.flower.client"])
def test_without_flower_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    found = importlib.util.find_spec
    for module in [each for each in sys.modules if each.startswith("steadfed.flower")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda each: None if each == "flwr" else found(each))
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'steadfed\[flower\]'"):
        importlib.import_module(name)
