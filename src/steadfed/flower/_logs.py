"""What the server app's log says of a run and of a round: names first."""

from __future__ import annotations

import os
from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any, final

from flwr.supercore import log

from steadfed._core.wording import harmless
from steadfed.aggregators import RULES, Aggregator, ImportedRule
from steadfed.flower._client_config import ClientConfig
from steadfed.runs._few_sites import few_sites_promise, few_sites_warning
from steadfed.server._history import Narrator, Tally, meaning_of, silence_of, weak_ratio
from steadfed.server._record import RoundRecord

_LONGEST = 40
"""Letters of a name in the log."""


def log_settings(
    rule: Aggregator, config: ClientConfig, run_folder: str | os.PathLike[str] | None, *, signed: bool
) -> None:
    """Log what a strategy is, before the first round."""
    run = config.run
    how = f"η = {run.lr:g}" if config.sends_lr else "no learning rate is sent"
    log(INFO, "\t├──> Rule: %r", rule)
    log(INFO, "\t├──> Clients: H = %s, %s, batch size %s", run.step_schedule.words, how, run.batch_size)
    log(INFO, "\t├──> Orders: %s", "signed" if signed else "unsigned: clients must be told to take them")
    log(INFO, "\t└──> Run folder: %s", run_folder or "none, so the run cannot be continued")


@final
class RoundLog:
    """Says of every round what became of the replies: how many, whose, how often by now, and whether enough replied."""

    def __init__(self, rule: Aggregator, before: Iterable[RoundRecord] = ()) -> None:
        """Begin after some rounds."""
        self._rule, self._narrator = rule, Narrator(meaning_of(rule_table(rule)), before)
        self._promised = 0

    def asking(self, asked: int, online: int) -> None:
        """Log how many are asked; and what can be promised of so few, unless it was said of as many."""
        log(INFO, "configure_train: asking %s of %s nodes", asked, online)
        if asked in {0, self._promised}:
            return
        self._promised = asked
        if said := few_sites_promise(self._rule, asked):
            log(INFO, "few nodes: what can be promised, from what was measured")
        for sentence in said:
            log(INFO, "\t> %s", sentence)
        if (warning := few_sites_warning(self._rule, asked)) is not None:
            log(WARNING, "\t> %s", warning)

    def add(self, record: RoundRecord) -> None:
        """Log a round."""
        tally = Tally.of(record, deployed=True)
        counts = f"{tally.kept} kept, {tally.removed} removed, {tally.absent} absent"
        if not record.attributed:
            counts = f"{len(record.kept)} used, {tally.absent} absent"
        log(INFO, "aggregate_train: %s of %s asked", counts, tally.asked)
        for phrase in self._narrator.told(record):
            log(INFO, "\t> %s", phrase)
        for drop in record.drops:
            log(WARNING, "\t> %s: %s: %r", harmless(drop.client, limit=_LONGEST), drop.fault, drop.detail)
        if (silence := silence_of(record)) is not None:
            log(WARNING, "\t> %s", silence.why)
        elif (weak := weak_ratio(record)) is not None:
            log(WARNING, "\t> %s", weak)
        if record.skipped:
            log(WARNING, "\t> the model stays as it is: %s", record.reason)


def rule_table(rule: Aggregator) -> dict[str, Any]:
    """Return the names of a rule and of those inside it, as config.toml has them; of one's own, that of the class.

    >>> from steadfed.aggregators import Krum
    >>> rule_table(Krum(num_byzantine=1))
    {'name': 'krum'}
    """
    names = {each: name for name, each in RULES.items()}
    table: dict[str, Any] = {}
    for each in reversed([*rule.chain()]):
        own = each.import_path if isinstance(each, ImportedRule) else type(each).__name__
        table = {"name": names.get(type(each), own), **({"rule": table} if table else {})}
    return table
