"""The gauntlet: every rule against every attack, on matrices, without training."""

from holdfast.sweeps.matrices.gauntlet import run
from holdfast.sweeps.matrices.grid import GRIDS, Cell, Grid
from holdfast.sweeps.matrices.ranking import RankedRule, lost_duels, ranking
from holdfast.sweeps.matrices.record import Record, read_records

__all__ = ["GRIDS", "Cell", "Grid", "RankedRule", "Record", "lost_duels", "ranking", "read_records", "run"]
