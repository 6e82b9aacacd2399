"""The rounds of a run as a data frame, in whichever library one works with."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steadfed.errors import RunError
from steadfed.server._history.rounds import Rounds

_WHOLE = ("round", "step")
"""Columns that hold whole numbers in every run."""


def frame_library(name: str) -> ModuleType:
    """Return pandas or polars.

    Raises:
        RunError: it is not installed; the message says how to get it.
    """
    try:
        return import_module(name)
    except ImportError:
        raise RunError(f"{name} is not installed, and to_{name} needs it: pip install 'steadfed[notebook]'") from None


def columns_of(rounds: Rounds) -> Mapping[str, NDArray[Any]]:
    """Return every column of the rounds by its name; NaN where a round has no such figure."""
    return {name: rounds[name].astype(np.int64) if name in _WHOLE else rounds[name] for name in rounds.columns}
