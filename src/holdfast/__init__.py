"""holdfast: federated learning that keeps learning when some of the clients lie.

`import holdfast` is cheap: torch is imported when the first rule is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.aggregators import Aggregation, Aggregator, Rage, Stop

__version__ = "0.1.0"
__all__ = ["Aggregation", "Aggregator", "Rage", "Stop", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the rules when one of them is first used."""
    if name in __all__:
        return getattr(import_module("holdfast.aggregators"), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
