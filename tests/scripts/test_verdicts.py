"""Verdicts on a lost peer, step by step over the product's core: what may go on alone, and what may not (R127-R131)."""

from __future__ import annotations

import pytest

from failover.classifier import EventKind, Evidence, SafetyClass, Verdict
from failover.gate import Consequence
from failover.marks import DataMark, Role
from failover.register import RegisterState
from replica.core.mastership.verdicts import Policy
from tests.support.clients import Producer, check_contents, create
from tests.support.pair import Member, Pair
from tests.support.stories import ends_well

ASKS = Policy(by_authority=False)
ALONE = Policy(has_authority=False, by_authority=False, safety=SafetyClass.B)


def paired(policy: Policy | None = None) -> tuple[Pair, Producer]:
    pair = Pair().start()
    for member in pair.up:
        member.core.mastership.verdicts.set_policy(policy or Policy())
    create(pair)
    return pair, Producer(pair, "x")


def bereft(pair: Pair, survivor: Member) -> None:
    """The other member crashes, and counts as lost."""
    pair.crash(survivor.peer)
    survivor.lost(refused=True)
    pair.settle(500)


@pytest.mark.parametrize("name", ["a", "b"])
def test_without_peer_and_authority_a_member_waits_says_why_and_an_operator_frees_it(name: str) -> None:
    """Failure matrix: arbiter dead and one node dead. The word of an operator is the second signature."""
    pair, x = paired()
    survivor = pair.members[name]
    first = x.send(pair.a)
    pair.settle(1_500)  # a replica reads the register each second: it must know that it is in the set
    pair.witness_away = True
    bereft(pair, survivor)
    assert not survivor.serving or survivor.role is Role.MASTER_SUSPENDED
    assert "tandemq pair decide" in survivor.shared.last_change
    waiting = x.send(survivor)
    pair.settle(1_000)
    assert waiting.done is None
    told = Verdict.CONTINUE_AS_MASTER if name == "a" else Verdict.ASSUME_MASTERSHIP
    assert survivor.verdict(told).effect is Consequence.WAIT, "an opinion is no signature"
    assert survivor.verdict(told, evidence=Evidence.OPERATOR).effect is Consequence.CLAIM_UNRECORDED
    pair.settle(200)
    assert survivor.role is Role.MASTER
    assert survivor.core.mastership.role.unrecorded
    assert waiting.done is not None
    assert waiting.done.copies == 1
    assert first.done is not None
    unrecorded = survivor.shared.state.epoch
    pair.witness_away = False
    pair.settle(2_000)
    assert survivor.role is Role.MASTER
    assert not survivor.core.mastership.role.unrecorded
    assert (pair.register.holder, pair.register.state) == (name, RegisterState.COMMITTED)
    assert pair.register.epoch == survivor.shared.state.epoch > unrecorded
    pair.heal()
    check_contents(pair, [x])


def test_a_wrong_verdict_of_the_other_role_changes_nothing() -> None:
    pair, _ = paired(ASKS)
    bereft(pair, pair.b)
    ruling = pair.b.verdict(Verdict.CONTINUE_AS_MASTER)
    assert ruling.effect is Consequence.REFUSE
    assert "ordered to continue as master" in ruling.why
    pair.settle(2_000)
    assert not pair.b.serving


def test_assume_on_a_stale_copy_is_refused() -> None:
    pair, _ = paired(ASKS)
    pair.b.shared.mark(DataMark.STALE)
    bereft(pair, pair.b)
    ruling = pair.b.verdict(Verdict.ASSUME_MASTERSHIP, evidence=Evidence.OPERATOR)
    assert ruling.effect is Consequence.REFUSE
    assert "STALE" in ruling.why
    pair.settle(2_000)
    assert not pair.b.serving


def test_no_answer_never_promotes() -> None:
    pair, _ = paired(ASKS)
    bereft(pair, pair.b)
    assert pair.b.asked[-1].kind is EventKind.PEER_LOST
    pair.b.verdict(None)
    pair.settle(5_000)
    assert not pair.b.serving
    pair.b.verdict(Verdict.ASSUME_MASTERSHIP)
    pair.settle(500)
    assert pair.b.serving


