"""Flower strategies that no client can stop or poison."""
