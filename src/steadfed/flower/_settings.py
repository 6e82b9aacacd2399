"""Settings of a strategy, checked before the first round."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from steadfed._core.lookup import nearest
from steadfed._core.ranges import check_between, check_share, check_whole
from steadfed.aggregators import Aggregator, Need, ServerView
from steadfed.attacks import Attack
from steadfed.errors import ParameterError
from steadfed.server._promise import check_coverage
from steadfed.server._record import Client
from steadfed.server._site_weights import Sites, sites_of
from steadfed.simulation import Compression, RunConfig

Known = TypeVar("Known")


@runtime_checkable
class Tampering(Protocol):
    """Somebody who changes rows after all were read: a drill against an adversary that sees everything."""

    @property
    def attack(self) -> Attack | None:
        """What is done to the rows, for a server to refuse what cannot be done; None if it is no `Attack`."""

    def tamper(
        self,
        updates: Float[Tensor, "n d"],
        clients: list[Client],
        rule: Aggregator,
        view: ServerView,
    ) -> None:
        """Change rows in place."""


def require_known(value: Known | None) -> Known:
    """Return what is known from the first round on; `ParameterError` before it."""
    if value is None:
        raise ParameterError("the model is not known before the first round; call configure_train first")
    return value


def check_seconds(name: str, value: Any) -> float:
    """Return a finite number of seconds from 0 on; `ParameterError` otherwise."""
    return check_between(name, value, 0.0, math.inf, "a number of seconds from 0 on")


def _are_words(patterns: Any) -> bool:
    sequence = isinstance(patterns, Sequence) and not isinstance(patterns, (str, bytes))
    return sequence and all(isinstance(pattern, str) for pattern in patterns)


def _is_seed(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_WORD = (lambda value: isinstance(value, str) and value != "", "a word")
_FUNCTION = (lambda value: value is None or callable(value), "a function or None")
_PATH = (lambda path: path is None or (isinstance(path, (str, os.PathLike)) and path != ""), "a path or None")
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "weighted_by_key": _WORD,
    "arrayrecord_key": _WORD,
    "configrecord_key": _WORD,
    "train_metrics_aggr_fn": _FUNCTION,
    "evaluate_metrics_aggr_fn": _FUNCTION,
    "trusted_update_fn": _FUNCTION,
    "trusted_loss_fn": _FUNCTION,
    "run_folder": _PATH,
    "signing_key": _PATH,
    "twin": (lambda twin: twin is None or isinstance(twin, RunConfig), "a RunConfig or None"),
    "convert_dtypes": (lambda value: isinstance(value, bool), "True or False"),
    "buffers": (_are_words, 'patterns such as ["*running_var"]'),
    "compression": (lambda value: isinstance(value, Compression), "a Compression, such as RandomK(coordinates=0.1)"),
    "coordinates_seed": (lambda seed: seed is None or _is_seed(seed), "a whole number from 0 on, or None"),
    "tampering": (lambda value: value is None or isinstance(value, Tampering), "a Tampering or None"),
}
"""What a setting must be that no `RunConfig` checks, and how to say it."""


def sites_of_roster(
    site_weights: Any, max_share: Any, names: Mapping[int, Client] | None, rule: Aggregator
) -> Sites | None:
    """Return what the sites of a roster weigh; None if all count alike.

    Raises:
        ParameterError: the rule cannot weigh; nodes have no names, so that a weight could be anybody's; a name of the
            roster has no weight, or a weight no name; or so much of the weight of all may be Byzantine that no round
            with all of them promises anything.
    """
    if (sites := sites_of(site_weights, max_share)) is None:
        return None
    rule.check_weighs()
    if names is None:
        raise ParameterError(
            "site_weights are by the names of nodes, and nobody has one: give nodes={node id: name}, or its JSON file"
        )
    sites.check_names(names.values())
    for name in sites.weights:
        if name not in names.values():
            raise ParameterError(
                f"site_weights holds {name!r}, which is no name in nodes{nearest(str(name), map(str, names.values()))}"
            )
    check_coverage(rule, sites, list(names.values()))
    return sites


def check_settings(settings: Mapping[str, Any], rule: Aggregator) -> None:
    """Refuse settings of a strategy that cannot be: they would fail in some round.

    Raises:
        ParameterError: a value is not of its kind or outside its range, or the rule needs something that is not given.
    """
    if not isinstance(rule, Aggregator):
        raise ParameterError(f"the rule must be an Aggregator of steadfed, such as Rage(num_byzantine=1); got {rule!r}")
    for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
        check_whole(name, settings[name])
    if settings["num_train_nodes"] is not None:
        check_whole("num_train_nodes", settings["num_train_nodes"])
    check_share("fraction_train", settings["fraction_train"])
    check_share("fraction_evaluate", settings["fraction_evaluate"])
    check_seconds("wait_for_nodes", settings["wait_for_nodes"])
    for name, (fits, what) in _KINDS.items():
        if not fits(settings[name]):
            raise ParameterError(f"{name} must be {what}, got {settings[name]!r}")
    if settings["arrayrecord_key"] == settings["configrecord_key"]:
        key = settings["arrayrecord_key"]
        raise ParameterError(f"arrayrecord_key and configrecord_key must be different words, got {key!r} for both")
    needs = rule.all_needs()
    for need, name in ((Need.TRUSTED_ROW, "trusted_update_fn"), (Need.TRUSTED_LOSS, "trusted_loss_fn")):
        if need in needs and settings[name] is None:
            raise ParameterError(f"{rule!r} needs {need}; give {name}")
