"""Nobody waits for a full transfer: its master goes on alone first, and a new epoch does not end it (P22)."""

from __future__ import annotations

import pytest

from failover.marks import DataMark, Role
from replica.core.replication.sync_source import NeedRead, Phase
from storage.memory import MemoryStore
from storage.records import verify_stored
from tandemq.peer.v1.peer_service_pb2 import DomainHello
from tests.support.clients import Producer
from tests.support.pair import Pair
from tests.unit.replica.core.delivery.test_damage import filled, hurt, slices_of


def ordered(pair: Pair) -> None:
    """An operator has b take everything anew."""
    assert pair.b.core.mastership.copy_orders.resync("test", full=True) == ""
    pair.b.dispatch(pair.b.core)


def transfers(pair: Pair) -> int:
    """Since the pair was formed by one."""
    return sum(note.startswith("sends everything") for note in pair.a.notes) - 1


def turn(pair: Pair) -> None:
    """Each member says, hears and writes one thing."""
    for member in pair.up:
        member.pump()
        pair.deliver(member)
        pair.deliver_transfer(member)
        member.commit()
    for call in list(pair.calls):
        pair.answer(call)


def whole_at_b(pair: Pair) -> int:
    indexes = [part.log_index for part in slices_of(pair.a)]
    rows = pair.b.store.read_many(pair.b.shared.domain, indexes)
    return sum(verify_stored(row).log_index > 0 for row in rows if row is not None)


def test_the_pair_is_whole_again_after_one_transfer() -> None:
    pair = filled()
    pair.settle(100)
    epoch = pair.a.shared.state.epoch
    ordered(pair)
    pair.settle(500)
    assert pair.is_paired
    assert transfers(pair) == 1
    assert pair.a.shared.state.epoch == epoch + 1


def test_a_replica_that_takes_everything_already_is_left_to_it() -> None:
    pair = filled()
    pair.settle(100)
    ordered(pair)
    for _ in range(10_000):
        if pair.b.core.mastership.copy_orders.takes_everything():
            break
        turn(pair)
    else:
        raise AssertionError("no transfer")
    while pair.b.shared.state.data is not DataMark.IN_SYNC:
        if pair.b.core.mastership.copy_orders.takes_everything():
            assert pair.b.core.mastership.copy_orders.resync("again", full=True) == ""
            assert pair.b.role in (Role.REPLICA, Role.PROBE)
        turn(pair)
    pair.settle(500)
    assert pair.is_paired
    assert transfers(pair) == 1


def test_what_is_damaged_at_the_master_ends_a_wish_and_takes_no_copy() -> None:
    pair = filled()
    pair.settle(100)
    hurt(pair.a, 2)
    ordered(pair)
    pair.settle(500)
    assert pair.is_paired, "by a delta"
    assert transfers(pair) == 0
    assert whole_at_b(pair) == 4
    assert len(pair.corrupt) == 1
    assert not pair.b.shared.wants_full
    assert [note for note in pair.b.notes if note.startswith("the full transfer that was ordered is not made")]


def test_a_copy_that_is_damaged_is_left_out_before_it_is_replaced() -> None:
    """As when `pair verify` finds it, and the register could not be changed just then."""
    pair = filled()
    pair.settle(100)
    pair.b.core.mastership.copy_orders.mark_damaged("it differs")
    pair.b.dispatch(pair.b.core)
    pair.b.commit()
    pair.disconnect()
    pair.connect()
    while pair.b.shared.state.data is not DataMark.SYNCING:
        turn(pair)
    assert pair.a.core.mastership.commit.required == {"a"}
    assert pair.register.in_sync_set == {"a"}
    pair.settle(500)
    assert pair.is_paired
    assert transfers(pair) == 1


def test_an_order_ends_where_its_member_becomes_master() -> None:
    """Else its copy would be thrown away when it is a replica again."""
    pair = filled()
    pair.settle(100)
    pair.disconnect()
    ordered(pair)
    assert pair.b.shared.wants_full
    pair.crash(pair.a)
    pair.b.core.on_lost(pair.now_ms, refused=True)
    pair.b.dispatch(pair.b.core)
    pair.settle(1000)
    assert pair.b.serving
    assert not pair.b.shared.wants_full


def test_nothing_is_left_out_in_the_middle_of_a_handoff() -> None:
    pair = filled()
    pair.settle(100)
    pair.a.shared.draining = True
    ordered(pair)
    pair.settle(100)
    assert pair.a.core.mastership.commit.required == {"a", "b"}
    assert pair.is_paired
    pair.a.shared.draining = False
    pair.b.core.say_hello()
    pair.b.dispatch(pair.b.core)
    pair.settle(500)
    assert transfers(pair) == 1


