"""What the outbox makes of refusals: which numbers the next batches get."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandemq.client.outbox import Answer, Entry, Outbox, pieces
from tandemq.v1 import common_pb2
from tandemq.v1.queue_service_pb2 import EnqueueAck, EnqueueReject, ProduceRequest


def outbox() -> Outbox:
    box = Outbox("q", messages_max=10, bytes_max=10_000, batches_max=4, holds_small=False)
    box.opened(0, 4, 0)
    return box


def sent(box: Outbox, payload: bytes) -> int:
    """The first sequence of what leaves next."""
    box.add(Entry(payload, None, 10, asyncio.get_running_loop().create_future()), 1)
    frame, _ = box.next_frame()
    assert frame is not None
    return ProduceRequest.FromString(frame).batch.first_sequence


def refused(
    sequence: int, last: str | None, reason: common_pb2.Reason = common_pb2.REASON_STORAGE_FULL
) -> EnqueueReject:
    error = common_pb2.Error(reason=reason)
    if last is not None:
        error.metadata["last_sequence"] = last
    return EnqueueReject(queue="q", first_sequence=sequence, count=1, error=error, last_sequence=int(last or 0))


async def test_a_refusal_that_does_not_say_how_far_we_got_takes_nothing_back() -> None:
    """Else the next message gets the number of an old one, and its answer: acknowledged, and stored nowhere."""
    box = outbox()
    assert sent(box, b"1") == 1
    box.on_ack(EnqueueAck(queue="q", first_sequence=1, count=1, first_index=1))
    assert sent(box, b"2") == 2
    assert box.on_reject(refused(2, None)).refused
    assert sent(box, b"3") == 2


async def test_after_a_refusal_a_new_client_goes_on_behind_what_an_old_one_sent() -> None:
    """It was told when it opened its stream."""
    box = Outbox("q", messages_max=10, bytes_max=10_000, batches_max=4, holds_small=False)
    box.opened(6, 4, 0)
    assert sent(box, b"7") == 7
    box.on_reject(refused(7, None))
    assert sent(box, b"7 again") == 7


async def test_a_refusal_that_says_how_far_we_got_counts() -> None:
    """A message that is stored, but on fewer copies than asked for, has used its number."""
    box = outbox()
    assert sent(box, b"1") == 1
    box.on_reject(refused(1, "1"))
    assert sent(box, b"2") == 2


async def test_what_was_sent_behind_the_first_batch_ever_goes_on_when_that_is_refused() -> None:
    """Nobody knows the producer then; what it sent next was certainly not executed, and is not in doubt."""
    box = outbox()
    assert (sent(box, b"1"), sent(box, b"2")) == (1, 2)
    assert box.on_reject(refused(1, "0")).refused
    answer = box.on_reject(refused(2, "0", common_pb2.REASON_DEDUP_EXPIRED))
    assert (answer.refused, answer.reopen) == ([], False)
    frame, _ = box.next_frame()
    assert frame is not None
    assert ProduceRequest.FromString(frame).batch.first_sequence == 1


async def test_so_does_it_when_the_stream_broke_before_all_of_it_was_answered() -> None:
    """It is written again under its old numbers first, and refused; under a new identity it goes on."""
    box = outbox()
    assert (sent(box, b"1"), sent(box, b"2"), sent(box, b"3")) == (1, 2, 3)
    assert box.on_reject(refused(1, "0")).refused
    box.opened(0, 4, 0)
    assert written(box) == [(2, b"2"), (3, b"3")]
    for sequence in (2, 3):
        answer = box.on_reject(refused(sequence, "0", common_pb2.REASON_DEDUP_EXPIRED))
        assert answer.refused == []
    assert answer.reopen
    assert box.switching
    box.opened(0, 4, 0)
    assert written(box) == [(1, b"2"), (2, b"3")]


MISMATCH, GAP = common_pb2.REASON_REQUEST_MISMATCH, common_pb2.REASON_SEQUENCE_GAP


def acked(sequence: int) -> EnqueueAck:
    return EnqueueAck(queue="q", first_sequence=sequence, count=1, first_index=sequence)


def written(box: Outbox) -> list[tuple[int, bytes]]:
    """Everything that leaves now: sequences and payloads."""
    found = []
    while (frame := box.next_frame()[0]) is not None:
        batch = ProduceRequest.FromString(frame).batch
        found.append((batch.first_sequence, b" ".join(batch.messages.payloads)))
    return found


def told(answer: Answer) -> list[tuple[bytes | list[bytes], bool]]:
    """What the application hears of refusals: what, and whether it is certain."""
    return [(entry.payloads, error.definite) for batch, error in answer.refused for entry in batch.entries]


@pytest.mark.parametrize("reason", [MISMATCH, GAP])  # GAP: an older member's word for a batch that reaches beyond
async def test_what_finds_its_numbers_taken_goes_on_under_a_new_identity_in_order(reason: common_pb2.Reason) -> None:
    """A dead producer's batch was ordered under the same client id after this one had asked how far that got."""
    box = outbox()
    assert [sent(box, b"1"), sent(box, b"2"), sent(box, b"3")] == [1, 2, 3]
    assert box.on_reject(refused(1, "2", reason)) == Answer(refused=[])
    assert box.on_reject(refused(2, "2", reason)) == Answer(refused=[])
    assert box.next_frame() == (None, None)
    assert box.on_reject(refused(3, "2", GAP)) == Answer(refused=[], reopen=True)
    assert (box.switching, box.messages) == (True, 3)
    box.opened(0, 4, 0)
    assert not box.switching
    assert written(box) == [(1, b"1"), (2, b"2"), (3, b"3")]
    assert told(box.on_reject(refused(1, "0"))) == [(b"1", True)], "nothing of it is under way any more"


