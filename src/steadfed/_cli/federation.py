"""`steadfed federation`: a SuperLink and SuperNodes of Flower on this machine, in one command."""

from __future__ import annotations

import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from steadfed._cli.following import TRIES, Following, say
from steadfed._cli.outcome import exit_unless_success
from steadfed._cli.show import show
from steadfed._core.wording import plural
from steadfed.errors import ParameterError, RunError
from steadfed.server._places import reserve_folder

if TYPE_CHECKING:
    from steadfed.deploy import RunStatus, SubmittedRun
    from steadfed.deploy._deployment import NodeStatus
    from steadfed.reports.panels import Value

app = typer.Typer(
    help="Start, use and stop a Flower federation on this machine: a SuperLink and SuperNodes on loopback. "
    "Needs the extra `flower` of steadfed.",
    no_args_is_help=True,
)
FOLDER = Path(".steadfed-federation")
Folder = Annotated[
    Path, typer.Option("--folder", help="The folder of the federation: state, keys, database, logs. Commands share it.")
]
LAST_LINES = 25
"""How much of its log a failed run shows."""
_MOST_DIGITS = 6
"""Of the number of a node."""


@app.command("up")
def up(
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="How many SuperNodes, numbered from 0.")] = 4,
    byzantine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=ATTACK",
            help="Make a node Byzantine, as a drill: 4=sign-flip, 3=all-nan, 2=stall. An attack that needs only its "
            "own update, a malformed reply, crash, exit or stall; a wrong name is answered with all. The app must "
            "look at `attack` in its node config, as the Flower example does; repeatable.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NODE.KEY=VALUE",
            help="Set a value in the node config of a node: 2.name=Zurich, 0.delay=1.5. Every node has "
            "partition-id, num-partitions and name (its number); repeatable.",
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure/--insecure",
            help="TLS, and only nodes with registered keys are let in; or neither. Keys and certificates are made.",
        ),
    ] = True,
    port: Annotated[
        int | None, typer.Option(help="Port of the SuperLink; nodes get the next ones. Free ones if left out.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address, besides loopback, that the server certificate is good for; repeatable."),
    ] = None,
    days: Annotated[int, typer.Option(help="How long new certificates are valid.")] = 365,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds that a process may take to start.")] = 90.0,
    folder: Folder = FOLDER,
) -> None:
    """Start a SuperLink and SuperNodes on loopback, and return when all nodes are online.

    They run on until `steadfed federation down`. A folder whose federation was taken down is used again, with the same
    keys, node ids and database. nodes.json in the folder says which node id belongs to which name, and every node is
    told the public key that the server's orders are signed with (server-key).

    Exit code 0, or 2 if something could not be started: then nothing is left running.
    """
    from steadfed.deploy import LocalDeployment

    configs = _node_configs(byzantine or [], set_ or [])
    say(f"Starting a SuperLink and {plural(nodes, 'node')} …")
    with _interruptible():
        deployment = LocalDeployment.up(
            folder,
            nodes=nodes,
            secure=secure,
            node_configs=configs,
            port=port,
            hosts=host or [],
            days=days,
            timeout=timeout,
            detached=True,
        )
    mode = "TLS and node keys" if secure else "no TLS, no keys: anybody on this machine may join"
    say(f"{plural(nodes, 'node')} online at 127.0.0.1:{deployment.superlink.state.port} ({mode}). Next:")
    where = "" if folder == FOLDER else f" --folder {shlex.quote(str(folder))}"
    for verb in ("run APP", "status", "down"):
        say(f"  steadfed federation {verb}{where}")


