"""Who enters a full queue, and when: waiters at both members, in the order in which they came to the master."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import google_crc32c
import pytest

from replica.core.state.calls import Consumer, PendingCall, PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed
from replica.machine import EnqueueCall, QueueCall, columns_of
from tandemq.peer.v1.record_pb2 import (
    QUEUE_ACTION_CLOSE,
    QUEUE_ACTION_DELETE,
    QUEUE_ACTION_UPDATE,
)
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create, remaining
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.member import Member

FULL = Reason.REASON_QUEUE_FULL


@pytest.fixture
def pair() -> Pair:
    """A pair whose queue takes two messages."""
    made = Pair()
    made.start()
    create(made, max_length=2)
    return made


class Sent:
    """One batch, and what was said of it."""

    def __init__(self, waiter: Waiter, call: PendingEnqueue) -> None:
        self.waiter, self.call = waiter, call

    @property
    def waits(self) -> bool:
        return not self.waiter.answers

    @property
    def index(self) -> int:
        (done,) = self.waiter.answers
        assert isinstance(done, EnqueueDone), done
        assert not done.refusals
        return done.first_index

    @property
    def refused(self) -> Any:
        """The one reason, of the call or of each of its entries."""
        (done,) = self.waiter.answers
        if isinstance(done, Failed):
            return done.reason
        assert isinstance(done, EnqueueDone)
        reasons = {reason for _, reason in done.refusals}
        assert len(done.refusals) == done.count, "some of it entered"
        return reasons.pop()


def send(
    member: Member, name: str, *, wait_ms: int = 0, first: int = 1, count: int = 1, size: int = 1, queue: str = "q"
) -> Sent:
    """A batch of the producer of that name; its payloads are name/sequence, or as long as asked."""
    payloads = [f"{name}/{first + at}".encode().ljust(size, b".") for at in range(count)]
    batch = EnqueueBatch(queue=queue, first_sequence=first, messages=MessageBatch(payloads=payloads))
    body, waiter = batch.SerializeToString(), Waiter()
    call = PendingEnqueue(
        waiter,
        EnqueueCall(
            queue, name.encode(), first, columns_of(batch), member.name, request_hash=google_crc32c.value(body)
        ),
        body,
        full_until_ms=member.pair.wall_ms + wait_ms if wait_ms else 0,
    )
    member.submit(call)
    return Sent(waiter, call)


def take(pair: Pair, count: int = 1) -> None:
    """Somebody removes so many messages."""
    member = pair.master
    assert member is not None
    consumer = Consumer(
        Waiter(), "q", b"taker", 0, immediate=True, credit_messages=count, credit_bytes=1 << 20,
        one_shot=True, member=member.name,
    )  # fmt: skip
    member.attach(consumer)


def act(pair: Pair, action: Any, **fields: Any) -> None:
    member = pair.master
    assert member is not None
    waiter = Waiter()
    member.submit(PendingCall(waiter, QueueCall(action, "q", **fields)))
    pair.quiesce()
    assert not isinstance(waiter.done, Failed), waiter.done


def update(pair: Pair, **config: Any) -> None:
    act(pair, QUEUE_ACTION_UPDATE, config=QueueConfig(**config), mask=list(config))


def waiters(pair: Pair) -> int:
    assert pair.master is not None
    return len(pair.master.core.orders.room)


def contents(pair: Pair) -> list[bytes]:
    assert pair.master is not None
    return [payload for _, payload in remaining(pair.master)]


def length(pair: Pair) -> int:
    assert pair.master is not None
    return pair.master.shared.machine.queue(1).length


def fill(pair: Pair, count: int = 2) -> None:
    assert pair.master is not None
    send(pair.master, "first", count=count)
    pair.quiesce()


# -- the order ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R158", "R157", "R055")
def test_waiters_at_both_members_enter_in_the_order_in_which_they_came_to_the_master(pair: Pair) -> None:
    """Semantics, worked example 6."""
    fill(pair)
    p1 = send(pair.b, "p1", wait_ms=60_000)
    pair.quiesce()
    p2 = send(pair.a, "p2", wait_ms=60_000)
    p3 = send(pair.b, "p3", wait_ms=60_000)
    pair.quiesce()
    assert p1.waits
    assert p2.waits
    assert waiters(pair) == 3
    take(pair)
    pair.quiesce()
    assert (p1.index, p2.waits) == (3, True)
    take(pair)
    pair.quiesce()
    assert (p2.index, p3.waits) == (4, True)
    take(pair)
    pair.settle(200)
    assert p3.index == 5
    assert waiters(pair) == 0
    assert contents(pair) == [b"p2/1", b"p3/1"]


@pytest.mark.requirement("R157")
def test_who_does_not_wait_is_refused_and_overtakes_nobody(pair: Pair) -> None:
    fill(pair, 1)
    large = send(pair.a, "large", wait_ms=60_000, count=2)
    small = send(pair.a, "small")
    pair.quiesce()
    assert large.waits, "there is room for one of its two messages"
    assert small.refused == FULL
    take(pair)
    pair.quiesce()
    assert large.index == 2


@pytest.mark.requirement("R158")
def test_a_small_call_waits_behind_a_large_one(pair: Pair) -> None:
    fill(pair, 1)
    large = send(pair.a, "large", wait_ms=60_000, count=2)
    small = send(pair.b, "small", wait_ms=60_000)
    pair.quiesce()
    assert large.waits
    assert small.waits
    take(pair)
    pair.quiesce()
    assert (large.index, small.waits) == (2, True)
    take(pair, 2)
    pair.quiesce()
    assert small.index == 4


@pytest.mark.parametrize("at", ["a", "b"])
def test_batches_of_one_producer_keep_their_order(pair: Pair, at: str) -> None:
    """The second one would find room while the first waits, and is no gap."""
    member = pair.members[at]
    fill(pair, 1)
    first = send(member, "p", wait_ms=60_000, count=2)
    second = send(member, "p", wait_ms=60_000, first=3)
    third = send(member, "p", wait_ms=60_000, first=4)
    pair.quiesce()
    assert (first.waits, second.waits, third.waits) == (True, True, True)
    for _ in range(5):
        take(pair)
        pair.quiesce()
    pair.settle(200)
    assert (first.index, second.index, third.index) == (2, 4, 5)


# -- the end of a wait -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R157")
@pytest.mark.parametrize("at", ["a", "b"])
def test_at_the_end_of_its_wait_a_call_is_refused_and_the_next_one_may_enter(pair: Pair, at: str) -> None:
    fill(pair, 1)
    large = send(pair.members[at], "large", wait_ms=500, count=2)
    pair.quiesce()
    small = send(pair.a, "small", wait_ms=60_000)
    pair.settle(400)
    assert large.waits
    pair.settle(300)
    (done,) = large.waiter.answers
    assert done.refusals == [(1, FULL)], "it is executed as if it had not waited, and there was room for one"
    assert small.waits
    take(pair)
    pair.settle(100)
    assert small.index == 3


def test_who_ends_behind_the_head_overtakes_nobody(pair: Pair) -> None:
    fill(pair, 1)
    head = send(pair.a, "head", wait_ms=60_000, count=2)
    behind = send(pair.a, "behind", wait_ms=500)
    pair.settle(800)
    assert head.waits
    assert behind.refused == FULL


@pytest.mark.requirement("R157")
def test_what_the_queue_can_never_hold_does_not_wait(pair: Pair) -> None:
    large = send(pair.a, "large", wait_ms=60_000, count=3)
    pair.quiesce()
    assert large.refused == FULL
    assert length(pair) == 0


@pytest.mark.requirement("R163")
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("disable", Reason.REASON_ENQUEUE_DISABLED),
        ("close", Reason.REASON_INVALID_STATE),
        ("delete", Reason.REASON_QUEUE_NOT_FOUND),
    ],
)
def test_all_waiters_are_released_when_nobody_may_send_any_more(pair: Pair, how: str, reason: Any) -> None:
    fill(pair)
    sent = [send(member, name, wait_ms=60_000) for name, member in (("p1", pair.b), ("p2", pair.a), ("p3", pair.b))]
    pair.quiesce()
    assert waiters(pair) == 3
    if how == "disable":
        update(pair, enqueue_enabled=False)
    elif how == "close":
        for member in ("a", "b"):
            act(pair, QUEUE_ACTION_CLOSE, member=member)
    else:
        act(pair, QUEUE_ACTION_DELETE)
    assert [each.refused for each in sent] == [reason] * 3
    assert waiters(pair) == 0


def test_closing_at_one_member_releases_who_waits_there(pair: Pair) -> None:
    fill(pair)
    at_a = send(pair.a, "at_a", wait_ms=60_000)
    at_b = send(pair.b, "at_b", wait_ms=60_000)
    pair.quiesce()
    act(pair, QUEUE_ACTION_CLOSE, member="b")
    assert at_b.refused == Reason.REASON_INVALID_STATE
    take(pair)
    pair.quiesce()
    assert at_a.index == 3


@pytest.mark.requirement("R159")
def test_a_higher_maximum_lets_waiters_in_and_a_lower_one_blocks(pair: Pair) -> None:
    fill(pair)
    sent = [send(pair.b, f"p{number}", wait_ms=60_000) for number in range(3)]
    pair.quiesce()
    update(pair, max_length=4)
    assert [each.waits for each in sent] == [False, False, True]
    update(pair, max_length=1)
    for taken in range(3):
        assert length(pair) == 4 - taken, "nothing is evicted"
        assert sent[2].waits
        take(pair)
        pair.quiesce()
    assert sent[2].waits, "as long as the maximum is the current length, nothing enters"
    take(pair)
    pair.quiesce()
    assert sent[2].index == 5


def test_a_waiter_that_fits_no_more_is_refused(pair: Pair) -> None:
    fill(pair)
    large = send(pair.a, "large", wait_ms=60_000, count=2)
    small = send(pair.a, "small", wait_ms=60_000)
    pair.quiesce()
    update(pair, max_length=1)
    assert large.refused == FULL
    assert small.waits


def test_bytes_are_waited_for_as_well(pair: Pair) -> None:
    update(pair, max_length=100, max_bytes=100, max_message_bytes=60)
    fill(pair)
    large = send(pair.b, "large", wait_ms=60_000, size=60)
    other = send(pair.b, "other", wait_ms=60_000, size=60)
    pair.quiesce()
    assert large.index == 3
    assert other.waits
    take(pair, 3)
    pair.quiesce()
    assert other.index == 4


# -- callers that leave ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["a", "b"])
def test_whose_client_has_gone_leaves(pair: Pair, at: str) -> None:
    fill(pair)
    gone = send(pair.members[at], "gone", wait_ms=60_000)
    pair.quiesce()
    stays = send(pair.b, "stays", wait_ms=60_000)
    pair.quiesce()
    gone.waiter.cancelled = True
    pair.members[at].core.withdraw(gone.call, pair.wall_ms)
    pair.members[at].dispatch(pair.members[at].core)
    pair.quiesce()
    assert waiters(pair) == 1
    take(pair)
    pair.settle(100)
    assert stays.index == 3
    assert b"gone/1" not in contents(pair)
    assert len(pair.b.core.holding) == 0


def test_a_repetition_keeps_the_place_and_is_answered_with_the_first(pair: Pair) -> None:
    """Its client lost the connection to the replica and asks the master itself."""
    fill(pair)
    first = send(pair.b, "p", wait_ms=60_000)
    pair.quiesce()
    other = send(pair.a, "other", wait_ms=60_000)
    again = send(pair.a, "p", wait_ms=60_000)
    first.waiter.cancelled = True
    pair.b.core.withdraw(first.call, pair.wall_ms)
    pair.b.dispatch(pair.b.core)
    pair.quiesce()
    assert waiters(pair) == 2
    take(pair)
    pair.settle(100)
    assert (again.index, other.waits) == (3, True)


def test_a_repetition_at_the_replica_waits_for_as_long_as_it_says(pair: Pair) -> None:
    fill(pair)
    first = send(pair.b, "p", wait_ms=500)
    pair.quiesce()
    again = send(pair.b, "p", wait_ms=5_000)
    pair.settle(1_000)
    assert first.waits
    assert again.waits
    take(pair)
    pair.settle(100)
    assert (first.index, again.index) == (3, 3)


def test_another_batch_under_a_waiting_identity_is_refused(pair: Pair) -> None:
    fill(pair)
    first = send(pair.a, "p", wait_ms=60_000)
    other = send(pair.b, "p", wait_ms=60_000, count=2)
    pair.quiesce()
    assert first.waits
    assert other.refused == Reason.REASON_REQUEST_MISMATCH