async def test_nothing_goes_behind_what_was_sent_after_it() -> None:
    """The third one's number followed what was executed: it is stored, and the first two would come behind it."""
    box = outbox()
    assert [sent(box, b"1"), sent(box, b"2"), sent(box, b"3")] == [1, 2, 3]
    box.on_reject(refused(1, "2", MISMATCH))
    box.on_reject(refused(2, "2", MISMATCH))
    answer = box.on_ack(acked(3))
    assert told(answer) == [(b"1", True), (b"2", True)]
    assert (len(answer.done), answer.reopen, box.messages) == (1, True, 0)


async def test_what_may_still_be_stored_under_the_shared_identity_is_in_doubt() -> None:
    box = outbox()
    assert [sent(box, b"1"), sent(box, b"2")] == [1, 2]
    box.opened(0, 4, 0)  # the stream broke: copies of both are anywhere
    assert written(box) == [(1, b"1"), (2, b"2")]
    assert sent(box, b"3") == 3
    assert told(box.on_reject(refused(1, "1", MISMATCH))) == [(b"1", False)]
    assert told(box.on_reject(refused(2, "0", GAP))) == []
    answer = box.on_reject(refused(3, "0", GAP))
    assert told(answer) == [(b"2", False)]
    assert answer.reopen
    box.opened(0, 4, 0)
    assert written(box) == [(1, b"3")]


async def test_a_stream_that_breaks_before_the_last_answer_is_asked_once_more_under_the_same_identity() -> None:
    box = outbox()
    assert [sent(box, b"1"), sent(box, b"2")] == [1, 2]
    box.on_reject(refused(1, "1", MISMATCH))
    assert not box.switching, "the second one may be stored"
    box.opened(2, 4, 0)
    box.add(Entry(b"3", None, 10, asyncio.get_running_loop().create_future()), 1)
    assert written(box) == [(2, b"2")]
    answer = box.on_ack(acked(2))
    assert told(answer) == [(b"1", True)]
    assert (len(answer.done), answer.reopen) == (1, True)
    box.opened(0, 4, 0)
    assert written(box) == [(1, b"3")]


