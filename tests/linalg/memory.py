"""Peak memory of passes over the rows, measured in a process of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from steadfed._linalg.columns import DenseColumns
from steadfed._linalg.gram import pivoted_gram, squared_norms
from steadfed._linalg.mixtures import MixedColumns
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators import RULES


def peak_of_a_gram_pass(number: int, width: int) -> int:
    """Return how many bytes above its input a Gram pass has held at its peak.

    The peak that Linux keeps (VmHWM) counts torch's and BLAS's memory, which Python's own tracing does not see. The
    input is written to before, so that its pages count as held, and so does a small pass, which loads the libraries.
    """
    rows = torch.full((number, width), 0.5)
    rows[:, ::97] = torch.arange(float(number))[:, None]
    with one_blas_thread():
        pivoted_gram(DenseColumns(rows[:8, :20_000]))
        before = _status("VmRSS")
        pivoted_gram(DenseColumns(rows))
    return _status("VmHWM") - before


def peak_of_a_mixture(name: str, number: int, width: int) -> int:
    """Return how many bytes above its input a wrapped rule, or with the name "read" one pass, has held at its peak."""
    rows = torch.full((number, width), 0.5)
    rows[:, ::97] += torch.arange(float(number))[:, None]
    rows[1, 5] = torch.nan
    _mix(name, rows[:8, :20_000])
    before = _status("VmRSS")
    _mix(name, rows)
    return _status("VmHWM") - before


def _mix(name: str, rows: torch.Tensor) -> None:
    if name != "read":
        RULES.build(name, num_byzantine=2)(rows)
        return
    with one_blas_thread():
        gram = pivoted_gram(DenseColumns(rows))
        size = len(gram.matrix)
        mixing = np.eye(size, size + 1) / 2.0 + 0.5 / (size + 1)
        squared_norms(MixedColumns(DenseColumns(rows), mixing, gram, np.pad(gram.matrix, (0, 1))))


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    raise KeyError(field)
