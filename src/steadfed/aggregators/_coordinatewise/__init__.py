"""Rules that look at every coordinate by itself."""
