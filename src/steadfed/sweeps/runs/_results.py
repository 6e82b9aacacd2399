"""The results of a comparison: one row per point of the grid, in one Parquet file."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, final

from steadfed.errors import CorruptRunError
from steadfed.runs import config_to_toml
from steadfed.sweeps._measure import ACCURACY, Measure
from steadfed.sweeps._ranking import Label, TrialSetting
from steadfed.sweeps._store import with_present_names, write_file
from steadfed.sweeps.runs._cells import ComparisonCell
from steadfed.sweeps.runs._choices import ATTACK, RULE, SEED
from steadfed.sweeps.runs._figures import Figures
from steadfed.sweeps.runs._parquet import require_polars, rows_of


class CellState(StrEnum):
    """What became of a cell."""

    FINISHED = "finished"
    FAILED = "failed"
    REFUSED = "refused"
    WAITING = "waiting"


@final
@dataclass(frozen=True, kw_only=True)
class Result:
    """A point of the grid and what came of it."""

    settings: Mapping[str, Label]
    state: CellState
    reason: str | None
    """Why there are no figures."""
    figures: Figures | None
    assumed: int
    """f, how many Byzantine updates the rule assumes."""
    num_byzantine: int
    """B, how many of all clients are Byzantine."""
    key: str
    config: str
    """The whole configuration as TOML."""
    measure: Measure = ACCURACY
    """What its value means."""

    @cached_property
    def setting(self) -> TrialSetting:
        """What is not the rule, the attack or the seed."""
        return tuple((key, value) for key, value in sorted(self.settings.items()) if key not in {RULE, ATTACK, SEED})

    @property
    def rule(self) -> str:
        """The label of the rule."""
        return str(self.settings[RULE])

    @property
    def attack(self) -> str:
        """The label of the attack."""
        return str(self.settings[ATTACK])

    @property
    def seed(self) -> Label:
        """The seed of the run."""
        return self.settings[SEED]

    @property
    def value(self) -> float | None:
        """What it is ranked by, accuracy unless it is said otherwise; None if the run has none, or there is no run."""
        return None if self.figures is None else self.figures.of(self.measure.name)


def result_before_play(cell: ComparisonCell) -> Result:
    """Return what is known of a cell before it runs."""
    return Result(
        settings=cell.settings,
        state=CellState.WAITING if cell.refused is None else CellState.REFUSED,
        reason=cell.refused,
        figures=None,
        assumed=cell.assumed,
        num_byzantine=cell.num_byzantine,
        key=cell.key,
        config=config_to_toml(cell.config),
    )


def outcome_of(result: Result, figures: Figures | None, failure: str | None) -> Result:
    """Return a result with what came of it, if it has run."""
    if result.state is CellState.REFUSED or (figures is None and failure is None):
        return result
    if figures is not None:
        return replace(result, state=CellState.FINISHED, figures=figures)
    return replace(result, state=CellState.FAILED, reason=failure)


_OWN = ("state", "reason", "assumed", "num_byzantine", "key", "config")
_METRICS = ("metrics", "metric_curves", "metric_rounds")
_LATER = "most_removed"
"""A column that files of older versions do not have."""
_FIGURES = tuple(field.name for field in fields(Figures) if field.name not in _METRICS)
_METRIC, _CURVE, _LOOKS = "metric.", "metric_curve.", "metric_rounds"
_RANKED_BY = "ranked_by"
"""Columns of the metrics that runs have beside accuracy: one for each, and one for its curve."""


def write_results(path: Path, results: Iterable[Result]) -> None:
    """Replace the file by these results, as a whole.

    Raises:
        RunError: it cannot be written; what was there before is still there.
    """
    pl = require_polars()
    rows = list(results)
    keys = list(dict.fromkeys(key for row in rows for key in row.settings))
    columns: dict[str, Any] = {key: _column(pl, [row.settings.get(key) for row in rows]) for key in keys}
    kinds = {
        **dict.fromkeys(_FIGURES, pl.Float64),
        "curve": pl.List(pl.Float64),
        "curve_rounds": pl.List(pl.Int64),
        **dict.fromkeys(_OWN, pl.String),
        **dict.fromkeys(("skipped", "assumption_violated", "assumed", "num_byzantine"), pl.Int64),
    }
    for name, kind in kinds.items():
        places = [row.figures if name in _FIGURES else row for row in rows]
        columns[name] = pl.Series(values=[getattr(place, name, None) for place in places], dtype=kind)
    columns |= _metric_columns(pl, [row.figures for row in rows])
    if any(row.measure != ACCURACY for row in rows):
        columns[_RANKED_BY] = pl.Series(values=[json.dumps(asdict(row.measure)) for row in rows], dtype=pl.String)
    target = io.BytesIO()
    pl.DataFrame(columns).write_parquet(target)
    write_file(path, target.getvalue())


def _metric_columns(pl: Any, figures: Sequence[Figures | None]) -> dict[str, Any]:
    """Return the columns of the metrics that any run has beside accuracy."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in figures if each is not None for name in each.metric_curves):
        values = [None if each is None else each.metrics.get(name) for each in figures]
        curves = [None if each is None else each.metric_curves.get(name) for each in figures]
        columns[f"{_METRIC}{name}"] = pl.Series(values=values, dtype=pl.Float64)
        columns[f"{_CURVE}{name}"] = pl.Series(values=curves, dtype=pl.List(pl.Float64))
    if columns:
        looks = [None if each is None else each.metric_rounds for each in figures]
        columns[_LOOKS] = pl.Series(values=looks, dtype=pl.List(pl.Int64))
    return columns


