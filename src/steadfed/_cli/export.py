"""`steadfed export`: runs for the tools that people have open already."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from steadfed._core.wording import harmless
from steadfed.errors import ParameterError

_EVENTS = "tensorboard"
_STORE = "sqlite:///mlflow.db"


class Tool(Enum):
    """Who shall be able to read the runs."""

    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"


def export(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders that hold such folders.")
    ],
    to: Annotated[Tool, typer.Option(help="Who shall be able to read them.")],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URI",
            help=f"TensorBoard: the log folder, ./{_EVENTS} if left out. MLflow: a tracking URI or a folder, {_STORE} "
            "if left out.",
        ),
    ] = None,
    experiment: Annotated[str | None, typer.Option(help="MLflow: the experiment; steadfed if left out.")] = None,
) -> None:
    """Write runs for TensorBoard or MLflow: figures by round, the configuration as hyperparameters.

    May be given again while a run goes on: TensorBoard's file is replaced as a whole, MLflow gets the rounds that are
    new. Nothing is sent anywhere but to the URI you name.
    """
    if experiment is not None and to is Tool.TENSORBOARD:
        raise ParameterError(
            f"experiments are MLflow's, got --experiment {experiment!r} with --to tensorboard; leave it out"
        )
    from steadfed.exports import to_mlflow, to_tensorboard
    from steadfed.exports._mlflow import EXPERIMENT
    from steadfed.server._folder import runs_in

    console = Console(highlight=False, markup=False, soft_wrap=True)
    for given, path in [(each, run) for each in paths for run in runs_in(each)]:
        if to is Tool.TENSORBOARD:
            name = None if path == given else path.relative_to(given).as_posix()
            where = str(to_tensorboard(path, Path(out or _EVENTS), name=name))
        else:
            where = f"run {to_mlflow(path, out or _STORE, experiment=experiment or EXPERIMENT)}"
        console.print(f"{harmless(path)}: {harmless(where)}")
    viewer = (
        f"tensorboard --logdir {out or _EVENTS}"
        if to is Tool.TENSORBOARD
        else f"mlflow ui --backend-store-uri {out or _STORE}"
    )
    console.print(f"see them with: {harmless(viewer)}")