@app.command("run")
def run(
    application: Annotated[Path, typer.Argument(metavar="APP", help="The folder of a Flower app.")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the app (tool.flwr.app.config in its pyproject.toml); repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the run, for apps with the setting run-folder; runs/APP-1 (or -2, …) if left out. One "
            "that holds an unfinished run is continued."
        ),
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=1.0, help="Stop the run after so many seconds.")] = None,
    tries: Annotated[
        int,
        typer.Option(
            min=1,
            help="How often the run is submitted in all, if Flower ends it and its folder can be continued.",
        ),
    ] = TRIES,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but the folder of the run.")] = False,
    folder: Folder = FOLDER,
) -> None:
    """Run a Flower app on the federation and show its rounds as they come.

    The app's code is executed, by the SuperLink's processes and by every node. An app with the settings run-folder,
    nodes and signing-key learns where its run is, who the nodes are and with which key its orders are signed; its
    rounds are shown on stderr, with the names of those who were removed or silent, how often by now, whom the round in
    progress waits for, and what came of it at the end. Of other apps the log is shown. Ctrl-C stops the run, not the
    nodes: `steadfed federation down` does.

    A run that Flower marks as failed (its server app was killed, or gave no sign of life; the SuperLink was away) is
    submitted again after a pause and goes on where it was, as long as --tries allow: not if the app itself failed
    before it finished a round, nor after two failures in a row without a new round.

    Exit code 0, or 1 if the run failed, or 2 if it could not start, was stopped by --timeout or the SuperLink stayed
    away, or 3 if it went to its end and is no success, or 130 if it was stopped by Ctrl-C. A run is no success if every
    round was skipped, or if in some round more clients were silent than are assumed to be Byzantine; stderr says why
    and names them.
    """
    from steadfed.deploy import LocalDeployment
    from steadfed.deploy._submission import app_config

    deployment = LocalDeployment.attach(folder)
    known, settings = app_config(application), _settings(set_ or [])
    if out is not None and "run-folder" not in known:
        raise ParameterError(
            f"the app {str(application)!r} has no setting run-folder, so --out {str(out)!r} means nothing to it"
        )
    place = _run_folder(application, known, settings, out)
    if "nodes" in known:
        settings.setdefault("nodes", str(deployment.folder.roster))
    with _interruptible(), _removed_if_empty(place):
        following = Following(deployment, application, settings, place, _rounds({**known, **settings}), quiet)
        submitted, status = following.to_the_end(tries, timeout)
        _report(submitted, status, place, quiet=quiet)


@app.command("status")
def status(folder: Folder = FOLDER) -> None:
    """Show which processes run, which nodes are online, and the runs that the SuperLink knows.

    Exit code 0 if the SuperLink runs and every node is online, 1 if not, 2 if there is no federation in the folder.
    """
    from steadfed.deploy import LocalDeployment
    from steadfed.reports._render import terminal
    from steadfed.reports.panels import Column, Table

    found = LocalDeployment.attach(folder).status()
    console = Console()
    mode = "TLS and node keys" if found.secure else "no TLS"
    link = f"process {found.superlink}" if found.superlink else "does not run"
    console.print(f"SuperLink: 127.0.0.1:{found.port}, {mode}, {link}", highlight=False)
    if found.note:
        console.print(found.note, highlight=False, markup=False)
    columns = (
        Column(title="node"),
        Column(title="name", name=True),
        Column(title="state"),
        Column(title="process", minor=True),
        Column(title="node id", name=True),
        Column(title="settings", hint="besides the usual ones"),
    )
    rows = tuple(_status_row(index, node) for index, node in enumerate(found.nodes))
    terminal.show(Table(key="nodes", title="", columns=columns, rows=rows))
    for run_id, state in found.runs.items():
        console.print(f"run {run_id}: {state}", highlight=False)
    if not found.healthy:
        raise typer.Exit(1)


def _status_row(index: int, node: NodeStatus) -> tuple[Value, ...]:
    state = "online" if node.online else "starting or cut off" if node.pid else "does not run"
    usual = {"partition-id", "num-partitions", "name"}
    others = ", ".join(f"{key}={value}" for key, value in node.config.items() if key not in usual)
    return index, str(node.client), state, node.pid or None, str(node.node_id) if node.node_id else None, others


@app.command("drill")
def drill(
    node: Annotated[int, typer.Argument(help="The number of the node whose key is used.")],
    name: Annotated[
        str, typer.Argument(metavar="DRILL", help="What it does; a wrong name is answered with all of them.")
    ],
    rounds: Annotated[int, typer.Option(min=1, help="How many messages of the server are answered so.")] = 1,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds to wait for them.")] = 600.0,
    folder: Folder = FOLDER,
) -> None:
    """Let a node attack the SuperLink itself, as a drill, while a run goes on.

    The SuperNode is stopped, and in its place a hostile one answers the messages of a run that was started in another
    terminal: many-objects, large-object, preregistered-id, orders-to-neighbours, withheld-reply, trickled-reply,
    interrupted-reply, late-reply. For each the status is printed that the SuperLink answered with; what it refused is
    in its log, with the node's id. At the end the SuperNode is started again. What came of the run says `steadfed
    audit`. Play it against federations of your own.

    Exit code 0 if it was played so often, 1 if no message came in time, 2 if it could not begin, 130 after Ctrl-C.
    """
    from steadfed._core.lookup import find
    from steadfed.deploy import LocalDeployment
    from steadfed.deploy._drills import in_place_of
    from steadfed.flower.redteam import DRILLS

    find("drill of a hostile node", name, DRILLS)
    deployment = LocalDeployment.attach(folder)
    if not deployment.superlink.is_running:
        raise RunError(f"the federation in {str(folder)!r} does not run; start it with `steadfed federation up`")
    with _interruptible():
        with in_place_of(deployment, node) as hostile:
            say(f"node {node} plays {name} …")
            played = hostile.play(name, rounds=rounds, patience=timeout)
        for status in played:
            typer.echo(f"{name}: {status} {HTTPStatus(status).phrase}")
    if len(played) < rounds:
        say(f"{plural(rounds - len(played), 'message')} did not come within {timeout:g} s; is there a run?")
        raise typer.Exit(1)


