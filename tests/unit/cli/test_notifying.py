"""What a service manager hears, over a real datagram socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandemq.cli.notifying import BEATS_A_PERIOD, Notifier
from tests.support.until import OUTER_S


@pytest.fixture(params=["path", "abstract"])
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@tandemq{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address.replace("@", "\0", 1))
        listener.settimeout(OUTER_S)
        yield address, listener


def test_what_is_said_arrives_as_one_datagram(heard: tuple[str, socket.socket]) -> None:
    address, listener = heard
    Notifier.take({"NOTIFY_SOCKET": address}).say("READY=1", "STATUS=a serves")
    assert listener.recv(4096) == b"READY=1\nSTATUS=a serves"


async def test_signs_of_life_come_several_times_a_period(heard: tuple[str, socket.socket]) -> None:
    address, listener = heard
    notifier = Notifier.take({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000"})
    beating = asyncio.create_task(notifier.beat())
    for _ in range(BEATS_A_PERIOD):
        assert await asyncio.to_thread(listener.recv, 4096) == b"WATCHDOG=1"
    beating.cancel()


@pytest.mark.parametrize(
    ("environ", "beat_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "9000000"}, 3.0),
        ({"WATCHDOG_USEC": "9000000", "WATCHDOG_PID": "17"}, 3.0),
        ({"WATCHDOG_USEC": "9000000", "WATCHDOG_PID": "18"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
async def test_who_waits_for_signs_of_life(environ: dict[str, str], beat_s: float | None) -> None:
    notifier = Notifier.take(environ, pid=17)
    assert notifier.beat_s == beat_s
    assert environ == {}, "what this process starts must not speak for it"
    if beat_s is None:
        await notifier.beat()  # returns at once


def test_nobody_listens(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    Notifier.take({}).say("READY=1")
    assert not caplog.records
    Notifier.take({"NOTIFY_SOCKET": str(tmp_path / "gone")}).say("READY=1")
    assert "READY=1" in caplog.text
