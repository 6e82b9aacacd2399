"""Models and losses."""