@app.command("down")
def down(
    folder: Folder = FOLDER,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the folder too: keys, node ids, database and logs are gone.")
    ] = False,
) -> None:
    """Stop everything that was started in the folder, by force if need be; a second time nothing happens.

    Also after a crash of the machine. Runs and the folder are kept, so `steadfed federation up` goes on with them.

    Exit code 0, or 2 if there is no federation in the folder.
    """
    from steadfed.deploy import LocalDeployment

    deployment = LocalDeployment.attach(folder)
    running = sum(service.is_running for service in deployment.services)
    deployment.down()
    say(f"stopped {plural(running, 'process', 'processes')}" if running else "nothing was running")
    if delete:
        shutil.rmtree(deployment.folder.path)
        say(f"deleted {folder}")


def _node_configs(byzantine: list[str], settings: list[str]) -> dict[int, dict[str, Any]]:
    """Return what the nodes are told besides the usual; an attack that no node can do alone is refused."""
    configs: dict[int, dict[str, Any]] = {}
    for text in byzantine:
        from steadfed.flower.redteam import byzantine as check_attack

        node, _, attack = text.partition("=")
        if not _is_node(node) or not attack:
            raise ParameterError(f"--byzantine takes NODE=ATTACK, such as 4=sign-flip, got {text!r}")
        if int(node) in configs:
            raise ParameterError(
                f"--byzantine names node {node} twice; a node has one attack (the second was {attack!r})"
            )
        check_attack(attack)
        configs[int(node)] = {"attack": attack}
    for text in settings:
        node, _, rest = text.partition(".")
        key, equals, value = rest.partition("=")
        if not _is_node(node) or not key or not equals:
            raise ParameterError(f"--set takes NODE.KEY=VALUE, such as 2.name=Zurich, got {text!r}")
        configs.setdefault(int(node), {})[key] = _settings([f"{key}={value}"])[key]
    return configs


def _is_node(text: str) -> bool:
    """Tell whether a text is the number of a node; one of thousands of digits is none that Python reads."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _settings(texts: list[str]) -> dict[str, Any]:
    from steadfed.runs._files import parse_assignment

    return dict(parse_assignment(text) for text in texts)


def _run_folder(application: Path, known: dict[str, Any], settings: dict[str, Any], out: Path | None) -> Path | None:
    """Return where the run will lie, as the app is told; None if it has no such setting."""
    if "run-folder" not in known:
        return None
    if out is None and settings.get("run-folder"):
        out = Path(settings["run-folder"])
    place = out if out is not None else reserve_folder(application.resolve().name)
    settings["run-folder"] = str(place.absolute())
    return place


@contextmanager
def _removed_if_empty(place: Path | None) -> Iterator[None]:
    """Keep the folder that was made for a run, unless nothing came of it."""
    try:
        yield
    finally:
        if place is not None:
            with suppress(OSError):  # it holds something
                place.rmdir()


def _rounds(settings: dict[str, Any]) -> int:
    """Return how many rounds the settings of any app speak of, to show how far it is."""
    rounds = settings.get("rounds")
    return rounds if isinstance(rounds, int) and rounds > 0 else 1


def _report(submitted: SubmittedRun, status: RunStatus, place: Path | None, *, quiet: bool) -> None:
    """Show what came of a run; of one that failed, the end of its log."""
    if not status.completed:
        lines = submitted.output().splitlines()[-LAST_LINES:]
        why = f": {status.details}" if status.details else ""
        say("\n".join([*lines, f"run {submitted.run_id} {status.status}{why}; its log is {submitted.log}"]))
        raise typer.Exit(1)
    if place is None:
        say(submitted.output().strip(), quiet=quiet)
    elif (place / "config.toml").is_file():
        if quiet:
            typer.echo(str(place))
        else:
            show([place])
        exit_unless_success(place)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, and end with the exit code that says so."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        say("stopped")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
