"""Tools for testing rules, one's own among them: the aggregator contract, and clouds of honest and forged updates."""
