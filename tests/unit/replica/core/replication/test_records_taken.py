"""What a replica does with records that come twice, beyond a gap, or name a batch that it does not hold."""

from __future__ import annotations

import pytest

from tandemq.peer.v1.peer_service_pb2 import DigestQuery, PeerFrame
from tests.support.clients import Producer, create, remaining
from tests.support.pair import NUMBER, Pair


@pytest.fixture
def pair() -> Pair:
    made = Pair().start()
    create(made)
    return made


def ordered(pair: Pair, count: int, at: str = "a") -> list[PeerFrame]:
    """The frames, one for each record, that the master sends of so many messages; none has arrived."""
    x = Producer(pair, f"x{pair.now_ms}")
    frames = []
    for _ in range(count):
        x.send(pair.members[at])
        if at == "b":
            pair.b.pump()
            assert pair.deliver(pair.b)
        pair.a.pump()
        frames += [frame for frame in pair.wires["a"] if frame.HasField("op")]
        pair.wires["a"].clear()
    assert len(frames) == count
    return frames


def sent(pair: Pair, kind: str) -> list[PeerFrame]:
    """What the replica says of that kind."""
    pair.b.pump()
    found = [frame for frame in pair.wires["b"] if frame.WhichOneof("frame") == kind]
    for frame in found:
        pair.wires["b"].remove(frame)
    return found


def contents(pair: Pair) -> list[bytes]:
    return [payload for _, payload in remaining(pair.b)]


def test_a_record_that_comes_twice_is_there_once(pair: Pair) -> None:
    first, second = ordered(pair, 2)
    log, target = pair.b.shared.log, pair.b.core.target
    last, received = log.last_index, target.received
    for frame in (first, first, second, first, second):
        pair.b.take_frame(frame)
    assert (log.last_index, target.received) == (last + 2, received + 2)
    assert (log.digest, pair.corrupt) == (pair.a.shared.log.digest, [])
    pair.settle(200)
    assert len(contents(pair)) == 2
    assert pair.is_paired


def test_records_of_one_frame_that_are_here_already_are_passed_over(pair: Pair) -> None:
    first, second = ordered(pair, 2)
    both = PeerFrame()
    both.CopyFrom(first)
    both.op.entries.extend(second.op.entries)
    pair.b.take_frame(first)
    pair.b.take_frame(both)
    assert pair.b.shared.log.digest == pair.a.shared.log.digest
    assert pair.corrupt == []


def test_a_record_beyond_a_gap_ends_the_session_and_is_not_taken(pair: Pair) -> None:
    _, second = ordered(pair, 2)
    last = pair.b.shared.log.last_index
    pair.b.take_frame(second)
    (why,) = pair.corrupt
    assert why
    assert (pair.b.shared.log.last_index, pair.b.in_session) == (last, False)
    pair.corrupt.clear()
    pair.disconnect()
    pair.connect()
    pair.settle(1_000)
    assert pair.is_paired
    assert len(contents(pair)) == 2


def test_a_batch_that_is_not_held_any_more_is_asked_for_once_and_what_follows_waits(pair: Pair) -> None:
    frames = ordered(pair, 3, at="b")
    assert [frame.op.entries[0].HasField("held") for frame in frames] == [True] * 3
    held = pair.b.core.holding.held
    key = next(iter(held))
    forgotten = held.pop(key)
    last = pair.b.shared.log.last_index
    for frame in frames:
        pair.b.take_frame(frame)
    (asked,) = sent(pair, "fetch_body")
    assert list(asked.fetch_body.indexes) == [last + 1]
    assert (pair.b.shared.log.last_index, pair.corrupt) == (last, [])
    held[key] = forgotten
    pair.wires["b"].append(asked)
    pair.settle(300)
    assert pair.is_paired
    assert len(contents(pair)) == 3


def test_what_is_held_under_the_same_key_and_is_not_what_was_ordered_is_asked_for(pair: Pair) -> None:
    (frame,) = ordered(pair, 1, at="b")
    (pending,) = pair.b.core.holding.held.values()
    pending.batch = pending.batch[:-1] + b"?"
    last = pair.b.shared.log.last_index
    pair.b.take_frame(frame)
    (asked,) = sent(pair, "fetch_body")
    assert list(asked.fetch_body.indexes) == [last + 1]
    assert (pair.b.shared.log.last_index, pair.corrupt) == (last, [])


def test_a_digest_is_told_of_what_is_here_and_of_nothing_else(pair: Pair) -> None:
    for index in (1, pair.b.shared.log.last_index, pair.b.shared.log.last_index + 1):
        pair.b.take_frame(
            PeerFrame(domain=NUMBER, epoch=pair.b.shared.state.epoch, digest_query=DigestQuery(index=index))
        )
        (said,) = sent(pair, "digest_reply")
        known = pair.b.shared.log.digest_at(index)
        assert said.digest_reply.index == index
        assert (said.digest_reply.epoch, said.digest_reply.digest) == (known or (0, b""))
