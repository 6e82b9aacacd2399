"""The package as it is imported."""

from __future__ import annotations

import importlib
import sys

import pytest

from steadfed.errors import RunError


@pytest.mark.parametrize("missing", ["psutil", "cryptography"])
def test_without_what_it_needs_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for module in [each for each in sys.modules if each.startswith("steadfed.deploy")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(RunError, match=rf"{missing} is not installed, .*pip install 'steadfed\[flower\]'"):
        importlib.import_module("steadfed.deploy._processes")
