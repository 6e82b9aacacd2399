"""The run that honest nodes alone would have made, in this process."""

from __future__ import annotations

from typing import Any

import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from tests.flower.federations import clocked
from tests.flower.grids import ScriptedGrid
from tests.flower.integration.app.drilled.numbers import LIAR, LOCAL_STEPS, LR, Arrays, initial, trained

from steadfed.flower import RageStrategy

_FIRST = 101
"""The id of node 0."""


def honest_only(rounds: int, *, absent: int = LIAR) -> Arrays:
    """Return the last model of the same strategy if one of the four nodes never answers."""
    nodes = {_FIRST + number: number for number in range(4)}

    def answer(node: int, message: Message) -> Message | None:
        if nodes[node] == absent:
            return None
        sent: Any = message.content["arrays"]
        received = {name: array.numpy() for name, array in sent.items()}
        arrays = {name: Array(values) for name, values in trained(received, nodes[node]).items()}
        metrics = MetricRecord({"num-examples": 10 * (nodes[node] + 1), "loss": 0.5 + nodes[node]})
        return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)

    strategy = RageStrategy(
        num_malicious_nodes=1,
        num_train_nodes=4,
        fraction_evaluate=0.0,
        lr=LR,
        local_steps=LOCAL_STEPS,
        batch_size="full",
        nodes=nodes,
    )
    with pytest.MonkeyPatch.context() as patches:
        grid = ScriptedGrid(answer, nodes, clock=clocked(patches))
        first = ArrayRecord({name: Array(values) for name, values in initial().items()})
        result = strategy.start(grid, first, num_rounds=rounds, timeout=60.0)
    assert result.arrays is not None
    assert not any(record.skipped for record in strategy.records)
    return {name: array.numpy() for name, array in result.arrays.items()}
