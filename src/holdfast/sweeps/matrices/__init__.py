"""The gauntlet: every rule against every attack, on matrices, without training."""

from holdfast.sweeps.matrices._gauntlet import run
from holdfast.sweeps.matrices._grid import GRIDS, GauntletCell, GauntletGrid
from holdfast.sweeps.matrices._ranking import GauntletRank, lost_duels, ranking
from holdfast.sweeps.matrices._record import GauntletRecord, read_records

__all__ = [
    "GRIDS",
    "GauntletCell",
    "GauntletGrid",
    "GauntletRank",
    "GauntletRecord",
    "lost_duels",
    "ranking",
    "read_records",
    "run",
]
