"""Trimming costs what there is to trim, and takes away nothing that a takeover may want back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from replica.node import maintenance
from replica.node.maintenance import NO_JOURNAL, Maintenance
from storage.store import Append, WriteBatch
from tests.support.clients import Producer, Reader, check_contents, create, remaining
from tests.support.member import NUMBER
from tests.support.pair import Member, Pair, drive
from tests.support.walk import UpkeepNode


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions a piece of work calls, ours and the interpreter's: what it costs, without a clock."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def upkeep(member: Member) -> Maintenance:
    return Maintenance(UpkeepNode(member), member.core, NO_JOURNAL)  # type: ignore[arg-type]


def checkpoint(keeper: Maintenance) -> None:
    """All that is in the log may go, as far as it holds nothing."""
    drive(keeper.checkpoint())
    keeper.mark()


def stored(member: Member) -> set[int]:
    return set(member.store.scan_indexes(NUMBER, 1, limit=100_000))


def held(member: Member) -> set[int]:
    return {index for _, index in member.shared.machine.live_log_indexes()}


def started(queues: int) -> tuple[Pair, Member, Maintenance]:
    """Each queue holds a message, and all of the log has been trimmed but its last record."""
    pair = Pair().start()
    create(pair)
    assert pair.master is not None
    for number in range(queues):
        create(pair, f"idle{number}")
        Producer(pair, f"p{number}", f"idle{number}").send(pair.master)
    pair.settle(200)
    create(pair, "last")
    keeper = upkeep(pair.master)
    checkpoint(keeper)
    while keeper.trimmed < keeper._keep_from():
        drive(keeper._trim())
    return pair, pair.master, keeper


def use(pair: Pair, master: Member, producer: Producer, reader: Reader, count: int, *, left: int) -> None:
    """So many messages come, and all but the last ones go."""
    for _ in range(count):
        producer.send(master)
    pair.settle(200)
    reader.attach(master, count - left)
    pair.settle(200)
    reader.ack(master)
    pair.settle(200)


def test_a_turn_costs_what_there_is_to_trim_and_not_what_the_domain_has() -> None:
    """It walked over all queues once a second, and over every message that had survived it before: with 10,000 queues
    everything else waited for 16 ms each time.
    """
    costs = []
    for queues in (20, 100):
        pair, master, keeper = started(queues)
        producer, reader = Producer(pair, "x"), Reader(pair)
        use(pair, master, producer, reader, 5, left=2)
        checkpoint(keeper)
        costs.append(calls_of(partial(drive, keeper._trim())))
        assert held(master) <= stored(master)
        assert {index for index in stored(master) if index <= keeper.trimmed} <= held(master)
    assert costs[1] < 1.1 * costs[0], costs


def test_what_survived_goes_once_its_last_message_has_gone() -> None:
    pair, master, keeper = started(3)
    assert len(keeper.survivors) == 3
    reader = Reader(pair, "idle1")
    reader.attach(master, 1)
    pair.settle(200)
    reader.ack(master)
    pair.settle(200)
    gone = set(keeper.survivors) - held(master)
    assert len(gone) == 1 <= len(stored(master) & gone)
    drive(keeper._trim())
    assert (stored(master) & gone, len(keeper.survivors)) == (set(), 2)


@pytest.mark.parametrize("byte", [0, 7, 23, 50, -1], ids=["magic", "domain", "log index", "digest", "body"])
def test_damage_holds_nothing_up_and_its_digest_is_not_believed(byte: int) -> None:
    """Whatever of a record has turned over: it goes if it holds nothing, and stays as it is if it does."""
    pair, master, keeper = started(2)
    producer, reader = Producer(pair, "x"), Reader(pair)
    use(pair, master, producer, reader, 4, left=1)
    checkpoint(keeper)
    kept, end = max(held(master)), keeper._keep_from()
    assert kept < end
    for log_index in (kept, end) if byte >= 0 else (kept,):  # the last one has no body
        damaged = bytearray(master.store.read(NUMBER, log_index) or b"")
        damaged[byte] ^= 1
        master.store.commit(WriteBatch(inserts=[Append(NUMBER, log_index, bytes(damaged))]))
    known = master.shared.log.digest_at(end)
    master.shared.log.ring.clear()
    drive(keeper._trim())
    assert keeper.trimmed == end
    assert kept in stored(master)
    assert end not in stored(master)
    log = master.shared.log
    assert known is not None
    assert (log.base_index == end) == (byte == -1), "the head says where the log ends, or nobody does"
    assert log.base_index != end or (log.base_epoch, log.base_digest) == known


def test_a_part_at_a_time_when_much_has_gone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "FREED_TURN", 2)
    pair, master, keeper = started(5)
    for number in range(5):
        reader = Reader(pair, f"idle{number}")
        reader.attach(master, 1)
        pair.settle(200)
        reader.ack(master)
    pair.settle(200)
    left = []
    for _ in range(3):
        drive(keeper._trim())
        left.append(len(keeper.survivors))
    assert left == [3, 1, 0]
    assert {index for index in stored(master) if index <= keeper.trimmed} == set()


@pytest.mark.parametrize("passed", [True, False], ids=["survived before", "passed now"])
def test_what_an_uncommitted_operation_has_freed_stays(passed: bool) -> None:
    """1. The master has applied an acknowledgement that its peer has not heard of. 2. It trims the record of the
    message, which holds nothing any more. 3. Its peer takes over: the acknowledgement is taken back, the message is
    in the queue, and its body at one member only.
    """
    pair = Pair().start()
    create(pair)
    producer, reader = Producer(pair, "x"), Reader(pair)
    old = pair.a
    producer.send(old)
    pair.settle(200)
    body = max(held(old))
    reader.attach(old, 1)
    pair.settle(200)
    keeper = upkeep(old)
    checkpoint(keeper)
    assert keeper._keep_from() >= body
    if passed:
        drive(keeper._trim())
        assert set(keeper.survivors) == {body}
    reader.ack(old)
    old.commit()
    assert body not in held(old)

    async def a_while() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(keeper._trim(), 0.05)

    asyncio.run(a_while())
    old.commit()
    assert body in stored(old)

    pair.crash(old)
    pair.b.lost(refused=True)
    pair.quiesce()
    assert pair.b.serving
    pair.heal()
    check_contents(pair, [producer])
    assert remaining(old) == remaining(pair.b) != []
