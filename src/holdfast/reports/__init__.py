"""What a run shows: stories of runs as panels, and panels as one page, pictures or tables."""
