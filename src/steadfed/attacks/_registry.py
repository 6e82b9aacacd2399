"""Every attack by name.

Attacks that steer another are written before it, with a plus: "sleeper+sign-flip" flips signs after a while.
"""

from __future__ import annotations

from steadfed._core.naming import Registry
from steadfed.attacks._base import Attack

ATTACKS = Registry("attack", Attack)
"""Every attack by name: `ATTACKS.build("sleeper+sign-flip")`."""
