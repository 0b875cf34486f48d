"""New messages are leased in the step that orders them where that is plain, and delivered when they are committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.duration_pb2 import Duration

from replica.core.delivery.ahead import WAIT_MS_MAX
from replica.core.state.calls import Consumer, PendingCall, PendingEnqueue
from replica.core.state.outcomes import LeaseDone
from replica.machine import EnqueueCall, QueueCall, SettleCall, columns_of
from replica.machine.plan.lease import Coming
from tandemq.peer.v1.peer_service_pb2 import OpAck
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_ORDERED, PERSISTENCE_CONDITIONAL, QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_RELEASE, EnqueueBatch, Outcome, Settlement
from tests.support.clients import Producer, Waiter, create
from tests.support.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence


class Taker:
    """A consumer's stream at the master, and what it was handed."""

    def __init__(self, pair: Pair, name: str = "c", *, credit: int = 10, **more: Any) -> None:
        self.pair, self.waiter = pair, Waiter()
        self.consumer = Consumer(
            self.waiter, "q", name.encode(), 0, credit_messages=credit, credit_bytes=1 << 20, member="a", **more
        )
        pair.a.attach(self.consumer)
        pair.quiesce()

    @property
    def leases(self) -> list[tuple[int, list[int]]]:
        """Lease ids and indexes."""
        return [
            (done.lease_id, [part.first_index + at for part in done.slices for at in range(part.count)])
            for done in self.waiter.answers
            if isinstance(done, LeaseDone)
        ]

    @property
    def indexes(self) -> list[int]:
        return [index for _, part in self.leases for index in part]

    def settle(self, outcome: Outcome, place: int = -1) -> None:
        """One of its leases, all of it."""
        lease_id, indexes = self.leases[place]
        ranges = [IndexRange(first=index, count=1) for index in indexes]
        settlement = Settlement(lease_id=lease_id, ranges=ranges, outcome=outcome)
        self.pair.a.submit(PendingCall(Waiter(), SettleCall("q", [settlement])))

    def leave(self) -> None:
        self.waiter.cancelled = True
        self.pair.a.core.consumers.detach(self.consumer)
        self.pair.a.dispatch(self.pair.a.core)


def paired(**config: Any) -> Pair:
    pair = Pair().start()
    create(pair, **config)
    return pair


def ordered(pair: Pair, above: int) -> Sequence[str | None]:
    """Kinds of the records above that one in the master's log."""
    log = pair.a.shared.log
    headers = (log.header_at(index) for index in range(above + 1, log.last_index + 1))
    return [header.WhichOneof("op") for header in headers if header is not None]


def send_one(pair: Pair, name: str, *, into: Waiter | None = None, **columns: Any) -> Sequence[str | None]:
    """A message of a unary call, with what it says of itself, and what it becomes in one step."""
    above = pair.a.shared.log.last_index
    batch = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[name.encode()], **columns))
    body = batch.SerializeToString()
    identity = {"request_id": name.encode().rjust(16), "request_hash": 1}
    call = EnqueueCall("q", b"", 0, columns_of(batch), "a", **identity)
    pair.a.submit(PendingEnqueue(into or Waiter(), call, body))
    return ordered(pair, above)


def in_one_step(pair: Pair, producer: Producer) -> Sequence[str | None]:
    """What a message becomes before anything is written, sent or heard."""
    above = pair.a.shared.log.last_index
    producer.send(pair.a)
    return ordered(pair, above)


def test_a_lease_stands_right_behind_its_message_in_one_commit_and_one_frame() -> None:
    pair = paired()
    taker, producer = Taker(pair), Producer(pair, "p")
    assert in_one_step(pair, producer) == ["enqueue", "lease"]
    assert [append.log_index for append in pair.a.batch.appends] == [
        pair.a.shared.log.last_index - 1,
        pair.a.shared.log.last_index,
    ]
    assert pair.a.steps.pending.of_one_step() is pair.a.core, "as short a commit as that of one record"
    pair.quiesce(disks="a")
    assert pair.b.steps.pending.of_one_step() is pair.b.core
    assert pair.b.shared.log.last_index == pair.a.shared.log.last_index
    assert (taker.indexes, producer.ops[0].done) == ([], None), "the other member has not written it"
    pair.quiesce()
    assert taker.indexes == [1]
    assert producer.ops[0].done is not None
    taker.settle(OUTCOME_ACK)
    pair.quiesce()
    assert pair.a.core.orders.machine.queue_info("q", "a").length == 0


