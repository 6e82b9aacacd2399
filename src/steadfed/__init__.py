"""steadfed: federated learning that keeps learning when some of the clients lie.

The names that most people need are here: every rule and what a rule is made of, runs and their history, and errors.
They are imported when they are first used: `import steadfed` is cheap and does not load torch.
"""

# ruff: noqa: F403, F405  a type checker reads from steadfed.aggregators what the rules are

import typing as _typing

from steadfed import errors
from steadfed._core import version as _version
from steadfed._core.lazy import lazy_names as _lazy_names

__version__ = _version.VERSION

__all__ = [
    "RULES",
    "AdaptiveClipping",
    "Aggregation",
    "Aggregator",
    "BoundedAggregator",
    "Bucketing",
    "Bulyan",
    "Caf",
    "CenteredClipping",
    "Certificate",
    "Claim",
    "Clipping",
    "Clustered",
    "Dnc",
    "FlTrust",
    "Flame",
    "FoolsGold",
    "GeometricMedian",
    "ImportedRule",
    "Krum",
    "LooselyBoundedAggregator",
    "Mean",
    "MeanAroundMedian",
    "Median",
    "MedianOfMeans",
    "Memory",
    "MinimumDiameter",
    "MinorityAggregator",
    "MultiKrum",
    "NearestNeighborMixing",
    "Need",
    "NormFilter",
    "Rage",
    "Rfa",
    "Rsa",
    "RunConfig",
    "RunHistory",
    "ServerView",
    "SignGuard",
    "Slsgd",
    "SmallestSpread",
    "Stop",
    "TrimmedMean",
    "Updates",
    "Wrapper",
    "Zeno",
    "aggregate_state_dicts",
    "errors",
    "open_run",
    "report",
    "resume",
    "run",
]

if _typing.TYPE_CHECKING:
    from steadfed.aggregators import *
    from steadfed.reports import report
    from steadfed.runs._play import resume, run
    from steadfed.server import RunHistory, open_run
    from steadfed.simulation import RunConfig
    from steadfed.states import aggregate_state_dicts
else:
    _OTHERS = {
        "reports": ("report",),
        "runs._play": ("resume", "run"),
        "server": ("RunHistory", "open_run"),
        "simulation": ("RunConfig",),
        "states": ("aggregate_state_dicts",),
    }
    _ELSEWHERE = {"errors"}.union(*_OTHERS.values())
    _RULES = tuple(name for name in __all__ if name not in _ELSEWHERE)
    __getattr__, __dir__ = _lazy_names(__name__, {"aggregators": _RULES, **_OTHERS}, always=("__version__", "errors"))