def test_an_answer_about_an_earlier_absence_is_dropped() -> None:
    """The peer came back while the classifier thought (drbd: the verdict is discarded if the link came back)."""
    pair, _ = paired(ASKS)
    pair.disconnect()
    pair.b.lost()
    pair.settle(100)
    generation = pair.b.core.mastership.verdicts.generation
    pair.connect()
    pair.settle(500)
    pair.disconnect()
    pair.b.lost()
    ruling = pair.b.verdict(Verdict.ASSUME_MASTERSHIP, generation=generation)
    assert ruling.effect is Consequence.DROP
    pair.settle(3_000)
    assert not pair.b.serving


def test_failed_instance_ends_the_process_and_its_outputs() -> None:
    """R129: the failed instance stops serving."""
    pair, x = paired(ASKS)
    pair.disconnect()
    pair.a.lost()
    pair.a.verdict(Verdict.FAILED_INSTANCE)
    assert pair.a.role is Role.FAILED
    assert pair.a.failed
    op = x.send(pair.a)
    pair.settle(2_000)
    assert op.done is None


def cut_off_with_a_failed_replica() -> tuple[Pair, Producer]:
    """Each member is asked about the other one: a goes on as master, b is declared the failed instance."""
    pair, x = paired(ASKS)
    pair.disconnect()
    for member in pair.up:
        member.lost()
    pair.quiesce()
    pair.b.verdict(Verdict.FAILED_INSTANCE)
    pair.a.verdict(Verdict.CONTINUE_AS_MASTER)
    pair.settle(500)
    return pair, x


@pytest.mark.requirement("R129")
def test_of_two_that_are_cut_off_the_master_goes_on_and_the_failed_replica_ends() -> None:
    pair, x = cut_off_with_a_failed_replica()
    assert (pair.a.role, pair.b.role, pair.b.failed) == (Role.MASTER, Role.FAILED, "domain main: because")
    here, there = x.send(pair.a), Producer(pair, "y").send(pair.b)
    pair.settle(2_000)
    assert here.done is not None
    assert here.done.copies == 1
    assert (pair.b.serving, there.done) == (False, None)
    assert pair.register.in_sync_set == {"a"}


@pytest.mark.requirement("R131")
def test_what_only_a_failed_instance_has_goes_and_is_reported_when_it_starts_again() -> None:
    """It ordered and wrote what nobody else has, and answered nobody. Started again it connects, is sent what the new
    master has from there on, and copies what it cuts.
    """
    pair, x = paired(ASKS)
    both = x.send(pair.a)
    pair.settle(200)
    pair.disconnect()
    extra = x.send(pair.a)
    pair.quiesce(link=False)
    pair.a.lost()
    pair.quiesce()
    pair.a.verdict(Verdict.FAILED_INSTANCE)
    ours = pair.a.shared.log.last_index
    assert (both.done is not None, extra.done) == (True, None)
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.b.verdict(Verdict.ASSUME_MASTERSHIP)
    pair.settle(500)
    assert pair.b.serving
    y = Producer(pair, "y")
    y.send(pair.b)
    pair.settle(200)
    pair.a.start()
    assert pair.a.role is Role.PROBE
    pair.connect()
    pair.settle(1_000)
    assert (pair.a.role, pair.b.role) == (Role.REPLICA, Role.MASTER)
    (cut,) = pair.a.cuts
    assert (cut.first, cut.last) == (ours, ours)
    assert pair.a.salvaged == {(ours, 1): False}, "it was acknowledged to nobody"
    assert any(f"{ours} to {ours} of the log go to salvage" in note for note in pair.a.notes)
    pair.checks.equal()
    ends_well(pair, x, y)


