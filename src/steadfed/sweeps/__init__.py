"""Sweeps: many trials over a grid, each tried once and kept; rules ranked by their worst case."""
