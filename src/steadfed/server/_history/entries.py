"""What became of every client of every cohort, as columns: one line for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from steadfed.server._history.fate import Fate


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Entries:
    """One line for every client of every cohort, in the order of the rounds."""

    client: NDArray[np.int64]
    """Places in the list of clients."""
    round: NDArray[np.int64]
    weight: NDArray[np.float64]
    """Times the number of rows: 1 is an equal share, or that of a site which is weighed; NaN without one."""
    score: NDArray[np.float64]
    """The rule's measure of suspicion; NaN without one."""
    fate: NDArray[np.int64]
    """Values of `Fate`."""
    received: NDArray[np.bool_]
    """Whether an update arrived, whatever it was."""
    judged: NDArray[np.bool_]
    """Whether it did in a round that aggregated."""
    byzantine: NDArray[np.bool_]
    """As far as the records know."""

    def __len__(self) -> int:
        return len(self.client)

    @property
    def removed(self) -> NDArray[np.bool_]:
        """Which of the judged got no weight."""
        removed: NDArray[np.bool_] = self.judged & (self.fate != Fate.KEPT)
        return removed
