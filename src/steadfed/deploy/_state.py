"""What is remembered of a deployment: its processes, its ports, what its nodes are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, final

import psutil
from pydantic import Field

from steadfed._core.values import ValueObject
from steadfed.deploy._processes import find_process

VERSION = 2
Port = Annotated[int, Field(ge=1, le=65535)]
ConfigValue = bool | int | float | str
NodeConfig = Mapping[str, ConfigValue]


@final
class ProcessState(ValueObject):
    """A process as it was started last."""

    port: Port
    pid: int | None = None
    """Its number; None if it was stopped or never started."""
    created: float = 0.0
    """When it was created, to tell it from others with its number."""
    log_start: int = 0
    """Where in the log it began to print."""

    def find(self) -> psutil.Process | None:
        """Return the process; None if it does not run."""
        return None if self.pid is None else find_process(self.pid, self.created)


@final
class NodeState(ValueObject):
    """A SuperNode as it was started last."""

    process: ProcessState
    config: NodeConfig
    """What it is told about itself."""
    registered: bool = True
    """Whether the SuperLink was told its key."""
    node_id: int | None = None
    """What the SuperLink calls it."""


@final
class DeploymentState(ValueObject):
    """What runs, as it is written down."""

    version: Annotated[int, Field(ge=VERSION, le=VERSION)] = VERSION
    secure: bool
    marker: str
    """What the processes of this deployment carry in their environment."""
    superlink: ProcessState
    superexec: ProcessState
    """Its port is the SuperLink's, to which it connects."""
    nodes: tuple[NodeState, ...]

    def processes(self) -> list[psutil.Process]:
        """Return the processes that run."""
        states = (self.superlink, self.superexec, *(node.process for node in self.nodes))
        return [process for process in (state.find() for state in states) if process is not None]

    @property
    def ports(self) -> list[int]:
        """The SuperLink's port and those of the nodes."""
        return [self.superlink.port, *(node.process.port for node in self.nodes)]
