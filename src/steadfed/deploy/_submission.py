"""A run that was handed to a SuperLink: how far it is, what it printed, how it ended."""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, final

import tomli_w

from steadfed._core.lookup import nearest
from steadfed._core.parsing import parse_toml
from steadfed._core.values import ValueObject, dotted_table
from steadfed.deploy._flower_commands import Flwr
from steadfed.deploy._processes import launch, read_log
from steadfed.deploy._state import ConfigValue
from steadfed.errors import ParameterError, RunError

LOOK = 0.5
"""Seconds between two looks at a run."""
LONGEST_SILENCE = 300.0
"""Seconds after which a SuperLink that does not answer is given up."""
LONGEST_PAUSE = 60.0
"""Seconds without a new line in the log after which the SuperLink is asked whether the run goes on."""


@final
class RunStatus(ValueObject):
    """What the SuperLink says of a run."""

    status: str
    """pending, starting, running, finished:completed, finished:failed or finished:stopped."""
    details: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing more will come."""
        return self.status.startswith("finished")

    @property
    def completed(self) -> bool:
        """Whether it came to its end."""
        return self.status == "finished:completed"


@final
class SubmittedRun:
    """A run of an app on a deployment."""

    def __init__(self, flwr: Flwr, run_id: int) -> None:
        self.run_id = run_id
        self.log = flwr.folder.log(f"run-{run_id}")
        """What the ServerApp printed; complete when `wait` has returned."""
        self._flwr = flwr

    def status(self) -> RunStatus:
        """Ask the SuperLink how far the run is.

        Raises:
            RunError: the SuperLink does not answer, or knows of no such run.
        """
        runs = self._flwr("list", "@", "--run-id", str(self.run_id)).get("runs", [])
        if not runs:
            raise RunError(f"the SuperLink knows no run {self.run_id}")
        return status_of(runs[0])

    def wait(self, timeout: float | None = None, *, look: Callable[[], object] = lambda: None) -> RunStatus:
        """Wait until the run is finished, and return how it ended.

        What the ServerApp prints goes to `log` meanwhile. A SuperLink that is gone may come back within five minutes.

        Args:
            timeout: seconds after which it is given up; never if left out.
            look: called twice a second while the run goes on, and once more at its end.

        Raises:
            RunError: the time is over, or the SuperLink did not come back.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        silent_since: float | None = None
        while True:
            with closing(self._read_log()) as reading:
                for _ in reading:
                    look()
                    self._check_time(deadline, timeout)
            try:
                status = self.status()
            except RunError as error:  # the SuperLink may be away
                silent_since = silent_since or time.monotonic()
                self._check_silence(silent_since, error)
            else:
                silent_since = None
                if status.finished:
                    look()
                    return status
            self._check_time(deadline, timeout)
            time.sleep(LOOK)
            look()

    def _read_log(self) -> Generator[None, None, None]:
        """Fetch the log from its beginning and on, until it ends or nothing has come for a while."""
        self.log.unlink(missing_ok=True)
        command = self._flwr.words("log", str(self.run_id), "@")
        reader = launch(command, self.log, self._flwr.environment(), self._flwr.folder.path)
        size, grown = 0, time.monotonic()
        try:
            while reader.poll() is None and time.monotonic() - grown < LONGEST_PAUSE:
                if self.log.stat().st_size > size:
                    size, grown = self.log.stat().st_size, time.monotonic()
                yield
                with suppress(subprocess.TimeoutExpired):
                    reader.wait(LOOK)
        finally:
            reader.kill()
            reader.wait()

    def stop(self) -> None:
        """Stop it; one that is finished stays as it is."""
        with suppress(RunError):
            self._flwr("stop", str(self.run_id), "@")

    def output(self) -> str:
        """Return what the ServerApp printed, as far as it was followed."""
        return read_log(self.log)

    def _check_time(self, deadline: float, timeout: float | None) -> None:
        if time.monotonic() > deadline:
            raise RunError(f"run {self.run_id} was not finished after {timeout:g} s; its log is {self.log}")

    def _check_silence(self, since: float, error: RunError) -> None:
        if time.monotonic() - since > LONGEST_SILENCE:
            raise RunError(
                f"the SuperLink has said nothing about run {self.run_id} for {LONGEST_SILENCE:.0f} s ({error}); look "
                f"with `steadfed federation status`. A run with a folder can be continued from it"
            ) from None


def status_of(entry: Mapping[str, Any]) -> RunStatus:
    """Return what an entry of `flwr list` says."""
    details = str(entry.get("status-details") or "")
    return RunStatus(status=str(entry.get("status", "")), details="" if details == "N/A" else details)


def app_config(app: Path) -> dict[str, Any]:
    """Return the settings of an app with their defaults, by their names.

    Raises:
        ParameterError: there is no app in the folder.
    """
    project = app / "pyproject.toml"
    try:
        table = parse_toml(project.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ParameterError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise ParameterError(f"{str(app)!r} is not a Flower app: cannot read its pyproject.toml ({what})") from None
    described: Any = table
    for name in ("tool", "flwr", "app"):
        described = described.get(name) if isinstance(described, dict) else None
    if not isinstance(described, dict):
        raise ParameterError(f"{str(app)!r} is not a Flower app: {project} has no table [tool.flwr.app]")
    config = described.get("config", {})
    if not isinstance(config, dict):
        raise ParameterError(f"{str(app)!r} is not a Flower app: its config must be a table, got {config!r:.80}")
    return dotted_table(config)


def submit(flwr: Flwr, app: Path, run_config: Mapping[str, ConfigValue]) -> SubmittedRun:
    """Hand an app to the SuperLink.

    Raises:
        ParameterError: there is no app, or it has no such setting; the message names the nearest one.
        RunError: Flower refuses it.
    """
    known = app_config(app)
    for key in run_config:
        if key not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ParameterError(f"the app {str(app)!r} has no setting {key!r}{nearest(key, known)}; known: {listed}")
    with tempfile.NamedTemporaryFile(suffix=".toml", dir=flwr.folder.path) as file:
        file.write(tomli_w.dumps(dict(run_config)).encode())
        file.flush()
        settings = ("--run-config", file.name) if run_config else ()
        answered = flwr("run", str(app.resolve()), "@", *settings)
    return SubmittedRun(flwr, int(answered["run-id"]))
