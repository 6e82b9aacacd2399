"""The worst cases of the grid `resilience`: the table of benchmarks/README.md and the figure of the README.

Run it with ``python -m benchmarks.resilience`` for the results that are kept, or name another results.parquet of
``steadfed compare resilience``; it prints the table and writes docs/images/resilience.png. The table has the mean of
the last five looks at the test set. The second one, of the rule rage under every attack, has that and the last look
alone, by which the targets were set.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.theory.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, SETTINGS, VERMILION
from steadfed.sweeps.runs import Result, read_results
from steadfed.sweeps.runs._ranking import Case, Standing, name_of, standings

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "compare-resilience" / "results.parquet"
PICTURE = ROOT / "docs" / "images" / "resilience.png"
GREY, BROWN, SKY = "#777777", "#8c6d31", "#56b4e9"
STYLES: Mapping[str, tuple[str, str]] = {
    "oracle": (BLACK, "_"),
    "rage": (VERMILION, "D"),
    "caf": (GREEN, "o"),
    "nnm+trimmed-mean": (PURPLE, "s"),
    "centered-clipping": (BLUE, "^"),
    "geometric-median": (SKY, "v"),
    "rfa": (BROWN, "<"),
    "rage-spread": (ORANGE, "d"),
    "mean": (GREY, "x"),
}
"""The rules in the order in which they stand side by side: colour, marker."""
SHOWN: Mapping[str, str] = {
    "A: momentum": "A:\nclient\nmomentum",
    "B: Dirichlet 0.1": "B:\nDirichlet\n0.1",
    "B5: Dirichlet 0.5": "B5:\nDirichlet\n0.5",
    "D: too many liars": "D:\nmore than\nassumed",
    "M1: momentum": "M1:\nclient\nmomentum",
}
"""Names of settings that are told in other words, or in more lines."""


def by_setting(results: Sequence[Result]) -> dict[str, dict[str, Standing]]:
    """Return how every rule does in every setting, the settings in the order of the grid."""
    found: dict[str, dict[str, Standing]] = {}
    for each in standings(results):
        found.setdefault(str(name_of(each.setting)), {})[each.rule] = each
    return found


def table(settings: Mapping[str, Mapping[str, Standing]]) -> Iterator[str]:
    """Yield the table: worst case (attack) / without attack; the best worst case of a setting is bold."""
    rules = [rule for rule in STYLES if rule != "oracle"]
    yield "| setting | oracle | " + " | ".join(rules) + " |"
    yield "|---|---|" + "---|" * len(rules)
    for setting, standing in settings.items():
        best = max((_worst(standing[rule]) for rule in rules if rule in standing), default=0.0)
        cells = [_cell(standing.get(rule), best) for rule in rules]
        oracle = standing.get("oracle")
        yield f"| {setting} | {'–' if oracle is None else f'{_worst(oracle):.1f}'} | " + " | ".join(cells) + " |"


def last_looks(results: Sequence[Result], rule: str = "rage") -> Iterator[str]:
    """Yield what one rule has under every attack: the mean of the last five looks, and the last one alone."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for each in results:
        figures = each.figures
        if (
            each.rule in {rule, "oracle"}
            and figures is not None
            and None not in {figures.accuracy, figures.final_accuracy}
        ):
            attack = "oracle" if each.rule == "oracle" else each.attack
            values = float(figures.accuracy or 0.0), float(figures.final_accuracy or 0.0)
            found.setdefault((str(name_of(each.setting)), attack), []).append(values)
    yield "| setting | attack | mean of five | last |"
    yield "|---|---|---|---|"
    for (setting, attack), looks in found.items():
        five, last = (100 * sum(pair[place] for pair in looks) / len(looks) for place in (0, 1))
        yield f"| {setting} | {attack} | {five:.1f} | {last:.1f} |"


def _cell(standing: Standing | None, best: float) -> str:
    if standing is None or standing.worst.case.span is None:
        return "–"
    low, high = (f"{100 * end:.0f}" for end in standing.worst.case.span)
    worst = f"{_worst(standing):.1f} ({low}–{high})"
    shown = f"**{worst}**" if _worst(standing) >= best else worst
    attack = "searched" if standing.worst.case.attack.startswith("optimal") else standing.worst.case.attack
    return f"{shown} {attack} / {100 * _mean(standing.without_attack):.1f}"


def _worst(standing: Standing) -> float:
    return 100 * standing.worst.value.mean


def _mean(case: Case | None) -> float:
    return float("nan") if case is None or case.value is None else case.value.mean


def draw(settings: Mapping[str, Mapping[str, Standing]], path: Path) -> None:
    """Write the picture: the worst case over attacks, with the range over seeds; cost.py draws what rules cost."""
    with mpl.rc_context({**mpl.rcParamsDefault, **SETTINGS}):
        figure = Figure(figsize=(11.5, 5.6), layout="constrained")
        worst = figure.subplots()
        _points(worst, settings)
        worst.set_title(
            "Test accuracy under the attack that hurts a rule most; bars: from the lowest to the highest seed"
        )
        worst.set_ylabel("test accuracy, %")
        worst.set_ylim(-2.0, 102.0)
        worst.set_xticks(range(len(settings)), [SHOWN.get(name, name.replace(": ", ":\n")) for name in settings])
        handles = [
            Line2D([], [], color=colour, marker=marker, linestyle="", label=rule)
            for rule, (colour, marker) in STYLES.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        FigureCanvasAgg(figure)
        figure.savefig(path, metadata={"Software": None}, dpi=130)


def _points(panel: Axes, settings: Mapping[str, Mapping[str, Standing]]) -> None:
    for place, standing in enumerate(settings.values()):
        if place % 2:
            panel.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=0.08, linewidth=0.0)
        for beside, (rule, (colour, marker)) in enumerate(STYLES.items()):
            case = None if rule not in standing else standing[rule].worst.case
            if case is None or case.span is None:
                continue
            at, strong = place + 0.85 * ((beside + 0.5) / len(STYLES) - 0.5), rule == "rage"
            low, high = (100 * end for end in case.span)
            panel.plot([at, at], [low, high], color=colour, linewidth=2.4 if strong else 1.2, alpha=0.7)
            size = 9.0 if strong else 5.5
            panel.plot(at, 100 * _mean(case), color=colour, marker=marker, markersize=size, linestyle="", zorder=3)
    panel.set_xlim(-0.5, len(settings) - 0.5)
    panel.grid(visible=False, axis="x")


if __name__ == "__main__":
    read = read_results(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
    found = by_setting(read)
    print("\n".join([*table(found), "", *last_looks(read)]))
    draw(found, PICTURE)