@pytest.mark.requirement("R129")
@pytest.mark.parametrize("step", ["claim", "commit"])
def test_an_answer_of_the_register_that_comes_late_makes_no_master_of_a_failed_instance(step: str) -> None:
    """Its claim is under way as it is told that it is the one with the fault. It does not serve as it ends, nor can it
    be forced; started again it finds what it claimed in the register, and takes part.
    """
    pair, x = paired(ASKS)
    pair.disconnect()
    pair.a.lost()
    pair.quiesce()
    pair.a.verdict(Verdict.CONTINUE_AS_MASTER)
    pair.quiesce(keep=(step,))
    call = pair.call(pair.a, step)
    pair.a.verdict(Verdict.FAILED_INSTANCE)
    assert (pair.a.role, pair.a.core.mastership.role.claim) == (Role.FAILED, None)
    pair.answer(call)
    pair.settle(2_000)
    assert (pair.a.role, pair.a.serving) == (Role.FAILED, False)
    assert "start it again" in pair.a.core.mastership.force("test")
    pair.crash(pair.a)
    pair.a.start()
    ends_well(pair, x)


@pytest.mark.requirement("R129")
def test_an_addition_that_the_register_grants_late_makes_no_failed_instance_order_anything() -> None:
    """The peer is back and is being added as the member is told that it has the fault. Were the answer heard, calls
    that wait for a master would be ordered by one that ends.
    """
    pair, x = paired(ASKS)
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.a.verdict(Verdict.CONTINUE_AS_MASTER)
    pair.settle(500)
    pair.b.start()
    pair.connect()
    pair.quiesce(keep=("add",))
    call = pair.call(pair.a, "add")
    pair.a.core.mastership.verdicts.ask(EventKind.LOCAL_FAULT, pair.now_ms, "a write takes too long")
    pair.a.dispatch(pair.a.core)
    pair.a.verdict(Verdict.FAILED_INSTANCE)
    assert pair.a.role is Role.FAILED
    op, last_index = x.send(pair.a), pair.a.shared.log.last_index
    pair.answer(call)
    pair.settle(500)
    assert (pair.a.role, pair.a.shared.log.last_index, op.done) == (Role.FAILED, last_index, None)


@pytest.mark.requirement("R129")
def test_a_failed_instance_takes_no_sync_while_its_process_ends() -> None:
    """As a replica it would take over when that master is lost, though it is the one that has the fault."""
    pair, x = cut_off_with_a_failed_replica()
    pair.connect()
    pair.settle(1_000)
    assert (pair.a.role, pair.b.role) == (Role.MASTER, Role.FAILED)
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(2_000)
    assert (pair.b.role, pair.b.serving) == (Role.FAILED, False)
    pair.a.start()
    pair.crash(pair.b)
    pair.b.start()
    pair.connect()
    ends_well(pair, x)


def test_peer_alive_lets_a_master_go_on_only_with_proof() -> None:
    """rulings.md 7: pair-protocol.md wins over the seed's wording."""
    pair, _ = paired(ASKS)
    pair.disconnect()
    pair.a.lost()
    assert pair.a.verdict(Verdict.PEER_ALIVE).effect is Consequence.WAIT
    pair.settle(2_000)
    assert pair.a.role is Role.MASTER_SUSPENDED
    assert pair.a.verdict(Verdict.PEER_ALIVE, evidence=Evidence.PEER_OUTDATED).effect is Consequence.CLAIM
    pair.settle(500)
    assert pair.a.role is Role.MASTER


def test_a_paused_member_obeys_only_an_operator() -> None:
    pair, _ = paired(ASKS)
    pair.b.core.mastership.verdicts.pause(paused=True)
    bereft(pair, pair.b)
    assert pair.b.verdict(Verdict.ASSUME_MASTERSHIP).effect is Consequence.WAIT
    pair.settle(2_000)
    assert not pair.b.serving
    pair.b.verdict(Verdict.ASSUME_MASTERSHIP, evidence=Evidence.OPERATOR)
    pair.settle(500)
    assert pair.b.serving


