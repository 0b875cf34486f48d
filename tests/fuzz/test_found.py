"""What fuzzing two managers found, told as a story each, so that it does not hang on the bytes of one input."""

from __future__ import annotations

import pytest

from tandemq.peer.v1.peer_service_pb2 import PeerFrame
from tests.fuzz.clients import Client
from tests.fuzz.loop import pass_time
from tests.fuzz.pair import NUMBER, Pair, handler_of


@pytest.mark.parametrize("sender", ["a", "b"])
def test_a_first_hello_with_a_register_that_is_none_ends_the_session_and_no_more(sender: str) -> None:
    """A register that cannot be read in the HELLO that opens a connection: the domains were told that they are
    connected, and never that they are not, for the session had not begun when it failed.
    """
    spoilt = []

    def tamper(who: str, kind: str, data: bytes) -> list[bytes]:
        frame = PeerFrame.FromString(data) if kind == "Data" else None
        if frame is None or who != sender or spoilt or not frame.HasField("hello"):
            return [data]
        spoilt.append(who)
        for domain in frame.hello.domains:
            domain.register = b"\xff\xff\xff"
        return [frame.SerializeToString()]

    async def story(pair: Pair) -> None:
        pair.tamper = tamper
        for name in "ab":
            await pair.start(name)
        await pass_time(0.5)
        assert spoilt == [sender]
        pair.check_alive()
        await pass_time(5)
        pair.check_alive()
        client = Client(lambda member, method: handler_of(pair, member, method))
        assert await client.create("a", "q")
        assert await client.send("b", "q", [b"one"])

    Pair(witness=False).run(story)


def test_a_record_of_a_format_that_is_not_ours_ends_the_session_and_no_more() -> None:
    """One flipped bit in the third byte of a record looks like a newer version; it stopped whom it reached."""
    spoilt = []

    def tamper(_sender: str, kind: str, data: bytes) -> list[bytes]:
        frame = PeerFrame.FromString(data) if kind == "Data" else None
        if frame is None or spoilt or not frame.op.entries:
            return [data]
        record = bytearray(frame.op.entries[0].record)
        record[2] ^= 0x40
        frame.op.entries[0].record = bytes(record)
        spoilt.append(kind)
        return [frame.SerializeToString()]

    async def story(pair: Pair) -> None:
        client = Client(lambda member, method: handler_of(pair, member, method))
        for name in "ab":
            await pair.start(name)
        await pass_time(0.5)
        pair.tamper = tamper
        await client.create("a", "q")
        await pass_time(5)
        assert spoilt
        pair.check_alive()
        assert await client.send("a", "q", [b"one"])
        assert pair.registers.get("main").in_sync_set == {"a", "b"}

    Pair().run(story)


def test_records_before_one_that_cannot_be_taken_are_stored() -> None:
    """A frame of two records, the second spoilt: the first was in the replica's log in memory and never on its disk, so
    its next HELLO spoke of a record that it did not have, and the copy had a gap for good.
    """
    spoilt = []

    def tamper(_sender: str, kind: str, data: bytes) -> list[bytes]:
        frame = PeerFrame.FromString(data) if kind == "Data" else None
        if frame is None or spoilt or not frame.op.entries:
            return [data]
        second = frame.op.entries.add()
        second.record = frame.op.entries[0].record[:-1]
        spoilt.append(kind)
        return [frame.SerializeToString()]

    async def story(pair: Pair) -> None:
        client = Client(lambda member, method: handler_of(pair, member, method))
        for name in "ab":
            await pair.start(name)
        await pass_time(0.5)
        assert await client.create("a", "q")
        pair.tamper = tamper
        await client.send("a", "q", [b"one"])
        await pass_time(5)
        assert spoilt
        pair.check_alive()
        assert await client.send("a", "q", [b"two"])
        await pass_time(1)
        for name in "ab":
            pair.stores[name].check_chain(NUMBER)

    Pair().run(story)
