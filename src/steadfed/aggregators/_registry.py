"""Every rule by name.

Wrappers are written before the rule they wrap, with a plus: "nnm+krum" is Krum on nearest-neighbour mixtures.
"""

from __future__ import annotations

from steadfed._core.naming import Registry
from steadfed.aggregators._base import Aggregator

RULES = Registry("rule", Aggregator)
"""Every rule by name: `RULES.build("krum", num_byzantine=2)`."""
