"""The event log: what it shows, what it finds again, what it does with a torn or unreadable file, and whom it cuts."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import replica.operations.events
from replica.operations.events import FILE, KEEP, OLDER, EventLog
from replica.services.pair.events import EventHandlers
from tandemq.v1.common_pb2 import Role
from tandemq.v1.pair_service_pb2 import ListEventsRequest, ListEventsResponse, PairEventKind, WatchEventsRequest
from tests.support.until import OUTER_S

ROLE = PairEventKind.PAIR_EVENT_KIND_ROLE
LINK = PairEventKind.PAIR_EVENT_KIND_LINK


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[EventLog]:
    events = EventLog(directory, "a")
    running = asyncio.create_task(events.run())
    yield events
    running.cancel()
    await events.close()


async def shown(events: EventLog, number: int) -> None:
    """Until an event can be seen."""
    async with asyncio.timeout(OUTER_S):
        while not events.since(number):
            await events.changed.wait()


async def killed(directory: Path, count: int) -> None:
    """A process that showed this many events and was killed: nothing is closed."""
    events = EventLog(directory, "a")
    running = asyncio.create_task(events.run())
    for number in range(count):
        events.add(ROLE, f"event {number}", domain="main")
    await shown(events, events._next - 1)
    running.cancel()
    if events._file is not None:
        events._file.close()


async def test_numbers_rise_by_one_and_go_on_after_a_kill(tmp_path: Path) -> None:
    await killed(tmp_path, 3)
    async with opened(tmp_path) as events:
        role, facts = Role.ROLE_MASTER, {"reason": "x"}
        assert events.add(ROLE, "again", domain="main", epoch=7, role=role, facts=facts) == 4
        await shown(events, 4)
    async with opened(tmp_path) as events:
        found = events.since(1)
        assert [event.number for event in found] == [1, 2, 3, 4]
        last = found[-1]
        assert (last.member, last.domain, last.kind, last.epoch, last.role) == ("a", "main", ROLE, 7, role)
        assert (last.text, dict(last.facts)) == ("again", facts)
        assert last.time.ToMilliseconds() > 0


async def test_an_event_is_in_the_file_before_anybody_sees_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as events:
        events.add(ROLE, "first")
        assert events.since(1) == []
        assert events.next_number == 1
        await shown(events, 1)
        assert b'{"number":1,' in (tmp_path / FILE).read_bytes()


async def test_every_prefix_of_the_file_can_be_read(tmp_path: Path) -> None:
    await killed(tmp_path, 2)
    whole = (tmp_path / FILE).read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        (tmp_path / FILE).write_bytes(whole[:size])
        async with opened(tmp_path) as events:
            kept = sum(end <= size for end in ends)
            assert [event.number for event in events.since(1)] == list(range(1, kept + 1))
            number = events.add(ROLE, "next")
            assert number in (kept + 1, kept + 2), "a torn event has used its number up"
        async with opened(tmp_path) as events:
            assert [event.number for event in events.since(1)] == [*range(1, kept + 1), number]


async def test_a_line_that_is_no_event_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await killed(tmp_path, 2)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'not json\n{"number":"x"}\n{"number":9,"time_ms":1,"member":"a","kind":"NONSENSE"}\n')
    with caplog.at_level(logging.WARNING):
        async with opened(tmp_path) as events:
            assert [event.number for event in events.since(1)] == [1, 2]
    assert caplog.text.count("is left out") == 3


async def test_the_file_is_bounded_and_at_least_a_thousand_events_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KEEP >= 1_000
    monkeypatch.setattr(replica.operations.events, "KEEP", 10)
    for _ in range(7):
        await killed(tmp_path, 5)
    lines = [(tmp_path / name).read_bytes().count(b"\n") for name in (FILE, OLDER)]
    assert lines == [5, 10]
    async with opened(tmp_path) as events:
        assert [event.number for event in events.since(0)] == list(range(26, 36))
        assert (events.oldest_number, events.next_number) == (26, 36)


async def test_what_is_said_is_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path) as events:
        events.add(ROLE, "x" * 100_000, facts={f"f{number}": "y" * 100_000 for number in range(1_000)})
        await shown(events, 1)
        assert events.since(1)[0].ByteSize() < 50_000


async def test_a_file_that_cannot_be_written_costs_history_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).mkdir()
    async with opened(tmp_path) as events:
        events.add(ROLE, "seen all the same")
        await shown(events, 1)
        assert events.lost == 1
    assert "events are shown but not kept" in caplog.text


async def test_events_are_shown_while_their_syncs_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a disk that hangs nobody heard by an event before it was well again, where another had come just before."""
    hanging, well = asyncio.Event(), threading.Event()
    loop, sync = asyncio.get_running_loop(), os.fsync

    def hang(file: int) -> None:
        loop.call_soon_threadsafe(hanging.set)
        assert well.wait(OUTER_S)
        sync(file)

    monkeypatch.setattr(replica.operations.events, "FSYNC_S", 0.01)
    monkeypatch.setattr(replica.operations.events, "HANGS_S", 0.01)
    monkeypatch.setattr(os, "fsync", hang)
    try:
        async with opened(tmp_path) as events:
            events.add(ROLE, "before")
            async with asyncio.timeout(OUTER_S):
                await hanging.wait()
            for number in (2, 3):
                events.add(ROLE, "the disk hangs")
                await shown(events, number)
            well.set()
    finally:
        well.set()
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 3


