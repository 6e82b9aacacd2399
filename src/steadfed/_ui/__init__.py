"""A local, read-only web page over a folder of runs."""
