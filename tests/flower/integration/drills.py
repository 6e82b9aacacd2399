"""Which malformed replies are played in the usual tests, and which in the slow ones; what each must be found to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steadfed.flower.redteam._malformed import MALFORMED
from steadfed.states._faults import Fault

USUAL: Sequence[str] = (
    "chunk-bomb",
    "wrong-shape",
    "objects",
    "garbage",
    "missing-layer",
    "one-nan",
    "trailing",
    "nan-metric",
)
"""One run of the usual tests: a lie for every round, one of each kind that a reply is found to be, and a harmless one.

Every lie at every place is played in process by tests/flower/test_strategy.py.
"""
_REST = tuple(name for name in MALFORMED if name not in USUAL)
REST: Sequence[Sequence[str]] = tuple(_REST[part::3] for part in range(3))
"""Three runs of the slow tests: all the others."""
EVERYTHING: Mapping[str, Sequence[Sequence[str]]] = {"drills": (USUAL,), "rest": REST}

_FOUND: Mapping[Fault, str] = {
    Fault.NOT_FINITE: "all-nan one-nan last-nan plus-infinity minus-infinity",
    Fault.SHAPE: "wrong-shape broadcastable scalar transposed hidden-transpose empty-array negative-shape "
    "hidden-negative-shape huge-header huge-claim overflowing-shape wrong-claim-of-shape boolean-shape",
    Fault.DTYPE: "float64 hidden-float64 float16 complex64 integers booleans strings byte-strings dates structured "
    "no-width objects hidden-objects big-endian hidden-big-endian wrong-claim-of-dtype unknown-dtype old-dtype",
    Fault.GARBAGE: "unknown-header-dtype garbage no-bytes half only-magic unknown-version empty-header no-dictionary "
    "nested-header deep-header unknown-encoding said-pickle",
    Fault.SIZE: "truncated trailing",
    Fault.KEYS: "missing-layer extra-layer many-layers renamed-layer lookalike-layer null-in-name no-layers "
    "empty-content no-arrays two-array-records moved-arrays arrays-as-config arrays-as-metrics",
    Fault.UNREADABLE: "chunk-bomb heavy-layer long-header",
}
OVERWEIGHT: Sequence[str] = ("many-metrics", "long-metric-name")
"""Harmless to a large model; next to the model of these tests they are too heavy to be read off the wire."""
FAULTS: Mapping[str, Fault] = {
    **{name: fault for fault, names in _FOUND.items() for name in names.split()},
    **dict.fromkeys(OVERWEIGHT, Fault.UNREADABLE),
}
"""What a malformed reply is found to be after its way over the wire; what is larger than any model is never read."""
