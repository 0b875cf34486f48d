"""Open units of work over a pair in one process: what they hold, what is refused, what ends them (U1-U11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.messages.bodies import batch_of
from replica.core.ordering import open_units
from replica.core.state.calls import BeginUnit, CommitUnit, Consumer, PendingCall, PutInUnit, RollbackUnit, SettleInUnit
from replica.core.state.outcomes import Failed, LeaseDone, Moved, QueueDone, UnitBegun, UnitDone, UnitEnded, UnitKept
from replica.machine import Limits, QueueCall, SettleCall, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.message_pb2 import Message, MessageBatch
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_ORDERED, QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_REJECT, EnqueueBatch, EnqueueRequest, Outcome, Settlement
from tests.support.clients import Producer, Waiter, create, remaining
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_sweeps import send

if TYPE_CHECKING:
    from tests.support.pair import Member

NAMES = iter(range(1, 1_000_000))


def new_id() -> bytes:
    return next(NAMES).to_bytes(16, "big")


def asked(pair: Pair, call: Any) -> Any:
    waiter = Waiter()
    assert pair.master is not None
    pair.master.submit(PendingCall(waiter, call))
    pair.settle()
    return waiter.done


def begun(pair: Pair, timeout_ms: int = 0) -> bytes:
    done = asked(pair, BeginUnit(b"client", timeout_ms))
    assert isinstance(done, UnitBegun), done
    return done.unit_id


def taking(member: Member, unit: bytes, queue: str = "q", most: int = 1, request_id: bytes = b"") -> Waiter:
    waiter = Waiter()
    consumer = Consumer(
        waiter,
        queue,
        unit or b"taker",
        60_000,
        credit_messages=most,
        credit_bytes=1 << 30,
        member=member.name,
        one_shot=True,
        request_id=request_id,
        unit=unit,
    )
    member.attach(consumer)
    return waiter


def got(pair: Pair, unit: bytes = b"", queue: str = "q", most: int = 1) -> LeaseDone:
    assert pair.master is not None
    waiter = taking(pair.master, unit, queue, most)
    pair.settle()
    assert isinstance(waiter.done, LeaseDone), waiter.done
    return waiter.done


def put(pair: Pair, unit: bytes, queue: str, *payloads: bytes, request_id: bytes = b"") -> Any:
    request = EnqueueRequest(queue=queue, messages=[Message(payload=payload) for payload in payloads])
    columns = columns_of(EnqueueBatch(messages=MessageBatch(payloads=payloads)))
    name = request_id or new_id()
    return asked(pair, PutInUnit(unit, queue, name, hash(payloads), columns, request.SerializeToString(), "a"))


def settle(
    pair: Pair, unit: bytes, lease_id: int, *indexes: int, outcome: Outcome = OUTCOME_ACK, queue: str = "q"
) -> Any:
    ranges = [IndexRange(first=index, count=1) for index in indexes]
    made = Settlement(lease_id=lease_id, ranges=ranges, outcome=outcome)
    return asked(pair, SettleInUnit(unit, queue, new_id(), 1, [made]))


def commit_of(pair: Pair, unit_id: bytes) -> CommitUnit:
    """As the service makes it of what the master keeps."""
    assert pair.master is not None
    unit = pair.master.core.orders.units.find(unit_id)
    if unit is None:
        return CommitUnit(unit_id, -1, None, b"", 0, "a")
    rows = [
        row
        for each in unit.puts.values()
        for kept in each
        for row in EnqueueRequest.FromString(kept.request).messages
    ]  # fmt: skip
    rows += [Message.FromString(each.answer) for answers in unit.replies.values() for each in answers]
    batch = EnqueueBatch(messages=batch_of(rows))
    beside = rows if unit.reactions else ()
    return CommitUnit(unit_id, unit.changes, columns_of(batch), batch.SerializeToString(), 0, "a", beside)


def commit(pair: Pair, unit_id: bytes) -> Any:
    return asked(pair, commit_of(pair, unit_id))


def payloads(pair: Pair, queue: str = "q") -> list[bytes]:
    pair.settle(500)
    assert pair.master is not None
    return [payload for _, payload in remaining(pair.master, queue)]


def why(done: Any) -> str:
    assert isinstance(done, Failed), done
    return Reason.Name(done.reason).removeprefix("REASON_")


def queue_of(pair: Pair, queue: str = "q") -> Any:
    assert pair.master is not None
    machine = pair.master.shared.machine
    number = machine.queue_id(queue)
    assert number is not None
    return machine.queue(number)


@pytest.fixture
def pair() -> Pair:
    """Queue q with two messages, r and s."""
    pair = Pair().start()
    for queue in "qrs":
        create(pair, queue)
    producer = Producer(pair, "z")
    assert pair.master is not None
    for _ in range(2):
        producer.send(pair.master)
    pair.settle()
    return pair


def takeover(pair: Pair) -> None:
    assert pair.master is not None
    pair.crash(pair.master, written=True)
    pair.heal()


def test_u2_a_commit_acknowledges_what_was_got_and_stores_what_was_put(pair: Pair) -> None:
    unit = begun(pair)
    first = got(pair, unit)
    assert isinstance(put(pair, unit, "r", b"a"), UnitKept)
    assert isinstance(put(pair, unit, "s", b"b"), UnitKept)
    assert isinstance(put(pair, unit, "r", b"c", b"d"), UnitKept)
    assert (payloads(pair, "r"), queue_of(pair, "r").length) == ([], 0), "nobody sees it, it counts nowhere (U4)"
    done = commit(pair, unit)
    assert isinstance(done, UnitDone)
    assert (list(done.names), [each.count for each in done.puts], done.duplicate) == (["r", "s"], [3, 1], False)
    assert (payloads(pair), payloads(pair, "r"), payloads(pair, "s")) == ([b"z/2"], [b"a", b"c", b"d"], [b"b"])
    assert first.lease_id


def test_u11_a_commit_that_is_repeated_gets_the_first_answer_over_a_takeover_too(pair: Pair) -> None:
    """Example 1: killed after the record is on both."""
    unit = begun(pair)
    got(pair, unit)
    put(pair, unit, "r", b"a")
    first = commit(pair, unit)
    again = commit(pair, unit)
    takeover(pair)
    third = commit(pair, unit)
    for each in (again, third):
        assert isinstance(each, UnitDone)
        assert (each.duplicate, list(each.names), each.epoch) == (True, ["r"], first.epoch)
        assert [(run.first_index, run.log_index) for run in each.puts] == [
            (run.first_index, run.log_index) for run in first.puts
        ]
    assert (payloads(pair), payloads(pair, "r")) == ([b"z/2"], [b"a"])


def test_u10_a_takeover_ends_it_and_a_commit_says_that_nothing_happened(pair: Pair) -> None:
    """Example 1: killed before. The messages come back at once, and the delivery does not count."""
    unit = begun(pair)
    got(pair, unit, most=2)
    put(pair, unit, "r", b"a")
    takeover(pair)
    assert (queue_of(pair).ready_count, queue_of(pair).deliveries, queue_of(pair).leases) == (2, {}, {})
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert why(put(pair, unit, "r", b"b")) == "TXN_ABORTED"
    assert (payloads(pair), payloads(pair, "r")) == ([b"z/1", b"z/2"], [])


def test_u11_a_commit_that_the_old_master_took_with_it_never_happened(pair: Pair) -> None:
    """Ordered, sent to nobody: the next master does not have it."""
    unit = begun(pair)
    got(pair, unit)
    put(pair, unit, "r", b"a")
    master, waiter = pair.master, Waiter()
    assert master is not None
    call = commit_of(pair, unit)
    pair.disconnect()
    master.submit(PendingCall(waiter, call))
    pair.crash(master)
    pair.heal()
    assert not isinstance(waiter.done, UnitDone)
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert (payloads(pair), payloads(pair, "r")) == ([b"z/1", b"z/2"], [])


def test_u9_a_rollback_gives_back_and_may_be_repeated(pair: Pair) -> None:
    unit = begun(pair)
    got(pair, unit)
    put(pair, unit, "r", b"a")
    assert asked(pair, RollbackUnit(unit)) == UnitEnded(1)
    assert asked(pair, RollbackUnit(unit)) == UnitEnded(0)
    assert queue_of(pair).deliveries == {1: 1}
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert (payloads(pair), payloads(pair, "r")) == ([b"z/1", b"z/2"], [])


def test_u9_what_is_committed_is_not_rolled_back(pair: Pair) -> None:
    unit = begun(pair)
    got(pair, unit)
    assert isinstance(commit(pair, unit), UnitDone)
    assert why(asked(pair, RollbackUnit(unit))) == "INVALID_STATE"
    assert payloads(pair) == [b"z/2"]


def test_u11_of_what_is_committed_nothing_says_that_it_never_happened(pair: Pair) -> None:
    """Its client may not know: its commit was answered by nobody, and it asks for something else."""
    unit = begun(pair)
    outside = got(pair)
    put(pair, unit, "r", b"a")
    assert isinstance(commit(pair, unit), UnitDone)
    assert why(put(pair, unit, "r", b"b")) == "INVALID_STATE"
    assert why(settle(pair, unit, outside.lease_id, 1)) == "INVALID_STATE"
    assert pair.master is not None
    waiter = taking(pair.master, unit)
    pair.settle()
    assert why(waiter.done) == "INVALID_STATE"
    assert commit(pair, unit).duplicate


def test_u9_the_deadline_ends_it(pair: Pair) -> None:
    unit = begun(pair, timeout_ms=1_000)
    got(pair, unit)
    pair.settle(1_200)
    assert (queue_of(pair).deliveries, queue_of(pair).leases) == ({1: 1}, {})
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert pair.master is not None
    assert len(pair.master.core.orders.units) == 0


def test_how_units_have_ended_is_counted(pair: Pair) -> None:
    """Those that had something in them: who waits for work in one, and gets none, is nobody's loss."""
    assert pair.master is not None
    ended = pair.master.core.orders.units.ended
    for end in (commit, lambda pair, unit: asked(pair, RollbackUnit(unit)), lambda pair, _: pair.settle(1_200)):
        for full in (True, False):
            unit = begun(pair, timeout_ms=1_000)
            if full:
                put(pair, unit, "r", b"a")
            end(pair, unit)
    put(pair, begun(pair), "r", b"a")
    begun(pair)
    pair.master.core.orders.units.forget_all()
    assert {how.value: count for how, count in ended.items()} == {
        "committed": 1,
        "rolled_back": 1,
        "expired": 1,
        "aborted": 1,
    }


