"""The contract of every attack, as functions: use them to test an attack of your own.

    from steadfed.testing.attack_contract import check_attack_contract
    check_attack_contract(MyAttack(factor=2.0))

Each check raises an AssertionError that says what was violated. `CHECKS` names them all, for parametrised tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.aggregators import Aggregator, GeometricMedian, ServerView
from steadfed.attacks._base import Attack, Forged
from steadfed.attacks._simple import BadNumbers
from steadfed.attacks._view import EVERYTHING, AdversaryView, Knowledge
from steadfed.errors import MissingKnowledgeError
from steadfed.testing.contract import expect

__all__ = [
    "ANY_RULE",
    "CHECKS",
    "AttackCheck",
    "check_attack_contract",
    "check_bad_rows_seen",
    "check_degenerate_rows",
    "check_finite",
    "check_forged_dtypes",
    "check_forged_pure",
    "check_forged_well_formed",
    "check_knowledge",
    "check_memory_of_attack",
    "check_nobody_byzantine",
    "check_other_seeds",
    "check_small_views",
    "example_adversary_view",
]


def __dir__() -> list[str]:
    return __all__


AttackCheck = Callable[[Attack, AdversaryView], None]

ANY_RULE = GeometricMedian()
"""The rule that an attack is shown, if no other is given: it takes any cohort and is told nothing."""


def check_attack_contract(attack: Attack, view: AdversaryView | None = None) -> None:
    """Run every check on the attack, on the given view or on one of 3 Byzantine clients among 13."""
    for check in CHECKS.values():
        check(attack, view or example_adversary_view())


def example_adversary_view(
    *, num_byzantine: int = 3, cohort_size: int = 13, dim: int = 24, seed: int = 0, rule: Aggregator = ANY_RULE
) -> AdversaryView:
    """Return a float32 view with everything granted, in which nobody has forged anything yet."""
    noise = stream(seed, "attack-contract").standard_normal((cohort_size, dim))
    rows = torch.from_numpy(1.0 + noise * np.linspace(0.2, 2.0, dim)).float()
    return AdversaryView(
        num_byzantine=num_byzantine,
        cohort_size=cohort_size,
        own_rows=rows[:num_byzantine],
        honest_rows=rows[num_byzantine:],
        server_rule=rule,
        server_view=ServerView(model=torch.zeros(dim), trusted_row=rows.mean(0)),
        seed=seed,
    )


def check_forged_well_formed(attack: Attack, view: AdversaryView) -> None:
    """There is one row per Byzantine client, as the view's rows are, and a word on who is silent."""
    _well_formed(attack(view), view)


def check_forged_dtypes(attack: Attack, view: AdversaryView) -> None:
    """Rows come in float32 and float64, as the view's do."""
    for typed in (_with_rows(view, Tensor.float), _with_rows(view, Tensor.double)):
        _well_formed(attack(typed), typed)


def check_forged_pure(attack: Attack, view: AdversaryView) -> None:
    """The same view gives the same bits, its rows are neither changed nor aliased, nor is global randomness used."""
    own, honest, state = view.own_rows.clone(), _honest(view).clone(), torch.get_rng_state()
    first, second = attack(view), attack(view)
    expect(_same_bits(first.rows, second.rows), "two calls must give the same bits", first.rows)
    expect(torch.equal(first.silent, second.silent), "two calls must silence the same clients", first.silent)
    expect(set(first.memory) == set(second.memory), "two calls must remember the same", first.memory)
    expect(torch.equal(state, torch.get_rng_state()), "torch's global generator must not be used", attack)
    first.rows.fill_(7.0)
    for tensor in first.memory.values():
        tensor.zero_()
    expect(
        torch.equal(own, view.own_rows),
        "own rows must not change, nor be reachable through the output or its memory",
        own,
    )
    expect(torch.equal(honest, _honest(view)), "honest rows must not change, nor be reachable through it", honest)


def check_other_seeds(attack: Attack, view: AdversaryView) -> None:
    """Other seeds and rounds work, whatever the attack draws."""
    for other in (replace(view, seed=view.seed + 1), replace(view, round=1), replace(view, round=1000)):
        _well_formed(attack(other), other)


def check_nobody_byzantine(attack: Attack, view: AdversaryView) -> None:
    """Without a Byzantine client there are no rows."""
    nobody = replace(view, num_byzantine=0, own_rows=view.own_rows[:0])
    _well_formed(attack(nobody), nobody)


def check_small_views(attack: Attack, view: AdversaryView) -> None:
    """One Byzantine client, one honest row, one coordinate, and all of these at once work."""
    narrow = _with_rows(view, lambda rows: rows[:, :1])
    for wide in (view, narrow):
        for smaller in (_with_clients(wide, 1, 10), _with_clients(wide, 3, 1), _with_clients(wide, 1, 1), wide):
            _finite_if_meant(attack, smaller)


def check_degenerate_rows(attack: Attack, view: AdversaryView) -> None:
    """Equal rows, rows of zeros, rank one, and tiny and large rows work, and stay finite."""
    changes: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda rows: _honest(view)[:1].repeat(len(rows), 1),
        torch.zeros_like,
        lambda rows: torch.outer(rows[:, 0], _honest(view)[0]),
        lambda rows: 2.0**-40 * rows,
        lambda rows: 2.0**40 * rows,
    )
    for change in changes:
        _finite_if_meant(attack, _with_rows(view, change))


