"""steadfed: federated learning that keeps learning when some of the clients lie.

The names that most people need are here: every rule and what a rule is made of, runs and their history, and errors.
They are imported when they are first used: `import steadfed` is cheap and does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from steadfed import errors as errors

if TYPE_CHECKING:
    from steadfed.aggregators import *  # noqa: F403  the rules, which are named there
    from steadfed.reports import report as report
    from steadfed.runs._play import resume as resume, run as run
    from steadfed.server import RunHistory as RunHistory, open_run as open_run
    from steadfed.simulation import RunConfig as RunConfig

__version__ = "0.1.0"

_RULES = "steadfed.aggregators"
_OTHERS = {
    "RunConfig": "steadfed.simulation",
    "RunHistory": "steadfed.server",
    "open_run": "steadfed.server",
    "report": "steadfed.reports",
    "resume": "steadfed.runs._play",
    "run": "steadfed.runs._play",
}
"""Where the names live that are not those of the rules."""


def __dir__() -> list[str]:
    """Return the public names; this imports the rules, and so torch."""
    return sorted(["__version__", "errors", *_OTHERS, *filter(_is_class, vars(import_module(_RULES)))])


def _is_class(name: str) -> bool:
    """Tell names of classes and registries from those of modules and what begins with an underscore."""
    return name[:1].isupper()


if not TYPE_CHECKING:  # with it, a type checker would believe in every name

    def __getattr__(name: str) -> Any:
        """Import what is asked for."""
        module = _OTHERS.get(name) or (_RULES if _is_class(name) else None)
        if module is None or not hasattr(import_module(module), name):
            raise AttributeError(f"module 'steadfed' has no attribute {name!r}")
        return getattr(import_module(module), name)