def test_it_is_delivered_when_its_own_record_is_committed_whatever_is_behind_it() -> None:
    pair = paired()
    taker = Taker(pair)
    in_one_step(pair, Producer(pair, "p"))
    enqueued = pair.a.shared.log.last_index - 1
    while pair.one(senders="a", disks="ab"):
        pass  # both have written it, and the master has not heard so
    assert taker.indexes == []
    pair.a.core.mastership.commit.on_op_ack(OpAck(durable_index=enqueued))
    pair.a.dispatch(pair.a.core)
    assert pair.a.shared.progress.commit_index == enqueued
    assert taker.indexes == [1]


def test_a_message_that_the_other_member_holds_is_leased_behind_it_too() -> None:
    pair = paired()
    taker, producer, above = Taker(pair), Producer(pair, "p"), pair.a.shared.log.last_index
    producer.send(pair.b)
    pair.quiesce(disks="a")
    assert ordered(pair, above) == ["enqueue", "lease"]
    assert taker.indexes == []
    pair.quiesce()
    assert taker.indexes == [1]
    assert producer.ops[0].member == "b"


def test_of_a_queue_one_is_under_way_and_what_comes_meanwhile_is_leased_together() -> None:
    pair = paired()
    taker, producer, above = Taker(pair), Producer(pair, "p"), pair.a.shared.log.last_index
    for _ in range(4):
        producer.send(pair.a)
    assert ordered(pair, above) == ["enqueue", "lease", "enqueue", "enqueue", "enqueue"]
    pair.quiesce()
    assert [part for _, part in taker.leases] == [[1], [2, 3, 4]]
    assert in_one_step(pair, producer) == ["enqueue", "lease"], "it is over"


def _returned(pair: Pair) -> None:
    """A message that came back lies there, and its consumer has credit again before anybody has looked."""
    taker = Taker(pair, credit=1)
    Producer(pair, "other").send(pair.a)
    pair.quiesce()
    taker.settle(OUTCOME_RELEASE)
    pair.quiesce()
    taker.consumer.credit_messages = 10


def _damaged(pair: Pair) -> None:
    Taker(pair)
    pair.a.shared.damaged.add(1)


def _gone(pair: Pair) -> None:
    Taker(pair).waiter.cancelled = True


def _hidden(pair: Pair) -> None:
    Taker(pair)
    pair.a.core.orders.machine.state.stages.hidden[1] = 1  # what a publication is bringing; the queue's own, or not


def _disabled(pair: Pair) -> None:
    """An administrator has just said so; consumers have not been sent away."""
    Taker(pair)
    pair.a.core.consumers.on_queue = lambda _: None  # type: ignore[method-assign]
    call = QueueCall(QUEUE_ACTION_UPDATE, "q", QueueConfig(dequeue_enabled=False), members=["a", "b"], open_members=[])
    pair.a.submit(PendingCall(Waiter(), call))
    pair.quiesce()


def _silent(pair: Pair) -> None:
    Taker(pair)
    pair.a.shared.suspect = True


OLD_WAYS: dict[str, tuple[dict[str, Any], Callable[[Pair], object], bool]] = {
    "nobody waits": ({}, lambda pair: pair, False),
    "no credit of messages": ({}, lambda pair: Taker(pair, credit=0), False),
    "a stream that is over": ({}, _gone, False),
    "one consumer at a time": ({"single_active": True}, Taker, False),
    "groups": ({"group_mode": GROUP_MODE_ORDERED}, Taker, False),
    "removed at delivery": ({}, lambda pair: Taker(pair, immediate=True), False),
    "a Dequeue call": ({}, lambda pair: Taker(pair, one_shot=True), False),
    "a call with a request id": ({}, lambda pair: Taker(pair, request_id=b"r"), False),
    "only what fits": ({}, lambda pair: Taker(pair, wanted=Coming()), False),
    "volatile": ({"persistence": PERSISTENCE_CONDITIONAL}, Taker, True),
    "something is there": ({}, _returned, False),
    "damage is known": ({}, _damaged, False),
    "a publication is under way": ({}, _hidden, False),
    "receiving is disabled": ({}, _disabled, False),
    "the peer is silent": ({}, _silent, False),
}


