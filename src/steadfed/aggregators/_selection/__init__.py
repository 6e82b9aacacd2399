"""Rules that select some of the rows and average them."""
