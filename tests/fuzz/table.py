"""Every decoder that reads bytes of a client, of a visitor or of a foreign file."""

from __future__ import annotations

from importlib.util import find_spec

from tests.fuzz.clients import CLIENTS
from tests.fuzz.deployments import DEPLOYMENTS
from tests.fuzz.door import DOOR
from tests.fuzz.harness import Harness
from tests.fuzz.histories import HISTORIES
from tests.fuzz.orders import ORDERS
from tests.fuzz.runs import RUNS
from tests.fuzz.tables import TABLES

_MODULES = {
    "steadfed.flower._acceptance": ORDERS,
    "steadfed.flower.superlink": DOOR,
    "steadfed.server._verification": HISTORIES,
}
_NEW = tuple(each for module, listed in _MODULES.items() if find_spec(module) for each in listed)
HARNESSES: dict[str, Harness] = {each.name: each for each in (*CLIENTS, *_NEW, *RUNS, *TABLES, *DEPLOYMENTS)}
