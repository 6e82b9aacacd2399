"""`steadfed plan`: what the theorems guarantee for a run before it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from steadfed._cli.run import Settings
from steadfed._core.parsing import parse_whole
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from steadfed.certification import Plan, PlanRequest

PROBLEM = {
    "smoothness": "smoothness",
    "strong_convexity": "strong-convexity",
    "gradient_variance": "variance",
    "dissimilarity": "dissimilarity",
    "distance": "distance",
    "gap": "gap",
    "dim": "dim",
}
"""The numbers of a problem and their options."""
PROTOCOL = {
    "num_clients": "clients",
    "cohort_size": "cohort",
    "num_byzantine": "byzantine",
    "assumed_byzantine": "assumed",
    "local_steps": "local-steps",
    "batch_size": "batch",
    "num_points": "points",
    "lr": "lr",
    "rounds": "rounds",
    "mode": "mode",
    "coordinates": "coordinates",
}
"""The numbers of a protocol and their options."""
_NEEDED = ("clients", "cohort", "rounds", "smoothness", "variance", "dissimilarity")


def plan(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; or leave it out and give the numbers.")] = None,
    set_: Settings = None,
    clients: Annotated[int | None, typer.Option(help="R, how many clients there are.")] = None,
    cohort: Annotated[int | None, typer.Option(help="K, how many take part in a round.")] = None,
    byzantine: Annotated[int | None, typer.Option(help="How many of the clients are Byzantine.")] = None,
    assumed: Annotated[
        int | None,
        typer.Option(
            help="f, how many updates of a cohort the rule distrusts; as many as may be Byzantine if left out."
        ),
    ] = None,
    local_steps: Annotated[
        str | None, typer.Option(help="H, local steps in a round; or one number per round, again and again: 1,4,2.")
    ] = None,
    batch: Annotated[str | None, typer.Option(help='b, points of a mini-batch; or "full", as without CONFIG.')] = None,
    points: Annotated[
        int | None,
        typer.Option(
            help="n, the most points that a client holds: batches drawn without replacement vary less than σ²/b."
        ),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="η, the step size; the paper's, if there is no CONFIG and it is left out.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="T/H, how many rounds.")] = None,
    mode: Annotated[str | None, typer.Option(help="The mode of RAGE: auto, known, exact or lazy.")] = None,
    coordinates: Annotated[
        float | None, typer.Option(help="k/d, the share of the coordinates that clients send; 1 for whole updates.")
    ] = None,
    smoothness: Annotated[float | None, typer.Option(help="L of F.")] = None,
    strong_convexity: Annotated[float | None, typer.Option(help="μ of F; 0 if it is not strongly convex.")] = None,
    variance: Annotated[float | None, typer.Option(help="σ², the variance of the gradient of one point.")] = None,
    dissimilarity: Annotated[float | None, typer.Option(help="κ², the largest ‖∇F_r − ∇F‖².")] = None,
    distance: Annotated[float | None, typer.Option(help="‖x_0 − x*‖².")] = None,
    gap: Annotated[float | None, typer.Option(help="F(x_0) − F*.")] = None,
    dim: Annotated[int | None, typer.Option(help="d, which only the paper's formulas ask for.")] = None,
    slack: Annotated[
        float | None,
        typer.Option(
            help="ε′, the share of a cohort set aside for honest updates with unlucky batches; chosen if left out."
        ),
    ] = None,
    failure: Annotated[float, typer.Option(help="How likely the run may be to leave its guarantee.")] = 0.01,
    target: Annotated[
        float | None, typer.Option(help="How close the run is to come; twice the floor if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what the theorems guarantee for a run: conditions, step size, floor, probability; and what that means.

    Loads the data and measures or computes the constants of the problem, each shown with where it comes from. Options
    replace numbers of CONFIG. Code that CONFIG names (import, torch-dataset) is executed, data that it names are
    downloaded. Without CONFIG nothing is loaded, and the options must give the numbers.

    Exit code 0, also if no theorem applies, which is said; 2 if a number is missing or out of range.
    """
    given = locals()
    numbers = {
        "problem": given_numbers(PROBLEM, given),
        "protocol": given_numbers(PROTOCOL, {**given, "batch": _batch(batch), "local_steps": _steps(local_steps)}),
        "slack": slack,
        "failure": failure,
        "target": target,
    }
    found = _plan_run(config, set_ or [], numbers)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), allow_nan=False))
        return
    from steadfed.reports._render import terminal
    from steadfed.reports._sections.theory import plan_panels

    terminal.show(*plan_panels(found, str(config) if config is not None else "the numbers given"))


