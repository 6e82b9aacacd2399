"""What a run shows: histories of runs as panels, and panels as one page, pictures or tables."""
