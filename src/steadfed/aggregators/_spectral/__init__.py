"""Filters by the largest spread, other than RAGE."""
