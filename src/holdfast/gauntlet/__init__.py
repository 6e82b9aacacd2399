"""The gauntlet: every rule against every attack, on matrices, without training."""

from holdfast.gauntlet.bench import run
from holdfast.gauntlet.grid import GRIDS, Cell, Grid
from holdfast.gauntlet.record import Record, read_records
from holdfast.gauntlet.summary import Standing, better_than, standings

__all__ = ["GRIDS", "Cell", "Grid", "Record", "Standing", "better_than", "read_records", "run", "standings"]
