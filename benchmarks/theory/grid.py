"""Which runs the study is made of: one setting, varied along one number at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from benchmarks.theory.cases import Case

BASE = Case(
    dim=20,
    num_clients=50,
    num_points=32,
    heterogeneity=1.0,
    noise=1.0,
    strong_convexity=0.5,
    smoothness=1.0,
    start=1.0,
    cohort_size=40,
    num_byzantine=7,
    assumed=10,
    slack=0.05,
    local_steps=5,
    batch_size=4,
    step=1.0 / 8.0,
    rounds=120,
)
"""What every figure has in common but for the number it varies."""
TAIL = 40
"""The floor is the mean over so many rounds at the end."""
LOCAL_STEPS = (1, 2, 5, 10, 20, 50)
PLAIN = ("none", "alie", "ipm", "sign-flip", "mimic-at-once", "min-max", "cluster-spread", "covariance-shift")
SEARCHING = ("optimal",)
"""It searches against the rule in every round, which takes ten times as long: one seed."""
SEEDS = (0, 1)
SPEED_ATTACKS = ("alie", "sign-flip")


@dataclass(frozen=True)
class Cell:
    """One run of the study."""

    figure: str
    value: float
    """Where it lies on the figure's axis."""
    case: Case
    curve: bool = False
    """Whether the distances of all rounds are kept, not only the floor."""

    @property
    def key(self) -> tuple[str, float, str, int]:
        """What tells it from all others."""
        return self.figure, self.value, self.case.attack, self.case.seed


def _by_local_steps(base: Case, *, fixed: bool = False) -> dict[float, Case]:
    """Return the runs with other H; the step size is that of the theorem, or stays that of H = 1."""
    return {
        float(steps): replace(base, local_steps=steps, step=base.step * (steps if fixed else 1))
        for steps in LOCAL_STEPS
    }


def _by_cohort(size: int) -> Case:
    aside = -(-size // 20)
    shape: dict[str, Any] = {"cohort_size": size, "num_clients": size * 5 // 4, "assumed": size // 4}
    return replace(BASE, num_byzantine=size // 4 - aside, **shape)


def _by_distrust(assumed: int) -> Case:
    return replace(BASE, assumed=assumed, num_byzantine=assumed - 2)


LOGISTIC = replace(BASE, kind="logistic", dim=10, heterogeneity=0.5, noise=0.3, strong_convexity=0.1)
FULL = replace(BASE, batch_size="full", slack=0.0, assumed=7, step=1.0 / 5.0)
AXES: Mapping[str, Mapping[float, Case]] = MappingProxyType(
    {
        "local-steps": _by_local_steps(BASE),
        "local-steps-full": _by_local_steps(FULL),
        "local-steps-alike": _by_local_steps(replace(BASE, heterogeneity=0.0)),
        "local-steps-fixed": _by_local_steps(BASE, fixed=True),
        "local-steps-logistic": _by_local_steps(LOGISTIC),
        "distrust": {assumed / 40: _by_distrust(assumed) for assumed in (2, 4, 6, 8, 10, 14, 18)},
        "batch": {float(size): replace(BASE, batch_size=size) for size in (1, 2, 4, 8, 16, 31)},
        "cohort": {float(size): _by_cohort(size) for size in (8, 16, 32, 64, 120)},
        "dissimilarity": {value: replace(BASE, heterogeneity=value) for value in (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)},
    }
)
"""The runs of each axis, by the value on it."""


def cells() -> Iterator[Cell]:
    """Yield all runs, those of one seed and without search first."""
    far: dict[str, Any] = {"start": 300.0, "strong_convexity": 0.25, "rounds": 400}
    for value, case in _by_local_steps(replace(BASE, **far)).items():
        yield from (Cell("speed", value, replace(case, attack=attack), curve=True) for attack in SPEED_ATTACKS)
    for attacks, seeds in ((PLAIN, SEEDS[:1]), (SEARCHING, SEEDS[:1]), (PLAIN, SEEDS[1:])):
        for figure, axis in AXES.items():
            for value, case in axis.items():
                for attack in attacks:
                    yield from (Cell(figure, value, replace(case, attack=attack, seed=seed)) for seed in seeds)