def test_a_cold_start_alone_needs_more_than_its_own_mark_without_an_authority() -> None:
    """A member that was switched off comes back believing IN_SYNC, whatever the other did since (4.3)."""
    pair, _ = paired(ALONE)
    pair.crash(pair.a)
    pair.crash(pair.b)
    pair.b.start()
    pair.b.core.mastership.verdicts.set_policy(ALONE)
    pair.b.lost()
    pair.settle(200)
    assert pair.b.asked[-1].kind is EventKind.COLD_START_ALONE
    ruling = pair.b.verdict(Verdict.ASSUME_MASTERSHIP)
    assert ruling.effect is Consequence.REFUSE
    assert "operator" in ruling.why
    assert pair.b.verdict(Verdict.ASSUME_MASTERSHIP, evidence=Evidence.OPERATOR).lets_claim


def test_an_unproven_classifier_without_an_authority_promotes_only_when_the_risk_is_accepted() -> None:
    pair, _ = paired(ALONE)
    bereft(pair, pair.b)
    assert pair.b.verdict(Verdict.ASSUME_MASTERSHIP).effect is Consequence.WAIT
    accepted = Policy(has_authority=False, by_authority=False, safety=SafetyClass.B, accept_unproven=True)
    pair.b.core.mastership.verdicts.set_policy(accepted)
    pair.b.core.mastership.verdicts.set_flapping(flapping=True)
    assert pair.b.verdict(Verdict.ASSUME_MASTERSHIP).effect is Consequence.WAIT
    pair.b.core.mastership.verdicts.set_flapping(flapping=False)
    assert pair.b.verdict(Verdict.ASSUME_MASTERSHIP).effect is Consequence.CLAIM


def test_a_peer_that_does_not_come_along_is_left_behind_and_taken_back() -> None:
    """Failure matrix: slow peer. A solo epoch is recorded first; the peer is back in the set once it has everything."""
    pair, x = paired()
    a = pair.a
    pair.settle(100)
    epoch = a.shared.state.epoch
    op = x.send(a)
    for _ in range(600):
        pair.tick()
        pair.quiesce(disks="a")  # b beats and reads, and its disk does not end a write
        if op.done is not None:
            break
    assert op.done is not None
    assert op.done.copies == 1
    assert a.shared.state.epoch > epoch
    assert pair.register.in_sync_set == {"a"}
    pair.settle(a.core.mastership.leaving.rejoin_ms + 1_000)
    assert pair.is_paired, pair.describe()
    check_contents(pair, [x])


def test_force_makes_a_member_master_against_the_register() -> None:
    """pair failover --force: the gap is the operator's to accept; the register names the new holder alone."""
    pair, x = paired()
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.settle(500)
    x.send(pair.a)
    pair.settle(100)
    pair.crash(pair.a)
    pair.b.start()
    pair.b.lost(refused=True)
    pair.settle(2_000)
    assert not pair.b.serving
    pair.checks.highest = None  # the operator accepts the loss
    assert pair.b.core.mastership.force("a is gone for good") == ""
    pair.b.dispatch(pair.b.core)
    pair.settle(500)
    assert pair.b.role is Role.MASTER
    assert (pair.register.holder, pair.register.state) == ("b", RegisterState.COMMITTED)


def test_force_refuses_what_is_no_whole_copy() -> None:
    pair, _ = paired()
    pair.b.shared.mark(DataMark.SYNCING)
    assert "SYNCING" in pair.b.core.mastership.force("try")
    assert "master of main already" in pair.a.core.mastership.force("try")


