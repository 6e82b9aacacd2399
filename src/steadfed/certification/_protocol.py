"""A run as the theorems see it: its protocol as numbers, and what in its configuration they do not cover."""

from __future__ import annotations

from collections.abc import Iterator

from steadfed._core.wording import plural
from steadfed._linalg.sketch import is_cheaper
from steadfed.aggregators import RULES, Rage
from steadfed.errors import ParameterError
from steadfed.runs._deployments import has_own_steps
from steadfed.server._folder import RunFolder
from steadfed.simulation import RunConfig
from steadfed.simulation._cohorts import ListedCohorts, UniformCohorts
from steadfed.simulation._engines.loop import draws
from steadfed.simulation._schedules import ConstantSchedule
from steadfed.simulation._setting import Setting
from steadfed.theory import Protocol, sampling

MOMENTUM = (
    "Known of momentum at the clients (Farhadkhani, Guerraoui, Gupta, Pinot, Stephan 2022, RESAM, arXiv 2205.12173): "
    "resilient averaging of momentums makes E‖∇F‖² vanish like 1/√T for a smooth F, if a round is one step of all "
    "clients and the honest ones draw from one distribution; it covers neither H > 1, nor κ > 0, nor cohorts"
)
"""What is known where the theorems end."""


def protocol_of(setting: Setting) -> Protocol:
    """Return Algorithm 1 as a run carries it out, with nothing set aside; for another rule, as if it were RAGE."""
    most, dim = int(setting.client_shares.sizes.max()), setting.layout.dim
    return protocol_from(setting.config, num_clients=setting.num_clients, num_points=most, dim=dim)


