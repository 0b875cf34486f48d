"""What a relay promises: the bytes that come out, when, and how connections end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from chaos.relay import Relay, Relays, Way
from tests.support.ports import free_port
from tests.support.starvation import Stopwatch
from tests.support.until import OUTER_S

HOLD_S = 0.2  # how long a test watches that nothing comes


@pytest.fixture
def relay(target: str) -> Iterator[Relay]:
    with Relays() as relays:
        yield relays.open(f"127.0.0.1:{free_port()}", target)


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def hears(self, expected: bytes) -> None:
        assert await asyncio.wait_for(self.reader.readexactly(len(expected)), OUTER_S) == expected

    async def hears_nothing(self) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self.reader.read(1), HOLD_S)

    async def is_reset(self) -> None:
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(self.reader.read(1), OUTER_S)


@contextlib.asynccontextmanager
async def calling(relay: Relay) -> AsyncIterator[Caller]:
    host, port = relay.listen.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


async def test_a_healthy_relay_carries_everything_and_both_ends(relay: Relay) -> None:
    data = b"abc" * 100_000
    async with calling(relay) as caller:
        caller.writer.write(data)
        await caller.hears(data.upper())
        caller.writer.write_eof()
        assert await asyncio.wait_for(caller.reader.read(), OUTER_S) == b""


@pytest.mark.parametrize("way", Way)
async def test_silence_holds_bytes_back_and_loses_none(relay: Relay, way: Way) -> None:
    async with calling(relay) as caller:
        caller.writer.write(b"one")
        await caller.hears(b"ONE")
        relay.silence(way)
        caller.writer.write(b"two")
        await caller.hears_nothing()
        async with calling(relay) as second:  # it accepts, and carries nothing for this one either
            second.writer.write(b"three")
            await second.hears_nothing()
            relay.heal()
            await second.hears(b"THREE")
        await caller.hears(b"TWO")


async def test_a_cut_holds_back_the_end_of_a_connection_too(relay: Relay, target: str) -> None:
    """Over a dead switch nobody learns that the other one has gone."""
    async with calling(relay) as caller:
        caller.writer.write(b"one")
        await caller.hears(b"ONE")
        relay.silence()
        caller.writer.write_eof()
        await caller.hears_nothing()
        relay.heal()
        assert await asyncio.wait_for(caller.reader.read(), OUTER_S) == b""


async def test_old_connections_can_be_silent_while_new_ones_are_not(relay: Relay) -> None:
    async with calling(relay) as old:
        old.writer.write(b"one")
        await old.hears(b"ONE")
        relay.silence_open()
        old.writer.write(b"two")
        await old.hears_nothing()
        async with calling(relay) as new:
            new.writer.write(b"three")
            await new.hears(b"THREE")


async def test_reset_breaks_what_is_open_and_lets_new_ones_in(relay: Relay) -> None:
    async with calling(relay) as caller:
        caller.writer.write(b"one")
        await caller.hears(b"ONE")
        relay.reset()
        await caller.is_reset()
    async with calling(relay) as caller:
        caller.writer.write(b"two")
        await caller.hears(b"TWO")


async def test_refusal_resets_and_nobody_listens_until_it_is_healed(relay: Relay) -> None:
    async with calling(relay) as caller:
        caller.writer.write(b"one")
        await caller.hears(b"ONE")
        relay.refuse()
        await caller.is_reset()
    with pytest.raises(ConnectionRefusedError):
        async with calling(relay):
            pass
    relay.heal()
    async with calling(relay) as caller:
        caller.writer.write(b"two")
        await caller.hears(b"TWO")


@pytest.mark.clock
async def test_delay_is_added_once_to_each_chunk(relay: Relay) -> None:
    relay.delay(HOLD_S, Way.TO_TARGET)
    async with calling(relay) as caller:
        with Stopwatch() as watch:
            for _ in range(5):
                caller.writer.write(b"x")
                await asyncio.sleep(0)
            await caller.hears(b"XXXXX")
        assert watch.took_s >= HOLD_S
        watch.judge("five chunks", 4 * HOLD_S)


@pytest.mark.clock
async def test_a_throttle_bounds_the_bytes_of_each_second(relay: Relay) -> None:
    relay.throttle(500_000, Way.TO_TARGET)
    data = b"x" * 150_000
    async with calling(relay) as caller:
        with Stopwatch() as watch:
            caller.writer.write(data)
            await caller.hears(data.upper())
        assert watch.took_s >= 0.25
        watch.judge("what is let through in 0.3 s", 2.0)


async def test_a_target_that_is_gone_is_a_reset(relay: Relay) -> None:
    with Relays() as relays:
        nowhere = relays.open(f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
        with pytest.raises(ConnectionResetError):  # perhaps before the caller has heard that it is connected
            async with calling(nowhere) as caller:
                await asyncio.wait_for(caller.reader.read(1), OUTER_S)
