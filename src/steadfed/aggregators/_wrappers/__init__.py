"""Pre-aggregation: what is done to the rows before any rule sees them."""
