"""Every decoder that reads bytes of a client, of a visitor or of a foreign file."""

from __future__ import annotations

from importlib.util import find_spec

from tests.fuzz.clients import CLIENTS
from tests.fuzz.deployments import DEPLOYMENTS
from tests.fuzz.harness import Harness
from tests.fuzz.orders import ORDERS
from tests.fuzz.runs import RUNS
from tests.fuzz.tables import TABLES

_ORDERS = ORDERS if find_spec("steadfed.flower._acceptance") else ()
HARNESSES: dict[str, Harness] = {each.name: each for each in (*CLIENTS, *_ORDERS, *RUNS, *TABLES, *DEPLOYMENTS)}
