"""Runs against the theorems: what is guaranteed before a run, and whether it held after it."""