def test_what_comes_back_is_given_to_whoever_waits(pair: Pair) -> None:
    unit = begun(pair)
    got(pair, unit, most=2)
    assert pair.master is not None
    waiting = taking(pair.master, b"")
    pair.settle()
    assert waiting.done is None
    asked(pair, RollbackUnit(unit))
    assert isinstance(waiting.done, LeaseDone)


def test_u6_a_lease_outside_may_be_settled_in_a_unit_and_what_it_got_otherwise(pair: Pair) -> None:
    outside = got(pair)
    unit = begun(pair)
    inside = got(pair, unit)
    assert isinstance(settle(pair, unit, outside.lease_id, 1), UnitKept)
    assert isinstance(settle(pair, unit, inside.lease_id, 2, outcome=OUTCOME_REJECT), UnitKept)
    assert why(settle(pair, unit, outside.lease_id, 1)) == "BAD_REQUEST", "once is enough"
    assert payloads(pair) == [b"z/1", b"z/2"]
    assert isinstance(commit(pair, unit), UnitDone)
    assert (payloads(pair), payloads(pair, "q.dead")) == ([], [b"z/2"])


def test_u6_a_lease_that_ended_meanwhile_rolls_the_unit_back(pair: Pair) -> None:
    outside = got(pair)
    unit = begun(pair)
    got(pair, unit)
    settle(pair, unit, outside.lease_id, 1)
    put(pair, unit, "r", b"a")
    returned = Settlement(lease_id=outside.lease_id, ranges=[IndexRange(first=1, count=1)], outcome=2)
    asked(pair, SettleCall("q", [returned], new_id(), 1))
    assert why(commit(pair, unit)) == "LEASE_LOST"
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert queue_of(pair).deliveries == {2: 1}, "it was rolled back"
    assert payloads(pair, "r") == []


