"""Reactions over a pair in one process: what they act on, what they leave alone, and what a takeover leaves of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import reacting, reaction_looks
from replica.core.ordering.reacting import Reacting
from replica.core.ordering.reaction import Reaction
from replica.core.selection.filters import filter_of
from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import Failed, Moved, ReactionDone
from replica.machine import EnqueueCall, columns_of
from replica.machine.plan import react
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, ReactionCounts
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch, MessageFilter
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_ORDERED, QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Producer, Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_dying import begin, contents, info, payloads, reject, take
from tests.unit.replica.core.ordering.test_sweeps import act, numbered, send, update

if TYPE_CHECKING:
    from replica.core.selection.filters import Filter
    from tests.support.member import Member

CALL = b"the call's own i"


def where(**asked: Any) -> Filter:
    found = filter_of(MessageFilter(**asked))
    assert found is not None
    return found


class Call:
    """One attempt of a reaction at one member, turn by turn."""

    def __init__(self, member: Member, asked: Filter, *, first: bool = False, request_id: bytes = CALL, **more: Any):
        self.member, core = member, member.core
        self.reaction = Reaction("q", asked, first, request_id, 7, **more)
        self.reacting = Reacting(core.shared, core.orders, core.dying.read, core.consumers.exact_of)
        self.waiter = Waiter()

    def turn(self) -> bool:
        over = self.reacting.turn(self.reaction, self.waiter, self.member.pair.wall_ms)
        self.member.dispatch(self.member.core)
        return over

    def run(self) -> Any:
        """The answer to a call that nothing disturbs."""
        while not self.turn():
            pass
        self.member.pair.settle(200)
        return self.waiter.done


def run(pair: Pair, asked: Filter, **more: Any) -> Any:
    assert pair.master is not None
    return Call(pair.master, asked, **more).run()


def counts(done: Any) -> dict[str, int]:
    """Those that are not 0."""
    assert isinstance(done, ReactionDone), done
    return {field.name: value for field, value in done.counts.ListFields()}


def filled(count: int = 0, **config: Any) -> tuple[Pair, Member]:
    pair, master = begin(count, reactions_enabled=True, **config)
    create(pair, "r")
    return pair, master


def taken_over(pair: Pair) -> Member:
    """The master ends, and its peer serves."""
    old = pair.master
    assert old is not None
    pair.crash(old)
    old.peer.lost()
    pair.settle(3_000)
    assert pair.master is old.peer
    return old.peer


@pytest.mark.requirement("R189")
def test_v1_where_reactions_are_off_nothing_happens() -> None:
    pair, master = begin(2)
    before = master.shared.log.last_index
    done = run(pair, where(selector="tq_index > 0"))
    assert isinstance(done, Failed)
    assert done.reason == Reason.REASON_REACTION_DISABLED
    assert (master.shared.log.last_index, payloads(master, "q")) == (before, numbered(1, 2))
    update(pair, "q", reactions_enabled=True)
    assert counts(run(pair, where(selector="tq_index > 0"))) == {"applied": 2}
    update(pair, "q", reactions_enabled=False)
    assert run(pair, where(selector="tq_index > 0"), request_id=b"2" * 16).reason == Reason.REASON_REACTION_DISABLED


@pytest.mark.parametrize(
    ("asked", "gone"),
    [
        ({"correlation_id": "a"}, [1, 3, 5, 7, 9]),
        ({"group_id": "g"}, [1, 2, 3]),
        ({"correlation_id": "a", "group_id": "g"}, [1, 3]),
        ({"selector": "w >= 8"}, [9, 10]),
        ({"selector": "w >= 2", "group_id": "g"}, [3]),
    ],
)
@pytest.mark.parametrize("looks", [2, 2_000])
@pytest.mark.requirement("R194")
def test_v3_all_that_fit_are_gone_by_one_record(
    asked: dict[str, Any], gone: list[int], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaction_looks, "LOOKS_MAX", looks)
    pair, master = filled()
    weights = [{"entries": {"w": {"integer": at}}} for at in range(10)]
    rows = numbered(*range(1, 11))
    send(pair, "q", *rows, correlation_ids=["a", "b"] * 5, group_ids=["g"] * 3 + ["h"] * 7, properties=weights)
    before = master.shared.log.last_index
    assert counts(run(pair, where(**asked))) == {"applied": len(gone)}
    assert master.shared.log.last_index == before + 1
    left = [row for at, row in enumerate(rows, 1) if at not in gone]
    for member in (master, master.peer):
        assert payloads(member, "q") == left
        assert (info(member).reacted_total, info(member).purged_total) == (len(gone), 0)


@pytest.mark.requirement("R194")
def test_v3_ids_name_them_and_only_while_they_are_there() -> None:
    pair, master = filled(5)
    ids = [row.id for row in contents(master, "q")]
    wanted = where(ids=[ids[3], ids[1], b"x" * 16])
    assert counts(run(pair, wanted)) == {"applied": 2}
    assert payloads(master, "q") == numbered(1, 3, 5)
    assert counts(run(pair, wanted, request_id=b"2" * 16)) == {}


@pytest.mark.requirement("R202", "R213")
def test_v4_what_a_consumer_has_is_locked_and_what_died_or_is_inert_is_left() -> None:
    pair, master = filled(group_mode=GROUP_MODE_ORDERED)
    everything = where(selector="tq_index > 0")
    send(
        pair, "q", *numbered(1, 2, 3, 4, 5), group_ids=["", "g", "g", "", ""], inerts=[False, False, False, True, False]
    )
    taken = take(pair, 1)
    assert info(master).blocked == 1
    create(pair, "nowhere")
    update(pair, "q", dead_letter_queue="nowhere")
    update(pair, "nowhere", enqueue_enabled=False)
    taken_more = take(pair, 1)
    reject(pair, taken_more)
    pair.settle(100)
    assert (info(master).leased, info(master).dying, info(master).blocked) == (1, 1, 0)
    del taken
    assert counts(run(pair, everything)) == {"applied": 2, "locked": 1, "inert": 1, "dying": 1}
    assert payloads(master, "q") == payloads(master.peer, "q") == numbered(1, 2, 4)
    assert counts(run(pair, everything, request_id=b"2" * 16)) == {"locked": 1, "inert": 1, "dying": 1}


def test_v4_delayed_and_blocked_messages_are_acted_on_and_their_lines_go_on() -> None:
    """Worked example 6, first half: a timer is cancelled before its time, and nobody ever gets it."""
    pair, master = filled(group_mode=GROUP_MODE_ORDERED)
    send(pair, "q", *numbered(1, 2, 3), group_ids=["g"] * 3, delays_ms=[0, 0, 0], correlation_ids=["a", "b", "c"])
    send(pair, "q", b"timer", delays_ms=[60_000], correlation_ids=["order-17"])
    assert (info(master).ready, info(master).blocked, info(master).delayed) == (1, 2, 1)
    assert counts(run(pair, where(correlation_id="order-17"), first=True)) == {"applied": 1}
    assert counts(run(pair, where(correlation_id="a"), first=True, request_id=b"2" * 16)) == {"applied": 1}
    assert (info(master).ready, info(master).blocked, info(master).delayed) == (1, 1, 0), (
        "the next of the group is first"
    )
    assert counts(run(pair, where(correlation_id="c"), first=True, request_id=b"3" * 16)) == {"applied": 1}
    assert (info(master).ready, info(master).blocked) == (1, 0), "one that waits behind it"
    pair.settle(70_000)
    assert payloads(master, "q") == numbered(2)


def test_v5_the_first_is_the_one_that_would_be_delivered_first() -> None:
    pair, master = filled()
    send(
        pair, "q", *numbered(1, 2, 3, 4, 5),
        priorities=[0, 4, 9, 4, 9], delays_ms=[0, 0, 0, 9_000, 5_000], correlation_ids=["c"],
    )  # fmt: skip
    gone = []
    for number in range(6):
        before = payloads(master, "q")
        done = run(pair, where(correlation_id="c"), first=True, request_id=bytes([number]) * 16)
        assert counts(done) == ({"applied": 1} if number < 5 else {})
        gone += [row for row in before if row not in payloads(master, "q")]
    assert gone == numbered(3, 2, 1, 5, 4)


def test_v6_more_than_a_record_holds_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(react, "TARGETS_MAX", 3)
    pair, master = filled(4)
    done = run(pair, where(selector="tq_index > 0"))
    assert (done.reason, done.metadata) == (Reason.REASON_TXN_TOO_LARGE, {"limit": "3"})
    assert payloads(master, "q") == numbered(1, 2, 3, 4)
    assert counts(run(pair, where(selector="tq_index > 0"), first=True, request_id=b"2" * 16)) == {"applied": 1}


def test_v9_they_go_to_the_other_queue_at_once_with_their_times() -> None:
    pair, master = filled()
    send(
        pair, "q", *numbered(1, 2, 3, 4),
        priorities=[9, 4, 0, 4], ttls_ms=[0, 60_000, 0, 0], delays_ms=[0, 0, 30_000, 0],
        inerts=[False, False, False, True],
    )  # fmt: skip
    pair.settle(10_000)
    before = master.shared.log.last_index
    assert counts(run(pair, where(selector="tq_index > 0"), to="r")) == {"applied": 3, "inert": 1}
    assert master.shared.log.last_index == before + 1
    for member in (master, master.peer):
        assert (payloads(member, "q"), payloads(member, "r")) == (numbered(4), numbered(1, 2, 3))
    assert list(info(master, "r").ready_by_priority) == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert (info(master, "r").delayed, info(master).reacted_total) == (1, 3)
    pair.settle(21_000)
    assert info(master, "r").delayed == 0, "its delay began when it was sent"
    pair.settle(31_000)
    assert payloads(master, "r") == numbered(1, 3), "so did its time to live"


def test_v9_a_queue_that_cannot_take_them_refuses_all() -> None:
    pair, master = filled(3)
    everything = where(selector="tq_index > 0")
    for number, (to, reason) in enumerate(
        (("q", Reason.REASON_BAD_REQUEST), ("none", Reason.REASON_QUEUE_NOT_FOUND)), 1
    ):
        assert run(pair, everything, to=to, request_id=bytes([number]) * 16).reason == reason
    update(pair, "r", max_length=2)
    assert run(pair, everything, to="r").reason == Reason.REASON_QUEUE_FULL
    update(pair, "r", max_length=3, enqueue_enabled=False)
    assert run(pair, everything, to="r").reason == Reason.REASON_ENQUEUE_DISABLED
    assert (payloads(master, "q"), payloads(master, "r")) == (numbered(1, 2, 3), [])
    update(pair, "r", enqueue_enabled=True)
    assert counts(run(pair, everything, to="r")) == {"applied": 3}
    assert payloads(master, "r") == numbered(1, 2, 3)


def test_v9_what_no_time_makes_fit_stays_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master = filled()
    send(pair, "q", b"small", b"l" * 300)
    update(pair, "r", max_bytes=200, max_message_bytes=100)
    assert counts(run(pair, where(selector="tq_index > 0"), to="r")) == {"applied": 1, "refused": 1}
    assert (payloads(master, "q"), payloads(master, "r")) == ([b"l" * 300], [b"small"])
    monkeypatch.setattr(reacting, "BYTES_MAX", 299)
    update(pair, "r", max_bytes=1_000)
    done = run(pair, where(selector="tq_index > 0"), to="r", request_id=b"2" * 16)
    assert done.reason == Reason.REASON_TXN_TOO_LARGE


def test_a_repetition_gets_the_first_answer_at_whoever_serves() -> None:
    pair, _ = filled(3)
    first = run(pair, where(selector="tq_index < 3"))
    assert (counts(first), first.duplicate, first.copies) == ({"applied": 2}, False, 2)
    again = run(pair, where(selector="tq_index < 3"))
    assert (counts(again), again.duplicate, again.epoch) == ({"applied": 2}, True, first.epoch)
    now = taken_over(pair)
    after = run(pair, where(selector="tq_index < 3"))
    assert (after.counts, after.duplicate, after.epoch) == (first.counts, True, first.epoch)
    other = Call(now, where(selector="tq_index < 3"))
    other.reaction.request_hash = 8
    assert other.run().reason == Reason.REASON_REQUEST_MISMATCH


def test_one_that_found_nothing_finds_nothing_when_it_is_repeated() -> None:
    pair, master = filled()
    assert counts(run(pair, where(correlation_id="c"))) == {}
    send(pair, "q", b"late", correlation_ids=["c"])
    assert counts(run(pair, where(correlation_id="c"))) == {}
    assert payloads(master, "q") == [b"late"]


def test_two_reactions_for_one_message_act_once() -> None:
    pair, master = filled(1)
    one, two = (Call(master, where(selector="tq_index = 1"), request_id=name * 16) for name in (b"1", b"2"))
    assert one.turn()
    assert two.turn()
    pair.settle(200)
    assert [counts(each.waiter.done) for each in (one, two)] == [{"applied": 1}, {}]


def test_what_was_given_out_while_it_looked_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaction_looks, "LOOKS_MAX", 2)
    pair, master = filled(3)
    call = Call(master, where(selector="tq_index > 0"))
    assert not call.turn()
    take(pair, 1)
    assert counts(call.run()) == {"applied": 2, "locked": 1}
    assert payloads(master, "q") == numbered(1)


def test_a_queue_that_is_made_anew_while_it_looks_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaction_looks, "LOOKS_MAX", 2)
    pair, master = filled(3)
    call = Call(master, where(selector="tq_index > 0"))
    assert not call.turn()
    act(pair, QUEUE_ACTION_DELETE, "q")
    create(pair, "q", reactions_enabled=True)
    send(pair, "q", b"new")
    assert counts(call.run()) == {"applied": 1}
    act(pair, QUEUE_ACTION_DELETE, "q")
    gone = run(pair, where(selector="tq_index > 0"), request_id=b"2" * 16)
    assert gone.reason == Reason.REASON_QUEUE_NOT_FOUND


def test_what_was_ordered_and_is_not_committed_is_acted_on_too() -> None:
    pair, master = filled(1)
    producer = Producer(pair, "y")
    producer.send(master)
    assert len(producer.acked) == 0
    assert counts(run(pair, where(selector="tq_index > 0"))) == {"applied": 2}
    pair.settle()
    assert len(producer.acked) == 1
    assert payloads(master, "q") == payloads(master.peer, "q") == []


@pytest.mark.parametrize(
    ("asked", "left"),
    [({"group_id": "g"}, [2]), ({"correlation_id": "c"}, [3]), ({"group_id": "g", "correlation_id": "c"}, [2, 3])],
)
def test_v3_of_what_is_not_committed_yet_all_that_is_asked_for_is_looked_at(
    asked: dict[str, Any], left: list[int]
) -> None:
    """No index knows it: each message is read."""
    pair, master = filled()
    batch = MessageBatch(payloads=numbered(1, 2, 3), group_ids=["g", "h", "g"], correlation_ids=["c", "c", "d"])
    rows = EnqueueBatch(queue="q", messages=batch)
    call = EnqueueCall("q", b"", 0, columns_of(rows), "a", request_id=b"of the sender".rjust(16))
    master.submit(PendingEnqueue(Waiter(), call, rows.SerializeToString()))
    assert counts(run(pair, where(**asked))) == {"applied": 3 - len(left)}
    pair.settle(200)
    assert payloads(master, "q") == numbered(*left)


def test_whoever_loses_the_mastership_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaction_looks, "LOOKS_MAX", 2)
    _, master = filled(3)
    call = Call(master, where(selector="tq_index > 0"))
    assert not call.turn()
    call.reaction.epoch += 1
    assert isinstance(call.run(), Moved)
    at_replica = Call(master.peer, where(selector="tq_index > 0"))
    assert isinstance(at_replica.run(), Moved)


@pytest.mark.requirement("R209")
@pytest.mark.parametrize("steps", range(0, 24, 2))
@pytest.mark.parametrize("to", ["", "r"])
@pytest.mark.parametrize("who", ["master", "replica"])
def test_v6_all_of_it_or_nothing_whoever_stops_when(steps: int, to: str, who: str) -> None:
    pair, master = filled(3)
    call = Call(master, where(selector="tq_index > 0"), to=to)
    assert call.turn()
    pair.tick()
    for _ in range(steps):
        if not pair.one():
            pair.tick()
    pair.crash(master if who == "master" else master.peer, written=steps % 4 == 0)
    pair.heal()
    pair.settle(3_000)
    now = pair.master
    assert now is not None
    answered = call.waiter.done
    again = run(pair, where(selector="tq_index > 0"), to=to)
    assert counts(again) == {"applied": 3}
    if isinstance(answered, ReactionDone):
        assert again.duplicate, "what was answered has happened, and happens once"
    for member in (now, now.peer):
        assert (payloads(member, "q"), payloads(member, "r")) == ([], numbered(1, 2, 3) if to else [])


def test_require_two_refuses_what_one_copy_would_hold() -> None:
    pair, master = filled(1, require_two=True)
    pair.crash(master.peer)
    master.lost()
    pair.settle(3_000)
    assert pair.master is master
    done = run(pair, where(selector="tq_index > 0"))
    assert done.reason == Reason.REASON_NOT_ENOUGH_COPIES
    assert payloads(master, "q") == numbered(1)


def test_the_counts_of_the_record_are_those_of_the_answer() -> None:
    pair, master = filled(2)
    done = run(pair, where(selector="tq_index > 0"))
    header = master.shared.log.header_at(master.shared.log.last_index)
    assert [remove.reaction for remove in header.txn.removes] == [ReactionCounts(applied=2)] == [done.counts]
    assert QueueConfig(reactions_enabled=True).reactions_enabled


def test_a_reaction_that_fits_in_too_many_places_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaction_looks, "RUNS_MAX", 2)
    pair, master = filled()
    send(pair, "q", *numbered(*range(1, 7)), correlation_ids=["a", "b"] * 3, inerts=[False] * 4 + [True] * 2)
    done = run(pair, where(selector="tq_correlation_id = 'a'"))
    assert isinstance(done, Failed)
    assert (done.reason, done.metadata) == (Reason.REASON_TXN_TOO_LARGE, {"limit": "2"})
    assert payloads(master, "q") == numbered(*range(1, 7))
    assert counts(run(pair, where(selector="tq_index > 0"), request_id=b"2" * 16)) == {"applied": 4, "inert": 2}
