"""Algorithm 1: rounds of local steps, attack and aggregation.

Names are imported when they are asked for: a client of a deployment draws its batches as the simulator does, and needs
nothing else of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names

if TYPE_CHECKING:
    from steadfed.simulation._cohorts import (
        COHORTS,
        AlwaysCohorts,
        Cohorts,
        ListedCohorts,
        RoundRobinCohorts,
        UniformCohorts,
    )
    from steadfed.simulation._compression import COMPRESSIONS, Compression, NoCompression, RandomK
    from steadfed.simulation._config import ClientOptions, Evaluation, RunConfig, ServerOptions
    from steadfed.simulation._federation import Federation
    from steadfed.simulation._schedules import (
        SCHEDULES,
        ConstantSchedule,
        CosineSchedule,
        ExponentialSchedule,
        InverseSchedule,
        Schedule,
    )
    from steadfed.simulation._step_schedules import (
        STEP_SCHEDULES,
        ConstantSteps,
        ListedSteps,
        StepSchedule,
        UniformSteps,
    )
    from steadfed.simulation._tables import config_from_table, config_table
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_cohorts": ("COHORTS", "AlwaysCohorts", "Cohorts", "ListedCohorts", "RoundRobinCohorts", "UniformCohorts"),
            "_compression": ("COMPRESSIONS", "Compression", "NoCompression", "RandomK"),
            "_config": ("ClientOptions", "Evaluation", "RunConfig", "ServerOptions"),
            "_federation": ("Federation",),
            "_schedules": (
                "SCHEDULES",
                "ConstantSchedule",
                "CosineSchedule",
                "ExponentialSchedule",
                "InverseSchedule",
                "Schedule",
            ),
            "_step_schedules": ("STEP_SCHEDULES", "ConstantSteps", "ListedSteps", "StepSchedule", "UniformSteps"),
            "_tables": ("config_from_table", "config_table"),
        },
    )

__all__ = [
    "COHORTS",
    "COMPRESSIONS",
    "SCHEDULES",
    "STEP_SCHEDULES",
    "AlwaysCohorts",
    "ClientOptions",
    "Cohorts",
    "Compression",
    "ConstantSchedule",
    "ConstantSteps",
    "CosineSchedule",
    "Evaluation",
    "ExponentialSchedule",
    "Federation",
    "InverseSchedule",
    "ListedCohorts",
    "ListedSteps",
    "NoCompression",
    "RandomK",
    "RoundRobinCohorts",
    "RunConfig",
    "Schedule",
    "ServerOptions",
    "StepSchedule",
    "UniformCohorts",
    "UniformSteps",
    "config_from_table",
    "config_table",
]