def _column(pl: Any, values: Sequence[Label | None]) -> Any:
    """Return labels as whole numbers, as numbers, or as words if any is one."""
    there = [value for value in values if value is not None]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in there):
        return pl.Series(values=values, dtype=pl.Int64)
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in there):
        return pl.Series(values=[None if value is None else float(value) for value in values], dtype=pl.Float64)
    return pl.Series(values=[None if value is None else str(value) for value in values], dtype=pl.String)


def read_results(path: Path) -> list[Result]:
    """Return the results in a file.

    Raises:
        CorruptRunError: it is not there, or not what a comparison writes.
    """
    if not path.exists():
        raise CorruptRunError(
            f"there is no comparison in {str(path.parent)!r}: {path.name} is missing; `steadfed compare` makes one"
        )
    try:
        return results_of(rows_of(path))
    except (CorruptRunError, KeyError, ValueError, TypeError) as error:
        raise CorruptRunError(
            f"{path} is not what a comparison writes: {error}; run the same comparison again to have it written anew"
        ) from None


def results_of(rows: Iterable[Mapping[str, Any]]) -> list[Result]:
    """Return what rows of a file say; KeyError, ValueError or TypeError if they say no such thing."""
    return [_result(with_present_names(row)) for row in rows]


def _result(row: Mapping[str, Any]) -> Result:
    own = {name: row[name] for name in _OWN}
    figures: dict[str, Any] = {name: row[name] for name in _FIGURES if name != _LATER} | {_LATER: row.get(_LATER)}
    figures["metrics"], figures["metric_curves"] = _below(_METRIC, row), _below(_CURVE, row)
    figures["metric_rounds"] = row.get(_LOOKS) or []
    rest = row.keys() - own.keys() - figures.keys() - {_RANKED_BY}
    measure = row.get(_RANKED_BY)
    keys = (key for key in row if key in rest and not key.startswith((_METRIC, _CURVE)))
    settings = {key: row[key] for key in keys if row[key] is not None}
    missing = [key for key in (RULE, ATTACK, SEED) if key not in settings]
    odd = [key for key, value in settings.items() if not isinstance(value, (str, int, float))]
    if missing or odd:
        raise ValueError(f"a row has no {missing[0]!r}" if missing else f"{odd[0]!r} is no label of a setting")
    kinds = {**dict.fromkeys(("state", "key", "config"), str), **dict.fromkeys(("assumed", "num_byzantine"), int)}
    for name, kind in kinds.items():
        if not isinstance(own[name], kind):
            raise TypeError(f"{name!r} must be {kind.__name__}, got {str(own[name])[:40]!r}")
    finished = row["state"] == CellState.FINISHED
    return Result(
        settings=settings,
        figures=Figures(**figures) if finished else None,
        measure=ACCURACY if measure is None else Measure(**json.loads(measure)),
        **{**own, "state": CellState(row["state"])},
    )


def _below(prefix: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands in the columns with a prefix, by the rest of their names."""
    there = (key for key, value in row.items() if key.startswith(prefix) and value is not None)
    return {key.removeprefix(prefix): row[key] for key in there}
