"""A member gives its copy up for a full transfer after its master has read once all that it will send, and not before:
what is damaged there may be whole nowhere else.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from failover.marks import DataMark, Role
from replica.core.replication.sync_source import Aside, Phase
from replica.core.state.effects import CheckTransfer, StartTransfer
from replica.node.members import Members
from replica.services.answers import header_of
from storage.records import verify_stored
from storage.store import WriteBatch
from tandemq.channels import open_channel
from tandemq.peer.v1.peer_service_pb2 import OpAck, OpenAck
from tests.support.clients import Producer
from tests.support.member import Member
from tests.support.pair import Pair
from tests.unit.replica.core.delivery.test_damage import attach, filled, hurt, slices_of, taken


def distrusted() -> Pair:
    """Four messages; message 2 is damaged at the master, and its replica has to take everything."""
    pair = filled()
    pair.settle(100)
    hurt(pair.a, 2)
    pair.disconnect()
    pair.connect(distrust=True)
    return pair


def whole(member: Member) -> list[int]:
    """The records of the queue that lie on its disk as they were written."""
    indexes = [part.log_index for part in slices_of(member.pair.a)]
    rows = member.store.read_many(member.shared.domain, indexes)
    return [verify_stored(row).log_index for row in rows if row is not None]


def test_a_copy_stays_where_it_cannot_be_replaced() -> None:
    pair = distrusted()
    damaged = slices_of(pair.a)[1].log_index
    before = whole(pair.b)
    pair.quiesce()
    assert whole(pair.b) == before == [part.log_index for part in slices_of(pair.a)]
    assert pair.b.shared.state.data is DataMark.IN_SYNC
    assert len(pair.corrupt) == 1
    assert pair.corrupt[0].startswith(f"record {damaged} is damaged here and is not sent")
    told = [note for note in pair.a.notes if note.startswith(f"record {damaged} is damaged at a")]
    assert len(told) == 1
    assert "hand off to b, and resync a in full" in told[0]
    assert not pair.linked, "the session is over, as when a transfer meets damage"


def test_it_delivers_what_is_damaged_once_the_logs_can_be_compared() -> None:
    pair = distrusted()
    pair.quiesce()
    pair.heal()
    pair.a.hand_over()
    pair.settle(200)
    assert pair.master is pair.b
    waiter, _ = attach(pair, pair.b)
    assert taken(waiter) == [1, 2, 3, 4]


def test_each_session_looks_at_what_is_known_first() -> None:
    pair = distrusted()
    pair.quiesce()
    reads: list[list[int]] = []
    read_many = pair.a.store.read_many

    def counted(domain: int, indexes: list[int]) -> list[bytes | None]:
        reads.append(indexes)
        return read_many(domain, indexes)

    pair.a.store.read_many = counted  # type: ignore[assignment, method-assign]  # counts, and reads
    pair.disconnect()
    pair.connect(distrust=True)
    pair.quiesce()
    assert reads == [[slices_of(pair.a)[1].log_index]]
    assert len(pair.corrupt) == 2
    assert len(pair.a.shared.damaged) == 1


def test_a_record_that_is_missing_ends_no_copy() -> None:
    pair = filled()
    pair.settle(100)
    gone = slices_of(pair.a)[2].log_index
    pair.a.store.commit(WriteBatch(drops={pair.a.shared.domain: [gone]}))
    pair.disconnect()
    pair.connect(distrust=True)
    pair.quiesce()
    assert len(whole(pair.b)) == 4
    assert [f"record {gone} of queue" in text for text in pair.corrupt] == [True]


def test_what_comes_while_it_is_looked_at_is_sent() -> None:
    pair = filled()
    pair.settle(100)
    hello = pair.b.core.hello()
    hello.wants_full = True
    pair.a.core.source.aside = lambda: Aside.IS_ASIDE
    pair.a.core.source.begin(hello)
    pair.a.dispatch(pair.a.core)
    assert [type(each) for each in pair.a.transfers] == [CheckTransfer]
    Producer(pair, "later").send(pair.a)
    pair.settle(200)
    assert pair.is_paired
    assert pair.b.shared.log.base_index >= slices_of(pair.a)[-1].log_index, "it came with the transfer"
    assert len(whole(pair.b)) == 5


@pytest.mark.parametrize("mark", [DataMark.EMPTY, DataMark.SYNCING])
def test_who_has_nothing_loses_nothing(mark: DataMark) -> None:
    pair = filled()
    assert _asked(pair, mark) == [StartTransfer]


@pytest.mark.parametrize("mark", [DataMark.IN_SYNC, DataMark.SOLE, DataMark.DAMAGED])
def test_who_has_something_is_asked_for_it_late(mark: DataMark) -> None:
    """A copy that differs may have what is damaged at the master."""
    pair = filled()
    assert _asked(pair, mark) == [CheckTransfer]
    source = pair.a.core.source
    source.on_checked(source.sync_id - 1)
    assert source.phase is Phase.CHECK, "of a session that is over"
    source.on_checked(source.sync_id)
    assert source.phase is Phase.FULL
    source.on_checked(source.sync_id)
    assert _kinds(pair) == [StartTransfer], "once"


def _asked(pair: Pair, mark: DataMark) -> list[type]:
    """What is begun with a replica that the register cannot leave out; for that an operator's wish is not enough."""
    pair.settle(100)
    pair.a.core.source.aside = lambda: Aside.IS_ASIDE
    hello = pair.b.core.hello()
    hello.data_state = mark.value  # type: ignore[assignment]  # the enums share their numbers
    hello.wants_full = True
    pair.a.shared.outbox.take()
    pair.a.core.source.begin(hello)
    return _kinds(pair)


