"""The source of a function, as it is told from other sources: a hash of what it depends on in its file."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from steadfed._core.importing import import_object
from steadfed._core.source import relevant_source, source_digest

TEXT = '''"""A module."""

import numpy as np
from math import pi as PI, tau

LIMIT, OTHER = 3, 4  # of something


def helper(x):
    # a comment
    return x * PI


@np.vectorize
def mine(x):
    return helper(x) + LIMIT


class Unrelated:
    value = tau


if True:
    SWITCH = 1

print("loaded")

if __name__ == "__main__":
    mine(3)
'''


def test_a_source_is_what_a_name_depends_on() -> None:
    kept = relevant_source(TEXT, "mine")
    for wanted in ("import numpy as np", "PI, tau", "LIMIT, OTHER", "# a comment", "@np.vectorize", 'print("loaded")'):
        assert wanted in kept, wanted
    for other in ("A module", "Unrelated", "SWITCH", "__main__"):
        assert other not in kept, other


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("value = tau", "value = 2 * tau", True),
        ("    mine(3)", "    mine(4)", True),
        ('"""A module."""', '"""Mine."""', True),
        ("return x * PI", "return x / PI", False),
        ("LIMIT, OTHER = 3", "LIMIT, OTHER = 5", False),
        ("@np.vectorize\ndef mine", "def mine", False),
        ("as PI", "as PI, e", False),
        ('print("loaded")', 'print("there")', False),
    ],
)
def test_it_changes_with_what_matters_only(old: str, new: str, same: bool) -> None:
    assert TEXT.count(old) == 1
    assert (relevant_source(TEXT.replace(old, new), "mine") == relevant_source(TEXT, "mine")) is same


def test_what_binds_no_name_or_cannot_be_read_is_taken_whole() -> None:
    for text in ("from elsewhere import *\n", "def mine(:\n", ""):
        assert relevant_source(text, "mine") == text


def test_a_digest_is_that_of_the_module_in_which_something_is_defined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source_inside.py").write_text("def mine(x):\n    return x\n")
    (tmp_path / "source_door.py").write_text("from source_inside import mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = source_digest(import_object("source_door:mine", "a rule"), "source_door:mine")
    assert first == source_digest(import_object("source_inside:mine", "a rule"), "source_inside:mine")
    (tmp_path / "source_inside.py").write_text("def mine(x):\n    return 2 * x\n")
    assert source_digest(sys.modules["source_inside"].mine, "source_door:mine") not in {first, None}


def test_what_is_written_in_c_has_no_source() -> None:
    assert source_digest(math.floor, "math:floor") is None
    assert source_digest(np.median, "numpy:median") is not None


def test_methods_written_in_c_have_no_source() -> None:
    assert source_digest(import_object("torch:Tensor.median", "a rule"), "torch:Tensor.median") is None
