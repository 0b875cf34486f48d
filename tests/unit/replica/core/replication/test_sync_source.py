"""What a master sends next: up to the target of a transfer, within its window, and the commit index where one waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replica.core.replication import sync_source
from replica.core.replication.op_frame import OpFrame
from replica.core.replication.sync_source import NeedRead, Phase, SyncSource
from storage.records import read_prefix
from tandemq.peer.v1.peer_service_pb2 import OpAck, PeerFrame
from tests.support.clients import Producer, create
from tests.support.pair import NUMBER, Pair

if TYPE_CHECKING:
    from tests.support.clients import Op


@pytest.fixture
def pair() -> Pair:
    made = Pair().start()
    create(made)
    made.settle(100)
    return made


@pytest.fixture
def source(pair: Pair) -> SyncSource:
    """The master's; everything is sent and acknowledged."""
    found: SyncSource = pair.a.core.source
    assert (found.phase, found.has_more(), found.in_flight) == (Phase.LIVE, False, [])
    return found


def ordered(pair: Pair, count: int) -> list[int]:
    """Log indexes of so many messages that the master has ordered and not sent."""
    x, last = Producer(pair, f"x{pair.a.shared.log.last_index}"), pair.a.shared.log.last_index
    for _ in range(count):
        x.send(pair.a)
    assert pair.a.shared.log.last_index == last + count
    return list(range(last + 1, last + count + 1))


def held(pair: Pair, producer: Producer) -> Op:
    """A message that the replica holds, and the master has ordered and not sent."""
    op = producer.send(pair.b)
    pair.b.pump()
    assert pair.deliver(pair.b)
    return op


def pulled(source: SyncSource) -> list[PeerFrame | OpFrame]:
    found = source.pull()
    assert not isinstance(found, NeedRead)
    return found


def indexes(frame: PeerFrame | OpFrame) -> list[int]:
    assert isinstance(frame, OpFrame)
    return [read_prefix(record).log_index for record, _ in frame.entries]


def stored(pair: Pair, first: int, last: int) -> list[tuple[int, bytes]]:
    return [(index, pair.a.shared.log.get(index).record) for index in range(first, last + 1)]


def acknowledged(pair: Pair, log_index: int) -> None:
    """The replica says that it holds everything up to there."""
    ack = OpAck(durable_index=log_index)
    pair.a.take_frame(PeerFrame(domain=NUMBER, epoch=pair.a.shared.state.epoch, op_ack=ack))


# -- the target of a delta ---------------------------------------------------------------------------------------------


def test_what_is_ordered_beyond_the_target_follows_the_end_of_the_transfer(pair: Pair, source: SyncSource) -> None:
    """SYNC_END names the digest at the target: the replica's log must end there when it comes."""
    common = pair.a.shared.log.last_index
    before = ordered(pair, 2)
    source.begin_delta(common, full=False)
    beyond = ordered(pair, 3)
    records, end = pulled(source)
    assert indexes(records) == before
    assert isinstance(end, PeerFrame)
    assert (end.sync_end.last_index, end.sync_end.count) == (before[-1], 2)
    assert end.sync_end.digest == pair.a.shared.log.digest_at(before[-1])[1]
    assert source.in_flight == [(before[-1], sum(len(record) for _, record in stored(pair, before[0], before[-1])))]
    (later,) = pulled(source)
    assert indexes(later) == beyond