# -- the calls ---------------------------------------------------------------------------------------------------------


class RefusedError(Exception):
    """The call was aborted."""


class Context:
    """gRPC's part of a stream: a reader that reads when it is told to."""

    def __init__(self) -> None:
        self.reads = asyncio.Semaphore(0)
        self.got: list[bytes] = []
        self.status: object = None

    async def write(self, message: bytes) -> None:
        await self.reads.acquire()
        self.got.append(message)

    async def abort(self, status: object, text: str, _trailers: object) -> None:
        self.status = status
        raise RefusedError(text)


async def test_a_slow_watcher_is_cut_and_costs_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.operations.events, "KEEP", 10)
    async with opened(tmp_path) as events:
        events.add(ROLE, "first")
        await shown(events, 1)
        context = Context()
        handlers = EventHandlers(events, ["main"])
        watch = asyncio.create_task(handlers.watch(WatchEventsRequest(from_number=1).SerializeToString(), context))
        for number in range(2, 30):
            events.add(ROLE, "more")
            await shown(events, number)
        context.reads.release()
        with pytest.raises(RefusedError, match="too slow: event 2 is no longer kept"):
            await watch
        assert "RESOURCE_EXHAUSTED" in str(context.status)
        assert events.watchers == 0
        assert len(events.since(0)) == 10


async def test_list_takes_domain_limit_and_number(tmp_path: Path) -> None:
    async with opened(tmp_path) as events:
        for number in range(1, 7):
            events.add(ROLE, "x", domain="main" if number % 2 else "other")
        events.add(LINK, "of all domains")
        await shown(events, 7)
        handlers = EventHandlers(events, ["main", "other"])

        async def asked(**fields: object) -> tuple[list[int], int]:
            request = ListEventsRequest(**fields).SerializeToString()  # type: ignore[arg-type]
            answer = ListEventsResponse.FromString(await handlers.list_events(request, Context()))
            return [event.number for event in answer.events], answer.next_number

        assert await asked() == ([1, 2, 3, 4, 5, 6, 7], 8)
        assert await asked(limit=2) == ([6, 7], 8)
        assert await asked(domain="main") == ([1, 3, 5, 7], 8)
        assert await asked(from_number=2, limit=2) == ([2, 3], 4)
        assert await asked(from_number=2, limit=2, domain="other") == ([2, 4], 5)
        assert await asked(from_number=8) == ([], 8)
        for fields in ({"domain": "nope"}, {"limit": 10_001}):
            with pytest.raises(RefusedError):
                await asked(**fields)


async def test_a_cancellation_that_meets_an_event_still_ends_it(tmp_path: Path) -> None:
    """The last event before the end woke the writer as it was cancelled, and it went on waiting: stopping took 8 s."""
    log = EventLog(tmp_path, "a")
    running = asyncio.create_task(log.run())
    log.add(ROLE, "first")
    async with asyncio.timeout(OUTER_S):
        while log.oldest_number == log.next_number:
            await log.changed.wait()
    await asyncio.sleep(0)  # it waits for the next one now, for as long as it puts off its fsync
    log.add(ROLE, "last")
    running.cancel()
    await asyncio.wait([running], timeout=1)
    assert running.done()
    await log.close()
