"""Other rounds in the folder of a run: as they would be if they had been played so, chain and all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord
from steadfed.server._results import HEAD, MODEL, rendered


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
        folder.write_summary(summary)
    return folder


def with_config(path: Path, text: str) -> RunFolder:
    """Write a run anew under another configuration."""
    records = list(RunFolder.open(path).records())
    (path / "config.toml").write_text(text)
    return rewrite(path, records)


def as_old_version(path: Path) -> RunFolder:
    """Take away what old versions did not write: hashes in lines, and in checkpoints what they belong to."""
    folder = RunFolder.open(path)
    folder.rounds.write_text(
        "".join(record.model_copy(update={"previous": None}).to_line() for record in folder.records())
    )
    for file in (path / "checkpoints").glob("*.json"):
        described = json.loads(file.read_text()) | {"format": 1}
        wanted = {key: described[key] for key in ("format", "round", "sha256", "facts")}
        file.write_text(json.dumps(wanted, indent=1) + "\n")
    summary = folder.summary()
    if summary is not None:
        kept = {key: value for key, value in summary.items() if key not in {HEAD, MODEL}}
        (path / "summary.json").write_bytes(rendered(kept))
    return folder


def change(path: Path, number: int, **changes: object) -> RunFolder:
    """Write a run anew with other entries in the record of one round."""
    records = list(RunFolder.open(path).records())
    records[number] = RoundRecord(**(records[number].model_dump() | changes))
    return rewrite(path, records)
