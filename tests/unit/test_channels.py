"""Every channel of the product is opened in one place, and one that fails is replaced where its name may have moved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from tandemq.channels import CONNECT_MS, LASTING, NAME_MS, NAMES, RENEW_S, Kept, is_name, lasting, open_channel

ROOT = Path(__file__).resolve().parents[2]
FAILED, READY = grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.READY
CONNECTING = grpc.ChannelConnectivity.CONNECTING


@pytest.mark.parametrize(
    "endpoint",
    ["queue.example.com:7600", "localhost:7600", "a:1", "dns:///a.test:7600", "dns://127.0.0.1:53/a.test:7600"],
)
def test_a_name_may_move(endpoint: str) -> None:
    assert is_name(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        *("127.0.0.1:7600", "[::1]:7600", "[fe80::1%eth0]:7600", "ipv4:127.0.0.1:1", "ipv6:[::1]:1", ""),
        *("unix:/run/tandemq.sock", "unix:@tandemq", "unix-abstract:a:1", "inproc:a", "inproc:a:7"),
    ],
)
def test_an_address_does_not(endpoint: str) -> None:
    assert not is_name(endpoint)


def test_options_come_once_and_the_changes_win() -> None:
    options = lasting({"grpc.keepalive_time_ms": 7, "grpc.enable_retries": 0})
    assert len(dict(options)) == len(options) == len(LASTING) + 1
    assert dict(options) == {**LASTING, "grpc.keepalive_time_ms": 7, "grpc.enable_retries": 0}


class Opened:
    """In place of channels: their states are the test's."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.options: list[dict[str, Any]] = []
        self.state = READY
        self.closed = 0

    def open(self, _endpoint: str, options: Any) -> Any:
        self.options.append(dict(options))
        opened = self

        class Channel:
            def get_state(self) -> Any:
                return opened.state

            async def close(self) -> None:
                opened.closed += 1

        return Channel()

    def kept(self, endpoint: str) -> Kept:
        return Kept(endpoint, lasting(), self.open, lambda: self.now_s)


def test_a_channel_that_fails_is_replaced_at_a_bounded_pace() -> None:
    world = Opened()
    kept = world.kept("a.test:7600")
    first = kept.get()
    world.now_s += 1_000
    for state in (READY, CONNECTING):
        world.state = state
        assert kept.get() is first
    world.state = FAILED
    second = kept.get()
    assert second is not first
    assert kept.get() is second
    world.now_s += RENEW_S * 0.99
    assert kept.get() is second
    world.now_s += RENEW_S * 0.01
    assert kept.get() is not second
    assert world.closed == 0, "what is under way on it goes on"
    # A link whose round trip is longer than the first attempts may take is reached by the later channels.
    attempts = [options["grpc.min_reconnect_backoff_ms"] for options in world.options]
    assert attempts == [100, CONNECT_MS, CONNECT_MS]


def test_who_has_an_address_keeps_its_channel() -> None:
    world = Opened()
    kept = world.kept("127.0.0.1:7600")
    first = kept.get()
    world.state, world.now_s = FAILED, 1_000
    assert kept.get() is first


async def test_a_closed_one_is_opened_again() -> None:
    world = Opened()
    kept = world.kept("a.test:7600")
    await kept.close()
    assert world.closed == 0
    first = kept.get()
    await kept.close()
    assert world.closed == 1
    assert kept.get() is not first


async def test_a_channel_has_the_pace_of_names_whatever_else_is_asked_for() -> None:
    seen: list[dict[str, Any]] = []
    plain = grpc.aio.insecure_channel
    try:
        grpc.aio.insecure_channel = lambda endpoint, options: seen.append(dict(options)) or plain(endpoint, options)
        for options in ((), lasting(), (("grpc.enable_retries", 0),)):
            await open_channel("a.test:7600", options).close()
    finally:
        grpc.aio.insecure_channel = plain
    assert dict(NAMES) == {"grpc.dns_min_time_between_resolutions_ms": NAME_MS}
    assert [each.get("grpc.dns_min_time_between_resolutions_ms") for each in seen] == [NAME_MS] * 3


def test_channels_are_opened_in_one_place() -> None:
    opens = re.compile(r"\b(in)?secure_channel\(")
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tandemq", "replica", "storage", "failover", "pipeline")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.stem.endswith("_pb2_grpc") and opens.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["tandemq/channels.py"]
