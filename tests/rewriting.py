"""Other rounds in the folder of a run: as they would be if they had been played so, chain and all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord


def rewrite(path: Path, records: Iterable[RoundRecord]) -> RunFolder:
    """Write rounds in the place of those that are there; the summary is kept, checkpoints are not."""
    folder = RunFolder.open(path)
    wanted, summary = list(records), folder.summary()
    (path / "rounds.jsonl").write_bytes(b"")
    for file in (path / "checkpoints").glob("*"):
        file.unlink()
    for record in wanted:
        folder.append(record)
    if summary is not None:
        folder.write_summary({key: value for key, value in summary.items() if key not in {"head", "model_after"}})
    return folder


def change(path: Path, number: int, **changes: object) -> RunFolder:
    """Write a run anew with other entries in the record of one round."""
    records = list(RunFolder.open(path).records())
    records[number] = RoundRecord(**(records[number].model_dump() | changes))
    return rewrite(path, records)
