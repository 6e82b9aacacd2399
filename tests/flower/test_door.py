"""What a reply is before anything in it is looked at."""

from __future__ import annotations

import pytest
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from tests.flower.federations import LR, one_round

from holdfast.flower import Fault, RageStrategy


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (ErrorCode.MESSAGE_UNAVAILABLE, Fault.SILENT),
        (ErrorCode.REPLY_MESSAGE_UNAVAILABLE, Fault.SILENT),
        (ErrorCode.NODE_UNAVAILABLE, Fault.ERROR),
        (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, Fault.ERROR),
    ],
)
def test_a_client_whose_time_is_over_is_silent_whoever_notices_first(code: int, fault: Fault) -> None:
    _, record = one_round(
        RageStrategy(num_malicious_nodes=1, lr=LR),
        lambda messages: [Message(Error(code, "said the SuperLink"), reply_to=message) for message in messages],
    )
    assert {(drop.fault, drop.detail) for drop in record.drops} == {(fault, f"code {code}: said the SuperLink")}
    assert len(record.erased) == len(record.cohort)
