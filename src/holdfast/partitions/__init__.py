"""How training points are dealt out to clients."""
