"""Algorithm 1: rounds of local steps, attack and aggregation."""
