"""The headlines of a comparison: who leads or whether nobody does, and how the rule fares that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steadfed._core.wording import plural
from steadfed.reports.panels import Headline, Tone
from steadfed.sweeps._ranking import ORACLE, DuelVerdict
from steadfed.sweeps.runs._ranking import ComparisonRank, duels, leaders
from steadfed.sweeps.runs._results import CellState, Result

_MOST_NAMED = 3
"""Rules that a headline names."""


def headlines(results: Sequence[Result], ranking: Sequence[ComparisonRank], subject: str) -> Iterator[Headline]:
    """Yield what one should see first of a comparison that is about a rule."""
    ranked = [each for each in ranking if each.rule != ORACLE and each.score is not None]
    if ranked:
        yield _winner(ranked)
    for place, each in enumerate(ranked, 1):
        if each.rule == subject and each not in leaders(ranked):
            yield Headline(title=subject, value=f"number {place} of {len(ranked)}", note=str(each.score))
    fought = duels(results, subject)
    if fought:
        counts = {verdict: sum(each.verdict is verdict for each in fought) for verdict in DuelVerdict}
        value = f"{counts[DuelVerdict.BEATEN]} of {plural(len(fought), 'setting')}"
        note = f"best in {counts[DuelVerdict.BEST]}, within noise in {counts[DuelVerdict.WITHIN_NOISE]}"
        tone = Tone.WARNING if counts[DuelVerdict.BEATEN] else Tone.PLAIN
        yield Headline(title=f"{subject} beaten in", value=value, note=note, tone=tone)
    oracle = next((each for each in ranking if each.rule == ORACLE and each.score is not None), None)
    if oracle is not None:
        yield Headline(title="mean of the honest", value=str(oracle.score), note="what no rule can know")
    failed = sum(row.state is CellState.FAILED for row in results)
    if failed:
        yield Headline(title="failed", value=f"{failed:,} cells", tone=Tone.WARNING)


def _winner(ranked: Sequence[ComparisonRank]) -> Headline:
    """Return the rule with the best worst case; or those of which nobody can say which it is."""
    best, first = ranked[0], leaders(ranked)
    seeds = len(best.by_seed)
    if len(first) == 1:
        alone = seeds < 2 and len(ranked) > 1
        note = f"{best.score}; one seed, which says nothing of others" if alone else str(best.score)
        return Headline(title="best worst case", value=best.rule, note=note, tone=Tone.PLAIN if alone else Tone.GOOD)
    named = ", ".join(each.rule for each in first[:_MOST_NAMED])
    more = f" and {len(first) - _MOST_NAMED} more" if len(first) > _MOST_NAMED else ""
    why = f"over {plural(seeds, 'seed')}, their differences seed by seed may be chance (95 %)"
    return Headline(title="best worst case: a tie", value=named + more, note=f"{best.score} for {best.rule}; {why}")
