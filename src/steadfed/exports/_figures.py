"""A run as other tools want it: flat settings, and plain numbers by name for every round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steadfed._core.parsing import parse_toml
from steadfed._core.values import dotted_table
from steadfed.errors import CorruptRunError, ParameterError
from steadfed.runs import is_deployment
from steadfed.server._folder import RunFolder
from steadfed.server._history import Tally
from steadfed.server._history.rounds import NUMBERS
from steadfed.server._record import RoundRecord

ExportedSetting = bool | int | float | str

_NAMES = {
    "test_accuracy": "accuracy/test",
    "train_accuracy": "accuracy/train",
    "test_loss": "loss/test",
    "train_loss": "loss/train",
    "spread": "filter/spread",
    "spread_before": "filter/spread_before",
    "threshold": "filter/threshold",
    "sigma0": "filter/sigma0",
    "error": "filter/error",
    "honest_error_bound": "filter/error_bound",
    "bytes_up": "bytes/up",
    "bytes_down": "bytes/down",
}
"""What is called how for others; every other number of a record is in the group "server"."""


@final
@dataclass(frozen=True, kw_only=True)
class ExportedRound:
    """The numbers of one round."""

    number: int
    """Its step for others, from 0."""
    time: float
    """When it was over, in seconds since 1970: the start of the run plus how long its rounds took."""
    figures: dict[str, float]


@final
@dataclass(frozen=True)
class ExportedRun:
    r"""A run that is about to be written for somebody else.

    >>> import tempfile
    >>> folder = RunFolder.create(Path(tempfile.mkdtemp()) / "run", config='lr = 0.1\n[rule]\nname = "krum"')
    >>> ExportedRun(folder.path).settings()
    {'lr': 0.1, 'rule.name': 'krum'}
    """

    path: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.resolve().name

    @property
    def start(self) -> float:
        """When the run was started: since then its configuration is as it is."""
        return (self.path / "config.toml").stat().st_mtime

    def folder(self) -> RunFolder:
        """Return the folder; `CorruptRunError` if it holds no run."""
        return RunFolder.open(self.path)

    def settings(self) -> dict[str, ExportedSetting]:
        """Return the configuration, and what it was made with, as dotted names and plain values."""
        try:
            table = parse_toml(self.folder().config_text())
        except ParameterError as error:
            raise CorruptRunError(f"the config.toml of {str(self.path)!r} cannot be read: {error}") from None
        plain = (bool, int, float, str)
        return {key: each if isinstance(each, plain) else str(each) for key, each in dotted_table(table).items()}

    def rounds(self) -> Iterator[ExportedRound]:
        """Yield the rounds that are written down, in their order."""
        folder = self.folder()
        try:
            known = not is_deployment(folder)
        except ParameterError:
            known = False
        time = self.start
        for record in folder.records():
            time += sum(record.seconds.values())
            yield ExportedRound(number=record.round, time=time, figures=figures(record, byzantine_known=known))


def figures(record: RoundRecord, *, byzantine_known: bool) -> dict[str, float]:
    """Return the numbers of a round; those that it does not have are left out.

    >>> record = RoundRecord(
    ...     round=0, step=1, lr=0.1, cohort=(1, 2), byzantine=(2,), received=(1, 2), weights=(1, 0), kept=(1,)
    ... )
    >>> found = figures(record, byzantine_known=True)
    >>> found["clients/removed"], found["clients/byzantine_removed"], found["clients/byzantine_kept"]
    (1.0, 1.0, 0.0)

    Args:
        record: the round.
        byzantine_known: whether the record says who was Byzantine; only a simulation's does.
    """
    found = {_NAMES.get(name, f"server/{name}"): getattr(record, name) for name in NUMBERS if name != "round"}
    counts = Tally.of(record, deployed=not byzantine_known).counts()
    found |= {f"clients/{name}": count for name, count in counts.items() if name not in {"rounds", *NUMBERS}}
    found |= {f"seconds/{part}": seconds for part, seconds in record.seconds.items()}
    found |= {f"test/{name}": value for name, value in record.test_metrics.items()}
    if record.client_scores is not None:
        found |= {f"clients/score_{name}": value for name, value in record.client_scores.figures().items()}
    found |= {f"metrics/{name}": value for name, value in record.metrics.items()}
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}
