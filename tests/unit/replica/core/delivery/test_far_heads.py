"""Heads of queues of other managers at a macro queue of a pair: whom they go to, and whom their members hold back (M7).
The shell, which speaks with those managers, is the test.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from replica.core.delivery.far_heads import AWAY, HEAD_MS, HEARD, IDLE, LATE, FarMember
from replica.core.messages.far_bodies import runs_of
from replica.core.state.calls import PendingCall
from replica.core.state.far_runs import FarRun, left_of
from replica.core.state.outcomes import QueueDone
from replica.machine import ProxyCall
from replica.machine.features import proxies
from replica.machine.features.macros import ADD
from tandemq.far_leases import far_lease, is_far, lease_there
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.message_pb2 import DeliveredSegment, MessageBatch
from tandemq.v1.queue_service_pb2 import DequeueResponse, EnqueueBatch
from tests.support.clients import Waiter
from tests.unit.replica.core.delivery.test_fan_in import CONSUMER, Taker, begun, change, send

if TYPE_CHECKING:
    from replica.core.delivery.far_heads import FarHeads
    from replica.machine.state.macros import MacroQueue
    from tests.support.pair import Pair

LEASE = 7 << 40 | 1
LONG_MS = 30_000


class Woken:
    """The shell: it does nothing by itself."""

    def __init__(self) -> None:
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1


def far_of(pair: Pair) -> FarHeads:
    assert pair.master is not None
    return pair.master.core.consumers.fan_in.far


def beside(
    policy: pb.MacroPolicy = pb.MACRO_POLICY_PRIORITIZED, priority: int = 9, **own: int
) -> tuple[Pair, FarMember]:
    """A macro queue with these members here, and with one at another manager behind them."""
    pair, waiter = begun(CONSUMER, policy, **own), Waiter()
    assert pair.master is not None
    pair.master.submit(PendingCall(waiter, ProxyCall(proxies.CREATE, "p", b"", 0, target="//west/orders")))
    pair.settle(200)
    assert isinstance(waiter.done, QueueDone), waiter.done
    far_of(pair).shell = Woken()
    change(pair, ADD, queue="p", priority=priority)
    machine = pair.master.core.shared.machine
    assert machine is not None
    macro: MacroQueue = machine.state.macros.by_name["m"]
    (member,) = far_of(pair).of(machine.state, macro).values()
    return pair, member


def come(pair: Pair, member: FarMember, *indexes: int, lease_id: int = LEASE, at_ms: int = 1) -> None:
    """These were leased there; none: it has answered that there is nothing."""
    member.keep([_run(index, lease_id, at_ms) for index in indexes])
    member.set(HEARD)
    look(pair)


def look(pair: Pair) -> None:
    master = pair.master
    assert master is not None
    macro_ids = list(far_of(pair).macros)
    master.core.consumers.pump(macro_ids)
    master.dispatch(master.core)
    pair.quiesce()


def indexes_of(runs: Iterable[FarRun]) -> list[int]:
    return [run.index_at(place) for run in runs for place in range(run.start, run.end)]


def claimed(member: FarMember) -> list[list[int]]:
    return [indexes_of(claim.lease.runs) for claim in member.claims]


def test_a_member_that_has_not_answered_holds_back_those_behind_it() -> None:
    pair, member = beside(low=1)
    send(pair, "low")
    taker = Taker(pair)
    assert (taker.got, member.state) == ([], IDLE)
    shell = far_of(pair).shell
    assert isinstance(shell, Woken)
    assert shell.wakes > 0
    come(pair, member)
    assert taker.got == ["low"]


def test_one_that_is_late_or_away_holds_back_nobody() -> None:
    for state in (LATE, AWAY):
        pair, member = beside(low=1)
        send(pair, "low")
        taker = Taker(pair)
        member.set(state, "why")
        look(pair)
        assert taker.got == ["low"]


def test_one_behind_those_here_is_not_asked_while_they_have_something() -> None:
    pair, member = beside(priority=0, high=9)
    send(pair, "high")
    taker = Taker(pair)
    assert (taker.got, member.state) == (["high"], IDLE)


def test_a_head_is_delivered_by_the_shell_alone_and_is_given_once() -> None:
    """Until its lease there lasts as long as the consumer may have it, nobody gets it."""
    pair, member = beside(low=1)
    first, other = Taker(pair, "c1"), Taker(pair, "c2")
    come(pair, member, 1)
    assert (first.got, other.got, claimed(member)) == ([], [], [[1]])
    assert first.consumer.credit_messages + other.consumer.credit_messages == 1
    (claim,) = member.claims
    assert (claim.lease.lease_id, claim.lease.queue) == (far_lease(LEASE), "p")
    come(pair, member)
    send(pair, "low")
    assert first.got + other.got == ["low"], "the other one is served meanwhile"


def test_what_was_lost_there_is_not_missing_from_the_credit() -> None:
    pair, member = beside(low=1)
    taker = Taker(pair)
    come(pair, member, 1)
    (claim,) = member.claims
    come(pair, member)
    send(pair, "low")
    assert taker.got == []
    assert pair.master is not None
    pair.master.core.consumers.take_back(claim.consumer, 1)
    pair.master.dispatch(pair.master.core)
    pair.quiesce()
    assert taker.got == ["low"]


def test_a_delivery_has_messages_of_one_lease_and_no_more_than_its_credit() -> None:
    pair, member = beside(low=1)
    come(pair, member, 1, 2, 3)
    come(pair, member, 4, lease_id=LEASE + 1)
    taker = Taker(pair, credit=2, lease_ms=LONG_MS)
    assert claimed(member) == [[1, 2]]
    assert indexes_of(member.heads) == [3, 4]
    for _ in range(2):
        taker.ask()
    assert claimed(member) == [[1, 2], [3], [4]]


def test_what_went_out_and_back_is_counted_for_each_member() -> None:
    _, member = beside(low=1)
    member.count(delivered=3)
    member.count(delivered=2, returned=1)
    assert (member.delivered, member.returned) == (5, 1)


def test_a_lease_is_one_consumers_and_what_he_leaves_of_it_goes_back() -> None:
    """It has one end: the time that another one asks for would be his too, and what he holds come again under it."""
    pair, member = beside(low=1)
    come(pair, member, 1, 2)
    come(pair, member, 3, lease_id=LEASE + 1)
    Taker(pair, "c1", lease_ms=LONG_MS)
    Taker(pair, "c2", credit=5, lease_ms=LONG_MS)
    assert claimed(member) == [[1]]
    assert (indexes_of(member.back), member.state) == ([2, 3], IDLE), "in their order, so the third one too"
    come(pair, member, 2, 3, lease_id=LEASE + 2)
    assert claimed(member) == [[1], [2, 3]]


def test_what_is_left_of_a_short_lease_goes_back_at_once() -> None:
    pair, member = beside(low=1)
    come(pair, member, 1, 2)
    Taker(pair, lease_ms=200)
    assert (claimed(member), indexes_of(member.back)) == ([[1]], [2])
    assert pair.master is not None
    machine = pair.master.core.shared.machine
    assert machine is not None
    machine.state.named("low").config.lease_duration.FromMilliseconds(HEAD_MS - 1)
    come(pair, member, 3, 4)
    Taker(pair, "c2", lease_ms=0)
    assert (claimed(member)[-1], indexes_of(member.back)) == ([3], [2, 4]), "as the queue here has it"


def test_ages_are_compared_with_what_is_here() -> None:
    pair, member = beside(pb.MACRO_POLICY_CHRONOLOGICAL, own=0)
    send(pair, "own")
    come(pair, member, 1, at_ms=1)
    come(pair, member, 2, at_ms=10**14, lease_id=LEASE + 1)
    taker = Taker(pair)
    assert (taker.got, claimed(member)) == ([], [[1]])
    taker.ask()
    assert taker.got == ["own"]
    taker.ask()
    assert claimed(member) == [[1], [2]]


def test_the_turn_goes_round_all_members() -> None:
    pair, member = beside(pb.MACRO_POLICY_ROUND_ROBIN, one=0, two=0)
    send(pair, "one", 2)
    send(pair, "two", 2)
    come(pair, member, 1)
    come(pair, member, 2, lease_id=LEASE + 1)
    taker, seen = Taker(pair), list[str]()
    for number in range(6):  # each call is a consumer of its own
        seen = [*taker.got, *("p" for _ in member.claims)]
        assert len(seen) == number + 1
        if number == 2:
            assert sorted(seen) == ["one", "p", "two"]
        taker.ask()
    assert sorted(seen) == ["one", "one", "p", "p", "two", "two"]


def test_a_member_that_serves_no_more_forgets_what_it_held() -> None:
    pair, member = beside(low=1)
    come(pair, member, 1)
    assert pair.master is not None
    pair.master.core.consumers.on_following()
    assert not far_of(pair).macros


def test_nothing_is_kept_of_a_macro_queue_that_is_deleted() -> None:
    pair, member = beside()
    come(pair, member, 1)
    far = far_of(pair)
    (macro_id,) = far.macros
    far._turns[macro_id] = (0, 1)
    far.drop(macro_id)
    assert [far.macros, far._seen, far._turns] == [{}, {}, {}]


def test_leases_of_other_managers_are_none_of_those_here() -> None:
    assert is_far(far_lease(LEASE))
    assert not is_far(LEASE)
    assert not is_far((1 << 63) - 1), "the last lease of the last epoch"
    assert lease_there(far_lease(LEASE)) == LEASE
    assert indexes_of(left_of([_run(index, LEASE, 1) for index in (1, 2, 3)], [(2, 1)])) == [1, 3]


def test_a_member_whose_heads_are_taken_is_asked_before_those_behind_it() -> None:
    """Else what is behind it overtakes it each time that its next head is on its way."""
    pair, member = beside(low=1)
    send(pair, "low")
    come(pair, member, 1)
    taker = Taker(pair)
    taker.ask()
    assert (taker.got, claimed(member), member.state) == ([], [[1]], IDLE)
    come(pair, member)
    assert taker.got == ["low"]


def _run(index: int, lease_id: int, at_ms: int) -> FarRun:
    batch = EnqueueBatch(messages=MessageBatch(payloads=[b""])).SerializeToString()
    segment = DeliveredSegment(batch=batch, first_index=index, enqueue_time_ms=at_ms)
    (run,) = runs_of(DequeueResponse(lease_id=lease_id, segments=[segment]))
    return run


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("keep"), st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2)), max_size=4)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("drop"), st.integers(0, 20)),
        st.tuples(st.just("back"), st.none()),
    ),
    max_size=20,
)


@given(STEPS)
def test_the_head_says_how_many_are_like_it_whatever_came_and_went(steps: list[tuple[str, Any]]) -> None:
    member, number = FarMember(1, "p", "//west/orders", Counter()), 1
    for what, value in steps:
        if what == "keep":
            member.keep([_run(number + at, *each) for at, each in enumerate(value)])
            number += len(value)
        elif what == "take" and member.heads:
            member.take(value, 1 << 20)
        elif what == "drop":
            member.drop(next((run.lease_id for run in member.heads if run.index_at(0) == value), 0), [(value, 1)])
        elif what == "back":
            member.give_back()
        likes = [(run.lease_id, run.age) for run in member.heads]
        alike = next((at for at, each in enumerate(likes) if each != likes[0]), len(likes))
        assert member.held == len(member.heads)
        head = member.head()
        assert (head.messages if head is not None else 0) == alike


class Counted(deque[FarRun]):
    """Counts what is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[FarRun]:
        for run in super().__iter__():
            self.looks += 1
            yield run


def test_those_that_are_alike_are_counted_once_and_not_at_each_choice() -> None:
    member, heads = FarMember(1, "p", "//west/orders", Counter()), Counted()
    member.heads = heads
    member.keep([_run(index, LEASE, 1) for index in range(1, 1_001)])
    for left in range(1_000, 0, -1):
        head = member.head()
        assert head is not None
        assert head.messages == left
        member.take(1, 1 << 20)
    assert heads.looks == 2_000, "as they came, and before the first choice"
