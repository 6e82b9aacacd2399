"""What a reply is before anything in it is looked at."""

from __future__ import annotations

import pytest
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from tests.flower.federations import LR, one_round

from steadfed.flower import Fault, RageStrategy
from steadfed.flower._replies.matcher import DETAIL, escape_detail
from steadfed.server._record import RoundRecord


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
        lambda messages: [Message(Error(code, "gone"), reply_to=message) for message in messages],
    )
    late = f"no reply within the time allowed, says the SuperLink (code {code})"
    told = late if fault is Fault.SILENT else f"code {code}: gone"
    assert {(drop.fault, drop.detail) for drop in record.drops} == {(fault, told)}
    assert len(record.absent) == len(record.cohort)


def test_what_is_short_enough_is_written_down_whole() -> None:
    assert escape_detail("x" * DETAIL) == "x" * DETAIL
    assert escape_detail("x" * DETAIL + "y") == "x" * DETAIL + "…"


def test_what_a_client_says_is_written_down_short_on_one_line_and_can_be_read_back() -> None:
    _, record = one_round(
        RageStrategy(num_malicious_nodes=1, lr=LR),
        lambda messages: [Message(Error(1, "\x1b[2J\n\0\ud800" + "x" * 10**6), reply_to=each) for each in messages],
    )
    detail = record.drops[0].detail
    assert detail.startswith(r"code 1: \x1b[2J\n\x00\ud800xxx")
    assert len(detail) < 350
    assert RoundRecord.from_line(record.to_line()) == record
