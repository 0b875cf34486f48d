"""What a sweep looks at: a bounded number of messages and bytes a turn, and nothing twice."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.messages.bodies import message_id
from replica.core.ordering import sweep_looks, sweeps
from replica.core.ordering.sweep import Verb
from replica.core.selection.filters import filter_of
from replica.core.state.outcomes import SweepDone
from replica.services.admin.sweeps import AHEAD
from storage.errors import CorruptRecord
from tandemq.v1.message_pb2 import MessageFilter
from tests.support.clients import Producer, create
from tests.unit.replica.core.ordering.test_dying import begin, contents, payloads, take
from tests.unit.replica.core.ordering.test_sweeps import Call, filled, numbered, run, send


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few messages need many turns."""
    monkeypatch.setattr(sweeps, "MOVE_MESSAGES_MAX", 3)
    monkeypatch.setattr(sweeps, "REMOVED_MAX", 3)
    monkeypatch.setattr(sweep_looks, "LOOKS_MAX", 5)


def test_many_ids_are_looked_for_a_bounded_number_a_turn_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master = filled(30)
    ids = [row.id for row in contents(master, "q")]
    take(pair, 10)
    machine = master.shared.machine
    queue = machine.queue(machine.queue_id("q"))
    looks, walks = [0], [0]
    index_of = type(queue.segments).index_of

    def counted(segments: Any, log_index: int, ordinal: int) -> int | None:
        looks[0] += 1
        return index_of(segments, log_index, ordinal)

    class Leases(dict[int, Any]):
        def values(self) -> Any:
            walks[0] += 1
            return super().values()

    monkeypatch.setattr(type(queue.segments), "index_of", counted)
    queue.leases = Leases(queue.leases)
    wanted = filter_of(MessageFilter(ids=[*ids[25::-1], *ids[26:], *(bytes([9] * 16) for _ in range(3))]))
    call = Call(master, Verb.REMOVE, asked=wanted)
    turns = 0
    while not call.over:
        before = looks[0]
        call.turn()
        assert looks[0] - before <= sweep_looks.LOOKS_MAX
        turns += 1
    pair.settle()
    assert call.answer == SweepDone(True, 20, leased=10)
    assert (looks[0], walks[0]) == (30, 2), "each id once; the leases once a turn that meets what is leased"
    assert payloads(master, "q") == numbered(*range(1, 11))


def test_ids_of_what_is_gone_end_a_call_too() -> None:
    pair, master = filled(30)
    ids = [row.id for row in contents(master, "q")]
    assert run(pair, Verb.REMOVE, request_id=b"1" * 16, asked=filter_of(MessageFilter(ids=ids[:20]))).done == 20
    assert run(pair, Verb.REMOVE, request_id=b"2" * 16, asked=filter_of(MessageFilter(ids=ids[:23]))).done == 3
    assert run(pair, most=2, asked=filter_of(MessageFilter(ids=ids[10:28]))).done == 2
    assert (payloads(master, "q"), payloads(master, "r")) == (numbered(*range(26, 31)), numbered(24, 25))


@pytest.mark.parametrize(
    ("verb", "asked"),
    [
        (Verb.REMOVE, {"asked": filter_of(MessageFilter(selector="x = 1"))}),
        (Verb.MOVE, {"asked": filter_of(MessageFilter(correlation_id="c"))}),
        (Verb.REDRIVE, {}),
    ],
)
def test_a_turn_reads_a_bounded_number_of_bytes_also_of_what_stays(
    monkeypatch: pytest.MonkeyPatch, verb: Verb, asked: dict[str, Any]
) -> None:
    monkeypatch.setattr(sweeps, "MOVE_BYTES_MAX", 2_500)
    monkeypatch.setattr(sweeps, "MOVE_MESSAGES_MAX", 500)
    monkeypatch.setattr(sweep_looks, "LOOKS_MAX", 2_000)
    monkeypatch.setattr(sweep_looks, "READ_BYTES_MAX", 2_500)
    pair, master = filled(0)
    for number in range(12):
        send(pair, "q", bytes([number]) * 1_000)
    call = Call(master, verb, **asked)
    reads: list[int] = []

    def counted(log_index: int) -> Any:
        reads.append(log_index)
        return master.core.dying.read(log_index)

    call.sweeps.read = call.sweeps.looks.read = counted
    while not call.over:
        before = len(reads)
        call.turn()
        assert len(reads) - before <= 3
    pair.settle()
    assert (call.answer.done, len(set(reads)), len(payloads(master, "q"))) == (0, 12, 12)


