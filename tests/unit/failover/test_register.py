"""The register's steps: over all small registers, `check_set` lets in exactly what the three builders make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from failover.register import (
    EPOCH_MAX,
    NONCE_BYTES_MAX,
    Register,
    RegisterState,
    add_member,
    check_form,
    check_set,
    claim,
    commit,
)
from tandemq.witness.v1 import witness_service_pb2 as pb

A, B = "a", "b"
BOTH = frozenset({A, B})
SETS = (frozenset[str](), frozenset({A}), frozenset({B}), BOTH)
EPOCHS = (0, 1, 2, 3)


def alone(member: str) -> frozenset[str]:
    return frozenset({member})


def legal_steps(current: Register) -> Iterator[Register]:
    """Every record that a member which keeps the rules may ask for, epochs up to 3. Written from P3, P5 and P6."""
    never_committed = current.committed_set == frozenset()
    vouched = current.in_sync_set if current.state is RegisterState.COMMITTED else current.committed_set
    for epoch, member in product(EPOCHS, (A, B)):
        for members in SETS:
            allowed = members == alone(member) if never_committed else member in vouched and members <= vouched
            if epoch > current.epoch and member in members and allowed:
                yield claim(current, member=member, epoch=epoch, members=members, nonce=b"n")
    if current.state is RegisterState.CLAIMED:
        yield commit(current, nonce=b"n")
    elif not current.is_new:
        for member in BOTH - current.in_sync_set:
            yield add_member(current, member_added=member, nonce=b"n")


@cache
def reachable() -> tuple[Register, ...]:
    """All registers that legal steps lead to, from a new one."""
    found, waiting = {Register()}, [Register()]
    while waiting:
        for step in legal_steps(waiting.pop()):
            if step not in found:
                found.add(step)
                waiting.append(step)
    return tuple(sorted(found, key=lambda register: (register.version, repr(register))))


def any_desired(current: Register) -> Iterator[Register]:
    versions = {max(0, current.version - 1), current.version, current.version + 1, current.version + 2}
    for fields in product(versions, EPOCHS, ("", A, B), SETS, SETS, RegisterState):
        yield Register(*fields, nonce=b"n")


@pytest.mark.slow
def test_exactly_the_legal_steps_are_let_in() -> None:
    assert len(reachable()) > 50
    for current in reachable():
        let_in = {desired for desired in any_desired(current) if check_set(current, current, desired) is None}
        assert let_in == set(legal_steps(current)), current


def test_every_legal_step_has_a_sound_form() -> None:
    assert {check_form(register) for register in reachable()} == {None}


def test_the_eligible_set_is_empty_only_before_the_first_commit() -> None:
    """Once a record was committed, somebody may always claim: no sequence of claims shuts both out (P5, P6)."""
    for current in reachable():
        for step in legal_steps(current):
            assert step.eligible_set or current.vouches_for_nobody


def test_only_a_commit_or_an_add_changes_who_is_eligible() -> None:
    """P5: a claim, also one that replaces a claim, carries the committed set on unchanged."""
    for current in reachable():
        for step in legal_steps(current):
            if step.state is RegisterState.CLAIMED:
                assert step.eligible_set == current.eligible_set


def test_nobody_becomes_eligible_but_by_an_add_or_a_first_claim() -> None:
    for current in reachable():
        for step in legal_steps(current):
            newcomers = step.eligible_set - current.eligible_set
            added = current.state is step.state is RegisterState.COMMITTED
            assert not newcomers or added or (current.vouches_for_nobody and newcomers == {step.holder})


@pytest.mark.parametrize(
    "other",
    [
        {"version": 9},
        {"epoch": 9},
        {"holder": B},
        {"in_sync_set": BOTH},
        {"committed_set": BOTH},
        {"state": RegisterState.CLAIMED},
        {"nonce": b"other"},
    ],
)
def test_p1_every_field_is_compared(other: dict[str, object]) -> None:
    current = committed(A, 1)
    desired = add_member(current, member_added=B, nonce=b"x")
    assert check_set(current, current, desired) is None
    assert "has changed" in str(check_set(current, replace(current, **other), desired))


def test_an_epoch_never_falls_and_a_claim_raises_it() -> None:
    current = committed(A, 2)
    lower = replace(add_member(current, member_added=B, nonce=b"x"), epoch=1)
    assert "below" in str(check_set(current, current, lower))
    same = replace(claim(current, member=A, epoch=3, members=alone(A), nonce=b"x"), epoch=2)
    assert "above" in str(check_set(current, current, same))


def test_forms() -> None:
    sound = claim(Register(), member=A, epoch=1, members=alone(A), nonce=b"x")
    assert check_form(Register()) is None
    assert check_form(replace(sound, epoch=EPOCH_MAX, nonce=b"x" * NONCE_BYTES_MAX)) is None
    assert "epoch" in str(check_form(replace(sound, epoch=EPOCH_MAX + 1)))
    assert "epoch" in str(check_form(replace(sound, version=-1)))
    assert "nonce" in str(check_form(replace(sound, nonce=b"x" * (NONCE_BYTES_MAX + 1))))
    assert "nonce" in str(check_form(replace(sound, nonce=b"")))
    assert "at most 2" in str(check_form(replace(sound, in_sync_set=frozenset({A, B, "c"}))))
    assert "at most 2" in str(check_form(replace(sound, holder="c", in_sync_set=BOTH)))


def test_states_have_the_numbers_of_the_contract() -> None:
    for state in RegisterState:
        assert pb.RegisterState.Name(state.value) == f"REGISTER_STATE_{state.name}"
    assert len(pb.RegisterState.keys()) == len(RegisterState) + 1


# ---- the stories of protocol-check.md section 2, as far as they are the register's


def committed(member: str, epoch: int) -> Register:
    return commit(claim(Register(), member=member, epoch=epoch, members=alone(member), nonce=b"c"), nonce=b"d")


def paired(epoch: int = 1) -> Register:
    """a is master, both hold everything."""
    return add_member(committed(A, epoch), member_added=B, nonce=b"p")


def test_story_unknown_add_makes_its_member_eligible_or_is_cancelled() -> None:
    """P2, P3: the late add counts when it lands first; after the holder's new epoch it can land no more."""
    solo = committed(A, 2)
    add = add_member(solo, member_added=B, nonce=b"late")
    assert check_set(solo, solo, add) is None
    assert B in add.eligible_set  # so whoever sent the add must go on requiring b
    new_epoch = claim(solo, member=A, epoch=3, members=alone(A), nonce=b"x")
    assert check_set(solo, solo, new_epoch) is None
    assert check_set(new_epoch, solo, add) is not None


