"""The gauntlet: every rule against every attack, on matrices, without training."""

from holdfast.sweeps.matrices.gauntlet import run
from holdfast.sweeps.matrices.grid import GRIDS, Cell, Grid
from holdfast.sweeps.matrices.ranking import Standing, better_than, standings
from holdfast.sweeps.matrices.record import Record, read_records

__all__ = ["GRIDS", "Cell", "Grid", "Record", "Standing", "better_than", "read_records", "run", "standings"]
