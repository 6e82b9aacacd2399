"""Whoever counts a run counts the same: the files, the commands, the reports, the live page, exports, certificates.

The run has all that can be counted in two ways: rounds that were skipped, clients that sent nothing, replies that were
no models (in a round that was aggregated and in one that was not), rows without usable numbers, replies that nobody had
asked for, and a rule that is told of too few Byzantine clients, so that it removes most honest rows as well.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import run
from tests.deployments import configured

from steadfed._cli.progress import verdict
from steadfed._ui.catalogue import Catalogue, id_of
from steadfed._ui.views import Views
from steadfed.aggregators import Krum
from steadfed.attacks import ALittleIsEnough, FixedMembers
from steadfed.certification import certify
from steadfed.exports._figures import ExportedRun
from steadfed.partitions import IidPartition
from steadfed.runs import Run
from steadfed.server._folder import RunFolder
from steadfed.server._history import Rounds, RunSummaries, summary_of
from steadfed.server._record import Client, DroppedReply, RoundRecord
from steadfed.simulation import ClientOptions, RunConfig
from steadfed.sweeps.runs._figures import figures_of

pytest.importorskip("plotly")

Counts = Mapping[str, Any]
"""Figures by name; what is printed in percent as it is printed."""
BYZANTINE = frozenset({"byzantine", "byzantine_removed", "byzantine_weight", "honest", "honest_removed"})
BYZANTINE |= {"honest_removed_rate", "precision", "recall"}
"""What only a simulation knows."""


def config() -> RunConfig:
    """Return a rule that needs 21 rows and often gets fewer: 25 of 100 clients are asked, 12 % of them are silent."""
    return RunConfig(
        rounds=30,
        cohort_size=25,
        local_steps=1,
        batch_size=4,
        partition=IidPartition(num_clients=100),
        rule=Krum(num_byzantine=9),
        byzantine=FixedMembers(clients=tuple(range(0, 100, 4))),
        attack=ALittleIsEnough(z=1.3),
        client=ClientOptions(erasure_rate=0.12),
    )


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return the run as the simulator plays it."""
    played = Run.start(config(), tmp_path_factory.mktemp("counts") / "simulated")
    records = list(played.play())
    assert 4 <= sum(record.skipped for record in records) <= 8
    return played.folder


@pytest.fixture(scope="module")
def folder(simulated: RunFolder) -> RunFolder:
    """Return the same run with faults of replies, which no simulation has."""
    made = RunFolder.create(simulated.path.parent / "faulty", simulated.config_text())
    return written(made, with_faults(list(simulated.records())), deployed=False)


@pytest.fixture(scope="module")
def deployment(folder: RunFolder) -> RunFolder:
    """Return the same run as a server app writes it down: who is Byzantine is not known."""
    checksum = tomllib.loads(folder.config_text())["provenance"]["data_sha256"]
    made = RunFolder.create(folder.path.parent / "deployed", configured(config(), checksum))
    blind = (record.model_copy(update={"byzantine": ()}) for record in folder.records())
    return written(made, blind, deployed=True)


def written(made: RunFolder, records: Any, *, deployed: bool) -> RunFolder:
    """Write the rounds of a run and its summary."""
    for record in records:
        made.append(record)
    made.write_summary(summary_of(Rounds.of(made.records(), deployed=deployed)))
    return made


def with_faults(records: list[RoundRecord]) -> Iterator[RoundRecord]:
    """Spoil replies of Byzantine clients in two rounds that were aggregated, and in one that was skipped."""
    first, second = [record.round for record in records if not record.skipped][:2]
    skipped = next(record.round for record in records if record.skipped)
    for record in records:
        liars = [client for client in record.received if client in record.byzantine and client not in record.kept]
        if record.round == first:
            yield spoiled(record, unusable=liars[:3], drops=drops(liars[:2], record.absent))
        elif record.round == second:
            yield spoiled(record, unusable=liars[:1])
        elif record.round == skipped:
            yield record.model_copy(update={"drops": drops(record.received[:3], record.absent)})
        else:
            yield record


