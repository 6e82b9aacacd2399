"""Data sets: where they come from and what they are."""
