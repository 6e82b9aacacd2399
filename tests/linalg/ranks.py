"""What one rank of two does: aggregate its slice of the columns under several rules and write down the results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from steadfed._core.rng import stream
from steadfed._linalg import sketch
from steadfed._linalg.shards import ShardedColumns
from steadfed.aggregators import Aggregator, GeometricMedian, Krum, Mean, Median, NearestNeighborMixing, Rage
from steadfed.aggregators._centre.centered_clipping import CenteredClipping
from steadfed.aggregators._selection.dnc import Dnc
from steadfed.aggregators._wrappers.bucketing import Bucketing
from steadfed.aggregators._wrappers.clipping import AdaptiveClipping
from steadfed.errors import InputError

CUT = 2_500
"""Columns of rank 0; rank 1 has the others."""

CLIPPED = CenteredClipping(num_byzantine=4, start="origin")

RULES: Mapping[str, Aggregator] = MappingProxyType(
    {
        "auto": Rage(num_byzantine=4),
        "known": Rage(num_byzantine=4, mode="known", sigma0=30.0),
        "exact": Rage(num_byzantine=4, mode="exact", sigma0=30.0),
        "lazy": Rage(num_byzantine=4, mode="lazy", sigma0=30.0),
        "krum": Krum(num_byzantine=4),
        "median": Median(),
        "mean": Mean(),
        "geometric median": GeometricMedian(),
        "nnm krum": NearestNeighborMixing(rule=Krum(num_byzantine=4)),
        "arc nnm centered clipping": AdaptiveClipping(rule=NearestNeighborMixing(rule=CLIPPED)),
        "bucketing median": Bucketing(rule=Median(num_byzantine=4)),
        "dnc": Dnc(num_byzantine=4),
    }
)


def rows(dtype: type[np.floating], *, with_nan: bool) -> NDArray[np.floating]:
    """Return the whole matrix: 25 clients, of which three are far away and, if asked, one has a NaN on rank 1 only."""
    matrix = stream(0, "shards").standard_normal((25, 7_001)) + 100.0
    matrix[[2, 11, 20]] += 3.0
    if with_nan:
        matrix[7, CUT + 3_000] = np.nan
    return matrix.astype(dtype)


def slice_of(matrix: NDArray[np.floating], rank: int) -> torch.Tensor:
    """Return the columns that the rank holds."""
    return torch.from_numpy(matrix[:, :CUT] if rank == 0 else matrix[:, CUT:])


def aggregate_shards(rank: int, folder: str) -> None:
    """Write to a file what this rank gets for its slice under every rule, and how slices that do not fit fail."""
    with _group(rank, folder):
        results = {
            "refusal/rows": np.array(_refusal(torch.zeros((4 + rank, 10)))),
            "refusal/dtype": np.array(_refusal(torch.zeros((4, 10), dtype=(torch.float32, torch.float64)[rank]))),
            "agreed": ShardedColumns(torch.zeros((4, 10))).agree(np.array([1.0 + rank, 5.0 - rank])),
            "total": ShardedColumns(torch.zeros((4, 10))).total(np.array([1.0 + rank, 5.0 - rank])),
        }
        for dtype in (np.float32, np.float64):
            for with_nan in (False, True):
                local = ShardedColumns(slice_of(rows(dtype, with_nan=with_nan), rank))
                for name, rule in RULES.items():
                    found = rule(local)
                    key = f"{name}/{np.dtype(dtype)}/{with_nan}"
                    results[key + "/weights"] = found.weights.numpy()
                    results[key + "/usable"] = found.usable.numpy()
                    results[key + "/update"] = found.update.numpy()
        results |= sketched_results(rank)
        np.savez(Path(folder) / f"rank{rank}.npz", allow_pickle=False, **results)


def sketched_results(rank: int) -> dict[str, NDArray[np.float64]]:
    """Return weights, how wide the sketch was and its secret, for slices that both are wide, and if one is narrow."""
    rng = stream(0, "sketched shards")
    matrix = rng.standard_normal((60, 9_000), dtype=np.float32)
    matrix[:10] = 0.01 * matrix[:10] + rng.standard_normal(9_000, dtype=np.float32)
    found: dict[str, NDArray[np.float64]] = {}
    for name, buckets in (("wide", CUT // 4), ("narrow", CUT)):
        sketch.BUCKETS, sketch.FEWEST_ROWS = buckets, {1: 5, 2: 5}
        outcome = Rage(num_byzantine=10)(ShardedColumns(slice_of(matrix, rank)))
        told = (0, 0) if outcome.sketch is None else (outcome.sketch.num_buckets, outcome.sketch.secret % 2**32)
        found |= {f"sketch/{name}/weights": outcome.weights.numpy(), f"sketch/{name}/told": np.array(told)}
    return found | {"sketch/fits": np.array(list(fitting(matrix, rank)))}


def fitting(matrix: NDArray[np.float32], rank: int) -> Iterator[bool]:
    """Yield whether a sketch fits the rows with larger and larger offsets in common."""
    sketch.BUCKETS = CUT // 4
    where = stream(0, "offset").standard_normal(matrix.shape[1], dtype=np.float32)
    for size in np.geomspace(1e4, 1e7, 13):
        rows = matrix + np.float32(size) * where
        outcome = Krum(num_byzantine=2, gram="fast")(ShardedColumns(slice_of(rows, rank)))
        assert outcome.sketch is not None
        yield outcome.sketch.fits


def _refusal(local: torch.Tensor) -> str:
    try:
        ShardedColumns(local)
    except InputError as error:
        return type(error).__name__
    return "accepted"


@contextmanager
def _group(rank: int, folder: str) -> Iterator[None]:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting-point",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=30),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()