def test_u7_a_refusal_leaves_it_open(pair: Pair) -> None:
    """Example 3, its second half: full now, and not any more."""
    create(pair, "small", max_length=1)
    unit = begun(pair)
    got(pair, unit)
    put(pair, unit, "small", b"a")
    other = begun(pair)
    put(pair, other, "small", b"b")
    assert isinstance(commit(pair, other), UnitDone)
    assert why(commit(pair, unit)) == "QUEUE_FULL"
    taken = got(pair, queue="small")
    last = begun(pair)
    ranges = [IndexRange(first=1, count=1)]
    made = Settlement(lease_id=taken.lease_id, ranges=ranges, outcome=OUTCOME_ACK)
    asked(pair, SettleInUnit(last, "small", new_id(), 1, [made]))
    assert isinstance(commit(pair, last), UnitDone)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(pair, "small") == [b"a"]


def changed(pair: Pair, queue: str, **config: Any) -> None:
    call = QueueCall(QUEUE_ACTION_UPDATE, queue, QueueConfig(**config), list(config))
    assert isinstance(asked(pair, call), QueueDone)


def test_u7_a_queue_that_was_disabled_or_deleted_between_put_and_commit(pair: Pair) -> None:
    unit = begun(pair)
    got(pair, unit)
    put(pair, unit, "r", b"a")
    changed(pair, "r", enqueue_enabled=False)
    assert why(commit(pair, unit)) == "ENQUEUE_DISABLED"
    changed(pair, "r", enqueue_enabled=True)
    assert isinstance(asked(pair, QueueCall(QUEUE_ACTION_DELETE, "r")), QueueDone)
    gone = commit(pair, unit)
    assert why(gone) == "QUEUE_NOT_FOUND"
    assert (gone.metadata["queue"], "queue r was deleted" in gone.message) == ("r", True)
    create(pair, "r")
    assert why(commit(pair, unit)) == "QUEUE_NOT_FOUND", "another queue of that name is another queue"
    assert asked(pair, RollbackUnit(unit)) == UnitEnded(1)