def test_ids_alone_read_no_bodies_to_find_what_they_name() -> None:
    pair, master = filled(10)
    ids = [row.id for row in contents(master, "q")]
    call = Call(master, Verb.REMOVE, asked=filter_of(MessageFilter(ids=ids[:4])))
    call.sweeps.read = call.sweeps.looks.read = lambda _: pytest.fail("it was read")
    while not call.turn():
        pass
    pair.settle()
    assert (call.answer.done, payloads(master, "q")) == (4, numbered(*range(5, 11)))


@pytest.mark.parametrize("verb", [Verb.MOVE, Verb.REMOVE])
def test_what_is_damaged_on_disk_stays_and_the_others_go(verb: Verb) -> None:
    pair, master = begin()
    create(pair, "r")
    read, damaged = master.core.dying.read, master.shared.log.last_index - 1

    def reading(log_index: int) -> Any:
        if log_index == damaged:
            raise CorruptRecord("planted")
        return read(log_index)

    master.core.dying.read = reading
    done = run(pair, verb, asked=filter_of(MessageFilter(selector="tq_index > 0")))
    assert isinstance(done, SweepDone)
    assert done.done == 2
    assert len(payloads(master, "q")) == 1


@pytest.mark.parametrize("verb", [Verb.MOVE, Verb.REMOVE, Verb.REDRIVE])
@pytest.mark.parametrize("asked", ["all", "selector", "ids"])
def test_what_was_ordered_before_the_call_and_is_committed_later_is_not_left_out(verb: Verb, asked: str) -> None:
    """`length` counts it already; who is told that nothing is left behind must find nothing there."""
    pair, master = filled(4)
    machine = master.shared.machine
    producer = Producer(pair, "late", "q")
    for _ in range(6):
        producer.send(master)
    queue = machine.queue(machine.queue_id("q"))
    assert (queue.length, queue.visible_index) == (10, 4), "ordered, and not committed"
    places = [queue.segments.locate(index) or pytest.fail("it is there") for index in range(1, 11)]
    wanted = {
        "all": MessageFilter(),
        "selector": MessageFilter(selector="tq_index > 0"),
        "ids": MessageFilter(ids=[message_id(master.shared.domain, 1, *place) for place in places]),
    }[asked]
    call = Call(master, verb, to="" if verb is Verb.REMOVE else "r", asked=filter_of(wanted))
    before = master.shared.log.last_index
    for _ in range(AHEAD):
        assert not call.turn(), "it waits"
    assert (master.shared.log.last_index, call.waiters[0].done) == (before, None), "the first turn tells when"
    Producer(pair, "later", "q").send(master)
    pair.settle()
    while not call.over:
        call.turn()
    pair.settle(200)
    assert call.answer == SweepDone(True, 10)
    for member in (master, master.peer):
        assert payloads(member, "q") == [b"later/1"], "what came after the call began is not touched"


def test_a_call_that_is_repeated_at_a_master_that_has_committed_nothing_yet_leaves_nothing_out() -> None:
    """Both were restarted: what it looks at is in its log, and it has not heard from its peer that it is there too."""
    pair, master = filled(10)
    call = Call(master)
    call.turn()
    call.turn()
    pair.settle(100)
    for member in (pair.a, pair.b):
        pair.crash(member)
    for member in (pair.a, pair.b):
        member.start()
    pair.calls_landed()
    pair.connect()
    while pair.master is None:
        if not pair.one():
            pair.tick()
    machine = pair.master.shared.machine
    assert machine.queue(machine.queue_id("q")).visible_index < 10
    again = Call(pair.master)
    while not again.turn():
        pair.one()
    pair.settle(200)
    assert again.answer == SweepDone(True, 10)
    assert (payloads(pair.master, "q"), payloads(pair.master, "r")) == ([], numbered(*range(1, 11)))
