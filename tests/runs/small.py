"""Small runs in folders."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from tests.simulation.small import classes, config as small_config

from steadfed.aggregators import CenteredClipping
from steadfed.attacks import FractionMembers, Mimic
from steadfed.models import ImportedModel
from steadfed.runs import Run
from steadfed.server._folder import RunFolder
from steadfed.simulation import ClientOptions, RunConfig, ServerOptions

ROUNDS = 5


def remembering(**changes: Any) -> RunConfig:
    """Return a configuration in which everything that can be remembered is: momentum, buffers, the rule, the attack."""
    options: dict[str, Any] = {
        "rounds": ROUNDS,
        "rule": CenteredClipping(),
        "attack": Mimic(warm_up=4),
        "byzantine": FractionMembers(fraction=0.3),
        "model": ImportedModel(factory="tests.simulation.modules:normalised"),
        "client": ClientOptions(momentum=0.5, erasure_rate=0.1),
        "server": ServerOptions(momentum=0.5),
    }
    return small_config(**(options | changes))


def whole_run(config: RunConfig, path: Path) -> RunFolder:
    """Return the folder of a run that nothing interrupted."""
    run = Run.start(config, path, dataset=classes())
    assert len(list(run.play())) == config.rounds
    return run.folder


def interrupted_run(config: RunConfig, path: Path, rounds: int) -> RunFolder:
    """Return the folder of a run that somebody stopped after so many rounds."""
    run = Run.start(config, path, dataset=classes())
    rest = run.play()
    assert len(list(islice(rest, rounds))) == rounds
    rest.close()
    return run.folder