def drops(malformed: Any, silent: Any) -> tuple[DroppedReply, ...]:
    """Return what a server notes of replies: no models, none at all, and one of somebody who was not asked."""
    return (
        *(DroppedReply(client=client, fault="shape", detail="(2, 3), not (3, 2)") for client in malformed),
        *(DroppedReply(client=client, fault="silent") for client in silent),
        DroppedReply(client="somebody", fault="not asked"),
    )


def spoiled(record: RoundRecord, unusable: list[Client], drops: tuple[DroppedReply, ...] = ()) -> RoundRecord:
    """Return the round with some rows, which had no weight anyway, without usable numbers."""
    scores = tuple(
        None if client in unusable else score for client, score in zip(record.received, record.scores, strict=True)
    )
    return record.model_copy(update={"unusable": tuple(unusable), "scores": scores, "drops": drops})


def by_hand(folder: RunFolder, *, deployed: bool) -> Counts:
    """Count as the definitions say: a round that was skipped judges nobody, absences and faults always count."""
    records = list(folder.records())
    rows = [
        (client in record.byzantine, client in record.kept, weight)
        for record in records
        if not record.skipped
        for client, weight in zip(record.received, record.weights, strict=True)
    ]
    lying, removed = [row for row in rows if row[0]], [row for row in rows if not row[1]]
    caught = [row for row in removed if row[0]]
    malformed = [{drop.client for drop in record.drops if drop.fault == "shape"} for record in records]
    known = [
        len({*record.byzantine}.intersection(record.received) | {*record.unusable} | bad)
        for record, bad in zip(records, malformed, strict=True)
    ]
    aggregated = sum(not record.skipped for record in records)
    honest, wronged = len(rows) - len(lying), len(removed) - len(caught)
    counts = {
        "rounds": len(records),
        "skipped": len(records) - aggregated,
        "asked": sum(len(record.cohort) for record in records),
        "received": sum(len(record.received) for record in records),
        "judged": len(rows),
        "kept": len(rows) - len(removed),
        "removed": len(removed),
        "absent": sum(len(record.absent) for record in records),
        "malformed": sum(map(len, malformed)),
        "unusable": sum(len({*r.unusable} - bad) for r, bad in zip(records, malformed, strict=True)),
        "unasked": sum(drop.fault == "not asked" for record in records for drop in record.drops),
        "known_byzantine": sum(known),
        "most_byzantine": max(known),
        "byzantine": len(lying),
        "byzantine_removed": len(caught),
        "byzantine_weight": sum(row[2] for row in lying) / aggregated,
        "honest": honest,
        "honest_removed": wronged,
        "honest_removed_rate": wronged / honest,
        "precision": len(caught) / len(removed),
        "recall": len(caught) / len(lying) if lying else None,
    }
    return {name: count for name, count in counts.items() if not (deployed and name in BYZANTINE)}


def in_summary(summary: Mapping[str, Any]) -> Counts:
    """Return what a summary says."""
    assert summary["rounds"] == summary["tally"]["rounds"]
    names = ("rounds", "skipped", "asked", "received", "judged", "kept", "removed", "absent", "malformed", "unusable")
    return {name: summary["tally"][name] for name in (*names, "unasked", "known_byzantine", *sorted(BYZANTINE))}


