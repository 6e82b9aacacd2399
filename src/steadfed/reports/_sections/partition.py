"""How unlike the clients' data are: how many points of each class everybody holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from steadfed._core.wording import percent
from steadfed.errors import SteadfedError
from steadfed.reports._sections.clients import chosen_clients
from steadfed.reports._sections.groups import false_positives_by_group
from steadfed.reports._sections.metrics import slug
from steadfed.reports._sections.phrases import floats, run_names
from steadfed.reports._settings import config_of
from steadfed.reports._thinning import REPORT, PanelLimits
from steadfed.reports.panels import Bars, Panel, Section, Text
from steadfed.server._history import RunHistory
from steadfed.server._record import Client

if TYPE_CHECKING:
    from steadfed.data import Dataset
    from steadfed.partitions import Shares

_TITLE = "Data of the clients"
_MOST_CLASSES = 20
"""Classes that are shown one by one; the rarest others are put together."""


def partition(histories: Sequence[RunHistory], limits: PanelLimits = REPORT, *, code: bool = True) -> Section:
    """Return the data of the clients, once for all runs that deal the same data the same way; none without `code`."""
    groups: dict[str, list[int]] = {}
    for place, history in enumerate(histories):
        what = [history.raw.get(key) for key in ("data", "partition", "seed", "server", "byzantine")]
        groups.setdefault(repr([*what, history.deployed]), []).append(place)
    names = run_names(histories)
    panels: list[Panel] = []
    tables: list[Panel] = []
    for number, places in enumerate(groups.values()):
        whose = "" if len(groups) == 1 else ", ".join(names[place] for place in places) + ": "
        key = "partition" if len(groups) == 1 else f"partition-{number + 1}"
        if not code:
            panels.append(_not_loaded(key, whose))
            continue
        dealt = _dealt(histories[places[0]])
        panels.append(_panel(histories[places[0]], dealt, key, whose, limits))
        if not isinstance(dealt, str):
            tables += _by_group([(histories[place], names[place]) for place in places], *dealt, len(histories))
    return Section(
        key="partition",
        title="Who holds which data?",
        intro="The more the clients differ, the harder it is to tell an unusual client from a Byzantine one.",
        panels=(*panels, *tables),
    )


def _not_loaded(key: str, whose: str) -> Panel:
    """Say why there are no bars: loading data may execute code of whoever wrote the configuration."""
    because = "No data were loaded, so that no code of the configuration was executed (--no-code)."
    return Text(key=key, title=f"{whose}{_TITLE}", paragraphs=(because,))


def _panel(
    history: RunHistory, dealt: tuple[Dataset, Shares] | str, key: str, whose: str, limits: PanelLimits
) -> Panel:
    """Return the bars, or why there are none."""
    title = f"{whose}{_TITLE}"
    if isinstance(dealt, str):
        return Text(key=key, title=title, paragraphs=(dealt,))
    return _bars(history, *dealt, key, title, limits)


def _dealt(history: RunHistory) -> tuple[Dataset, Shares] | str:
    """Return the data and who holds which points; or why they are not shown."""
    try:
        return _deal(history)
    except SteadfedError as error:
        return f"The data cannot be read here: {error}"
    except Exception as error:  # noqa: BLE001  the data may come from code of the user's own
        return f"The data cannot be built: {type(error).__name__}: {error}"


def _by_group(runs: Sequence[tuple[RunHistory, str]], dataset: Dataset, shares: Shares, number: int) -> Iterator[Panel]:
    """Yield for every run how often honest updates were removed, by kind of client."""
    for place, (history, name) in enumerate(runs, 1):
        key, whose = ("groups", "") if number == 1 else (f"groups-{place}-{history.name}", f"{name}: ")
        table = false_positives_by_group(history, dataset, shares, slug(key), whose)
        if table is not None:
            yield table


def _deal(history: RunHistory) -> tuple[Dataset, Shares] | str:
    """Return the data and who holds which points, the server's own left out; or why they are not shown."""
    from steadfed.partitions import Shares
    from steadfed.simulation._setting import deal_out

    config = config_of(history)
    if config is None:
        return "The configuration cannot be read."
    if not config.data.here:
        return "The data are with the clients of the deployment, not here."
    dataset = config.data.load()
    shares, own = deal_out(config, dataset)
    if history.provenance.get("data_sha256", dataset.checksum) != dataset.checksum:
        return "The data found here are not those of the run: their checksum is another."
    if own is None:
        return dataset, shares
    offsets = shares.offsets[:-1]
    return dataset, Shares(shares.order[: offsets[-1]], offsets)


def _bars(history: RunHistory, dataset: Dataset, shares: Shares, key: str, title: str, limits: PanelLimits) -> Bars:
    from steadfed.partitions import heterogeneity

    byzantine = _byzantine(history, shares.num_clients)
    shown = _shown(history, byzantine, shares.num_clients, limits.bars)
    found = heterogeneity(dataset, shares)
    said = []
    if found.mean_distance is not None and found.iid_distance is not None:
        said.append(
            f"A client's labels are {percent(found.mean_distance)} away from those of all (total variation); if points "
            f"were dealt at random it would be {percent(found.iid_distance)}."
        )
    if len(shown) < shares.num_clients:
        whom = "Byzantine ones first, then the most suspicious" if byzantine else "the most suspicious"
        said.append(f"Shown are {len(shown)} of {shares.num_clients} clients: {whom}, then those never asked.")
    return Bars(
        key=key,
        title=title,
        caption=" ".join(said),
        categories=tuple(f"client {client}" for client in shown),
        parts=dict(_parts(dataset, shares, shown)),
        x_title="client",
        y_title="points",
        flagged=tuple(place for place, client in enumerate(shown) if client in byzantine),
    )


def _byzantine(history: RunHistory, number: int) -> set[Client]:
    """Return the Byzantine clients, those among them that were never asked as well; nobody in a deployment."""
    from steadfed.attacks import ChangingMembers

    seen = {history.client_ids[place] for place in history.byzantine}
    config = config_of(history)
    if config is None or history.deployed or isinstance(config.byzantine, ChangingMembers):
        return seen
    return seen | {*np.flatnonzero(config.byzantine.members(0, number, config.seed)).tolist()}


def _shown(history: RunHistory, byzantine: set[Client], number: int, most: int) -> list[int]:
    """Return the clients to show, in order: at most so many, Byzantine ones before suspects before the others."""
    if number <= most:
        return list(range(number))
    everybody = history.client_ids
    suspected = [everybody[place] for place in chosen_clients(history, most)]
    ranked = dict.fromkeys([*(client for client in range(number) if client in byzantine), *suspected, *range(number)])
    return sorted([client for client in ranked if isinstance(client, int) and client < number][:most])


def _parts(dataset: Dataset, shares: Shares, shown: list[int]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield how many points of each class the clients hold; the sizes alone if points have no class each."""
    if dataset.num_classes is None or dataset.labels.ndim != 1:
        yield "points", floats(shares.sizes[shown])
        return
    labels = dataset.labels.cpu().numpy()
    counts = np.stack([np.bincount(labels[shares.points(client)], minlength=dataset.num_classes) for client in shown])
    if dataset.num_classes <= _MOST_CLASSES:
        yield from ((f"class {label}", floats(counts[:, label])) for label in range(dataset.num_classes))
        return
    common = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[: _MOST_CLASSES - 1])
    yield from ((f"class {label}", floats(counts[:, label])) for label in common.tolist())
    yield "other classes", floats(np.delete(counts, common, axis=1).sum(axis=1))