@pytest.mark.parametrize(("config", "consume", "volatile"), OLD_WAYS.values(), ids=OLD_WAYS)
def test_where_it_is_not_plain_a_lease_waits_for_the_commit(
    config: dict[str, Any], consume: Callable[[Pair], object], *, volatile: bool
) -> None:
    pair = paired(**config)
    consume(pair)
    producer = Producer(pair, "p", volatile=volatile)
    assert in_one_step(pair, producer) == ["enqueue"]
    assert producer.ops[0].failures == []


def test_consumers_are_served_in_turn() -> None:
    pair = paired()
    idle, first, second = Taker(pair, "0", credit=0), Taker(pair, "1"), Taker(pair, "2")
    producer = Producer(pair, "p")
    for _ in range(4):
        producer.send(pair.a)
        pair.quiesce()
    assert (idle.indexes, first.indexes, second.indexes) == ([], [1, 3], [2, 4])


def test_who_leaves_before_the_commit_gives_back_what_he_never_had() -> None:
    pair = paired()
    gone, other = Taker(pair, "1"), Taker(pair, "2", credit=0)
    assert in_one_step(pair, Producer(pair, "p")) == ["enqueue", "lease"]
    gone.leave()
    pair.quiesce()
    assert gone.indexes == []
    other.consumer.credit_messages = 1
    pair.a.core.consumers.on_credit(other.consumer)
    pair.a.dispatch(pair.a.core)
    assert other.indexes == [1]
    (part,) = other.waiter.answers[-1].slices
    assert part.delivery_counts is None, "it was never delivered before"


def test_what_he_gives_back_goes_to_the_next_at_once() -> None:
    pair = paired()
    gone, other = Taker(pair, "1"), Taker(pair, "2")
    in_one_step(pair, Producer(pair, "p"))
    gone.leave()
    pair.quiesce()
    assert (gone.indexes, other.indexes) == ([], [1])


def test_a_queue_that_is_deleted_meanwhile_delivers_nothing() -> None:
    pair = paired()
    taker = Taker(pair)
    in_one_step(pair, Producer(pair, "p"))
    call = QueueCall(QUEUE_ACTION_DELETE, "q", QueueConfig(), members=["a", "b"], open_members=[])
    pair.a.submit(PendingCall(Waiter(), call))
    pair.quiesce()
    assert taker.indexes == []


