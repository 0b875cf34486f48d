"""Both sides of the peer's connection notice in the same time that the other one is gone."""

from __future__ import annotations

import pytest

from replica.listen.ports import SERVER_OPTIONS, peer_options
from replica.peer.keepalive import keepalive
from tandemq.config import Timers


@pytest.mark.parametrize("lost_ms", [500, Timers().lost_ms, 60_000])
def test_who_is_called_pings_as_often_as_who_calls(lost_ms: int) -> None:
    options = peer_options(lost_ms)
    assert len(dict(options)) == len(options), "one value each"
    assert dict(keepalive(lost_ms)).items() <= dict(options).items()
    pinged = {name for name, _ in keepalive(lost_ms)}
    assert {option for option in SERVER_OPTIONS if option[0] not in pinged} <= set(options)


@pytest.mark.parametrize("lost_ms", [500, Timers().lost_ms, 60_000])
def test_a_process_that_stands_still_is_left_within_two_seconds(lost_ms: int) -> None:
    options = dict(keepalive(lost_ms))
    assert options["grpc.http2.ping_timeout_ms"] == options["grpc.keepalive_timeout_ms"]
    assert options["grpc.keepalive_time_ms"] + options["grpc.keepalive_timeout_ms"] < 2_000
