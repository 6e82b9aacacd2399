"""Every decoder that reads bytes of a client, of a visitor or of a foreign file."""

from __future__ import annotations

from tests.fuzz.clients import CLIENTS
from tests.fuzz.deployments import DEPLOYMENTS
from tests.fuzz.harness import Harness
from tests.fuzz.runs import RUNS
from tests.fuzz.tables import TABLES

HARNESSES: dict[str, Harness] = {each.name: each for each in (*CLIENTS, *RUNS, *TABLES, *DEPLOYMENTS)}