def slowly(pair: Pair, milliseconds: int) -> Sequence[str | None]:
    """So long passes, and no disk writes anything; what is ordered meanwhile."""
    above = pair.a.shared.log.last_index
    for _ in range(milliseconds // 20):
        pair.tick(20)
    return ordered(pair, above)


def counts(taker: Taker) -> list[list[int] | None]:
    """How often what it was handed was delivered, that time included; None: it was the first."""
    return [part.delivery_counts for done in taker.waiter.answers for part in done.slices]


def test_no_lease_ends_that_nobody_was_given() -> None:
    """A slow commit outlasts a short lease: its message died of one delivery that never was."""
    pair = paired(lease_duration=Duration(seconds=1), max_deliveries=1)
    taker = Taker(pair, credit=1)
    assert in_one_step(pair, Producer(pair, "p")) == ["enqueue", "lease"]
    assert slowly(pair, 3_000) == ["settle"], "it waits for its commit as if nobody had been leased it"
    pair.quiesce()
    assert (taker.indexes, counts(taker)) == ([1], [None])
    assert taker.consumer.credit_messages == 0
    assert pair.a.core.orders.machine.queue_info("q", "a").dead_lettered_total == 0


def test_a_lease_is_delivered_while_most_of_its_time_is_left() -> None:
    pair = paired(lease_duration=Duration(seconds=1))
    taker = Taker(pair)
    in_one_step(pair, Producer(pair, "p"))
    pair.now_ms += 501  # and the commit is there before the next tick
    pair.a.core.orders.set_now(pair.wall_ms)
    pair.quiesce()
    ((lease_id, indexes),) = taker.leases
    assert (indexes, counts(taker)) == ([1], [None])
    assert pair.a.core.orders.machine.state.leases[lease_id].since_ms == pair.wall_ms


def test_what_comes_back_to_the_queue_waits_for_no_slow_commit() -> None:
    pair = paired()
    taker, producer = Taker(pair, credit=3), Producer(pair, "p")
    producer.send(pair.a)
    pair.quiesce()
    in_one_step(pair, producer)
    taker.settle(OUTCOME_RELEASE)
    assert slowly(pair, WAIT_MS_MAX) == []
    assert slowly(pair, 20) == ["settle", "lease"]
    assert taker.indexes == [1, 1], "what is committed is delivered, whatever the disk does"
    pair.quiesce()
    assert taker.indexes == [1, 1, 2]


def test_a_message_whose_time_is_over_before_its_commit_is_delivered_to_nobody() -> None:
    pair = paired()
    taker = Taker(pair)
    assert send_one(pair, "short", ttls_ms=[100]) == ["enqueue", "lease"]
    slowly(pair, 200)
    pair.settle(100)
    assert taker.indexes == []
    info = pair.a.core.orders.machine.queue_info("q", "a")
    assert (info.length, info.expired_total) == (0, 1)
    assert taker.consumer.credit_messages == 10


def test_who_is_back_before_the_commit_gets_it_under_a_lease_of_his_own() -> None:
    pair = paired()
    gone = Taker(pair)
    in_one_step(pair, Producer(pair, "p"))
    gone.leave()
    waiter = Waiter()
    again = Consumer(waiter, "q", b"c", 0, credit_messages=1, credit_bytes=1 << 20, member="a")
    pair.a.core.attach(again, pair.wall_ms, 0)
    pair.a.dispatch(pair.a.core)
    assert waiter.answers == []
    pair.quiesce()
    assert gone.indexes == []
    assert [part.first_index for done in waiter.answers for part in done.slices] == [1]


def test_a_gone_consumers_message_is_free_again_when_a_handoff_came_to_nothing() -> None:
    pair = paired()
    gone, other = Taker(pair, "1"), Taker(pair, "2")
    in_one_step(pair, Producer(pair, "p"))
    gone.leave()
    pair.a.shared.drain(draining=True)  # nothing may be ordered while the last of it is committed
    pair.quiesce()
    assert other.indexes == []
    pair.a.shared.drain(draining=False)
    pair.settle(100)
    assert other.indexes == [1]


def test_whoever_is_next_stays_it_when_a_message_is_not_for_now() -> None:
    """Else of two consumers one got everything, where every other message was delayed."""
    pair = paired()
    first, second = Taker(pair, "1"), Taker(pair, "2")
    for number in range(4):
        assert send_one(pair, f"later {number}", delays_ms=[3_600_000]) == ["enqueue"]
        assert send_one(pair, f"now {number}") == ["enqueue", "lease"]
        pair.quiesce()
    assert (first.indexes, second.indexes) == ([2, 6], [4, 8])


def test_a_batch_of_which_nothing_entered_leases_nothing_else_ahead() -> None:
    pair = paired(persistence=PERSISTENCE_CONDITIONAL)
    Taker(pair)
    assert send_one(pair, "one", dedup_ids=["x"], persistence=[1]) == ["enqueue"], "volatile, and not committed yet"
    assert send_one(pair, "two", dedup_ids=["x"], persistence=[2]) == ["enqueue"], "it was there"


def test_leases_reach_a_consumer_in_their_order() -> None:
    pair = paired()
    taker, producer = Taker(pair, credit=3), Producer(pair, "p")
    producer.send(pair.a)
    pair.quiesce()
    assert in_one_step(pair, producer) == ["enqueue", "lease"]
    taker.settle(OUTCOME_RELEASE)  # it could be leased anew before the other one is delivered
    pair.quiesce()
    ids = [lease_id for lease_id, _ in taker.leases]
    assert taker.indexes == [1, 2, 1]
    assert ids == sorted(ids), "else a stream that breaks would not ask for what it missed"


def test_after_a_takeover_a_consumer_that_never_had_it_gets_it_at_once() -> None:
    pair = paired()
    taker = Taker(pair)
    in_one_step(pair, Producer(pair, "p"))
    pair.quiesce(disks="b")  # both records are on the disk of the other one alone
    assert taker.indexes == []
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(2_000)
    assert pair.b.serving
    waiter = Waiter()
    again = Consumer(waiter, "q", b"c", 0, credit_messages=10, credit_bytes=1 << 20, member="b")
    pair.b.core.attach(again, pair.wall_ms, 0)
    pair.b.dispatch(pair.b.core)
    pair.quiesce()
    assert [part.first_index for done in waiter.answers for part in done.slices] == [1]