def test_what_a_unit_got_from_a_queue_that_is_gone_rolls_it_back(pair: Pair) -> None:
    unit = begun(pair)
    got(pair, unit)
    put(pair, unit, "r", b"a")
    assert isinstance(asked(pair, QueueCall(QUEUE_ACTION_DELETE, "q")), QueueDone)
    lost = commit(pair, unit)
    assert why(lost) == "LEASE_LOST"
    assert "message 1 of a queue that was deleted" in lost.message
    assert payloads(pair, "r") == []


def test_u4_what_can_be_refused_at_once_is(pair: Pair) -> None:
    create(pair, "tiny", max_message_bytes=2)
    unit = begun(pair)
    assert why(put(pair, unit, "tiny", b"a", b"abc")) == "MESSAGE_TOO_LARGE"
    assert why(put(pair, unit, "nowhere", b"a")) == "QUEUE_NOT_FOUND"
    assert why(put(pair, unit, "r")) == "BAD_REQUEST"
    changed(pair, "s", enqueue_enabled=False)
    assert why(put(pair, unit, "s", b"a")) == "ENQUEUE_DISABLED"
    assert isinstance(put(pair, unit, "tiny", b"ab"), UnitKept)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(pair, "tiny") == [b"ab"]


def test_a_put_that_is_repeated_is_one(pair: Pair) -> None:
    unit, name = begun(pair), new_id()
    assert put(pair, unit, "r", b"a", request_id=name) == UnitKept(duplicate=False)
    assert put(pair, unit, "r", b"a", request_id=name) == UnitKept(duplicate=True)
    assert why(put(pair, unit, "r", b"b", request_id=name)) == "REQUEST_MISMATCH"
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(pair, "r") == [b"a"]


