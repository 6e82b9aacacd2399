"""Tables of verdicts, in markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.flower import verdicts
from benchmarks.flower.verdicts import Judgement, Verdict, cell

Table: TypeAlias = Mapping[str, Mapping[str, Sequence[Judgement]]]
"""Bad reply -> strategy -> what came of it at every position."""

_DOCUMENT = (verdicts.__doc__ or "").split("\n\n", maxsplit=1)[1]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def worst(judgements: Sequence[Judgement]) -> Verdict:
    """Return the worst verdict over the positions."""
    return min((each.verdict for each in judgements), key=list(Verdict).index)


def counts_table(table: Table, strategies: Sequence[str]) -> str:
    """Return how many bad replies have each verdict at their worst position."""
    found = {name: [worst(row[name]) for row in table.values()] for name in strategies}
    return markdown(
        ["strategy", *Verdict],
        [[f"**{name}**" if name == strategies[-1] else name, *_counted(found[name])] for name in strategies],
    )


def _counted(found: Sequence[Verdict]) -> list[str]:
    return [str(found.count(verdict) or "·") for verdict in Verdict]


def cells_table(table: Table, described: Mapping[str, str], strategies: Sequence[str]) -> str:
    """Return what every bad reply does to these strategies."""
    return markdown(
        ["reply", "what it is", *strategies],
        [[name, described.get(name, ""), *(cell(row[each]) for each in strategies)] for name, row in table.items()],
    )


def definitions() -> str:
    """Return what the verdicts mean."""
    return _DOCUMENT.strip()


def plain_row(row: Mapping[str, Sequence[Judgement]]) -> dict[str, Any]:
    """Return what one reply does to every strategy as plain values."""
    return {strategy: [plain(each) for each in judgements] for strategy, judgements in row.items()}


def row_of(entry: Mapping[str, Any]) -> dict[str, list[Judgement]]:
    """Return what `plain_row` wrote."""
    return {strategy: [judgement_of(each) for each in judgements] for strategy, judgements in entry.items()}


def plain(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as plain values."""
    kept = {key: value for key, value in asdict(judgement).items() if value not in {None, ""}}
    if "distance" in kept:
        kept["distance"] = float(f"{kept['distance']:.4g}")
    return kept


def judgement_of(entry: Mapping[str, Any]) -> Judgement:
    """Return what `plain` wrote."""
    return Judgement(Verdict(entry["verdict"]), entry.get("distance"), entry.get("detail", ""))


def entries(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of records; one that was cut off counts as missing."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def append(path: Path, entry: Mapping[str, Any]) -> None:
    """Write one more line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n")
