"""Runs for MLflow: metrics by round, the configuration as parameters, what it was made with as tags."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadfed.errors import ParameterError
from steadfed.exports._figures import ExportedRound, ExportedRun

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "steadfed"
"""Runs are found under this experiment unless somebody names another."""
IDENTITY = "steadfed.run"
"""The tag with the folder of a run and the checksum of its configuration."""
_ROUNDS = "steadfed.rounds"
"""The tag with how many rounds were exported."""
_PROVENANCE = "provenance."
_PARAMETERS_A_CALL = 100
_METRICS_A_CALL = 1_000
_LETTERS = 6_000
_DATABASES = re.compile(r"(sqlite|postgresql|mysql|mssql)[+:]")
_FOR_DATABASES = ("sqlalchemy", "alembic")
_REFUSED = re.compile(r"[^\w\-./ ]", re.ASCII)


def to_mlflow(path: Path, store: str, *, experiment: str = EXPERIMENT) -> str:
    """Write a run into a store of MLflow, and return the id it has there.

    A run that was exported before is continued: only rounds that are new are added. MLflow's telemetry is off.

    Args:
        path: the folder of the run.
        store: a tracking URI such as "sqlite:///mlflow.db" or "http://127.0.0.1:5000", or a folder.
        experiment: the experiment to put it into; made if it is not there.

    Raises:
        ParameterError: mlflow-skinny is not installed, or the store refuses.
        CorruptRunError: there is no run, or it is damaged.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["DO_NOT_TRACK"] = "true"
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # or folders are refused
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise ParameterError(
            "an export to MLflow needs mlflow-skinny; get it with: pip install 'steadfed[mlflow]'"
        ) from None
    uri = tracking_uri(store)
    _check_database(uri)
    run = ExportedRun(path)
    settings = run.settings()
    try:
        client = MlflowClient(tracking_uri=uri)
        return _export(client, run, settings, experiment)
    except ModuleNotFoundError as error:  # such as the driver of a database
        raise ParameterError(
            f"the store {store!r} needs the package {error.name!r}; install it, or name a folder with --out"
        ) from None
    except (MlflowException, OSError) as error:
        raise ParameterError(f"MLflow cannot write to {store!r}: {error}") from None


def tracking_uri(store: str) -> str:
    """Return the URI of a store; a plain path is a folder of files.

    >>> tracking_uri("sqlite:///mlflow.db"), tracking_uri("/tmp/mlruns")
    ('sqlite:///mlflow.db', 'file:///tmp/mlruns')
    """
    return store if re.match(r"[a-z][a-z+]+:", store) else Path(store).resolve().as_uri()


def _check_database(uri: str) -> None:
    """Refuse a database if what mlflow-skinny needs for one is not there: it would speak of its registry of models."""
    missing = [name for name in _FOR_DATABASES if find_spec(name) is None]
    if missing and _DATABASES.match(uri):
        raise ParameterError(
            f"the store {uri!r} needs {', '.join(missing)}; get what is missing with: pip install 'steadfed[mlflow]'"
        )


def _export(client: MlflowClient, run: ExportedRun, settings: dict[str, Any], experiment: str) -> str:
    found = client.get_experiment_by_name(experiment)
    place = client.create_experiment(experiment) if found is None else found.experiment_id
    identity = _identity(run, settings)
    runs = client.search_runs([place], filter_string=f"tags.`{IDENTITY}` = '{identity}'", max_results=1)
    done = int(runs[0].data.tags.get(_ROUNDS, "0")) if runs else 0
    number = str(runs[0].info.run_id) if runs else _create_run(client, run, settings, place, identity)
    last = _log_rounds(client, number, islice(run.rounds(), done, None))
    if run.folder().summary() is None:
        client.update_run(number, status="RUNNING")
    elif not runs or runs[0].info.status != "FINISHED":
        client.set_terminated(number, status="FINISHED", end_time=_milliseconds(last or run.start))
    return number


def _identity(run: ExportedRun, settings: dict[str, Any]) -> str:
    """Return what tells a run from others, without a letter that a filter of MLflow would take for its own."""
    seal = str(settings.get(f"{_PROVENANCE}config_sha256", "unsealed"))
    return _REFUSED.sub("_", f"{run.path.resolve()} {seal[:16]}")


def _create_run(client: MlflowClient, run: ExportedRun, settings: dict[str, Any], place: str, identity: str) -> str:
    """Make a run, with its parameters and tags, and return its id."""
    from mlflow.entities import Param

    origin = {_clean_name(key): str(value) for key, value in settings.items() if key.startswith(_PROVENANCE)}
    tags = {IDENTITY: identity, **origin}
    made = client.create_run(place, run_name=run.name, start_time=_milliseconds(run.start), tags=tags)
    number = str(made.info.run_id)
    parameters = [
        Param(_clean_name(key), str(value)[:_LETTERS])
        for key, value in settings.items()
        if not key.startswith(_PROVENANCE)
    ]
    for first in range(0, len(parameters), _PARAMETERS_A_CALL):
        client.log_batch(number, params=parameters[first : first + _PARAMETERS_A_CALL])
    return number


def _log_rounds(client: MlflowClient, number: str, rounds: Iterator[ExportedRound]) -> float | None:
    """Add the rounds, many in one call, and return when the last was over; None if there was none."""
    from mlflow.entities import Metric, RunTag

    last = None
    waiting: list[Any] = []
    for each in rounds:
        new = [
            Metric(_clean_name(name), value, _milliseconds(each.time), each.number)
            for name, value in each.figures.items()
        ]
        if last is not None and len(waiting) + len(new) > _METRICS_A_CALL:
            client.log_batch(number, metrics=waiting, tags=[RunTag(_ROUNDS, str(last.number + 1))])
            waiting = []
        waiting += new[:_METRICS_A_CALL]
        last = each
    if last is None:
        return None
    client.log_batch(number, metrics=waiting, tags=[RunTag(_ROUNDS, str(last.number + 1))])
    return last.time


def _clean_name(name: str) -> str:
    """Return a name with letters that MLflow refuses replaced; parts such as ".." would be paths."""
    plain = _REFUSED.sub("_", name)[:250]
    return "/".join(part if part.strip(".") else "_" for part in plain.split("/"))


def _milliseconds(seconds: float) -> int:
    return round(1_000 * seconds)