def test_a_get_that_is_repeated_gives_the_same(pair: Pair) -> None:
    unit, name = begun(pair), new_id()
    assert pair.master is not None
    leases = []
    for _ in range(2):
        waiter = taking(pair.master, unit, request_id=name)
        pair.settle()
        assert isinstance(waiter.done, LeaseDone)
        leases.append(waiter.done.lease_id)
    assert leases[0] == leases[1]
    asked(pair, RollbackUnit(unit))
    waiter = taking(pair.master, unit, request_id=name)
    pair.settle()
    assert why(waiter.done) == "TXN_ABORTED", "nobody is given what is not locked for him any more"


def test_a_get_that_waits_ends_with_its_unit(pair: Pair) -> None:
    unit = begun(pair)
    assert pair.master is not None
    waiting = taking(pair.master, unit, "r")
    pair.settle()
    asked(pair, RollbackUnit(unit))
    Producer(pair, "y", "r").send(pair.master)
    pair.settle()
    assert why(waiting.done) == "TXN_ABORTED"
    assert queue_of(pair, "r").ready_count == 1


def test_a_get_that_waits_is_given_nothing_by_the_commit_of_its_own_unit(pair: Pair) -> None:
    """The commit makes the next of a group ready: locked for a unit that has ended, nothing ended that lease."""
    create(pair, "g", group_mode=GROUP_MODE_ORDERED)
    send(pair, "g", b"1", b"2", group_ids=["h"])
    unit = begun(pair)
    got(pair, unit, "g")
    assert pair.master is not None
    waiting = taking(pair.master, unit, "g")
    other = taking(pair.master, b"", "g")
    pair.settle()
    assert (waiting.done, other.done) == (None, None)
    assert isinstance(commit(pair, unit), UnitDone)
    assert why(waiting.done) == "INVALID_STATE"
    assert isinstance(other.done, LeaseDone), "it goes to whoever else waits"
    assert [lease.unit for lease in queue_of(pair, "g").leases.values()] == [b""]


def test_a_get_that_fills_its_unit_may_be_repeated() -> None:
    """Else its caller hears a refusal, and the commit acknowledges what nobody has seen."""
    pair = Pair(limits=Limits(settlement_ranges_max=2)).start()
    create(pair, "q")
    send(pair, "q", b"1", b"2", b"3")
    unit = begun(pair)
    assert pair.master is not None
    first = taking(pair.master, unit, most=3, request_id=b"r" * 16)
    pair.settle()
    again = taking(pair.master, unit, most=3, request_id=b"r" * 16)
    more = taking(pair.master, unit, most=3, request_id=b"s" * 16)
    pair.settle()
    assert [(part.first_index, part.count) for part in again.done.slices] == [(1, 2)]
    assert (again.done.lease_id, again.done.duplicate) == (first.done.lease_id, True)
    assert why(more.done) == "TXN_TOO_LARGE"


def test_a_commit_that_was_overtaken_by_a_put_is_made_anew(pair: Pair) -> None:
    unit = begun(pair)
    put(pair, unit, "r", b"a")
    stale = commit_of(pair, unit)
    put(pair, unit, "r", b"b")
    assert isinstance(asked(pair, stale), Moved)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(pair, "r") == [b"a", b"b"]


def test_a_unit_with_nothing_in_it_commits_and_says_so_again(pair: Pair) -> None:
    unit = begun(pair)
    assert [commit(pair, unit).duplicate for _ in range(2)] == [False, True]


