"""Runs: a configuration, carried out in a folder that survives a crash."""
