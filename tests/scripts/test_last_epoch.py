"""The last epoch: a lease id has 23 bits for it, nobody claims beyond, whoever would says so, nothing wraps round."""

from __future__ import annotations

import pytest

from failover.marks import Role
from failover.promotion import EPOCHS_FEW, UNRECORDED_STEP, few_epochs_left, no_epoch_left, unrecorded_epoch
from failover.register import EPOCH_LAST, Register, RegisterState, check_force
from replica.core.handoff.handoff import barred_here
from replica.core.state.effects import Fail, Note
from replica.machine.state.requests import lease_id_of
from tests.support.clients import Producer, create
from tests.support.pair import NAME, Member, Pair


def paired_at(epoch: int) -> Pair:
    """A pair whose first epoch is this one."""
    pair = Pair()
    alone = frozenset({"a"})
    pair.registers._registers[NAME] = Register(1, epoch - 1, "a", alone, frozenset(), RegisterState.CLAIMED, b"before")
    pair.start()
    create(pair)
    pair.settle(100)
    assert pair.register.epoch == epoch
    return pair


def lose(pair: Pair, member: Member, milliseconds: int = 5_000) -> None:
    """It dies, and the other one is sure of it."""
    pair.crash(member)
    member.peer.lost(refused=True)
    pair.settle(milliseconds)


def test_every_lease_id_of_the_last_epoch_fits_a_signed_number() -> None:
    assert lease_id_of(EPOCH_LAST, (1 << 40) - 1) == (1 << 63) - 1


def test_what_is_said() -> None:
    assert no_epoch_left(EPOCH_LAST) == ""
    assert f"{EPOCH_LAST} is the last one" in no_epoch_left(EPOCH_LAST + 1)
    assert few_epochs_left(EPOCH_LAST - EPOCHS_FEW) == ""
    assert few_epochs_left(EPOCH_LAST - 7).startswith("7 epochs are left")
    assert unrecorded_epoch(EPOCH_LAST - UNRECORDED_STEP, "a", "b") <= EPOCH_LAST


def test_the_second_last_is_followed_by_the_last_and_by_none() -> None:
    pair = paired_at(EPOCH_LAST - 1)
    producer = Producer(pair, "x")
    lose(pair, pair.a, 5_000)
    assert pair.b.role is Role.MASTER
    op = producer.send(pair.b)
    pair.settle(100)
    assert op.done is not None
    assert op.done.epoch == EPOCH_LAST
    pair.a.start()
    pair.connect()
    pair.settle(3_000)
    assert pair.is_paired
    lose(pair, pair.b, 60_000)
    assert pair.a.role is Role.PROBE
    assert "no epoch is left" in pair.a.shared.last_change
    assert pair.register.epoch == EPOCH_LAST


def test_a_master_without_its_peer_is_suspended_and_goes_on_when_it_is_back() -> None:
    pair = paired_at(EPOCH_LAST)
    lose(pair, pair.b, 60_000)
    assert pair.a.role is Role.MASTER_SUSPENDED
    op = Producer(pair, "x").send(pair.a)
    pair.settle(100)
    assert op.done is None, "acknowledged by one member that no epoch says is alone"
    pair.b.start()
    pair.connect()
    pair.settle(3_000)
    assert pair.is_paired
    assert op.done is not None
    assert op.done.copies == 2


def test_orders_are_refused_with_the_reason() -> None:
    pair = paired_at(EPOCH_LAST)
    a, b = pair.a.core, pair.b.core
    handoff = barred_here(a.shared, a.mastership, a.target, a.orders, ())
    assert handoff == ("NO_EPOCH",)
    assert "no epoch is left" in a.mastership.leaving.leave_out("its copy is damaged")
    assert a.shared.serving
    lose(pair, pair.a, 5_000)
    assert "no epoch is left" in b.mastership.force("the other one is gone")


def test_an_operator_cannot_put_the_register_beyond_it() -> None:
    now = Register(3, 7, "a", frozenset("ab"), frozenset("ab"), RegisterState.COMMITTED, b"x")
    assert check_force(now, 3, EPOCH_LAST, "b", "why", frozenset("ab")) is None
    assert "does not lie in 8.." in str(check_force(now, 3, EPOCH_LAST + 1, "b", "why", frozenset("ab")))


def test_an_epoch_without_the_register_needs_a_thousand() -> None:
    """With fewer left the register still lets ordinary ones through."""
    pair = paired_at(EPOCH_LAST - UNRECORDED_STEP)
    mastership = pair.a.core.mastership
    mastership.claims.begin_unrecorded(frozenset({"a"}), "told to")
    pair.a.dispatch(pair.a.core)
    assert mastership.role.claim is None
    assert mastership.shared.serving
    assert "no epoch is left" in pair.a.shared.last_change


def test_a_ceded_epoch_beyond_it_is_not_taken() -> None:
    pair = paired_at(EPOCH_LAST)
    mastership = pair.b.core.mastership
    mastership.claims.take_over(EPOCH_LAST + 1, pair.now_ms)
    pair.b.dispatch(pair.b.core)
    pair.settle(5_000)
    assert pair.register.epoch == EPOCH_LAST
    assert pair.b.role is Role.PROBE
    pair.disconnect()
    pair.connect()
    pair.settle(5_000)
    assert pair.is_paired, pair.describe()


def test_the_event_is_told_once() -> None:
    pair = paired_at(EPOCH_LAST)
    said: list[str] = []

    def listen(_what: str, _member: Member, thing: object) -> None:
        if isinstance(thing, Note) and "no epoch is left" in thing.text:
            said.append(thing.text)

    pair.listener = listen
    lose(pair, pair.b, 30_000)
    assert len(said) == 1


def test_without_the_rule_a_claim_goes_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = paired_at(EPOCH_LAST)
    monkeypatch.setattr("replica.core.mastership.claims.no_epoch_left", lambda _epoch: "")
    lose(pair, pair.a)
    assert pair.register.epoch > EPOCH_LAST


def test_an_unpaired_manager_ends_and_says_why() -> None:
    """It takes an epoch at each start."""
    pair = Pair()
    pair.a.start()
    domain = pair.a.core
    domain.shared.peer = ""
    domain.shared.state.epoch = EPOCH_LAST
    domain.mastership.start(pair.now_ms)
    (why,) = [effect.why for effect in domain.take() if isinstance(effect, Fail)]
    assert "no epoch is left" in why
    assert not domain.shared.serving
