"""Ways to take the local steps of many clients."""
