"""Who runs the gauntlet: every registered rule and attack that can, under labels; and who cannot, with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from steadfed._core.digests import sha256
from steadfed._core.importing import import_object
from steadfed._core.lookup import find, nearest
from steadfed._core.naming import name_key
from steadfed._core.own_code import loaded
from steadfed._core.source import source_digest
from steadfed._core.values import ValueObject
from steadfed.aggregators import RULES, Aggregator, ImportedRule
from steadfed.aggregators._rage.constants import KAPPA
from steadfed.attacks import (
    ATTACKS,
    ALittleIsEnough,
    Attack,
    BelowThreshold,
    Cluster,
    CovarianceShift,
    DataAttack,
    Decoys,
    HillClimb,
    ImportedAttack,
    InnerProductManipulation,
    MinMax,
    MinSum,
    ModelAttack,
    Optimal,
    Spread,
)
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.sweeps.matrices._populations import SERVER_KNOWS

_TRIED_ROWS, _TRIED_COLUMNS = 11, 6
"""Of the matrix that functions of the user's own are tried on."""
LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "rsa": "its update is a sum of signs, whose length says nothing of that of the updates",
        "slsgd": "its update is a share of a step, not an estimate of the mean of the updates",
        "smea": "looks at all subsets: seconds for an update, and attacks that search need dozens of updates",
    }
)
"""Rules that could take part and do not unless they are named, and why."""
_DATA = "changes data, and a matrix has none"
_TRAINING = "trains on poisoned data, and a matrix has none"
"""Why attacks through the data take no part, backdoors among them: a single matrix of updates shows neither what a
model learns nor what it says of a trigger. Compare them in runs."""
RULE_VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {f"rage-{mode}": {"name": "rage", "mode": mode} for mode in ("spread", "known", "exact", "lazy")}
)
"""The modes of RAGE besides its default, by their labels; those that do not learn σ₀ are told the true one."""
COMBINATIONS = (
    "nnm+trimmed-mean",
    "nnm+krum",
    "nnm+geometric-median",
    "nnm+rage",
    "bucketing+krum",
    "bucketing+geometric-median",
    "arc+nnm+trimmed-mean",
)
"""Wrappers with rules inside that are of interest; one that is in none is tried around the rule of its own example."""
ATTACK_VARIANTS: Mapping[str, Attack] = MappingProxyType(
    {
        "ipm-0.1": InnerProductManipulation(epsilon=0.1),
        "ipm-100": InnerProductManipulation(epsilon=100.0),
        "alie-1.5": ALittleIsEnough(z=1.5),
        "min-max-std": MinMax(direction="std"),
        "min-max-sign": MinMax(direction="sign"),
        "min-sum-std": MinSum(direction="std"),
        "min-sum-sign": MinSum(direction="sign"),
        "far-cluster": Cluster(strength=1000.0),
        "optimal-alie": Optimal(attack=ALittleIsEnough()),
        "optimal-ipm": Optimal(attack=InnerProductManipulation()),
        "optimal-cluster": Optimal(attack=Cluster(direction="random")),
        "optimal-cluster-spread": Optimal(attack=Cluster(direction="spread")),
        "optimal-cluster-mean": Optimal(attack=Cluster(direction="mean")),
        "optimal-spread-2": Optimal(attack=Spread(num_directions=2)),
        "optimal-spread-5": Optimal(attack=Spread(num_directions=5)),
        "optimal-spread-10": Optimal(attack=Spread(num_directions=10)),
        "optimal-covariance": Optimal(attack=CovarianceShift()),
        "below-threshold": BelowThreshold(),
        "decoys": Decoys(),
        "hill-climb": HillClimb(num_trials=50),
    }
)
"""Attacks with parameters under labels of their own; a label that is also a registered name goes before it."""


def why_no_rule(name: str) -> str | None:
    """Return why the registered rule of this name takes no part; None if it does.

    >>> why_no_rule("clipping")
    'cannot be built for a number of Byzantine clients alone: it also needs radius'
    """
    lacking = _required(RULES[name], "rule")
    if lacking:
        return f"cannot be built for a number of Byzantine clients alone: it also needs {', '.join(lacking)}"
    unknown = RULES[name].needs - SERVER_KNOWS
    if unknown:
        return f"needs {', '.join(sorted(map(str, unknown)))}, which the server of a matrix does not have"
    return LEFT_OUT.get(name)


def why_no_attack(name: str) -> str | None:
    """Return why the registered attack of this name takes no part by itself; None if it does.

    >>> why_no_attack("label-flip")
    'changes data, and a matrix has none'
    """
    if issubclass(ATTACKS[name], DataAttack):
        return _DATA
    if issubclass(ATTACKS[name], ModelAttack):
        return _TRAINING
    lacking = _required(ATTACKS[name])
    return f"cannot be built from its name alone: it needs {', '.join(lacking)}" if lacking else None


def _required(cls: type[ValueObject], *given: str) -> list[str]:
    """Return the parameters without which the class cannot be built, but for those that are given."""
    return [name for name, field in cls.model_fields.items() if field.is_required() and name not in given]


