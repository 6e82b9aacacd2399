"""What reads files of users and of strangers: grids, results, matrices, data sets, keys; and what a visitor asks."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.fuzz.folders import Scratch
from tests.fuzz.harness import Harness, Reader, promise

from steadfed.errors import CorruptRunError, DataError, InputError, ParameterError, RunError, UnknownNameError

_ROOT = Path(__file__).parents[2]


def _grids() -> Iterator[bytes]:
    for path in (_ROOT / "src/steadfed/sweeps/runs/grids").glob("*.toml"):
        yield path.read_bytes()
    yield b'[grid]\nrule = ["rage", "mean"]\nattack = ["alie", "nan"]\nbyzantine_fraction = 0.2\nseed=[1,2]\n'
    yield b'title="x"\n[settings.a]\nbase={lr=0.1}\n[settings.a.grid]\nrule="rage"\n[[published]]\npercent={alie=79.7}'
    axes = "".join(f"{key} = {list(range(1, 12))}\n" for key in ("seed", "rounds", "cohort_size", "batch_size"))
    yield f'[grid]\nrule = "rage"\nlocal_steps = {list(range(1, 12))}\nlr = [0.1,0.2,0.3,0.4]\n{axes}'.encode()


def _read_grids() -> Reader:
    from tests.fuzz import guards

    from steadfed.sweeps.runs._grid import parse_grid

    def read(data: bytes) -> None:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return
        with guards.no_code():
            grid = parse_grid(text)
            for point in islice(grid.points(), 20):
                grid.setting_of(point)

    return read


def _results() -> Iterator[bytes]:
    from steadfed.sweeps.runs._figures import Figures
    from steadfed.sweeps.runs._parquet import rows_of
    from steadfed.sweeps.runs._results import CellState, Result, write_results

    scratch = Scratch()
    figures = Figures(
        accuracy=0.5,
        final_accuracy=0.5,
        best_accuracy=0.5,
        curve_rounds=[1],
        curve=[0.5],
        precision=None,
        recall=None,
        honest_removed=None,
        skipped=0,
        assumption_violated=0,
        seconds=0.1,
    )
    own: dict[str, Any] = {"assumed": 1, "num_byzantine": 1, "key": "k", "config": "rounds = 1"}
    done = Result(
        settings={"rule": "rage", "attack": "alie", "seed": 1},
        state=CellState.FINISHED,
        reason=None,
        figures=figures,
        **own,
    )
    path = scratch.path / "results.parquet"
    write_results(path, [done])
    rows = rows_of(path)
    yield json.dumps(rows).encode()
    yield json.dumps([rows[0] | {"rule": None}]).encode()
    yield json.dumps([rows[0] | {"rule": [1], "key": 3, "config": None, "curve": ["a"]}]).encode()
    yield b"[" * 3000
    yield b"3"


def _read_results() -> Reader:
    from steadfed.reports._comparisons import _Comparison
    from steadfed.sweeps.runs import _results as results
    from steadfed.sweeps.runs._parquet import rows_in

    scratch = Scratch()
    path = scratch.file("results.parquet", b"")

    def read(data: bytes) -> None:
        """Read the rows that another process has found: what decodes Parquet is compiled, and may die."""

        def found(_path: Path) -> list[Any]:
            return rows_in(data)

        with patch.object(results, "rows_of", found):
            rows = results.read_results(path)
        for result in rows:
            result.rule, result.attack, result.seed, result.setting, result.value  # noqa: B018  looking is the test
        _Comparison(scratch.path, rows, None).report()

    return read


def _gauntlets() -> Iterator[bytes]:
    row = {"rule": "rage", "attack": "alie", "model": "iso", "cohort_size": 10, "dim": 4, "num_byzantine": 2, "seed": 0}
    measured = row | {"error": 0.5, "seconds": 0.1, "honest_weight_lost": 0.1, "byzantine_weight": 0.0, "stop": "x"}
    yield b"".join(json.dumps(each).encode() + b"\n" for each in (measured, measured | {"rule": "mean", "error": 2.0}))
    yield json.dumps(row | {"refused": "too few"}).encode() + b"\n"
    yield json.dumps(measured).encode().replace(b"0.5", b"NaN") + b"\n{"
    yield b"[" * 3000 + b"\n"
    yield b"9" * 5000 + b"\n"
    yield json.dumps(measured).encode().replace(b"0.5", b'"a"').replace(b'"rage"', b"[]") + b"\n"


def _read_gauntlets() -> Reader:
    from steadfed.reports._gauntlet import gauntlet_duels, gauntlet_ranking
    from steadfed.sweeps.matrices import ranking
    from steadfed.sweeps.matrices._record import read_records

    scratch = Scratch()

    def read(data: bytes) -> None:
        records = read_records(scratch.file("gauntlet.jsonl", data))
        gauntlet_ranking(ranking(records))
        list(gauntlet_duels(records))

    return read


def _queries() -> list[bytes]:
    return [
        b"sort=-accuracy&page=2&size=10&search=rage%20alie&state=running",
        b"size=0000000015000",
        b"page=" + b"9" * 5000,
        b"page=" + b"0" * 9 + b"1" * 4400,
        b"sort=%ff&state=",
        "page=١٢&size=٢".encode(),
    ]


def _read_queries() -> Reader:
    from starlette.datastructures import QueryParams

    from steadfed._ui.queries import LARGEST_PAGE, SORTS, Query

    def read(data: bytes) -> None:
        query = Query.of(QueryParams(data.decode("latin-1")))
        promise(1 <= query.size <= LARGEST_PAGE, f"a page of {query.size}")
        promise(1 <= query.page <= 10**6 and query.sort in SORTS and len(query.search) <= 200, f"{query}")

    return read


def _matrices() -> Iterator[bytes]:
    for rows in (
        np.arange(12, dtype=np.float32).reshape(4, 3),
        np.ones((3, 2)),
        np.array([[np.nan, 1], [2, 3]], np.float32),
    ):
        file = io.BytesIO()
        np.save(file, rows)
        yield file.getvalue()
    file = io.BytesIO()
    np.savez(file, a=np.ones(3))
    yield file.getvalue()
    for shape in ((0, 0), (2**40, 2**20), (2**62,)):
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        yield file.getvalue()


def _read_matrices() -> Reader:
    from steadfed._cli.aggregate import _read
    from steadfed.aggregators import Median
    from steadfed.sweeps.matrices._populations import recorded_rows

    scratch, rule = Scratch(), Median()

    def read(data: bytes) -> None:
        path = scratch.file("updates.npy", data)
        result = rule(_read(path, "matrix"))
        promise(bool(result.update.isfinite().all()), "an update that is not finite")
        recorded_rows(f"file:{path}")

    return read


def _idx_files() -> Iterator[bytes]:
    yield bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])
    yield bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 2, 2) + bytes(8)
    yield bytes([0, 0, 0x0D, 3]) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1)


def _read_idx() -> Reader:
    from steadfed.data._idx import parse_idx

    def read(data: bytes) -> None:
        for shape in ((None,), (None, 2, 2)):
            try:
                values = parse_idx(data, shape, "images")
            except DataError:
                continue
            promise(values.nbytes < len(data) and values.ndim == len(shape), "another shape")

    return read


def _read_libsvm() -> Reader:
    from steadfed.data._libsvm import Libsvm

    scratch = Scratch()

    def read(data: bytes) -> None:
        path = scratch.file("points", data)
        with patch("steadfed.data._libsvm.LARGEST", 1 << 24):  # as it is, one line may ask for 8 GB
            found = Libsvm(path=str(path)).load()
        promise(len(found.features) == len(found.labels) > 0, "points without labels")

    return read


def _read_batches() -> Reader:
    from steadfed.data._cifar import RECORD, normalise, parse_batch

    def read(data: bytes) -> None:
        whole = (data * (RECORD // max(1, len(data)) + 1))[:RECORD] if len(data) % 2 else data
        promise(bool(normalise(parse_batch(whole, "batch")).isfinite().all()), "pixels that are not finite")

    return read


def _read_patients() -> Reader:
    from steadfed.data._heart_disease import KEPT, encode, parse_patients

    def read(data: bytes) -> None:
        table = parse_patients(data, "patients")
        promise(table.shape[1] == len(KEPT), "other columns")
        promise(bool(np.isfinite(table).all()), "a patient whose numbers are not finite")
        encode(table)

    return read


def _archives() -> Iterator[bytes]:
    file = io.BytesIO()
    np.savez_compressed(file, features=np.ones((3, 2), np.float32), labels=np.array([0, 1, 1]))
    yield file.getvalue()
    file = io.BytesIO()
    np.savez(file, features=np.ones((2, 2), np.uint8), labels=np.array([0.5, 1]), groups=np.array(["a", "b"]))
    yield file.getvalue()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", bytes(1 << 20))
        archive.writestr("labels.npy", b"\x93NUMPY\x09\x00")
    yield file.getvalue()


def _read_archives() -> Reader:
    from steadfed.data._npz import Npz

    scratch = Scratch()

    def read(data: bytes) -> None:
        found = Npz(path=str(scratch.file("ours.npz", data))).load()
        promise(len(found.features) == len(found.labels) > 0, "points without labels")

    return read


def _packed() -> Iterator[bytes]:
    import tarfile

    for name in ("a.txt", "../a.txt", "b.txt"):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"abc"))
        yield file.getvalue()
    yield gzip.compress(bytes(1 << 20))
    yield b"abc"


def _read_packed() -> Reader:
    import hashlib

    from steadfed.data._files import DataFile, read_archive, unpack

    scratch = Scratch()
    wanted = DataFile(name="a.txt", size=3, sha256=hashlib.sha256(b"abc").hexdigest(), url="")

    def read(data: bytes) -> None:
        path = scratch.file("packed", data)
        found = read_archive(path, [wanted])
        promise(found in ({}, {"a.txt": b"abc"}), "another content")
        promise(len(unpack(path, 100)) <= 101, "more than was allowed")

    return read


def _read_text() -> Reader:
    from steadfed.data._shakespeare import _decode, speeches

    def read(data: bytes) -> None:
        speeches(_decode(data, "play"), "play")

    return read


_HEADER = ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "'<f4'", "True", "|O", "(0,)", "\x93NUMPY")
_ROWS = (
    '"rule":',
    '"seed":',
    '"state":"finished"',
    '"curve":[',
    '"accuracy":',
    "NaN",
    "1e999",
    "null",
    "[]",
    "-1",
    "true",
)
TABLES = (
    Harness(
        name="grid",
        reader=_read_grids,
        seeds=_grids,
        refusals=(ParameterError, UnknownNameError),
        words=("[grid]", "[base]", "[settings.a]", "[[published]]", "rule = ", "attack = ", "seed", "percent", "lr"),
    ),
    Harness(
        name="results",
        reader=_read_results,
        seeds=_results,
        refusals=(CorruptRunError, RunError),
        words=_ROWS,
        longest=8192,
    ),
    Harness(
        name="gauntlet-records",
        reader=_read_gauntlets,
        seeds=_gauntlets,
        refusals=(ParameterError,),
        words=('"error":', '"seconds":', '"attack":"none"', "NaN", "1e999", "9" * 400, "null", "[]", "{}", '"'),
    ),
    Harness(
        name="query",
        reader=_read_queries,
        seeds=_queries,
        refusals=(ParameterError, UnknownNameError),
        words=("page=", "size=", "sort=", "state=", "search=", "&", "%"),
        longest=6000,
    ),
    Harness(
        name="matrix",
        reader=_read_matrices,
        seeds=_matrices,
        refusals=(ParameterError, InputError),
        words=_HEADER,
    ),
    Harness(name="idx", reader=_read_idx, seeds=_idx_files, refusals=(DataError,)),
    Harness(
        name="libsvm",
        reader=_read_libsvm,
        seeds=lambda: [b"1 1:0.5 3:2\n-1 2:1\n", b"1 0:1\n2 1:1 # words\n", b"1 qid:1 1:1\n", b"1 900000000:1\n"],
        refusals=(DataError,),
        words=("qid:", ":1e999", ":nan", "99999999999", " ", "\n", "#"),
        longest=1024,
    ),
    Harness(
        name="image-batch", reader=_read_batches, seeds=lambda: [bytes(3073), b"\0\1\2", b"\x0b"], refusals=(DataError,)
    ),
    Harness(
        name="patients",
        reader=_read_patients,
        seeds=lambda: [b"63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n", b"?," * 13 + b"1\n", b""],
        refusals=(DataError,),
        words=(",", "?", "\n", "nan", "inf", "1e999", "1_0"),
        longest=1024,
    ),
    Harness(
        name="npz",
        reader=_read_archives,
        seeds=_archives,
        refusals=(DataError,),
        words=(*_HEADER, "PK\x03\x04", "PK\x01\x02", "PK\x05\x06", "labels.npy", "features.npy"),
    ),
    Harness(name="archive", reader=_read_packed, seeds=_packed, refusals=(DataError,), words=("a.txt", "ustar")),
    Harness(
        name="text",
        reader=_read_text,
        seeds=lambda: [b"Nurse:\nGo.\n\nROMEO:\nStay.\n\nNURSE:\nNo.\n", b"\n\n\n"],
        refusals=(DataError,),
        longest=1024,
    ),
)
