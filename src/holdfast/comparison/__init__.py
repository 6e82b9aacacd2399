"""Grids of runs: every combination is a cell, cells are run side by side, and rules are ranked by their worst case."""
