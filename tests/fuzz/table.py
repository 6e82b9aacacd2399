"""Every decoder that reads bytes of a client, of a visitor or of a foreign file."""

from __future__ import annotations

from tests.fuzz.clients import CLIENTS
from tests.fuzz.deployments import DEPLOYMENTS
from tests.fuzz.door import DOOR
from tests.fuzz.harness import Harness
from tests.fuzz.histories import HISTORIES
from tests.fuzz.orders import ORDERS
from tests.fuzz.runs import RUNS
from tests.fuzz.statements import STATEMENTS
from tests.fuzz.tables import TABLES

_ALL = (*CLIENTS, *ORDERS, *DOOR, *HISTORIES, *STATEMENTS, *RUNS, *TABLES, *DEPLOYMENTS)
HARNESSES: dict[str, Harness] = {each.name: each for each in _ALL}