def test_story_timeout_read_as_success() -> None:
    """P6: a's commit is unknown; b, of the previous set, replaces the claim; a's commit cannot land after that."""
    before = paired()
    claimed = claim(before, member=A, epoch=2, members=alone(A), nonce=b"a")
    late_commit = commit(claimed, nonce=b"a2")
    replacing = claim(claimed, member=B, epoch=3, members=alone(B), nonce=b"b")
    assert check_set(claimed, claimed, replacing) is None
    assert check_set(replacing, claimed, late_commit) is not None
    # the other order: the commit landed first, and b is not in the set any more
    too_late = claim(late_commit, member=B, epoch=3, members=alone(B), nonce=b"b")
    assert "committed set" in str(check_set(late_commit, late_commit, too_late))


def test_story_solo_before_the_register() -> None:
    """P2: b claims first; a's claim, under way, is refused, so a must have released nothing alone."""
    before = paired()
    first = claim(before, member=B, epoch=2, members=alone(B), nonce=b"b")
    second = claim(before, member=A, epoch=2, members=alone(A), nonce=b"a")
    assert check_set(before, before, first) is None
    assert check_set(first, before, second) is not None


def test_story_left_over_claim_may_be_replaced_but_never_built_upon() -> None:
    """P7: the pair runs in e1 while the register says "CLAIMED e2 by b": a cannot publish a set on top of it."""
    left_over = claim(paired(), member=B, epoch=2, members=alone(B), nonce=b"b")
    published = replace(paired(), version=left_over.version + 1, nonce=b"x")
    assert check_set(left_over, left_over, published) is not None
    tidied = claim(left_over, member=A, epoch=3, members=BOTH, nonce=b"a")
    assert check_set(left_over, left_over, tidied) is None


def test_story_first_claim_left_over_does_not_shut_the_pair_out() -> None:
    """a forms the pair and dies between claim and commit: either member may form it again, alone."""
    left_over = claim(Register(), member=A, epoch=1, members=alone(A), nonce=b"a")
    assert left_over.vouches_for_nobody
    for member in (A, B):
        again = claim(left_over, member=member, epoch=2, members=alone(member), nonce=b"x")
        assert check_set(left_over, left_over, again) is None
    both = claim(left_over, member=A, epoch=2, members=BOTH, nonce=b"x")
    assert "alone" in str(check_set(left_over, left_over, both))


def test_story_a_claim_cannot_smuggle_in_a_member_that_never_caught_up() -> None:
    """P3, P5: b missed solo epoch 2; a claim with the set {both} would make b eligible without an add."""
    solo = committed(A, 2)
    both = claim(solo, member=A, epoch=3, members=BOTH, nonce=b"x")
    assert "never adds" in str(check_set(solo, solo, both))
