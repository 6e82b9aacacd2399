"""Tables of verdicts, in markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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


def as_json(table: Table) -> dict[str, Any]:
    """Return the table as plain values."""
    return {
        reply: {strategy: [plain(each) for each in judgements] for strategy, judgements in row.items()}
        for reply, row in table.items()
    }


def plain(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as plain values."""
    kept = {key: value for key, value in asdict(judgement).items() if value not in {None, ""}}
    if "distance" in kept:
        kept["distance"] = float(f"{kept['distance']:.4g}")
    return kept


def judgement_of(entry: Mapping[str, Any]) -> Judgement:
    """Return what `plain` wrote."""
    return Judgement(Verdict(entry["verdict"]), entry.get("distance"), entry.get("detail", ""))


def write(path: Path, text: str, payload: Mapping[str, Any]) -> None:
    """Write a document, and beside it what it was made of."""
    path.write_text(text.rstrip() + "\n", encoding="utf-8")
    plain = json.dumps(payload, indent=1, allow_nan=False, ensure_ascii=False)
    path.with_suffix(".json").write_text(plain + "\n", encoding="utf-8")
