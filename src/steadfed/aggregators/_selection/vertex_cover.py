"""Vertex covers of small size, by bounded branching: which rows must go so that no two far apart are left.

A cover of a graph is a set of vertices that touches every edge. Branching: a vertex v is in the cover, or all of its
neighbours are. Both cases are disjoint and exhaust all covers, and with at most f vertices to take, three things keep
the tree small: the vertex of the largest degree is branched on; a vertex with more neighbours than may still be taken
must be taken itself; and as r vertices touch at most as many edges as the sum of the r largest degrees, a branch with
more edges than that holds no cover.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steadfed._core.arrays import Matrix, Vector


class NodesExhaustedError(Exception):
    """The search has visited as many nodes as it was granted."""


@dataclass
class Nodes:
    """How many nodes of search trees may still be visited."""

    left: int

    def visit(self) -> None:
        """Count one node."""
        if self.left <= 0:
            raise NodesExhaustedError
        self.left -= 1


@dataclass(frozen=True)
class Partial:
    """A node of the tree: some vertices are taken out, some are decided to stay."""

    left: Vector
    """1 for vertices that were not taken out, 0 for the others."""
    open: Vector
    """1 for vertices about which nothing is decided."""
    budget: int
    """How many more vertices may be taken out."""

    def without(self, vertex: int) -> Partial:
        """Return the node in which the vertex is taken out."""
        left, undecided = self.left.copy(), self.open.copy()
        left[vertex] = undecided[vertex] = 0.0
        return Partial(left, undecided, self.budget - 1)

    def with_it(self, vertex: int, neighbours: Vector) -> Partial:
        """Return the node in which the vertex stays, and hence all of its neighbours that are left are taken out."""
        away = neighbours * self.left
        undecided = self.open * (1.0 - away)
        undecided[vertex] = 0.0
        return Partial(self.left * (1.0 - away), undecided, self.budget - int(away.sum()))


def degrees(edges: Matrix, node: Partial) -> Vector:
    """Return how many neighbours every vertex that is left has among those left."""
    return np.asarray((edges @ node.left) * node.left)


def may_hold_a_cover(node: Partial, degree: Vector) -> bool:
    """Tell whether the vertices that may still be taken could touch as many edges as are left."""
    return node.budget >= 0 and float(largest(degree, node.budget).sum()) >= float(degree.sum()) / 2.0


def largest(values: Vector, number: int) -> Vector:
    """Return the `number` largest values, in any order."""
    if number >= len(values):
        return values
    return np.partition(values, len(values) - number)[len(values) - number :] if number else values[:0]


def branches(edges: Matrix, node: Partial, vertex: int) -> Iterator[Partial]:
    """Yield the two nodes below: the vertex stays, and the vertex is taken out, which is to be visited first."""
    yield node.with_it(vertex, edges[vertex])
    yield node.without(vertex)


def has_cover(edges: Matrix, budget: int, nodes: Nodes) -> bool:
    """Tell whether `budget` vertices touch all edges of the graph with this matrix of zeros and ones."""
    everybody = np.ones(len(edges))
    stack = [Partial(everybody, everybody, budget)]
    while stack:
        nodes.visit()
        node = stack.pop()
        degree = degrees(edges, node)
        if may_hold_a_cover(node, degree):
            if not degree.any():
                return True
            stack.extend(branches(edges, node, int(np.argmax(degree))))
    return False