def check_bad_rows_seen(attack: Attack, view: AdversaryView) -> None:
    """An honest client whose arithmetic failed is no obstacle: the forged rows are finite."""
    for value in (float("nan"), float("inf"), 1e30):
        rows = _honest(view).clone()
        rows[0] = value
        _finite_if_meant(attack, replace(view, honest_rows=rows))


def check_knowledge(attack: Attack, view: AdversaryView) -> None:
    """What the attack says it needs is enough, without any part of it the attack refuses, and it sees nothing else."""
    needs = attack.all_needs()
    forged = attack(replace(view, granted=needs))
    _well_formed(forged, view)
    other = replace(view, granted=needs, honest_rows=7.0 - _honest(view))
    if Knowledge.OWN not in needs:
        other = replace(other, own_rows=7.0 - view.own_rows)
    if Knowledge.RULE not in needs:
        other = replace(other, server_rule=None, server_view=None)
    same = _same_bits(forged.rows, attack(other).rows)
    expect(same, "what is not granted must not matter, nor be read from the view's fields", attack)
    for knowledge in needs:
        try:
            attack(replace(view, granted=EVERYTHING - {knowledge}))
        except MissingKnowledgeError as error:
            expect(knowledge.name in str(error), "the error must name what is missing", error)
        else:
            raise AssertionError(f"{attack!r} must refuse a view without {knowledge.name}")


def check_memory_of_attack(attack: Attack, view: AdversaryView) -> None:
    """What an attack remembers can be handed back in the next rounds, when other clients may take part."""
    memory: Mapping[str, Tensor] = {}
    for number, (num_byzantine, num_honest) in enumerate(((3, 10), (1, 7), (2, 1))):
        this = replace(_with_clients(view, num_byzantine, num_honest), round=view.round + number, memory=memory)
        before = {name: tensor.clone() for name, tensor in memory.items()}
        forged = attack(this)
        _well_formed(forged, this)
        unchanged = all(_same_bits(before[name], tensor) for name, tensor in memory.items())
        expect(unchanged, "the memory handed in must not change", memory)
        memory = forged.memory
        said = any(each.remembers() for each in attack.chain())
        expect(said or not memory, "an attack that remembers something must say so in remembers()", memory)


def check_finite(attack: Attack, view: AdversaryView) -> None:
    """Finite rows give finite rows, unless bad numbers are what the attack is about."""
    for round_number in range(3):
        _finite_if_meant(attack, replace(view, round=view.round + round_number))


CHECKS: Mapping[str, AttackCheck] = MappingProxyType(
    {
        "well formed": check_forged_well_formed,
        "dtypes": check_forged_dtypes,
        "pure": check_forged_pure,
        "other seeds": check_other_seeds,
        "nobody byzantine": check_nobody_byzantine,
        "small views": check_small_views,
        "degenerate rows": check_degenerate_rows,
        "bad rows seen": check_bad_rows_seen,
        "knowledge": check_knowledge,
        "memory": check_memory_of_attack,
        "finite": check_finite,
    }
)


def _well_formed(forged: Forged, view: AdversaryView) -> None:
    rows, own = forged.rows, view.own_rows
    expect(rows.shape == own.shape, "there must be one row per Byzantine client, as long as its own", rows.shape)
    expect(rows.dtype == own.dtype, "rows must keep the dtype", rows.dtype)
    expect(rows.device == own.device, "rows must stay on the device", rows.device)
    expect(not rows.requires_grad, "rows must not require grad", rows)
    expect(forged.silent.shape == (len(own),), "silent must have one entry per client", forged.silent.shape)
    expect(forged.silent.dtype == torch.bool, "silent must be boolean", forged.silent.dtype)
    tensors = all(isinstance(name, str) and isinstance(each, Tensor) for name, each in forged.memory.items())
    expect(tensors, "memory must hold tensors by name", forged.memory)


def _finite_if_meant(attack: Attack, view: AdversaryView) -> None:
    forged = attack(view)
    _well_formed(forged, view)
    if not any(isinstance(each, BadNumbers) for each in attack.chain()):
        expect(bool(forged.sent.isfinite().all()), "finite rows must give finite rows", forged.rows)


def _honest(view: AdversaryView) -> Tensor:
    return view.own_rows[:0] if view.honest_rows is None else view.honest_rows


def _with_rows(view: AdversaryView, change: Callable[[Tensor], Tensor]) -> AdversaryView:
    """Return the view with all rows changed, and what the server is told as well."""

    def changed(vector: Tensor | None) -> Tensor | None:
        return None if vector is None else change(vector[None])[0]

    server = view.server_view or ServerView()
    told = replace(server, model=changed(server.model), trusted_row=changed(server.trusted_row))
    return replace(view, own_rows=change(view.own_rows), honest_rows=change(_honest(view)), server_view=told)


def _with_clients(view: AdversaryView, num_byzantine: int, num_honest: int) -> AdversaryView:
    """Return the view with other numbers of clients, taken in turn from those that are there."""
    own = view.own_rows[torch.arange(num_byzantine) % len(view.own_rows)]
    honest = _honest(view)[torch.arange(num_honest) % len(_honest(view))]
    size = num_byzantine + num_honest
    return replace(view, num_byzantine=num_byzantine, cohort_size=size, own_rows=own, honest_rows=honest)


def _same_bits(first: Tensor, second: Tensor) -> bool:
    """Compare as bytes, as NaN is not equal to itself."""
    return first.numpy(force=True).tobytes() == second.numpy(force=True).tobytes()
