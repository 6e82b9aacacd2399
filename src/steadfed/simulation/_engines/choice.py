"""Which engine takes a task: the one that was named, or the fastest that can."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from steadfed._core.lookup import find
from steadfed.errors import ParameterError
from steadfed.simulation._engines.base import Engine, EngineRefusalError
from steadfed.simulation._engines.loop import LoopEngine
from steadfed.simulation._engines.stacked import StackedEngine
from steadfed.simulation._engines.vmapped import VmapEngine
from steadfed.simulation._local import TrainingTask

ENGINES: Mapping[str, type[Engine]] = {
    StackedEngine.name: StackedEngine,
    VmapEngine.name: VmapEngine,
    LoopEngine.name: LoopEngine,
}
_LOOPED: tuple[type[nn.Module], ...] = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.RNNBase,
)
"""Layers that vmap makes slower on a CPU: its grouped convolutions take 1.1 to 1.6 times as long as a loop."""


def choose(name: str, task: TrainingTask) -> tuple[Engine, str]:
    """Return the engine for a task and one line that says why it is this one.

    Args:
        name: "auto", or the name of an engine.
        task: what it must do.

    Raises:
        UnknownNameError: no engine has this name.
        ParameterError: the named engine cannot do the task.
    """
    if name == "auto":
        return _fastest(task)
    try:
        return find("engine", name, ENGINES)(task), "as configured"
    except EngineRefusalError as refusal:
        raise ParameterError(
            f"engine {name!r} cannot train this model: {refusal}; use engine = 'auto' or 'loop'"
        ) from None


def _fastest(task: TrainingTask) -> tuple[Engine, str]:
    """Ask the engines in the order of their speed."""
    try:
        return StackedEngine(task), "the model is a stack of Linear and ReLU layers"
    except EngineRefusalError as refusal:
        no_stack = str(refusal)
    slow = _slow_under_vmap(task)
    if slow is not None:
        return LoopEngine(task), f"on a CPU a loop is faster than vmap for {slow}"
    try:
        return VmapEngine(task), f"vmap, as {no_stack}"
    except EngineRefusalError as refusal:
        return LoopEngine(task), f"a loop, as {refusal}"


def _slow_under_vmap(task: TrainingTask) -> str | None:
    """Return the kind of a layer of the model for which vmap is slower than a loop, if there is one."""
    if next(task.module.parameters()).device.type != "cpu":
        return None
    return next((type(part).__name__ for part in task.module.modules() if isinstance(part, _LOOPED)), None)