def test_an_operator_s_wrong_word_loses_against_the_register_and_ends_in_diverged() -> None:
    """1. The witness is away and the link is cut; B's operator says that A is dead, and B serves unrecorded. 2. The
    witness is back for A first: A claims and serves alone. 3. B finds A's record: it stops, and does not force its own
    in. 4. The link is mended: A goes on, B is DIVERGED with what it acknowledged.
    """
    pair, x = paired()
    y = Producer(pair, "y")
    pair.settle(1_500)
    pair.witness_away = True
    pair.disconnect()
    pair.b.lost()
    pair.quiesce()
    pair.b.verdict(Verdict.ASSUME_MASTERSHIP, evidence=Evidence.OPERATOR)
    pair.settle(200)
    wrong = y.send(pair.b)
    pair.settle(100)
    assert wrong.done is not None
    pair.checks.highest = None  # two histories: what B acknowledged is not A's to hold
    pair.seen.clear()
    pair.witness_away = False
    pair.a.lost()
    pair.quiesce()
    for _ in range(20):  # only A's clock goes on
        pair.now_ms += 20
        pair.a.tick()
        pair.quiesce()
    assert pair.a.role is Role.MASTER
    right = x.send(pair.a)
    pair.quiesce()
    assert right.done is not None
    pair.checks.highest = None
    for _ in range(100):
        pair.tick()
        pair.quiesce()
    assert pair.b.role is Role.PROBE
    assert pair.register.holder == "a"
    pair.connect()
    pair.settle(3_000)
    assert pair.b.role is Role.DIVERGED
    assert pair.a.role is Role.MASTER
    later = x.send(pair.a)
    pair.settle(100)
    assert later.done is not None


def test_a_peer_that_dies_while_both_are_being_claimed_is_left_behind() -> None:
    """Found by kills in the middle of a handoff. It was asked for as PROBE ("assume"); the claim of both was done a
    moment later, and the master that it made was refused its own verdict, for half a minute.
    """
    pair, x = paired()
    pair.crash(pair.a)
    pair.crash(pair.b)
    pair.a.start()
    pair.b.start()
    pair.connect()
    pair.quiesce(keep=("commit",))
    assert pair.has_call(pair.a, "commit")
    assert pair.a.role is Role.PROBE
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.quiesce()
    pair.a.lost(refused=True)
    pair.settle(2_000)
    assert pair.a.role is Role.MASTER
    assert pair.register.in_sync_set == {"a"}
    sent = x.send(pair.a)
    pair.settle()
    assert sent.done is not None


def test_a_peer_that_connects_again_and_again_and_is_never_in_step_is_left_behind() -> None:
    """Found on a wire too narrow for the load: each connection broke under the first records, none was away for the
    lost time, and nothing was acknowledged for good.
    """
    pair, x = paired()
    pair.disconnect()
    sent = x.send(pair.a)
    for _ in range(40):
        pair.connect()
        pair.a.pump()
        pair.tick(300)
        pair.disconnect()
        pair.tick(100)
        for member in pair.up:
            if not member.steps.at_rest:
                member.commit()
        for call in list(pair.calls):
            pair.answer(call)
    assert sent.done is not None
    assert sent.done.copies == 1
    assert pair.register.in_sync_set == {"a"}
    pair.heal()
    check_contents(pair, [x])


def test_a_new_master_gives_its_peer_the_whole_time_before_it_counts_as_slow() -> None:
    """The clock of the slow peer runs from the beginning of the mastership, not from the boot of the machine."""
    pair, x = paired()
    pair.settle(12_000)
    pair.crash(pair.a)
    pair.a.start()
    pair.connect()
    x.send(pair.a)
    for _ in range(20):
        pair.tick()
        pair.quiesce(disks="a")  # b has not written the first record of the epoch yet
    assert pair.a.role is Role.MASTER
    assert (pair.register.epoch, pair.register.in_sync_set) == (2, {"a", "b"}), pair.describe()


def test_an_operator_s_word_frees_no_copy_that_the_register_did_not_name() -> None:
    """Started anew while the register is away: what it was named for once, another member may have gone beyond."""
    pair, _ = paired()
    pair.settle(1_500)
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.settle(500)
    pair.crash(pair.a)
    pair.witness_away = True
    pair.b.start()
    pair.b.lost(refused=True)
    pair.quiesce()
    ruling = pair.b.verdict(Verdict.ASSUME_MASTERSHIP, evidence=Evidence.OPERATOR)
    assert ruling.effect is Consequence.REFUSE
    assert "pair failover --force" in ruling.why
    pair.settle(1_000)
    assert not pair.b.serving
    assert "pair failover --force" in pair.b.shared.last_change
