"""What rules and attacks of your own are made with, besides `steadfed.aggregators` and `steadfed.attacks`.

A rule reads `Columns`, in one pass into the `Gram` matrix or block by block (`coordinatewise`), and gives weights to
`aggregation_of`. Fields of a `ValueObject` are its configuration; randomness comes from `stream`.
"""

from steadfed._core.lookup import find
from steadfed._core.naming import Registry
from steadfed._core.rng import stream
from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import (
    Gram,
    pivoted_gram,
    squared_distances,
    squared_norms,
)
from steadfed._linalg.shards import ShardedColumns
from steadfed.aggregators._base import (
    aggregation_of,
    stop_or_too_many,
    usable_bound,
)
from steadfed.aggregators._coordinatewise.blocks import coordinatewise
from steadfed.attacks._base import same_for_all
from steadfed.attacks._geometry import finite_rows

__all__ = [
    "Columns",
    "Gram",
    "Registry",
    "ShardedColumns",
    "ValueObject",
    "aggregation_of",
    "coordinatewise",
    "find",
    "finite_rows",
    "pivoted_gram",
    "real_number",
    "same_for_all",
    "squared_distances",
    "squared_norms",
    "stop_or_too_many",
    "stream",
    "usable_bound",
    "whole_number",
]


def __dir__() -> list[str]:
    return __all__
