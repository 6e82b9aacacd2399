"""`steadfed certify`: whether a run kept to the theorems' assumptions, and to what they guarantee."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from steadfed._cli.plan import PROBLEM, given_numbers
from steadfed._cli.run import NoCode
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from steadfed.certification import Certification

PLOT = "certificate.svg"
"""The plot in the folder of a run."""
_REMOTE = "for a deployment without a twin"
CONSTANTS = {name: option for name, option in PROBLEM.items() if name != "dim"}
NUMBERS = {"num_byzantine": "byzantine"}
"""The numbers that may be given for a deployment without a twin, and their options."""


def certify(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, complete or interrupted.")],
    plot: Annotated[
        Path | None, typer.Option(help="Where to write the plot, .pdf, .svg or .png; RUN/certificate.svg if left out.")
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            min=1, help="Clients to look at for σ² and κ², drawn at random; all where affordable if left out."
        ),
    ] = None,
    points: Annotated[
        int | None, typer.Option(min=2, help="Points of a client to look at for σ²; all where affordable if left out.")
    ] = None,
    curvatures: Annotated[
        int, typer.Option(min=1, help="At how many models to measure L, where it is not known exactly.")
    ] = 3,
    sigma0: Annotated[
        float | None,
        typer.Option(
            help="The honest spread (a standard deviation) to ask the certificates about; what the rule was given or "
            "found, if left out."
        ),
    ] = None,
    slack: Annotated[
        float | None,
        typer.Option(help="ε′, the share of a cohort set aside for unlucky honest updates; chosen if left out."),
    ] = None,
    failure: Annotated[float, typer.Option(help="How likely the run may be to leave its guarantee.")] = 0.01,
    smoothness: Annotated[float | None, typer.Option(help=f"L of F; {_REMOTE}.")] = None,
    strong_convexity: Annotated[float | None, typer.Option(help=f"μ of F, 0 if left out; {_REMOTE}.")] = None,
    variance: Annotated[
        float | None, typer.Option(help=f"σ², the variance of the gradient of one point; {_REMOTE}.")
    ] = None,
    dissimilarity: Annotated[float | None, typer.Option(help=f"κ², the largest ‖∇F_r − ∇F‖²; {_REMOTE}.")] = None,
    distance: Annotated[float | None, typer.Option(help=f"‖x_0 − x*‖²; this or --gap, {_REMOTE}.")] = None,
    gap: Annotated[float | None, typer.Option(help=f"F(x_0) − F*; this or --distance, {_REMOTE}.")] = None,
    byzantine: Annotated[
        int | None,
        typer.Option(min=0, help=f"How many of all clients to reckon with as Byzantine, 0 if left out; {_REMOTE}."),
    ] = None,
    no_code: NoCode = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Judge a run: did the assumptions hold, was the filter as good as its certificate, did the theorems hold.

    Measures at the models that the run kept (evaluation.measured_rounds), loads its data and builds its model: code
    that its configuration names, its rule and attack included (import, torch-dataset), is executed, data that it names
    are downloaded. With --no-code neither happens, and the run is judged by its records alone. Writes a plot, and
    changes nothing else in the folder.

    A deployment whose points only its clients have is judged by its records: cohorts, replies, skipped rounds, what its
    certificates prove. L, μ, σ² and κ² cannot be measured; if you know them, give them, and the theorems' conditions
    are checked and their bounds stated. There is no plot then. With a twin in its configuration it is measured like any
    run, but nobody knows who was Byzantine, so nothing can be contradicted.

    Where it "says nothing", a statement guarantees nothing for this run, so that the run kept to it means nothing: its
    failure probability is 1, or honest updates spread more than the σ₀ that it rests on in most measured rounds.

    Exit code 0 if nothing contradicts what is proved, 1 if a bound was exceeded although all its conditions held and
    the theorem leaves that a probability of 1 % at most.
    """
    given = locals()
    problem, protocol = given_numbers(CONSTANTS, given), given_numbers(NUMBERS, given)
    from steadfed.certification import PlanRequest, certify as judge, certify_records
    from steadfed.reports._render import terminal
    from steadfed.reports._render.image import check_kind
    from steadfed.reports._sections.theory import certification_panels

    if plot is not None:
        check_kind(plot)
    _check_options(path, [*problem, *protocol], plot, code=not no_code)
    request = PlanRequest(problem=problem, protocol=protocol, slack=slack, failure=failure)
    with Console(stderr=True).status("looking at the run"):
        if no_code:
            found = certify_records(path, request=request, sigma0=sigma0)
        else:
            found = judge(path, request=request, clients=clients, points=points, curvatures=curvatures, sigma0=sigma0)
    where = None if found.models is None else _write_plot(found, plot)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), allow_nan=False))
    else:
        terminal.show(*certification_panels(found))
        if where is not None:
            Console().print(where, highlight=False, soft_wrap=True, markup=False)
    if found.contradicted:
        raise typer.Exit(1)


def _check_options(path: Path, given: list[str], plot: Path | None, *, code: bool) -> None:
    """Refuse constants where they are measured, and a plot where nothing is."""
    from steadfed.runs import config_of
    from steadfed.server._folder import RunFolder

    here = config_of(RunFolder.open(path)).data.here
    if here and given:
        options = ", ".join(f"--{(CONSTANTS | NUMBERS)[name]}" for name in given)
        raise ParameterError(f"the data of {str(path)!r} are here, so constants are measured; leave out {options}")
    if plot is not None and not (here and code):
        why = f"the points of {str(path)!r} are with its clients" if not here else "--no-code measures nothing"
        raise ParameterError(f"there is nothing to draw: {why}; leave out --plot")


def _write_plot(found: Certification, plot: Path | None) -> str:
    """Write the plot and say where; or say why there is none, unless it was asked for and cannot be written."""
    from steadfed.reports._render.image import write_picture
    from steadfed.reports._sections.theory import bound_panel, filter_panel

    place = plot if plot is not None else found.path / PLOT
    try:
        write_picture([bound_panel(found), filter_panel(found)], place)
    except ImportError:
        return "no plot: matplotlib is not installed; get it with: pip install 'steadfed[plot]'"
    except ParameterError as error:
        if plot is not None:
            raise
        return f"no plot: {error}"
    return f"plot: {place}"
