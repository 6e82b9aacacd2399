"""Adversaries: each a map from what it may know to one forged row per Byzantine client."""
