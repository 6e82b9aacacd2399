"""Runs that differ in their seeds alone, drawn as one: the mean, a band about it, and of how many seeds it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from steadfed.reports._sections.phrases import figures, floats, run_names, short_words
from steadfed.reports._thinning import Numbers, PanelLimits, Places, kept_places
from steadfed.reports.panels import Series, Style
from steadfed.server._history import RunHistory

Points = tuple[Places, Numbers | Places, Numbers]
"""Rounds, where they lie along x, and y."""
_ITS_OWN = ("seed", "provenance")
"""What may differ between runs of one group."""


@final
@dataclass(frozen=True, eq=False)
class RunGroup:
    """Runs with one configuration and different seeds; or a single run."""

    name: str
    histories: tuple[RunHistory, ...]


def seed_groups(histories: Sequence[RunHistory]) -> list[RunGroup]:
    """Return the runs in groups that differ in their seeds alone; runs of one seed, and deployments, stay alone."""
    names = run_names(histories)
    found: dict[str, list[int]] = {}
    for place, history in enumerate(histories):
        alone = history.deployed or not history.raw
        settings = {key: value for key, value in sorted(history.raw.items()) if key not in _ITS_OWN}
        found.setdefault(str(place) if alone else repr(settings), []).append(place)
    groups: list[list[int]] = []
    for places in found.values():
        seeds = {repr(histories[place].raw.get("seed")) for place in places}
        groups += [places] if len(seeds) == len(places) else [[place] for place in places]
    titles = _titles(histories, names, groups)
    return [
        RunGroup(title, tuple(histories[place] for place in places))
        for title, places in zip(titles, groups, strict=True)
    ]


def _titles(histories: Sequence[RunHistory], names: Sequence[str], groups: Sequence[Sequence[int]]) -> list[str]:
    """Return what groups are called: their rules and attacks if these tell them apart, or else their first runs."""
    firsts = [histories[places[0]] for places in groups]
    rules, attacks = short_words(firsts, "rule"), short_words(firsts, "attack")
    several = len(set(attacks)) > 1
    words = [f"{rule}, {attack}" if several else rule for rule, attack in zip(rules, attacks, strict=True)]
    if len(set(words)) < len(words):
        words = [f"{names[places[0]]} …" for places in groups]
    return [
        f"{word} (n = {len(places)})" if len(places) > 1 else names[places[0]]
        for word, places in zip(words, groups, strict=True)
    ]


def seeds_note(histories: Sequence[RunHistory]) -> str:
    """Say that curves are means; nothing if no two runs differ in their seeds alone."""
    several = any(len(group.histories) > 1 for group in seed_groups(histories))
    return "Means over n runs that differ in their seeds; bands from the smallest to the largest" if several else ""


def group_curve(
    name: str,
    group: RunGroup,
    points_of: Callable[[RunHistory], Points | None],
    limits: PanelLimits,
    *,
    colour: int,
    style: Style = Style.LINE,
) -> tuple[Series, ...]:
    """Return the thinned curve of a run, or of the mean over the runs of a group on the rounds that all of them have.

    Where one of several is not finite the mean is not either: a run that broke off is not passed over.
    """
    found = [points for history in group.histories if (points := points_of(history)) is not None]
    found = [points for points in found if np.isfinite(points[2]).any()]
    if not found:
        return ()
    rounds = found[0][0]
    for points in found[1:]:
        rounds = np.intersect1d(rounds, points[0])
    chosen = [(points[1][np.isin(points[0], rounds)], points[2][np.isin(points[0], rounds)]) for points in found]
    x, y = (np.stack(each) for each in zip(*chosen, strict=True))
    mean = y.mean(axis=0)
    places = kept_places(mean, limits.points)
    bands: tuple[tuple[float, float] | None, ...] = ()
    if len(found) > 1 and style is Style.LINE:
        ends = zip(figures(y.min(axis=0)[places]), figures(y.max(axis=0)[places]), strict=True)
        bands = tuple(None if low is None or high is None else (low, high) for low, high in ends)
    along = floats(x.mean(axis=0)[places])
    return (Series(name=name, x=along, y=figures(mean[places]), bands=bands, colour=colour, style=style),)
