"""Linear algebra on the K x d matrix of updates: column sources, the Gram matrix, its spectrum, sketches, shards."""