def _kinds(pair: Pair) -> list[type]:
    return [type(each) for each in pair.a.shared.outbox.take() if isinstance(each, CheckTransfer | StartTransfer)]


def test_a_session_that_is_over_begins_nothing() -> None:
    pair = filled()
    hurt(pair.a, 2)
    assert _asked(pair, DataMark.IN_SYNC) == [CheckTransfer]
    pair.a.core.source.stop()
    pair.a.core.source.on_checked(pair.a.core.source.sync_id)
    assert pair.a.core.source.phase is Phase.IDLE
    assert _kinds(pair) == []


def test_a_copy_that_was_taken_away_counts_once_everything_is_there_again() -> None:
    """With or without a connection: seed 1156047 lost it in the middle of a full transfer to a replica it requires."""
    pair = filled()
    hurt(pair.a, 2)
    assert _asked(pair, DataMark.IN_SYNC) == [CheckTransfer]
    source, mastership = pair.a.core.source, pair.a.core.mastership
    assert mastership.commit.required == {"a", "b"}
    assert mastership.commit.copies == 2, "it is looked at first"
    source.on_checked(source.sync_id)
    assert mastership.commit.copies == 1
    source.on_op_ack(OpAck(durable_index=source.target - 1))
    source.stop()
    assert mastership.commit.copies == 1, "nobody has given it back"
    hello = pair.b.core.hello()
    hello.data_state = DataMark.SYNCING.value  # type: ignore[assignment]  # the enums share their numbers
    source.begin(hello)
    assert (source.phase, mastership.commit.copies) == (Phase.FULL, 1)
    source.on_op_ack(OpAck(durable_index=source.target))
    assert mastership.commit.copies == 2


def test_an_epoch_that_is_recorded_later_knows_that_the_peers_copy_was_taken_away() -> None:
    """Begun without the witness, and cut off in the middle of a full transfer to the replica that it requires."""
    pair = filled()
    hurt(pair.a, 2)
    assert _asked(pair, DataMark.IN_SYNC) == [CheckTransfer]
    source, mastership = pair.a.core.source, pair.a.core.mastership
    source.on_checked(source.sync_id)
    source.stop()
    mastership.claims.begin_unrecorded(frozenset({"a", "b"}), "it serves, and is recorded")
    assert not source.peer_is_good
    mastership.claims.begin_unrecorded(frozenset({"a", "b"}), "it does not serve: both were found to be good")
    assert source.peer_is_good
    mastership.claims.begin_unrecorded(frozenset({"a"}), "alone")
    assert not source.peer_is_good


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.COMPARE, Phase.CHECK])
def test_what_was_to_be_sent_before_proves_nothing(phase: Phase) -> None:
    pair = filled()
    pair.settle(100)
    source = pair.a.core.source
    source.phase, source.target, source.peer_is_good = phase, 1, False
    source.on_op_ack(OpAck(durable_index=1))
    assert not source.peer_is_good


def test_nothing_to_send_is_everything_too() -> None:
    """Both logs end at one place: there is no record to acknowledge, and OPEN_ACK says that all is well."""
    pair = filled()
    pair.settle(100)
    source = pair.a.core.source
    source.peer_is_good = False
    assert source.on_open_ack(OpenAck(sync_id=source.sync_id, durable_index=source.target, done=True))
    assert source.peer_is_good


@pytest.mark.parametrize(("mark", "copies"), [(DataMark.IN_SYNC, 2), (DataMark.STALE, 1), (DataMark.EMPTY, 1)])
def test_an_older_copy_counts_once_it_has_everything(mark: DataMark, copies: int) -> None:
    pair = filled()
    pair.settle(100)
    hello = pair.b.core.hello()
    hello.data_state = mark.value  # type: ignore[assignment]  # the enums share their numbers
    pair.a.core.source.begin(hello)
    assert pair.a.core.mastership.commit.copies == copies


def test_questions_go_to_the_master_meanwhile() -> None:
    """The peer of a master that takes its time is not a member that knows of no master."""
    pair = filled()
    pair.settle(100)
    pair.disconnect()
    node: Any = SimpleNamespace(domains={}, store=SimpleNamespace(doubts=()), on_tick=[])
    outside: Any = SimpleNamespace(opener=lambda: open_channel)
    names = {"pair": "p", "member": "b", "endpoint": "b:1", "peer": "a", "peer_endpoint": "a:1"}
    members = Members(node, outside, park_ms=5000, streams_max=100, is_late=lambda: False, **names)
    assert members.master_endpoint(pair.b.core) == "", "not connected"
    pair.connect(distrust=True)
    assert pair.deliver(pair.a)
    state = pair.b.shared.state
    assert pair.b.role is Role.PROBE
    assert members.master_endpoint(pair.b.core) == "a:1"
    assert header_of(members, pair.b.core).master_endpoint == "", "its epoch may be a later one than the header's"
    state.promised_epoch = state.epoch + 1
    assert members.master_endpoint(pair.b.core) == "", "it has promised a later one"
    state.promised_epoch, state.epoch = 0, state.epoch + 1
    assert members.master_endpoint(pair.b.core) == "", "it knows a later one"
