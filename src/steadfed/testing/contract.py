"""The contract of every aggregator, as functions: use them to test a rule of your own.

    from steadfed.testing.contract import check_contract
    check_contract(MyRule(num_byzantine=2))

Each check raises an AssertionError that says what was violated. `CHECKS` names them all, for parametrised tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.aggregators import Aggregation, Aggregator, Claim, ServerView, Stop
from steadfed.attacks import Spread
from steadfed.errors import DtypeError, InputError, NoUsableRowError, ShapeError
from steadfed.sweeps.matrices._populations import attacked_population

__all__ = [
    "BAD_VALUES",
    "CHECKS",
    "Check",
    "check_bad_rows",
    "check_contract",
    "check_dtypes_and_containers",
    "check_duplicates",
    "check_equal_rows",
    "check_inside_hull",
    "check_linearity",
    "check_memory",
    "check_permutation",
    "check_pure",
    "check_rotation",
    "check_scaling",
    "check_smallest_cohorts",
    "check_translation",
    "check_violated_assumption",
    "check_well_formed",
    "check_wrong_input",
    "example_updates",
    "example_view",
    "expect",
    "run",
]


def __dir__() -> list[str]:
    return __all__


Check = Callable[[Aggregator, Tensor], None]

BAD_VALUES = (float("nan"), float("inf"), -float("inf"), 1e30)
"""Values that make a row of float32 unusable: the last one because its square overflows."""


def check_contract(rule: Aggregator, updates: Float[Tensor, "K d"] | None = None) -> None:
    """Run every check on the rule, on the given matrix or on one of 23 clients with some far outliers."""
    matrix = example_updates(rule) if updates is None else updates
    for check in CHECKS.values():
        check(rule, matrix)


def example_updates(rule: Aggregator, *, cohort_size: int = 23, dim: int = 40, seed: int = 0) -> Tensor:
    """Return a float32 matrix with at most as many outliers as the rule assumes Byzantine rows."""
    number = min(3, rule.assumed_byzantine(cohort_size))
    attack = Spread(num_directions=5, strength=8.0)
    return attacked_population(
        "clusters", attack, cohort_size=cohort_size, dim=dim, num_byzantine=number, seed=seed
    ).updates


def run(rule: Aggregator, updates: Tensor) -> Aggregation:
    """Call the rule with all that it may need to know besides the rows."""
    return rule(updates, example_view(updates))


def example_view(updates: Tensor) -> ServerView:
    """Return a server that started from the origin and trusts the coordinate-wise median of the finite rows.

    Its loss is the squared distance to the model one such step away.
    """
    good = updates[(updates.abs() < 1e18).all(1)].detach()
    trusted = good.median(0).values if len(good) else torch.ones_like(updates[0])
    return ServerView(
        model=torch.zeros_like(trusted),
        trusted_row=trusted,
        trusted_loss=lambda model: 0.5 * float((model + trusted).double().square().sum()),
    )


def check_well_formed(rule: Aggregator, updates: Tensor) -> None:
    """Every field has its shape and dtype, weights sum to 1, and `kept` says who has weight."""
    result = run(rule, updates)
    num_rows, num_columns = updates.shape
    expect(result.update.shape == (num_columns,), "update must have one number per column", result.update.shape)
    expect(result.update.dtype == updates.dtype, "update must keep the dtype", result.update.dtype)
    expect(result.update.device == updates.device, "update must keep the device", result.update.device)
    for name in ("weights", "kept", "usable", "scores"):
        expect(getattr(result, name).shape == (num_rows,), f"{name} must have one entry per row", name)
    expect(bool((result.weights >= 0).all()), "weights must not be negative", result.weights)
    nobody = result.stop in {Stop.NOBODY_TRUSTED, Stop.TOO_MANY_UNUSABLE} and not bool(result.kept.any())
    total = 0.0 if nobody else 1.0
    expect(abs(float(result.weights.sum()) - total) < 1e-9, "weights must sum to 1", result.weights.sum())
    expect(torch.equal(result.kept, result.weights > 0), "kept must be the rows with weight", result.kept)
    expect(not bool(result.scores.isnan().any()), "scores must not be NaN", result.scores)
    expect(bool(result.update.isfinite().all()), "update must be finite", result.update)
    expect(isinstance(result.stop.value, str), "stop must be a sentence", result.stop)
    expect(result.num_byzantine == rule.assumed_byzantine(num_rows), "num_byzantine must be what is assumed", result)


def check_pure(rule: Aggregator, updates: Tensor) -> None:
    """The same input gives the same bits, and is neither changed nor aliased."""
    before = updates.clone()
    first, second = run(rule, updates), run(rule, updates)
    expect(torch.equal(first.update, second.update), "two calls must give the same bits", first.update)
    expect(torch.equal(first.weights, second.weights), "two calls must give the same weights", first.weights)
    first.update.fill_(7.0)
    expect(torch.equal(before, updates), "the input must not change, nor be reachable through the output", updates)


def check_inside_hull(rule: Aggregator, updates: Tensor) -> None:
    """In every coordinate the update lies between the smallest and the largest usable value."""
    if Claim.HULL not in rule.claims():
        return
    result = run(rule, updates)
    rows = updates[result.usable]
    room = 1e-4 * (1.0 + rows.abs().max())
    inside = (result.update >= rows.min(0).values - room) & (result.update <= rows.max(0).values + room)
    expect(bool(inside.all()), "update must lie within the rows in every coordinate", result.update)


def check_permutation(rule: Aggregator, updates: Tensor) -> None:
    """Reordering clients only reorders the verdicts; clients with equal rows may exchange theirs."""
    if Claim.PERMUTATION not in rule.claims():
        return
    order = torch.arange(len(updates)).roll(3).flip(0)
    straight, shuffled = run(rule, updates), run(rule, updates[order])
    _expect_close(shuffled.update, straight.update, updates, "reordering rows must not change the update")
    distinct, which = torch.unique(updates, dim=0, return_inverse=True)
    of_row = [torch.zeros(len(distinct), dtype=torch.float64) for _ in range(2)]
    of_row[0].index_add_(0, which, straight.weights)
    of_row[1].index_add_(0, which[order], shuffled.weights)
    _expect_close(of_row[1], of_row[0], None, "weights must follow their rows")


def check_translation(rule: Aggregator, updates: Tensor) -> None:
    """Adding one vector to all rows adds it to the update."""
    if Claim.TRANSLATION not in rule.claims():
        return
    rows = updates.double()
    shift = 10.0 * rows.std() * torch.linspace(-1.0, 1.0, rows.shape[1], dtype=torch.float64)
    moved = run(rule, rows + shift)
    _expect_close(moved.update - shift, run(rule, rows).update, rows, "a common shift must shift the update")


def check_scaling(rule: Aggregator, updates: Tensor) -> None:
    """A common positive factor scales the update."""
    if Claim.SCALING not in rule.claims():
        return
    for factor in (2.0**-20, 2.0**12):
        scaled = run(rule, factor * updates).update / factor
        _expect_close(scaled, run(rule, updates).update, updates, f"a factor of {factor} must scale the update")


def check_rotation(rule: Aggregator, updates: Tensor) -> None:
    """Rotating all rows rotates the update: here a reflection that mixes all coordinates."""
    if Claim.ROTATION not in rule.claims():
        return
    rows = updates.double()
    normal = torch.linspace(1.0, 2.0, rows.shape[1], dtype=torch.float64)
    normal /= normal.norm()

    def reflected(vectors: Tensor) -> Tensor:
        return vectors - 2.0 * (vectors @ normal)[..., None] * normal

    view = example_view(rows)
    loss, trusted = view.trusted_loss, view.trusted_row
    assert loss is not None
    assert trusted is not None
    around = replace(view, trusted_row=reflected(trusted), trusted_loss=lambda model: loss(reflected(model)))
    turned = rule(reflected(rows), around).update
    _expect_close(reflected(turned), rule(rows, view).update, rows, "a rotation must rotate the update")


def check_linearity(rule: Aggregator, updates: Tensor) -> None:
    """The update is the weighted sum of the rows."""
    if Claim.LINEARITY not in rule.claims():
        return
    result = run(rule, updates)
    _expect_close(result.weights @ updates.double(), result.update, updates, "update must be weights @ rows")


def check_duplicates(rule: Aggregator, updates: Tensor) -> None:
    """Rows that many clients share are no obstacle: the result is well formed."""
    check_well_formed(rule, updates[torch.arange(len(updates)) // 2])
    check_well_formed(rule, updates[torch.arange(len(updates)) % 2])


def check_memory(rule: Aggregator, updates: Tensor) -> None:
    """What a rule remembers can be handed back in the next round, when other clients may take part."""
    first = run(rule, updates)
    said = any(each.remembers() for each in rule.chain())
    expect(said or not first.memory, "a rule that remembers something must say so in remembers()", first.memory)
    clients = [f"client {i}" for i in range(1, len(updates) + 1)]
    view = replace(example_view(updates), round=1, memory=first.memory, clients=clients)
    expect(bool(rule(updates, view).update.isfinite().all()), "the second round must be finite", first.memory)


def check_dtypes_and_containers(rule: Aggregator, updates: Tensor) -> None:
    """Tensors, arrays, lists of rows and float64 all give the same update, in their own dtype."""
    reference = run(rule, updates).update
    containers: dict[str, Any] = {
        "numpy array": updates.numpy(),
        "list of tensors": list(updates),
        "list of arrays": list(updates.numpy()),
        "transposed memory": updates.T.contiguous().T,
        "tensor that requires grad": updates.clone().requires_grad_(),
    }
    for kind, other in containers.items():
        result = rule(other, example_view(updates))
        _expect_close(result.update, reference, updates, f"a {kind} must give the same update")
        expect(not result.update.requires_grad, "the update must not require grad", kind)
    double = run(rule, updates.double()).update
    expect(double.dtype == torch.float64, "float64 must stay float64", double.dtype)
    _expect_close(double.float(), reference, updates, "float64 must give the same update")


def check_bad_rows(rule: Aggregator, updates: Tensor) -> None:
    """Rows with NaN, Inf or overflowing squares are removed and reported, and reach nothing."""
    for value in BAD_VALUES:
        for whole_row in (True, False):
            rows = updates.clone()
            rows[1, slice(None) if whole_row else -1] = value
            result = run(rule, rows)
            expect(not bool(result.usable[1]), f"a row with {value} must be unusable", result.usable)
            expect(float(result.weights[1]) == 0.0, f"a row with {value} must have no weight", result.weights)
            expect(bool(result.update.isfinite().all()), f"the update must be finite beside {value}", result.update)
            expect(float(result.scores[1]) == float("inf"), "an unusable row must score infinity", result.scores)
            others = torch.arange(len(rows)) != 1
            expect(bool(result.usable[others].all()), f"{value} must not spoil other rows", result.usable)


def check_violated_assumption(rule: Aggregator, updates: Tensor) -> None:
    """More unusable rows than assumed: the result says so, and is finite."""
    rows = updates.clone()
    number = rule.assumed_byzantine(len(rows)) + 1
    if number >= len(rows):
        return  # a rule that stands any number of bad rows
    rows[:number] = float("nan")
    result = run(rule, rows)
    expect(result.assumption_violated, "more bad rows than assumed must violate the assumption", result.stop)
    expect(bool(result.update.isfinite().all()), "the update must be finite all the same", result.update)


def check_equal_rows(rule: Aggregator, updates: Tensor) -> None:
    """If all rows are equal, the update is that row."""
    if Claim.IDEMPOTENCE not in rule.claims():
        return
    rows = updates[:1].repeat(len(updates), 1)
    _expect_close(run(rule, rows).update, rows[0], rows, "equal rows must give that row")


def check_smallest_cohorts(rule: Aggregator, updates: Tensor) -> None:
    """The smallest cohort works; with f = 0 a single row is the update itself; one column and rank one work."""
    for num_rows in range(1, 12):
        if num_rows >= rule.smallest_cohort(rule.assumed_byzantine(num_rows)):
            check_well_formed(rule, updates[:num_rows])
            check_well_formed(rule, updates[:num_rows, :1])
            if num_rows == 1 and Claim.IDEMPOTENCE in rule.claims():
                _expect_close(run(rule, updates[:1]).update, updates[0], updates, "a single row must be the update")
    check_well_formed(rule, torch.outer(updates[:, 0], updates[0]))


def check_wrong_input(rule: Aggregator, updates: Tensor) -> None:
    """What cannot be aggregated raises an error of the tree that says why."""
    wrong: list[tuple[Any, type[InputError]]] = [
        (updates[0], ShapeError),
        (updates[None], ShapeError),
        (updates[:0], ShapeError),
        (updates[:, :0], ShapeError),
        ([], ShapeError),
        ([updates[0], updates[1, :-1]], ShapeError),
        ("rows", ShapeError),
        (memoryview(b"rows"), ShapeError),
        (np.ma.masked_array(updates.numpy(), mask=False), DtypeError),
        (updates.to("meta"), DtypeError),
        (updates.int(), DtypeError),
        (updates.half(), DtypeError),
        (updates.numpy().astype(np.complex64), DtypeError),
        (torch.full_like(updates, float("nan")), NoUsableRowError),
    ]
    for value, error in wrong:
        try:
            result: Aggregation | None = rule(value, example_view(updates))
        except error as caught:
            expect(len(str(caught)) > 20, "an error must say what is wrong", caught)
        else:
            raise AssertionError(f"expected {error.__name__} for {type(value).__name__}; got {result!s:.300}")


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "well formed": check_well_formed,
        "pure": check_pure,
        "inside the hull": check_inside_hull,
        "permutation": check_permutation,
        "translation": check_translation,
        "scaling": check_scaling,
        "rotation": check_rotation,
        "linearity": check_linearity,
        "duplicates": check_duplicates,
        "memory": check_memory,
        "dtypes and containers": check_dtypes_and_containers,
        "bad rows": check_bad_rows,
        "violated assumption": check_violated_assumption,
        "equal rows": check_equal_rows,
        "smallest cohorts": check_smallest_cohorts,
        "wrong input": check_wrong_input,
    }
)


def expect(condition: bool, message: str, value: object) -> None:  # noqa: FBT001  reads as a sentence
    """Raise an AssertionError that says what was violated and shows the value, unless the condition holds."""
    if not condition:
        raise AssertionError(f"{message}; got {value!s:.300}")


def _expect_close(actual: Tensor, expected: Tensor, rows: Tensor | None, message: str) -> None:
    """Compare up to rounding, relative to the size of the rows."""
    size = 1.0 if rows is None else float(rows.double().abs().max())
    gap = float((actual.double() - expected.double()).abs().max())
    expect(gap <= 1e-4 * size, message, f"a largest difference of {gap} where values are up to {size}")
