"""At most one small batch is unanswered; what comes meanwhile leaves with its answer, and a full one never waits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandemq.client.outbox import FRAME_OVERHEAD_BYTES, SMALL_BYTES, Entry, Outbox
from tandemq.v1 import common_pb2
from tandemq.v1.queue_service_pb2 import EnqueueAck, EnqueueReject, ProduceRequest

MESSAGES_MAX = 10
FULL = common_pb2.REASON_STORAGE_FULL
GAP = common_pb2.REASON_SEQUENCE_GAP


def outbox(*, holds_small: bool = True, batches_max: int = 4, server_bytes_max: int = 0) -> Outbox:
    box = Outbox("q", messages_max=MESSAGES_MAX, bytes_max=1 << 20, batches_max=batches_max, holds_small=holds_small)
    box.opened(0, batches_max, server_bytes_max)
    return box


def add(box: Outbox, *names: int, size: int = 10) -> bool:
    """Whether it is worth asking for a frame."""
    asked = [box.add(Entry(b"%d" % name, None, size, None), 1) for name in names]
    return any(asked)


def written(box: Outbox) -> list[tuple[int, list[int]]]:
    """All that leaves now: first sequences and names."""
    found = []
    while (frame := box.next_frame()[0]) is not None:
        batch = ProduceRequest.FromString(frame).batch
        found.append((batch.first_sequence, [int(each) for each in batch.messages.payloads]))
    return found


def acked(first: int, count: int) -> EnqueueAck:
    return EnqueueAck(queue="q", first_sequence=first, count=count, first_index=first)


def refused(first: int, count: int, last: int, reason: common_pb2.Reason = FULL) -> EnqueueReject:
    error = common_pb2.Error(reason=reason, metadata={"last_sequence": str(last)})
    return EnqueueReject(queue="q", first_sequence=first, count=count, error=error, last_sequence=last)


def test_a_lone_message_leaves_at_once() -> None:
    box = outbox()
    add(box, 1)
    assert written(box) == [(1, [1])]


def test_what_comes_meanwhile_leaves_together_with_the_answer() -> None:
    box = outbox()
    add(box, 1)
    written(box)
    add(box, 2, 3)
    assert written(box) == []
    box.on_ack(acked(1, 1))
    assert written(box) == [(2, [2, 3])]


def test_nobody_looks_for_a_frame_while_little_waits_for_an_answer() -> None:
    """A look for each message would cost a client that sends them one by one a fifth of its time."""
    box = outbox()
    assert add(box, 1)
    assert add(box, 2), "nobody has looked yet"
    written(box)
    assert add(box, 3)
    assert written(box) == []
    assert not add(box, *range(4, 3 + MESSAGES_MAX - 1)), "one less than a full batch waits"
    assert add(box, 12), "full"
    assert written(box) != []


def test_half_an_answer_lets_nothing_leave() -> None:
    box = outbox()
    add(box, 1, 2)
    written(box)
    add(box, 3)
    box.on_ack(acked(1, 1))
    assert written(box) == []
    box.on_ack(acked(2, 1))
    assert written(box) == [(3, [3])]


@pytest.mark.parametrize(("count", "leaves"), [(MESSAGES_MAX - 1, False), (MESSAGES_MAX, True)])
def test_a_batch_of_as_many_messages_as_it_may_have_never_waits(count: int, leaves: bool) -> None:
    box = outbox()
    add(box, 0)
    written(box)
    add(box, *range(1, count + 1))
    assert written(box) == ([(2, list(range(1, count + 1)))] if leaves else [])


@pytest.mark.parametrize(("size", "leaves"), [(SMALL_BYTES - 1, False), (SMALL_BYTES, True)])
def test_nor_does_one_of_many_bytes(size: int, leaves: bool) -> None:
    box = outbox()
    add(box, 1)
    written(box)
    add(box, 2, size=size)
    assert bool(written(box)) is leaves


@pytest.mark.parametrize("size", [10, 300])
@pytest.mark.parametrize("way", ["acknowledged", "refused", "acknowledged in parts", "refused as too large"])
@pytest.mark.parametrize(("short", "leaves"), [(1, False), (0, True)])
def test_what_has_left_the_box_counts_for_nothing_of_what_waits(size: int, way: str, short: int, leaves: bool) -> None:
    """Neither its messages nor its bytes make what comes later seem more, or less, than one batch may have."""
    for by_bytes in (False, True):
        box = outbox(server_bytes_max=SMALL_BYTES * 2)
        add(box, 1, 2, size=size)
        written(box)
        match way:
            case "acknowledged":
                box.on_ack(acked(1, 2))
            case "acknowledged in parts":
                box.on_ack(acked(1, 1))
                box.on_ack(acked(2, 1))
            case "refused":
                box.on_reject(refused(1, 2, 0))
            case _:
                box.on_ack(acked(1, 2))
                add(box, 3, size=SMALL_BYTES * 2)
                assert box.next_frame()[1] is not None
        assert (box.messages, box.bytes) == (0, 0)
        add(box, 4)
        assert len(written(box)) == 1, "a small batch is under way"
        if by_bytes:
            add(box, 5, size=SMALL_BYTES - short)
        else:
            add(box, *range(5, 5 + MESSAGES_MAX - short))
        assert bool(written(box)) is leaves, f"{by_bytes=}"


ROOM = 1_000
"""Bytes of messages that fit a frame of the queue of these tests."""


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(("size", "fits"), [(ROOM - 1, True), (ROOM, True), (ROOM + 1, False), (2 * ROOM, False)])
def test_what_no_member_would_take_is_dropped_at_its_turn_and_what_fits_exactly_is_not(
    size: int, fits: bool, behind: bool
) -> None:
    box = outbox(server_bytes_max=ROOM + FRAME_OVERHEAD_BYTES)
    add(box, 1, size=size)
    if behind:
        add(box, 2)
    frame, dropped = box.next_frame()
    assert ((frame is not None), (dropped is None)) == (fits, fits)
    if dropped is not None:
        assert dropped.payloads == b"1"
        assert (box.messages, box.bytes) == ((1, 10) if behind else (0, 0))
        assert written(box) == ([(1, [2])] if behind else [])


def test_a_queue_that_takes_less_than_that_has_smaller_full_batches() -> None:
    box = outbox(server_bytes_max=1_512)  # 1,000 for the messages
    add(box, 1)
    written(box)
    add(box, 2, size=999)
    assert written(box) == []
    add(box, 3, size=1)
    assert written(box) == [(2, [2, 3])]
    limited = outbox()
    limited.limit(2)
    add(limited, 1)
    written(limited)
    add(limited, 2)
    assert written(limited) == []
    add(limited, 3)
    assert written(limited) == [(2, [2, 3])]


def test_one_small_batch_goes_beside_full_ones() -> None:
    box = outbox()
    add(box, *range(10), *range(10, 20), 20)
    assert [names for _, names in written(box)] == [list(range(10)), list(range(10, 20)), [20]]
    add(box, 21)
    assert written(box) == []
    box.on_ack(acked(1, 10))
    assert written(box) == [], "the small one is still unanswered"
    box.on_ack(acked(11, 10))
    box.on_ack(acked(21, 1))
    assert written(box) == [(22, [21])]


def test_a_reject_lets_the_next_leave_under_the_numbers_of_the_refused() -> None:
    box = outbox()
    add(box, 1)
    written(box)
    add(box, 2)
    assert box.on_reject(refused(1, 1, 0)).refused
    assert written(box) == [(1, [2])]


def test_what_was_held_back_stays_so_on_a_new_stream_behind_what_is_written_again() -> None:
    box = outbox()
    add(box, 1)
    written(box)
    add(box, 2, 3)
    box.opened(0, 4, 0)
    assert written(box) == [(1, [1])], "the same bytes, not cut otherwise"
    box.on_ack(acked(1, 1))
    assert written(box) == [(2, [2, 3])]


def test_an_answer_to_the_copy_of_before_lets_it_leave_too() -> None:
    """The batch was executed over the stream that broke: the new one's answer is a repetition."""
    box = outbox()
    add(box, 1)
    written(box)
    add(box, 2)
    box.opened(1, 4, 0)
    written(box)
    box.on_ack(acked(1, 1))
    assert written(box) == [(2, [2])]


