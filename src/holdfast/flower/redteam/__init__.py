"""Clients and servers that lie, for tests and drills."""
