"""Measurements of steadfed against its peers; each module runs as ``python -m benchmarks.<name>``."""
