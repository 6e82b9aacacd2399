"""Grids: files in which lists mean "each of these"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, final

from steadfed._core.lookup import find, nearest
from steadfed._core.parsing import parse_toml
from steadfed.errors import ParameterError, SteadfedError
from steadfed.metrics import METRICS
from steadfed.sweeps._ranking import Label
from steadfed.sweeps.runs._choices import RULE, SEED, SETTING, Choice
from steadfed.sweeps.runs._published_figures import PublishedFigure, published_figures
from steadfed.sweeps.runs._settings import (
    BASE,
    BOUND,
    GRID,
    SETTINGS,
    UNNAMED,
    GridSetting,
    alike,
    checked,
    grid_settings,
)

_KEYS = ("title", "note", "subject", "metric", BOUND, "reference", BASE, GRID, SETTINGS, "published")
_ENDING = ".toml"


@final
@dataclass(frozen=True, kw_only=True)
class ComparisonGrid:
    r"""A file: what cells share, and products of choices, for one setting or for several that have names.

    >>> grid = parse_grid('[grid]\nrule = ["rage", "mean"]\nattack = ["alie", "nan"]\nbyzantine_fraction = 0.2')
    >>> [(point["rule"].label, point["attack"].label) for point in grid.points()]
    [('rage', 'alie'), ('rage', 'nan'), ('mean', 'alie'), ('mean', 'nan')]
    """

    text: str
    """The file itself."""
    settings: Mapping[str, GridSetting]
    """The settings by name; one without a name if the file names none."""
    title: str = "Comparison"
    note: str = ""
    subject: str | None = None
    """The rule, by its label, that reports speak of; one's own, RAGE or the first if the file names none."""
    reference: bool = True
    """Whether the mean of the honest updates, which no rule can know, is shown beside the rules."""
    published: tuple[PublishedFigure, ...] = ()
    metric: str | None = None
    """What rules are ranked by; if None, accuracy, or what runs without classes have."""

    def points(self) -> Iterator[dict[str, Choice]]:
        """Yield every combination, all of the first seed first, so that an unfinished comparison is a whole picture."""
        points = [point for name, setting in self.settings.items() for point in setting.points(name)]
        order = list(dict.fromkeys(_seed(point) for point in points))
        yield from sorted(points, key=lambda point: order.index(_seed(point)))

    def setting_of(self, point: Mapping[str, Choice]) -> GridSetting:
        """Return the setting that a point belongs to."""
        return self.settings[str(point[SETTING].label) if SETTING in point else UNNAMED]


def _subject(name: object, settings: Mapping[str, GridSetting]) -> str | None:
    """Return the label of a rule of the grid."""
    if name is None:
        return None
    points = (point for title, setting in settings.items() for point in setting.points(title))
    labels = list(dict.fromkeys(str(point[RULE].label) for point in points if RULE in point))
    if name not in labels:
        told = nearest(str(name), labels)
        raise ParameterError(f"subject should be a rule of the grid, got {name!r}{told}; they are {', '.join(labels)}")
    return str(name)


def _seed(point: Mapping[str, Choice]) -> Label | None:
    return point[SEED].label if SEED in point else None


def shipped_grids() -> tuple[str, ...]:
    """Return the names of the grids that come with steadfed.

    >>> shipped_grids()
    ('bucketing', 'paper', 'quick', 'resilience')
    """
    files = resources.files("steadfed.sweeps.runs").joinpath("grids").iterdir()
    return tuple(sorted(file.name.removesuffix(_ENDING) for file in files if file.name.endswith(_ENDING)))


def read_grid(name: str) -> ComparisonGrid:
    """Return the grid of a file, or one that comes with steadfed.

    Raises:
        ParameterError, UnknownNameError: there is none of this name, or what it says means nothing.
    """
    if name in shipped_grids() and not Path(name).is_file():
        text = resources.files("steadfed.sweeps.runs").joinpath("grids", name + _ENDING).read_text(encoding="utf-8")
    else:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            known = ", ".join(shipped_grids())
            raise ParameterError(
                f"cannot read the grid {name!r}: {error}{nearest(name, shipped_grids())}; shipped ones: {known}"
            ) from None
    try:
        return parse_grid(text)
    except SteadfedError as error:
        raise alike(error, f"the grid {name!r}: {error}") from None


def parse_grid(text: str) -> ComparisonGrid:
    """Return the grid that a text holds; an error names the key, the value and what is allowed."""
    document = parse_toml(text)
    for key in document:
        if key not in _KEYS:
            raise ParameterError(f"no key {key!r} in a grid{nearest(key, _KEYS)}; known: {', '.join(_KEYS)}")
    settings = grid_settings(document)
    return ComparisonGrid(
        text=text,
        settings=settings,
        subject=_subject(document.get("subject"), settings),
        title=checked("title", document.get("title", "Comparison"), str, "a text").strip(),
        note=checked("note", document.get("note", ""), str, "a text").strip(),
        reference=checked("reference", document.get("reference", True), bool, "true or false"),
        published=published_figures(document.get("published", [])),
        metric=_metric(document),
    )


def _metric(document: Mapping[str, Any]) -> str | None:
    """Return the metric that a grid names; an unknown one is refused with the nearest."""
    if "metric" not in document:
        return None
    name = checked("metric", document["metric"], str, "the name of a metric")
    if ":" not in name:
        find("metric", name, METRICS)
    return name
