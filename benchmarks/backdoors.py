"""Tables of the comparisons of backdoors, as Markdown: `python -m benchmarks.backdoors`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from steadfed.metrics import ATTACK_SUCCESS
from steadfed.sweeps.runs._results import Result, read_results

RESULTS = Path(__file__).parent / "results"
MNIST, DIGITS = "backdoors", "backdoors-digits"
"""Folders of results."""
ROUNDS = (10, 20, 30)
"""After which rounds of the MNIST runs the rate is told: before the attack, and twice during it."""


def main() -> None:
    """Print one table for each comparison that is there."""
    for name, table in ((MNIST, published_table), (DIGITS, kinds_table)):
        if (RESULTS / name).is_dir():
            results = [row for row in read_results(RESULTS / name / "results.parquet") if row.figures is not None]
            sys.stdout.write("\n".join([f"{name}:", "", *table(results), "", ""]))


def published_table(results: Sequence[Result]) -> list[str]:
    """Return rates by round and the accuracy at the end, of every rule with one attacker and with four."""
    rules = list(dict.fromkeys(row.rule for row in results))
    heads = [*(f"round {number}" for number in ROUNDS), "accuracy"]
    lines = [row_of(["rule", *(f"DBA, {each}" for each in heads), *(f"centralized, {each}" for each in heads)])]
    lines.append("|---" * (1 + 2 * len(heads)) + "|")
    for rule in rules:
        cells: list[str] = []
        for setting in ("DBA", "centralized"):
            own = [row for row in results if row.rule == rule and dict(row.setting).get("setting") == setting]
            cells += [share(rate_at(row, number) for row in own) for number in ROUNDS]
            cells.append(share(row.figures.final_accuracy for row in own if row.figures is not None))
        lines.append(row_of([rule, *cells]))
    return lines


def kinds_table(results: Sequence[Result]) -> list[str]:
    """Return the rate in the end and the accuracy of every rule under every attack."""
    rules = list(dict.fromkeys(row.rule for row in results if row.rule != "oracle"))
    attacks = list(dict.fromkeys(row.attack for row in results if row.rule != "oracle"))
    lines = [row_of(["ASR / accuracy", *rules]), "|---" * (1 + len(rules)) + "|"]
    for attack in attacks:
        cells = []
        for rule in rules:
            own = [row.figures for row in results if (row.rule, row.attack) == (rule, attack)]
            rates = share(each.of(ATTACK_SUCCESS) for each in own if each is not None)
            cells.append(f"{rates} / {share(each.accuracy for each in own if each is not None)}")
        lines.append(row_of([attack, *cells]))
    return lines


def rate_at(row: Result, number: int) -> float | None:
    """Return the success rate after so many rounds."""
    if row.figures is None:
        return None
    rounds, curve = row.figures.curve_of(ATTACK_SUCCESS)
    return dict(zip(rounds, curve, strict=True)).get(number)


def share(values: Iterable[float | None]) -> str:
    """Return the mean in percent, without its sign."""
    there = [value for value in values if value is not None]
    return f"{100 * sum(there) / len(there):.0f}" if there else "–"


def row_of(cells: Iterable[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
