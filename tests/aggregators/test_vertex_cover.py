"""Bounded branching against all subsets of the vertices of small graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from steadfed._core.rng import stream
from steadfed.aggregators._selection.vertex_cover import Nodes, NodesExhaustedError, has_cover


def test_vertex_covers_are_found_iff_there_are_any() -> None:
    for seed in range(60):
        rng = stream(seed, "graphs")
        number = int(rng.integers(1, 9))
        upper = np.triu(rng.random((number, number)) < rng.choice([0.1, 0.3, 0.6]), 1)
        edges = (upper | upper.T).astype(float)
        for budget in range(number + 1):
            exists = any(
                not np.delete(np.delete(edges, list(gone), 0), list(gone), 1).any()
                for gone in itertools.combinations(range(number), budget)
            )
            assert has_cover(edges, budget, Nodes(10_000)) == exists


def test_the_search_ends_with_the_nodes_it_was_granted() -> None:
    edges = np.ones((9, 9)) - np.eye(9)
    with pytest.raises(NodesExhaustedError):
        has_cover(edges, 8, Nodes(3))