@pytest.mark.parametrize("what", ["messages", "bytes", "ranges", "queues", "calls"])
def test_u3_what_one_record_does_not_hold_is_refused_before_it_is_kept(what: str) -> None:
    limits = Limits(
        batch_messages_max=3, batch_bytes_max=1_000, message_bytes_max=1_000, settlement_ranges_max=1
    )  # fmt: skip
    pair = Pair(limits=limits).start()
    for queue in ("q", "r"):
        create(pair, queue)
    assert pair.master is not None
    Producer(pair, "z").send(pair.master)
    Producer(pair, "y").send(pair.master)
    unit = begun(pair)
    put(pair, unit, "r", b"a")
    if what == "messages":
        done = put(pair, unit, "r", b"a", b"b", b"c")
    elif what == "bytes":
        done = put(pair, unit, "r", bytes(1_000))
    elif what == "ranges":
        got(pair, unit)
        waiter = taking(pair.master, unit)
        pair.settle()
        done = waiter.done
    elif what == "queues":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(open_units, "QUEUES_MAX", 1)
            done = put(pair, unit, "q", b"b")
    else:
        for _ in range(2):
            put(pair, unit, "r")  # refused, and not counted
        for _ in range(2):
            assert isinstance(put(pair, unit, "r", b""), UnitKept)
        outside = got(pair)
        done = settle(pair, unit, outside.lease_id, 1)
    assert why(done) == "TXN_TOO_LARGE"
    assert what in done.message
    assert isinstance(commit(pair, unit), UnitDone)


def test_u13_the_messages_of_a_unit_stand_together_and_units_stand_as_they_were_committed(pair: Pair) -> None:
    """Whatever their calls came between."""
    first, second = begun(pair), begun(pair)
    for unit, queue, payload in (
        (first, "r", b"1a"),
        (second, "r", b"2a"),
        (first, "s", b"1b"),
        (second, "r", b"2b"),
        (second, "s", b"2c"),
        (first, "r", b"1d"),
    ):
        assert isinstance(put(pair, unit, queue, payload), UnitKept)
    for unit in (second, first):
        assert isinstance(commit(pair, unit), UnitDone)
    assert (payloads(pair, "r"), payloads(pair, "s")) == ([b"2a", b"2b", b"1a", b"1d"], [b"2c", b"1b"])


def test_u3_units_and_their_bytes_have_a_limit(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_units, "UNITS_MAX", 2)
    monkeypatch.setattr(open_units, "BYTES_MAX", 100)
    monkeypatch.setattr(open_units, "GETS_MAX", 1)
    first, _ = begun(pair), begun(pair)
    assert why(asked(pair, BeginUnit(b"", 0))) == "QUOTA_EXCEEDED"
    assert why(put(pair, first, "r", bytes(200))) == "QUOTA_EXCEEDED"
    put(pair, first, "r", b"a")
    assert pair.master is not None
    units = pair.master.core.orders.units
    got(pair, first)
    waiter = taking(pair.master, first)
    pair.settle()
    assert why(waiter.done) == "QUOTA_EXCEEDED"
    assert units.bytes > 0
    asked(pair, RollbackUnit(first))
    assert (units.bytes, units.gets) == (0, 0)
    assert isinstance(asked(pair, BeginUnit(b"", 0)), UnitBegun)
    assert why(asked(pair, BeginUnit(b"", 3_600_001))) == "QUOTA_EXCEEDED"


def test_u5_a_unit_may_be_open_for_an_hour(pair: Pair) -> None:
    assert why(asked(pair, BeginUnit(b"", 3_600_001))) == "BAD_REQUEST"
    assert isinstance(asked(pair, BeginUnit(b"", 3_600_000)), UnitBegun)


def test_ids_are_never_given_twice(pair: Pair) -> None:
    ids = {asked(pair, BeginUnit(b"", 0)).unit_id for _ in range(3)}
    takeover(pair)
    ids |= {asked(pair, BeginUnit(b"", 0)).unit_id for _ in range(3)}
    assert len(ids) == 6


def test_u11_a_member_of_an_earlier_epoch_does_not_say_that_nothing_happened(pair: Pair) -> None:
    """It may have been replaced, and its successor has committed the unit."""
    unit = begun(pair)
    epoch = int.from_bytes(unit[8:12], "big")
    later = unit[:8] + (epoch + 1).to_bytes(4, "big") + unit[12:]
    for call in (CommitUnit(later, -1, None, b"", 0, "a"), RollbackUnit(later)):
        assert why(asked(pair, call)) == "STALE_EPOCH"
    assert why(put(pair, later, "r", b"a")) == "STALE_EPOCH"
    assert pair.master is not None
    waiter = taking(pair.master, later)
    pair.settle()
    assert why(waiter.done) == "STALE_EPOCH"
