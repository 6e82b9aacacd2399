"""Every malformed reply by name: what one bad client can send instead of a model.

Each is a pure function of what the client would honestly send and of what it was sent, made of Flower's own objects, so
that it can be sent over a real federation or handed to a validator in a test. None of them runs code where it arrives.

>>> import torch
>>> from flwr.app import ArrayRecord, RecordDict
>>> honest = RecordDict({"arrays": ArrayRecord(torch.nn.Linear(2, 1).state_dict())})
>>> MALFORMED["wrong-shape"].forge(honest, honest)["arrays"]["weight"].shape
(1, 3)
>>> honest["arrays"]["weight"].shape
(1, 2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from types import MappingProxyType
from typing import final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

from steadfed.flower.redteam import _changes as changes
from steadfed.flower.redteam._forging import (
    Forge,
    all_numbers,
    cast,
    chunk_bomb,
    claims,
    data,
    header,
    layers,
    metrics,
    num_examples,
    numbers,
    one_array,
    pickled_objects,
    raw_header,
    records,
)


@final
@dataclass(frozen=True)
class Malformed:
    """A reply that is not what the server asked for."""

    name: str
    """What it is called."""
    description: str
    """What is wrong with it, in one line."""
    forge: Forge
    """(content, sent) -> content: what is sent instead of `content`, in reply to `sent`. Neither is changed."""
    harmless: bool = False
    """Whether the arrays are such as an honest client could send: finite, of the right names, shapes and dtypes.

    Then the update must be used, however wrong its numbers or its metrics are: telling them is the rule's business.
    """


_NESTED = "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(1," * 300 + "}"
_DEEP = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "-" * 9000 + "1,)}"
_PADDED = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)" + " " * 2**20 + "}"
_HUGE = (2**40,)

_NUMBERS = (
    Malformed("all-nan", "NaN in every coordinate", all_numbers(changes.spoiled(nan))),
    Malformed("one-nan", "NaN in one coordinate", numbers(changes.spoiled(nan, 0))),
    Malformed("last-nan", "NaN in the last array, a buffer if the model has any", layers(changes.last_spoiled)),
    Malformed("plus-infinity", "+Inf in every coordinate", all_numbers(changes.spoiled(inf))),
    Malformed("minus-infinity", "-Inf in one coordinate", numbers(changes.spoiled(-inf, 0))),
    Malformed("huge-numbers", "1e30 in every coordinate", all_numbers(changes.spoiled(1e30)), harmless=True),
    Malformed("thousandfold", "a thousand times the model", all_numbers(changes.thousandfold), harmless=True),
    Malformed("denormals", "the smallest number above 0 everywhere", all_numbers(changes.denormal), harmless=True),
    Malformed("stale", "the model as it came", changes.stale, harmless=True),
    Malformed("fortran-order", "the right numbers column by column", numbers(np.asfortranarray), harmless=True),
)
_SHAPES = (
    Malformed("wrong-shape", "a column more than the model has", numbers(changes.wider)),
    Malformed("broadcastable", "a shape that numpy stretches to the right one", numbers(changes.broadcastable)),
    Malformed("scalar", "one number for a whole array", numbers(lambda values: np.ones((), values.dtype))),
    Malformed("transposed", "the right size in another shape", numbers(changes.transposed)),
    Malformed("hidden-transpose", "another shape in the bytes than is said", one_array(changes.hidden_transpose)),
    Malformed("empty-array", "an array without numbers", numbers(lambda values: values.ravel()[:0])),
    Malformed("negative-shape", "a shape with -1 in it", header(shape=(-1, 2), said=True)),
    Malformed("hidden-negative-shape", "-1 in the shape of the header only", header(shape=(-1, 2))),
    Malformed("huge-header", "a header that claims 2^40 numbers", header(shape=_HUGE)),
    Malformed("huge-claim", "header and record that claim 2^40 numbers", header(shape=_HUGE, said=True)),
    Malformed(
        "overflowing-shape", "a shape whose size overflows 64 bits to 0", header(shape=(2**33, 2**33), said=True)
    ),
    Malformed("wrong-claim-of-shape", "another shape is said than the bytes have", claims(shape=(7, 7, 7))),
    Malformed("boolean-shape", "a shape of truth values in the header", header(shape=(True, True))),
)
_DTYPES = (
    Malformed("float64", "twice the precision", cast(np.float64)),
    Malformed(
        "hidden-float64", "float64 in the bytes, said to be what was asked for", one_array(changes.hidden_double)
    ),
    Malformed("float16", "half the precision", cast(np.float16)),
    Malformed("complex64", "complex numbers", cast(np.complex64)),
    Malformed("integers", "whole numbers", cast(np.int64)),
    Malformed("booleans", "truth values", cast(np.bool_)),
    Malformed("strings", "the numbers written out", cast(np.str_)),
    Malformed("byte-strings", "the numbers written out in bytes", cast(np.bytes_)),
    Malformed("dates", "dates for numbers", all_numbers(lambda values: values.astype("int64").astype("datetime64[s]"))),
    Malformed("structured", "a record with one field for each number", header(descr=[("value", "<f4")])),
    Malformed("no-width", "numbers of no bytes at all", header(descr="|V0", said=True)),
    Malformed("objects", "pickled Python objects", one_array(pickled_objects)),
    Malformed("hidden-objects", "a header that says objects, and numbers after it", header(descr="|O")),
    Malformed("big-endian", "the other byte order", one_array(partial(changes.other_order, said=True))),
    Malformed("hidden-big-endian", "the other byte order, unsaid", one_array(partial(changes.other_order, said=False))),
    Malformed("wrong-claim-of-dtype", "float64 is said, the bytes are what they were", claims(dtype="float64")),
    Malformed("unknown-dtype", "a dtype that does not exist", claims(dtype="float31")),
    Malformed("old-dtype", "a dtype in the header that numpy warns of", header(descr="|a4")),
    Malformed("unknown-header-dtype", "a dtype that does not exist in the header", header(descr="<f31")),
)
_BYTES = (
    Malformed("garbage", "random bytes", data(changes.garbage)),
    Malformed("no-bytes", "no bytes at all", data(lambda _: b"")),
    Malformed("truncated", "the last byte is missing", data(lambda whole: whole[:-1])),
    Malformed("half", "half of the bytes are missing", data(lambda whole: whole[: len(whole) // 2])),
    Malformed("only-magic", "the first eight bytes of a file", data(lambda whole: whole[:8])),
    Malformed("trailing", "bytes after the end", data(lambda whole: whole + b"more")),
    Malformed("unknown-version", "a version of the format that does not exist", raw_header("{}", (9, 0))),
    Malformed("empty-header", "a header without entries", raw_header("{}")),
    Malformed("no-dictionary", "a header that is a number", raw_header("1")),
    Malformed("nested-header", "a short header that exhausts a parser's memory", raw_header(_NESTED)),
    Malformed("deep-header", "a header that exhausts a parser's stack", raw_header(_DEEP)),
    Malformed("long-header", "a header of a megabyte", raw_header(_PADDED, (2, 0))),
    Malformed("unknown-encoding", "bytes said to be encoded as nobody knows", claims(stype="unknown")),
    Malformed("said-pickle", "bytes said to be a pickle", claims(stype="pickle")),
    Malformed("chunk-bomb", "64 kB on the wire that become 4 GiB when put together", one_array(chunk_bomb)),
)
_LAYERS = (
    Malformed("missing-layer", "the first array is missing", layers(changes.without_first)),
    Malformed("extra-layer", "an array that the model does not have", changes.with_extra(1, 3)),
    Malformed("many-layers", "500 arrays that the model does not have", changes.with_extra(500, 1)),
    Malformed("heavy-layer", "32 MiB that the model does not have", changes.with_extra(1, 2**23)),
    Malformed("renamed-layer", "an array under another name", layers(partial(changes.renamed, suffix=".renamed"))),
    Malformed("lookalike-layer", "a name with a space of no width", layers(partial(changes.renamed, suffix="\u200b"))),
    Malformed("null-in-name", "a name with a null character", layers(partial(changes.renamed, suffix="\0"))),
    Malformed("no-layers", "a record without arrays", layers(lambda _: {})),
    Malformed("reordered-layers", "the arrays the other way round", layers(changes.backwards), harmless=True),
)
_RECORDS = (
    Malformed("empty-content", "nothing at all", records(lambda _: {})),
    Malformed("no-arrays", "only metrics", changes.only(MetricRecord)),
    Malformed("two-array-records", "the arrays twice", changes.second),
    Malformed("moved-arrays", "the arrays under another key", changes.moved),
    Malformed("arrays-as-config", "lists of numbers in a ConfigRecord", changes.instead(ConfigRecord)),
    Malformed("arrays-as-metrics", "lists of numbers in a MetricRecord", changes.instead(MetricRecord)),
    Malformed("no-metrics", "only arrays", changes.only(ArrayRecord), harmless=True),
    Malformed("extra-config", "a ConfigRecord besides", records(changes.with_config), harmless=True),
)
_METRICS = (
    Malformed("extra-metric", "one metric more", metrics(lambda m: m | {"extra": 1.0}), harmless=True),
    Malformed("missing-metric", "no num-examples", metrics(changes.without_number), harmless=True),
    Malformed("list-metric", "a list for every metric", metrics(changes.listed), harmless=True),
    Malformed("empty-list-metric", "an empty list for a metric", metrics(lambda m: m | {"list": []}), harmless=True),
    Malformed("nan-metric", "NaN for every metric", metrics(lambda m: dict.fromkeys(m, nan)), harmless=True),
    Malformed("infinite-metric", "+Inf for every metric", metrics(lambda m: dict.fromkeys(m, inf)), harmless=True),
    Malformed("many-metrics", "5,000 metrics", metrics(changes.many), harmless=True),
    Malformed("long-metric-name", "a name of 100 kB", metrics(lambda m: m | {"x" * 100_000: 1.0}), harmless=True),
    Malformed("no-examples", "num-examples 0", num_examples(lambda _: 0), harmless=True),
    Malformed("all-examples", "num-examples 10^18", num_examples(lambda _: 10**18), harmless=True),
    Malformed("nan-examples", "num-examples NaN", num_examples(lambda _: nan), harmless=True),
    Malformed("negative-examples", "num-examples below 0", num_examples(lambda _: -1), harmless=True),
    Malformed("cancelling-examples", "minus those of nine like it", num_examples(lambda own: -9 * own), harmless=True),
)
MALFORMED: Mapping[str, Malformed] = MappingProxyType(
    {reply.name: reply for reply in (*_NUMBERS, *_SHAPES, *_DTYPES, *_BYTES, *_LAYERS, *_RECORDS, *_METRICS)}
)
"""Every malformed reply by name; no name is that of an attack."""