def test_one_that_must_have_a_new_identity_holds_nothing_back_for_ever() -> None:
    box = outbox()
    add(box, *range(10), 10)
    assert len(written(box)) == 2
    box.opened(0, 4, 0)
    assert len(written(box)) == 2
    add(box, 11)
    box.on_reject(refused(1, 10, 0))
    answer = box.on_reject(refused(11, 1, 0, GAP))
    assert answer.reopen, "written twice: under its number only, or under a new identity"
    box.opened(0, 4, 0)
    assert written(box) == [(1, [10])]
    box.on_ack(acked(1, 1))
    assert written(box) == [(2, [11])]


def test_it_may_be_switched_off() -> None:
    box = outbox(holds_small=False)
    add(box, 1)
    assert written(box) == [(1, [1])]
    add(box, 2)
    assert written(box) == [(2, [2])]


def test_after_the_end_nothing_is_counted_as_unanswered() -> None:
    box = outbox()
    add(box, 1)
    written(box)
    add(box, 2)
    box.give_up()
    add(box, *range(MESSAGES_MAX - 1))
    assert written(box) == [(2, list(range(MESSAGES_MAX - 1)))]


@dataclass
class Member:
    """What a member does with the batches of one stream, in order; executed names in order."""

    executed: list[int] = field(default_factory=list)
    last: int = 0
    batches: deque[tuple[int, list[int]]] = field(default_factory=deque)

    def step(self, box: Outbox, refuses: bool) -> None:
        first, names = self.batches.popleft()
        if first + len(names) - 1 <= self.last:
            box.on_ack(acked(first, len(names)))
        elif first != self.last + 1:
            box.on_reject(refused(first, len(names), self.last, GAP))
        elif refuses:
            box.on_reject(refused(first, len(names), self.last))
        else:
            self.executed += names
            self.last += len(names)
            box.on_ack(acked(first, len(names)))