def in_show(folder: RunFolder) -> Counts:
    """Return what `steadfed show` prints."""
    text = " ".join(run("show", str(folder.path)).replace("│", " ").split())
    found = {
        **found_in(text, r"complete, (?P<rounds>\d+) rounds"),
        **found_in(text, r"Byzantine (?P<byzantine_kept>\d+) of (?P<byzantine>\d+) updates kept"),
        **found_in(text, r"honest (?P<honest_removed>\d+) of (?P<honest>\d+) updates removed"),
        **found_in(text, r" updates (?P<removed>\d+) of (?P<judged>\d+) removed"),
        **found_in(text, r"skipped (?P<skipped>\d+) rounds"),
        **found_in(text, r"absent (?P<absent>\d+) times"),
        **found_in(text, r"not asked (?P<unasked>\d+)×"),
        **found_in(text, r"shape (?P<malformed>\d+)×"),
    }
    return without_kept(found) | rounded(text, r"they made up (\S+) % of the updates' weight")


def in_show_json(folder: RunFolder) -> Iterator[tuple[str, Counts]]:
    """Yield what `steadfed show --json` says in its different places."""
    shown = json.loads(run("show", str(folder.path), "--json"))
    yield "show --json, summary", in_summary(shown["summary"])
    yield "show --json, clients", of_clients(shown["clients"])
    faults = shown["faults"]
    found = {"malformed": faults["shape"], "unasked": faults["not asked"], "unusable": faults["unusable"]}
    yield "show --json, faults", found
    yield "show --json, skips", {"skipped": len(shown["skips"])}


def of_clients(lines: list[dict[str, Any]]) -> Counts:
    """Return what the clients of a run add up to."""
    names = ("asked", "received", "absent", "removed", "unusable", "malformed")
    return {name: sum(line[name] for line in lines) for name in names}


def in_audit(folder: RunFolder) -> Counts:
    """Return what `steadfed audit --json` counts up to."""
    events = [json.loads(line) for line in run("audit", str(folder.path), "--json").splitlines()]
    found = Counter(event["what"] for event in events)
    skipped = {event["round"] for event in events if event["what"] == "skipped"}
    faulty = {"malformed", "unusable"}
    unusable = sum(event["what"] in faulty and event["round"] not in skipped for event in events)
    return {**found, "removed": found["removed"] + unusable}


def in_tables(folder: RunFolder, place: Path) -> Counts:
    """Return what the tables of `steadfed report --format csv` add up to."""
    run("report", str(folder.path), "--format", "csv", "--out", str(place), "--no-guarantee")
    with (place / "suspicion.csv").open(newline="") as file:
        suspects = list(csv.DictReader(file))
    with (place / "weights.csv").open(newline="") as file:
        fates = Counter(re.split(r"[;:]", line["what"])[0] for line in csv.DictReader(file))
    return {
        "absent": sum(int(line["absent"]) for line in suspects),
        "asked": sum(fates.values()),
        "kept": fates["kept"],
        "malformed": fates["malformed reply"],
        "unusable": fates["unusable"],
    }


def in_page(folder: RunFolder) -> Iterator[tuple[str, Counts]]:
    """Yield what the live page says: the list of runs, and the headlines and words of the run's own page."""
    views = Views(Catalogue(folder.path.parent))
    snapshot = views.snapshot((id_of(folder.path.name),))
    assert snapshot is not None
    page = json.loads(snapshot.whole)
    heads = {each["title"]: f"{each['value']} {each['note']}" for each in page["head"]["headlines"]}
    words = " ".join(page["panels"]["verdict-1"]["paragraphs"])
    yield "live page, runs", {"rounds": page["head"]["runs"][0]["played"]}
    yield (
        "live page, headlines",
        without_kept(
            found_in(heads.get("Byzantine updates kept", ""), r"(?P<byzantine_kept>[\d,]+) of (?P<byzantine>[\d,]+)$")
            | found_in(heads.get("Honest updates removed", ""), r"(?P<honest_removed>[\d,]+) of (?P<honest>[\d,]+)$")
            | found_in(heads.get("Updates removed", ""), r"(?P<removed>[\d,]+) of (?P<judged>[\d,]+);")
        ),
    )
    yield "live page, words", in_words(words)


