"""From how many sites on the default earns its place: the tables of "Few sites" from the cells of few-sites.toml.

Run it with ``python -m benchmarks.few_sites`` for the results that are kept, or name another results.parquet of
``steadfed compare benchmarks/few-sites.toml``. Under an attack RAGE *gains* its accuracy less that of the mean under
that attack. It *costs* the accuracy of the mean less its own where the same site behaves, or nothing if that is
negative. It earns its place where it gains more than it costs. Differences are taken seed by seed; intervals are
Student's at 95 %.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from steadfed.sweeps._ranking import Estimate, estimate
from steadfed.sweeps.runs import Result, read_results

RESULTS = Path(__file__).with_name("results") / "few-sites" / "results.parquet"
SUBJECT, BASELINE, PEACE = "rage", "mean", "none"
Curve = Mapping[int, float]
"""Final accuracy by seed."""
Curves = Mapping[tuple[str, str, str], Curve]
"""By setting, rule and attack."""


def curves_of(results: list[Result]) -> Curves:
    """Return the final accuracies that there are."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for each in results:
        if each.value is not None:
            name = str(dict(each.setting)["setting"]), each.rule, each.attack
            found.setdefault(name, {})[int(each.seed)] = each.value
    return found


def earned(curves: Curves, setting: str, attack: str, rule: str = SUBJECT) -> tuple[Estimate, Estimate, Estimate]:
    """Return what a rule gains under the attack, what it costs without, and the one less the other."""
    gain = _less(curves[setting, rule, attack], curves[setting, BASELINE, attack])
    cost = _less(curves[setting, BASELINE, PEACE], curves[setting, rule, PEACE])
    mean_cost = max(0.0, estimate(list(cost.values())).mean)
    net = [gain[seed] - (cost[seed] if mean_cost else 0.0) for seed in gain.keys() & cost.keys()]
    return estimate(list(gain.values())), estimate(list(cost.values())), estimate(net)


def _less(curve: Curve, other: Curve) -> Curve:
    return {seed: curve[seed] - other[seed] for seed in sorted(curve.keys() & other.keys())}


def lines(curves: Curves) -> Iterator[str]:
    """Yield accuracies in every setting as tables in Markdown, then what RAGE gains and costs, in points."""
    settings, attacks = (list(dict.fromkeys(name[index] for name in curves)) for index in (0, 2))
    for setting in settings:
        here = [attack for attack in attacks if (setting, SUBJECT, attack) in curves]
        yield f"\n### {setting}\n"
        yield "| rule | " + " | ".join(here) + " |"
        yield "|---|" + "---|" * len(here)
        for rule in dict.fromkeys(rule for place, rule, _ in curves if place == setting):
            cells = [curves.get((setting, rule, attack), curves.get((setting, rule, "any"))) for attack in here]
            yield f"| {rule} | " + " | ".join("" if each is None else _points(each) for each in cells) + " |"
    for setting in settings:
        yield f"\n### {setting}: what RAGE gains\n"
        for attack in attacks:
            if attack != PEACE and (setting, SUBJECT, attack) in curves:
                gain, cost, net = earned(curves, setting, attack)
                yield f"{attack:10s} gains {_signed(gain)}, costs {_signed(cost)}, net {_signed(net)}"


def _points(curve: Curve) -> str:
    return f"{100 * estimate(list(curve.values())).mean:.1f}"


def _signed(each: Estimate) -> str:
    width = "?" if each.half_width is None else f"{100 * each.half_width:.1f}"
    return f"{100 * each.mean:+.1f} ± {width}"


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    print("\n".join(lines(curves_of(read_results(path)))))