def _rule_labels() -> tuple[str, ...]:
    combined = {part for label in COMBINATIONS for part in label.split("+")}
    labels = [*RULE_VARIANTS]
    for name in RULES:
        if why_no_rule(name) is None and "rule" not in RULES[name].model_fields:
            labels.append(name)
        elif why_no_rule(name) is None and name not in combined:
            labels.append(RULES.name(RULES.example(name)))
    return (*labels, *COMBINATIONS)


RULE_LABELS = _rule_labels()
"""The rules of the full table."""
ATTACK_LABELS = tuple(dict.fromkeys([*(name for name in ATTACKS if why_no_attack(name) is None), *ATTACK_VARIANTS]))
"""The attacks of the full table."""


def with_bound(rule: Mapping[str, Any], num_byzantine: int) -> dict[str, Any]:
    """Return the table of a rule whose innermost rule is given f, unless it takes none or has a bound already.

    >>> with_bound({"name": "nnm+krum"}, 3)
    {'name': 'nnm+krum', 'num_byzantine': 3}
    >>> with_bound({"name": "bucketing", "size": 3, "rule": {"name": "rage"}}, 3)
    {'name': 'bucketing', 'size': 3, 'rule': {'name': 'rage', 'num_byzantine': 3}}
    """
    inside = rule.get("rule")
    if isinstance(inside, Mapping):
        return {**rule, "rule": with_bound(inside, num_byzantine)}
    cls = RULES[str(rule.get(name_key(rule))).rpartition("+")[2]]
    bounds = {"num_byzantine", "byzantine_fraction"}
    if "num_byzantine" not in cls.model_fields or bounds & rule.keys():
        return dict(rule)
    return {**rule, "num_byzantine": num_byzantine}


def rule_for(label: str, num_byzantine: int, sigma0: float) -> Aggregator:
    """Return the rule for a matrix with so many Byzantine clients; modes of RAGE that need σ₀ are told the true one.

    >>> rule_for("nnm+krum", 3, 1.0)
    NearestNeighborMixing(rule=Krum(num_byzantine=3))
    """
    table = dict(RULE_VARIANTS.get(label, {"name": label}))
    if table.get("mode", "auto") not in KAPPA:
        table["sigma0"] = sigma0
    return RULES.from_table(with_bound(table, num_byzantine))


def attack_for(label: str) -> Attack:
    """Return the attack with this label, or the one of this name or import path with its own parameters."""
    return ATTACK_VARIANTS[label] if label in ATTACK_VARIANTS else ATTACKS.build(label)


def check_labels(rules: tuple[str, ...], attacks: tuple[str, ...]) -> None:
    """Raise an error of the tree for a label that means nothing here, or cannot be built from its name alone.

    Code of the user's own is loaded and tried for that.
    """
    for label in rules:
        _check_rule(label)
    known = {*ATTACK_VARIANTS, *(name for name in ATTACKS if why_no_attack(name) not in {_DATA, _TRAINING})}
    for label in attacks:
        _check_attack(label, known)


def _check_rule(label: str) -> None:
    if label not in RULE_VARIANTS:
        for part in label.split("+"):
            if not _is_own(part):
                find("rule", part, {**RULES, **RULE_VARIANTS})
    for rule in loaded(rule_for(label, 1, 1.0)).chain():
        if isinstance(rule, ImportedRule):
            rule.try_on(_TRIED_ROWS, _TRIED_COLUMNS)


def _check_attack(label: str, known: set[str]) -> None:
    named = {part for part in label.split("+") if not _is_own(part)}
    for part in sorted(named & ATTACKS.keys() - known):
        why = f"{part!r} {why_no_attack(part)}"
        raise UnknownNameError(f"no attack {label!r} on a matrix: {why}; compare it in runs, with `steadfed compare`")
    if label not in ATTACK_VARIANTS and not known.issuperset(named):
        raise UnknownNameError(
            f"unknown attack {label!r} on a matrix{nearest(label, known)}; known: {', '.join(sorted(known))}"
        )
    for attack in loaded(attack_for(label)).chain():
        if isinstance(attack, DataAttack | ModelAttack):
            raise ParameterError(f"the attack {label!r} changes data, and a matrix has none")
        if isinstance(attack, ImportedAttack):
            attack.try_on(_TRIED_COLUMNS)


def _is_own(name: str) -> bool:
    """Tell an import path from a name."""
    return ":" in name


def code_of(rule: str, attack: str) -> str | None:
    """Return a hash of the user's own code that a rule and an attack are, by their labels; None if neither is.

    It is loaded for that.
    """
    paths = [part for part in (*rule.split("+"), *attack.split("+")) if _is_own(part)]
    digests = {path: digest_of(path) for path in paths}
    return sha256(json.dumps(digests, sort_keys=True).encode()) if digests else None


@lru_cache(maxsize=100)
def digest_of(path: str) -> str | None:
    """Return the hash of the source at an import path."""
    return source_digest(import_object(path, "the code"), path)