def protocol_from(config: RunConfig, *, num_clients: int, num_points: int | None, dim: int | None) -> Protocol:
    """Return the same from a configuration, the number of clients, the most points of one and d, as far as known."""
    cohort, rule = config.cohort_size, config.rule
    full = config.batch_size == "full" or (num_points is not None and config.batch_size >= num_points)
    given = {"mode": rule.mode, "sigma0": rule.sigma0, "kappa": rule.kappa} if isinstance(rule, Rage) else {}
    return Protocol(
        num_clients=num_clients,
        cohort_size=cohort,
        num_byzantine=int(config.byzantine.members(0, num_clients, config.seed).sum()),
        assumed_byzantine=min(rule.assumed_byzantine(cohort), (cohort - 1) // 2),
        local_steps=_gaps(config),
        repeats=config.step_schedule.period is not None,
        batch_size="full" if full else config.batch_size,
        num_points=num_points,
        lr=config.lr,
        rounds=config.rounds,
        coordinates=_coordinates(config, dim),
        uniform=isinstance(config.cohorts, UniformCohorts),
        **given,
    )


def _coordinates(config: RunConfig, dim: int | None) -> float:
    """Return θ = k/d."""
    if dim is not None:
        return config.compression.number(dim) / dim
    if config.compression.words is None:
        return 1.0
    raise ParameterError(f"with {config.compression!r} the theorems need d, how many parameters the model has: dim")


def _gaps(config: RunConfig) -> int | tuple[int, ...]:
    """Return H, or the steps of every round as far as they are known: a list is, and what is drawn for the run."""
    if isinstance(config.local_steps, int):
        return config.local_steps
    schedule = config.step_schedule
    return tuple(schedule.gaps(0, schedule.period or config.rounds, config.seed).tolist())


def with_slack(protocol: Protocol, *, slack: float | None, failure: float) -> tuple[Protocol, str]:
    """Return the protocol with updates set aside for unlucky honest ones, and how many and why, as a sentence.

    Half of the allowed failure probability is that of cohorts with too many Byzantine clients, half that of batches.
    Unless `slack` is given, of the f updates that the rule distrusts as many are set aside as the cohorts do not need:
    f minus the smallest f′ that all of them keep to but with probability `failure`/2.
    """
    half = failure / 2.0
    if slack is not None:
        chosen = protocol.with_changes(slack=slack, failure=half)
        return chosen, f"ε′ = {slack:g} was given: {chosen.set_aside} of the f = {chosen.assumed_byzantine} updates"
    if protocol.batch_size == "full":
        return protocol.with_changes(failure=half), "Full batches: no update need be set aside for honest clients"
    needed = min(protocol.num_byzantine, protocol.cohort_size)
    if protocol.uniform:
        needed = sampling.tolerated_for(**protocol.population, rounds=protocol.rounds, failure=half)
    aside = max(0, protocol.assumed_byzantine - needed)
    chosen = protocol.with_changes(slack=aside / protocol.cohort_size, failure=half)
    sure = f"with probability {1.0 - half:.4g}" if protocol.uniform else "even in the worst case"
    said = f"None of {protocol.rounds:,} cohorts has more than {needed} Byzantine updates {sure}"
    if not aside:
        return chosen, f"{said}; the rule distrusts f = {chosen.assumed_byzantine}, so none can be set aside: ε′ = 0"
    return chosen, f"{said}, so {aside} of the f = {chosen.assumed_byzantine} distrusted updates are set aside: ε′K"


def outside(setting: Setting) -> dict[str, str]:
    """Return what a run does beyond Algorithm 1, and why the theorems do not cover it."""
    config = setting.config
    found = outside_by_choice(config)
    if draws(config.model.build(setting.dataset, config.seed)):
        found["dropout"] = "steps are taken with parts dropped at random, F has them all"
    if (seen := _sketch(config, config.compression.number(setting.layout.dim))) is not None:
        found["sketch"] = seen
    if setting.layout.buffer_dim:
        found["buffers"] = f"{setting.layout.buffer_dim} running statistics change F from round to round"
    return found


def outside_by_deployment(folder: RunFolder) -> dict[str, str]:
    """Return what a deployment leaves to its clients, and what its records say of the filter."""
    found = {}
    if has_own_steps(folder):
        found["step size"] = "the clients choose their own optimiser and step size; η = 1 stands in"
    seen = [record.round for record in folder.records() if record.sketch and record.sketch.get("fits", True)]
    if seen:
        rounds = plural(len(seen), "round")
        found["sketch"] = f"in {rounds} updates were seen through a sketch: C is proved for gram = 'exact' only"
    return found


def outside_by_choice(config: RunConfig) -> dict[str, str]:
    """Return what a configuration chooses beyond Algorithm 1, whatever the data and the model are."""
    found = dict([*_rule(config), *_options(config)])
    if isinstance(config.cohorts, ListedCohorts) and min(map(len, config.cohorts.rounds)) < config.cohort_size:
        found["cohorts"] = f"some listed cohorts have fewer than K = {config.cohort_size}"
    return found


def _rule(config: RunConfig) -> Iterator[tuple[str, str]]:
    rule = config.rule
    if not isinstance(rule, Rage):
        yield "rule", f"nothing is proved for {RULES.name(rule)}; the numbers are those that RAGE would have"


def _sketch(config: RunConfig, dim: int) -> str | None:
    """Return what is proved of a filter that sees updates of this size through a sketch; None if it does not."""
    rule = config.rule
    if not isinstance(rule, Rage) or not is_cheaper(config.cohort_size, dim, rule.sketch_passes()):
        return None
    held = "are estimates" if rule.gram == "fast" else "fail with a small probability, which they state"
    return f"d = {dim:,} is seen through a sketch: certificates {held}, and C is proved for gram = 'exact' only"


def _options(config: RunConfig) -> Iterator[tuple[str, str]]:
    client = config.client
    if config.site_weights is not None:
        yield "site weights", "clients count as they are weighed; F of the theorems is the plain mean over all clients"
    if client.momentum:
        yield "client momentum", f"β = {client.momentum:g}; the theorems are about plain SGD. {MOMENTUM}"
    if config.server.momentum:
        yield "server momentum", f"β = {config.server.momentum:g}; the theorems are about x − η ĝ"
    if client.weight_decay:
        yield "weight decay", f"{client.weight_decay:g} is not part of F; the model's l2 would be"
    if client.clip is not None:
        yield "clipping", f"gradients are cut to {client.clip:g}, so they are biased"
    if client.erasure_rate:
        yield "erasures", f"{client.erasure_rate:g} of the updates are lost, so a cohort has fewer than K"
    if not isinstance(config.schedule, ConstantSchedule):
        yield "schedule", f"{config.schedule!r}; the theorems have one step size"