async def test_an_identity_is_not_given_up_before_what_was_executed_under_it_is_answered() -> None:
    """Else it would be sent, and stored, once more under the new one."""
    box = outbox()
    assert [sent(box, b"1"), sent(box, b"2"), sent(box, b"3")] == [1, 2, 3]
    box.on_reject(refused(2, "1", MISMATCH))  # overtook the answer to the first
    answer = box.on_reject(refused(3, "1", GAP))
    assert (answer.reopen, box.spent, box.switching) == (False, True, False)
    assert written(box) == [(1, b"1")]
    box.opened(1, 4, 0)  # it broke
    assert written(box) == [(1, b"1")]
    assert box.on_ack(acked(1)).reopen
    assert box.switching
    box.opened(0, 4, 0)
    assert written(box) == [(1, b"2"), (2, b"3")]


def stored(sequence: int) -> EnqueueReject:
    """Stored, on fewer copies than asked for."""
    reject = refused(sequence, str(sequence), common_pb2.REASON_NOT_ENOUGH_COPIES)
    reject.error.metadata["outcome"] = "stored"
    return reject


async def test_what_is_stored_on_too_few_copies_takes_back_nothing_that_is_known_by_then() -> None:
    """Refusals overtake answers that wait for a commit: what the second one's said is older than what is known."""
    box = outbox()
    assert [sent(box, payload) for payload in (b"1", b"2", b"3", b"4")] == [1, 2, 3, 4]
    box.opened(2, 4, 0)  # it broke; the first two had been executed
    assert len(written(box)) == 4
    assert told(box.on_reject(refused(3, "2", common_pb2.REASON_NOT_ENOUGH_COPIES))) == [(b"3", False)]
    assert told(box.on_reject(refused(4, "2", GAP))) == []
    assert (box.spent, box.switching, written(box)) == (True, False, [(1, b"1"), (2, b"2")])
    answer = box.on_reject(stored(1))
    assert (told(answer), answer.reopen) == ([(b"1", False)], False)
    answer = box.on_reject(stored(2))
    assert (told(answer), answer.reopen) == ([(b"2", False)], True)
    box.opened(0, 4, 0)
    assert written(box) == [(1, b"4")], "the second one would be stored twice"


async def test_behind_what_is_stored_on_too_few_copies_there_is_no_gap() -> None:
    box = outbox()
    assert [sent(box, b"1"), sent(box, b"2")] == [1, 2]
    assert told(box.on_reject(stored(1))) == [(b"1", False)], "it had an effect"
    assert written(box) == []
    assert sent(box, b"3") == 3


async def test_at_the_end_what_found_its_number_taken_was_certainly_not_sent() -> None:
    box = outbox()
    assert [sent(box, b"1"), sent(box, b"2")] == [1, 2]
    box.on_reject(refused(1, "1", MISMATCH))
    unsent, doubtful = box.give_up()
    assert ([entry.payloads for entry in unsent], [entry.payloads for entry in doubtful]) == ([b"1"], [b"2"])
    assert box.messages == 0


@given(
    st.lists(st.integers(0, 40), max_size=30), st.integers(0, 5), st.integers(1, 8), st.integers(1, 60), st.booleans()
)
def test_pieces_of_a_list_are_those_of_any_iterable(
    sizes: list[int], overhead: int, messages_max: int, bytes_max: int, as_tuple: bool
) -> None:
    """What is in memory as a whole is cut by slices: the same cuts as one by one, and as large as they can be."""
    payloads = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    given_whole = tuple(payloads) if as_tuple else payloads
    found = list(pieces(given_whole, overhead, messages_max, bytes_max))
    assert found == list(pieces(iter(payloads), overhead, messages_max, bytes_max))
    assert [payload for piece, _ in found for payload in piece] == payloads
    for place, (piece, size) in enumerate(found):
        assert type(piece) is list
        assert size == sum(map(len, piece)) + overhead * len(piece)
        assert len(piece) <= messages_max
        assert size <= bytes_max or len(piece) == 1
        if place + 1 < len(found):
            following = found[place + 1][0][0]
            assert len(piece) == messages_max or size + len(following) + overhead > bytes_max