def test_what_is_read_from_the_store_ends_at_the_target_too(
    pair: Pair, source: SyncSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = pair.a.shared.log.last_index
    before = ordered(pair, 2)
    source.begin_delta(common, full=False)
    beyond = ordered(pair, 1)
    records = stored(pair, before[0], before[-1])
    with monkeypatch.context() as patch:
        patch.setattr(pair.a.shared.log, "tail_from", lambda *_: [])  # none is in memory any more
        need = source.pull()
    assert isinstance(need, NeedRead)
    assert (need.first, need.last) == (before[0], before[-1])
    frame, end = source.frame_of_stored(records)
    assert indexes(frame) == before
    assert isinstance(end, PeerFrame)
    assert end.sync_end.last_index == before[-1]
    assert source.in_flight == [(before[-1], sum(len(record) for _, record in records))]
    (later,) = pulled(source)
    assert indexes(later) == beyond


# -- the window --------------------------------------------------------------------------------------------------------


def test_a_frame_counts_with_all_its_records_until_the_last_of_them_is_acknowledged(
    pair: Pair, source: SyncSource
) -> None:
    first = ordered(pair, 3)
    pulled(source)
    second = ordered(pair, 2)
    pulled(source)
    sizes = [sum(len(record) for _, record in stored(pair, each[0], each[-1])) for each in (first, second)]
    assert source.in_flight == list(zip((first[-1], second[-1]), sizes, strict=True))
    acknowledged(pair, first[-2])
    assert source.in_flight_bytes == sum(sizes), "the replica has not all of the frame"
    acknowledged(pair, first[-1])
    assert (source.in_flight, source.in_flight_bytes) == ([(second[-1], sizes[1])], sizes[1])
    acknowledged(pair, second[0])
    assert source.in_flight_bytes == sizes[1]
    acknowledged(pair, second[-1])
    assert (source.in_flight, source.in_flight_bytes) == ([], 0)


def test_one_acknowledgement_may_be_of_several_frames(pair: Pair, source: SyncSource) -> None:
    for _ in range(3):
        (*_, last) = ordered(pair, 2)
        pulled(source)
    assert len(source.in_flight) == 3
    acknowledged(pair, last)
    assert (source.in_flight, source.in_flight_bytes) == ([], 0)


@pytest.mark.parametrize("phase", [Phase.LIVE, Phase.DELTA])
def test_beyond_the_window_records_wait_for_an_acknowledgement(
    pair: Pair, source: SyncSource, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = ordered(pair, 1)
    pulled(source)
    monkeypatch.setattr(sync_source, "WINDOW_BYTES_MAX", source.in_flight_bytes - 1)
    (second,) = ordered(pair, 1)
    source.phase, source.target = phase, second
    assert not source.has_more()
    assert pulled(source) == []
    acknowledged(pair, first)
    assert indexes(pulled(source)[0]) == [second]


# -- the commit index, for whoever waits at the replica ----------------------------------------------------------------


def test_the_commit_index_goes_alone_until_the_last_held_request_is_committed(pair: Pair, source: SyncSource) -> None:
    """Its client waits at the replica, which answers by the master's commit (P14)."""
    x = Producer(pair, "held")
    held(pair, x)
    held(pair, x)
    last = pair.a.shared.log.last_index
    (records,) = pulled(source)
    assert isinstance(records, OpFrame)
    assert [key.first_sequence for _, key in records.entries if key is not None] == [1, 2]
    pair.a.commit()
    for log_index in (last - 1, last):
        acknowledged(pair, log_index)
        assert source.has_more()
        (frame,) = pulled(source)
        assert frame == OpFrame(NUMBER, pair.a.shared.state.epoch, log_index, [])
        assert not source.has_more(), "it is said once"
    assert source.held_open == 0


def test_it_goes_with_the_next_records_where_nobody_waits_at_the_replica(pair: Pair, source: SyncSource) -> None:
    op = held(pair, Producer(pair, "held"))
    pair.quiesce()
    assert op.done is not None
    (last,) = ordered(pair, 1)
    pair.quiesce()
    assert pair.a.shared.progress.commit_index == last > source.commit_sent
    assert not source.has_more()
    assert pulled(source) == []
    (later,) = ordered(pair, 1)
    (frame,) = pulled(source)
    assert isinstance(frame, OpFrame)
    assert (indexes(frame), frame.commit_index) == ([later], last)


def test_k2_it_goes_at_once_where_a_process_acts_at_the_peers_side(pair: Pair, source: SyncSource) -> None:
    """The side is given nothing before its member knows the commit: a message alone would wait for a heartbeat."""
    source.on_side_moved()
    (last,) = ordered(pair, 1)
    pair.quiesce()
    assert pair.a.shared.progress.commit_index == last == source.commit_sent
    assert not source.has_more()
    source.stop()
    assert not source.prompt, "another connection may be to one that serves nobody"


def test_held_requests_of_a_lost_connection_wait_for_nothing(pair: Pair, source: SyncSource) -> None:
    held(pair, Producer(pair, "held"))
    pulled(source)
    assert source.held_open
    source.stop()
    assert (source.held_open, source.in_flight, source.in_flight_bytes) == (0, [], 0)


@pytest.mark.parametrize(
    ("phase", "beyond", "is_good"),
    [
        (Phase.FULL, -1, False),
        (Phase.FULL, 0, True),
        (Phase.DELTA, -1, False),
        (Phase.DELTA, 0, True),
        (Phase.LIVE, 1, True),
        (Phase.LIVE, -1, False),
        (Phase.IDLE, 1, False),
    ],
)
def test_a_peer_has_a_good_copy_from_the_end_of_its_transfer_on(
    source: SyncSource, phase: Phase, beyond: int, is_good: bool
) -> None:
    source.phase, source.target, source.peer_is_good = phase, source.peer_durable + 3, False
    source.on_op_ack(OpAck(durable_index=source.target + beyond))
    assert source.peer_is_good is is_good