def test_a_master_that_does_not_leave_it_out_keeps_it_in_step() -> None:
    pair = filled()
    pair.settle(100)
    pair.a.core.mastership.view.readable = False
    pair.a.core.mastership.view.reading = True  # an answer that does not come
    ordered(pair)
    pair.settle(100)
    pair.b.core.mastership.copy_orders.forget_resync()
    pair.b.dispatch(pair.b.core)
    pair.settle(100)
    assert pair.is_paired
    assert transfers(pair) == 0


@pytest.mark.parametrize("mark", [DataMark.SYNCING, DataMark.DAMAGED, DataMark.EMPTY])
def test_a_copy_that_is_no_good_may_always_be_replaced(mark: DataMark) -> None:
    pair = filled()
    pair.settle(100)
    pair.disconnect()
    pair.b.core.mastership.view.readable = False
    assert "cannot be asked" in pair.b.core.mastership.copy_orders.resync("test", full=True)
    pair.b.shared.mark(mark)
    assert pair.b.core.mastership.copy_orders.resync("test", full=True) == ""


def test_a_pair_that_keeps_the_register_itself_is_told_another_way() -> None:
    pair = filled()
    pair.settle(100)
    pair.b.shared.hello_register = b"its own"
    assert "this pair has no authority" in pair.b.core.mastership.copy_orders.resync("test", full=True)
    assert pair.b.role is Role.REPLICA
    assert not pair.b.shared.wants_full


def test_what_was_read_for_an_epoch_is_not_sent_in_the_next() -> None:
    """The peer hears of it only later: it would drop the frame, and lack what was in it."""
    pair = filled()
    for number in range(3):
        Producer(pair, f"p{number}").send(pair.a)
    pair.settle(100)
    source, log = pair.a.core.source, pair.a.shared.log
    source.phase, source.cursor, source.target, source.filling = Phase.DELTA, 1, log.last_index, True
    log.ring.clear()
    need = source.pull()
    assert isinstance(need, NeedRead)
    rows = pair.a.store.scan(pair.a.shared.domain, need.first, limit_records=10, limit_bytes=1 << 20)
    source.hold()
    assert not source.has_more()
    source.release()
    assert source.frame_of_stored(rows) == []
    assert source.cursor == need.first
    assert isinstance(source.pull(), NeedRead)
    assert source.frame_of_stored(rows) != []


def filled_without_the_register() -> Pair:
    """b has lost its disk, and a, which cannot reach the register, sends everything while commits wait."""
    pair = filled()
    pair.settle(100)
    pair.crash(pair.b)
    pair.b.store = MemoryStore(member="b", instance=b"new".ljust(16))
    pair.witness_away = True
    pair.a.core.mastership.view.readable = False
    pair.b.start()
    pair.connect()
    while not pair.a.core.source.filling:
        for call in list(pair.calls):
            pair.lose(call)
        pair.a.pump()
        pair.deliver(pair.b)
        pair.b.pump()
        pair.deliver(pair.a)
        pair.b.commit()
    while not pair.b.core.target.active:
        pair.a.pump()
        pair.deliver(pair.a)
    assert pair.a.core.mastership.commit.required == {"a", "b"}
    return pair


def goes_alone(pair: Pair) -> None:
    """The register answers again, and not a frame moves until a has left b out."""
    pair.witness_away = False
    pair.tick(1100)
    while pair.a.core.mastership.commit.required != {"a"}:
        for call in list(pair.calls):
            pair.answer(call)
        pair.a.commit()


def test_a_member_of_an_older_version_is_sent_everything_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = filled_without_the_register()
    says = pair.b.core.hello

    def older() -> DomainHello:
        hello = says()
        hello.stays_with_transfer = False
        return hello

    monkeypatch.setattr(pair.b.core, "hello", older)
    monkeypatch.setattr(pair.b.core.mastership.following, "stays", lambda _hello: False)
    pair.b.core.say_hello()
    pair.b.dispatch(pair.b.core)
    pair.b.pump()
    while pair.deliver(pair.b):
        pass
    goes_alone(pair)
    pair.settle(3000)
    assert pair.is_paired
    assert transfers(pair) == 2


def test_a_transfer_that_was_given_up_unheard_begins_anew() -> None:
    pair = filled_without_the_register()
    pair.b.core.target.active = False  # as when it lacks a volatile body, and its refusal meets the claim
    goes_alone(pair)
    pair.settle(3000)
    assert pair.is_paired
    assert transfers(pair) == 2


def test_a_transfer_under_way_is_the_only_one() -> None:
    pair = filled_without_the_register()
    goes_alone(pair)
    pair.settle(3000)
    assert pair.is_paired
    assert transfers(pair) == 1