def in_report(folder: RunFolder) -> Iterator[tuple[str, Counts]]:
    """Yield what a report says: the words of its verdict, and its table of suspicion."""
    from steadfed.reports._report import gather
    from steadfed.reports.panels import Table, Text

    panels = {panel.key: panel for part in gather([folder.path], guarantee=False).sections for panel in part.panels}
    words, table = panels["verdict-1"], panels["suspicion"]
    assert isinstance(words, Text)
    assert isinstance(table, Table)
    yield "report, verdict", in_words(" ".join(words.paragraphs))
    absent = [column.title for column in table.columns].index("absent")
    yield "report, suspicion", {"absent": sum(int(str(row[absent])) for row in table.rows)}


def in_words(words: str) -> Counts:
    """Return what the sentences of a verdict say."""
    found = {
        **found_in(words, r"of (?P<rounds>\d+) rounds, complete"),
        **found_in(words, r"removed (?P<byzantine_removed>[\d,]+) of (?P<byzantine>[\d,]+) Byzantine updates"),
        **found_in(words, r"were removed \((?P<honest_removed>[\d,]+) of (?P<honest>[\d,]+)\)"),
        **found_in(words, r"removed (?P<removed>[\d,]+) of (?P<judged>[\d,]+) updates"),
        **found_in(words, r"(?P<skipped>\d+) rounds left the model as it was"),
        **found_in(words, r"absent (?P<absent>\d+) times"),
        **found_in(words, r"(?P<faulty>\d+) replies were malformed or held unusable numbers"),
    }
    return found | rounded(words, r"made up (\S+) % of the weight")


def in_exports(folder: RunFolder) -> Counts:
    """Return what TensorBoard and MLflow are given, over all rounds."""
    rounds = [each.figures for each in ExportedRun(folder.path).rounds()]
    names = {
        "skipped": "server/skipped",
        **{name: f"clients/{name}" for name in ("asked", "received", "absent", "malformed", "unusable", "unasked")},
        **{name: f"clients/{name}" for name in ("judged", "kept", "removed", "byzantine", "byzantine_removed")},
        **{name: f"clients/{name}" for name in ("honest", "honest_removed")},
    }
    known = set().union(*rounds)
    return {name: sum(figures.get(key, 0) for figures in rounds) for name, key in names.items() if key in known}


def in_comparison(folder: RunFolder) -> Counts:
    """Return what `steadfed compare` makes of the run."""
    figures = figures_of(folder.records())
    return {
        "skipped": figures.skipped,
        "precision": figures.precision,
        "recall": figures.recall,
        "honest_removed_rate": figures.honest_removed,
    }


def in_certificate(folder: RunFolder, *, deployed: bool) -> Counts:
    """Return what `steadfed certify` looks at."""
    found = certify(folder.path)
    aggregated = [each for each in found.facts if not each.skipped]
    because = "; ".join(verdict.because for verdict in found.verdicts if verdict.subject == "assumption")
    counts = {
        "rounds": found.played,
        "skipped": found.skipped,
        "received": sum(each.received for each in found.facts),
        "judged": sum(each.received for each in aggregated),
        "known_byzantine": sum(each.known_byzantine for each in found.facts),
        "most_byzantine": max(each.known_byzantine for each in found.facts),
        **found_in(because, r"(?P<skipped>\d+) rounds changed nothing"),
        **found_in(because, r"at most (?P<most_byzantine>\d+) (malformed|\()"),
        **found_in(because, r"(?P<absent>\d+) of (?P<asked>\d+) clients absent"),
    }
    return counts if deployed else {**counts, "byzantine": sum(each.known_byzantine for each in aggregated)}


def in_progress(folder: RunFolder) -> Counts:
    """Return what the line of progress says, over all rounds."""
    said = [verdict(record) for record in folder.records()]
    removed = [found_in(each, r"removed (?P<removed>\d+)") for each in said]
    caught = [found_in(each, r"\((?P<byzantine_removed>\d+)/(?P<byzantine>\d+) Byzantine\)") for each in said]
    totals: Counter[str] = Counter()
    for each in (*removed, *caught):
        totals.update({name: int(count) for name, count in each.items()})
    return {**totals, "skipped": said.count("skipped")}