def check_small(box: Outbox, member: Member) -> None:
    """Of what is under way, one batch at most is less than full."""
    assert sum(len(names) < MESSAGES_MAX for _, names in member.batches) <= 1, member.batches


@settings(max_examples=300)
@given(st.lists(st.sampled_from(["one", "few", "many", "answer", "answer", "refuse", "break", "lose"]), max_size=40))
def test_in_every_schedule_each_message_is_executed_once_in_order_or_refused(steps: list[str]) -> None:
    """Answers, rejects and new streams in any order: nothing stays behind, nothing goes twice or overtakes."""
    box, member = outbox(), Member()
    given_names = 0
    for step in [*steps, *["break", *["answer"] * 60]]:
        count = {"one": 1, "few": 4, "many": 2 * MESSAGES_MAX + 1}.get(step, 0)
        if count and not add(box, *range(given_names, given_names + count)):
            assert written(box) == [], "it was not worth looking"
        given_names += count
        if step in ("answer", "refuse") and member.batches:
            member.step(box, refuses=step == "refuse")
        elif step in ("break", "lose"):
            while step == "break" and member.batches:  # executed, and the answers are lost
                first, names = member.batches.popleft()
                if first == member.last + 1:
                    member.executed += names
                    member.last += len(names)
            member.batches.clear()
            if box.switching:
                member.last = 0
            box.opened(member.last, 4, 0)
        if box.switching:
            member.batches.clear()
            member.last = 0
            box.opened(0, 4, 0)
        member.batches.extend(written(box))
        if "refuse" not in steps:
            check_small(box, member)
    assert box.messages == 0, "nothing stays behind"
    assert member.executed == sorted(set(member.executed))
    if "refuse" not in steps:
        assert member.executed == list(range(given_names))