def given_numbers(options: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers whose options were given."""
    values = {name: given[option.replace("-", "_")] for name, option in options.items()}
    return {name: value for name, value in values.items() if value is not None}


def _batch(text: str | None) -> int | str | None:
    if text is None or text == "full":
        return text
    try:
        return parse_whole(text, 1)
    except ParameterError as error:
        raise ParameterError(f'--batch: {error}; or "full"') from None


def _steps(text: str | None) -> int | tuple[int, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(parse_whole(each, 1) for each in text.split(","))
    except ParameterError as error:
        raise ParameterError(f"--local-steps: {error}; or several with commas between") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _plan_run(config: Path | None, settings: list[str], numbers: dict[str, Any]) -> Plan:
    if config is None:
        _require_numbers(settings, {**numbers["problem"], **numbers["protocol"]})
    from steadfed.certification import PlanRequest, plan as look, plan_numbers

    request = PlanRequest(**numbers)
    if config is None:
        return plan_numbers(_with_lr(_with_assumed(request)))
    from steadfed.runs import read_config

    with Console(stderr=True).status("measuring the constants of the problem"):
        return look(read_config(config, settings), request)


def _with_assumed(request: PlanRequest) -> PlanRequest:
    """Return the numbers with the smallest f that the cohorts keep to, but for half the failure, unless it is given.

    With mini-batches a twentieth of the cohort is added for honest updates with unlucky batches.
    """
    from steadfed.theory.sampling import tolerated_for

    given = request.protocol
    if "assumed_byzantine" in given:
        return request
    needed = tolerated_for(
        num_clients=given["num_clients"],
        num_byzantine=given.get("num_byzantine", 0),
        cohort_size=given["cohort_size"],
        rounds=given["rounds"],
        failure=request.failure / 2.0,
    )
    aside = 0 if given.get("batch_size", "full") == "full" else -(-given["cohort_size"] // 20)
    assumed = max(needed, min(needed + aside, (given["cohort_size"] - 1) // 2))
    return replace(request, protocol={**given, "assumed_byzantine": assumed})


def _with_lr(request: PlanRequest) -> PlanRequest:
    """Return the numbers with the paper's step size, the largest that its theorem allows, unless one was given."""
    from steadfed.theory import paper

    protocol = {"batch_size": "full", "local_steps": 1, **request.protocol}
    if "lr" not in protocol:
        largest = paper.full_batch_lr if protocol["batch_size"] == "full" else paper.minibatch_lr
        protocol["lr"] = largest(smoothness=request.problem["smoothness"], local_steps=protocol["local_steps"])
    return replace(request, protocol=protocol)


def _require_numbers(settings: list[str], given: Mapping[str, Any]) -> None:
    """Refuse numbers that are not enough without a configuration."""
    if settings:
        raise ParameterError(f"--set changes a configuration, and none was given; got --set {settings[0]}")
    names = {option: name for table in (PROBLEM, PROTOCOL) for name, option in table.items()}
    missing = [f"--{option}" for option in _NEEDED if names[option] not in given]
    if not {"distance", "gap"} & given.keys():
        missing.append("--distance or --gap")
    if missing:
        raise ParameterError(f"without CONFIG the numbers must be given; missing: {', '.join(missing)}")