def in_server_app(folder: RunFolder) -> Counts:
    """Return what a server app of Flower hands on and logs, over all rounds."""
    pytest.importorskip("flwr")
    from flwr.app import MetricRecord

    from steadfed.flower._reports import with_counts

    totals: Counter[str] = Counter()
    for record in folder.records():
        told = with_counts(MetricRecord(), record)
        totals.update({name.removeprefix("steadfed-"): int(str(count)) for name, count in told.items()})
    return totals


def found_in(text: str, pattern: str) -> dict[str, Any]:
    """Return the named numbers of a sentence; none if it is not there."""
    match = re.search(pattern, text)
    return {} if match is None else {name: int(value.replace(",", "")) for name, value in match.groupdict().items()}


def rounded(text: str, pattern: str) -> dict[str, Any]:
    """Return a weight as it is printed."""
    match = re.search(pattern, text)
    return {} if match is None else {"byzantine_weight %": match[1]}


def without_kept(found: dict[str, Any]) -> dict[str, Any]:
    """Return counts of Byzantine rows as how many there were and how many were removed."""
    if "byzantine_kept" in found:
        found["byzantine_removed"] = found["byzantine"] - found.pop("byzantine_kept")
    return found


def everybody(folder: RunFolder, place: Path, *, deployed: bool) -> dict[str, Counts]:
    """Return what each of those who count says, beginning with the definitions."""
    expected = dict(by_hand(folder, deployed=deployed))
    expected["faulty"] = expected["malformed"] + expected["unusable"]
    if not deployed:
        expected["byzantine_weight %"] = f"{100 * expected['byzantine_weight']:.1f}"
    return {
        "by hand": expected,
        "summary.json": in_summary(folder.summary() or {}),
        "show": in_show(folder),
        **dict(in_show_json(folder)),
        "audit": in_audit(folder),
        "report, CSV": in_tables(folder, place),
        **dict(in_report(folder)),
        **dict(in_page(folder)),
        "list of runs": {"rounds": RunSummaries().summarize(folder.path).rounds_played},
        "exports": in_exports(folder),
        **({} if deployed else {"compare": in_comparison(folder)}),
        "certify": in_certificate(folder, deployed=deployed),
        "progress": in_progress(folder),
        "server app": in_server_app(folder),
    }


def disagreements(found: Mapping[str, Counts]) -> str:
    """Return a line for every figure that two of them give differently, or that one gives and nobody can know."""
    assert all(found.values()), "somebody says nothing that could be compared"
    lines = []
    for name in dict.fromkeys(name for counts in found.values() for name in counts):
        said: dict[Any, list[str]] = {}
        for who, counts in found.items():
            if name in counts:
                value = counts[name]
                said.setdefault(round(value, 9) if isinstance(value, float) else value, []).append(who)
        if len(said) > 1 or ("by hand" not in said[next(iter(said))] and set(said) != {None}):
            lines.append(f"{name}: " + " | ".join(f"{value} ({', '.join(who)})" for value, who in said.items()))
    return "\n".join(lines)


def test_whoever_counts_a_run_counts_the_same(folder: RunFolder, tmp_path: Path) -> None:
    assert disagreements(everybody(folder, tmp_path, deployed=False)) == ""


def test_whoever_counts_a_deployment_counts_the_same(deployment: RunFolder, tmp_path: Path) -> None:
    assert disagreements(everybody(deployment, tmp_path, deployed=True)) == ""


def test_the_summary_that_a_run_writes_is_counted_the_same(simulated: RunFolder) -> None:
    found = {"by hand": by_hand(simulated, deployed=False), "summary.json": in_summary(simulated.summary() or {})}
    assert disagreements(found) == ""
