"""Each rule of the register by itself: the words with which a step is refused, and the same step that is let in."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from failover.register import (
    EPOCH_LAST,
    Register,
    RegisterState,
    add_member,
    check_force,
    check_set,
    claim,
    commit,
    forced,
)

A, B = frozenset({"a"}), frozenset({"b"})
BOTH = A | B
NEW = Register()
CLAIMED = claim(NEW, member="a", epoch=1, members=A, nonce=b"1")
ALONE = commit(CLAIMED, nonce=b"2")
PAIRED = add_member(ALONE, member_added="b", nonce=b"3")
AGAIN = claim(PAIRED, member="a", epoch=2, members=A, nonce=b"4")


def test_the_way_of_a_pair_is_let_in() -> None:
    way = (NEW, CLAIMED, ALONE, PAIRED, AGAIN, commit(AGAIN, nonce=b"5"))
    for before, after in pairwise(way):
        assert check_set(before, before, after) is None


@pytest.mark.parametrize(
    ("current", "desired", "words"),
    [
        (ALONE, replace(PAIRED, version=2), "version 2 does not follow 2"),
        (ALONE, replace(PAIRED, version=4), "version 4 does not follow 2"),
        (PAIRED, replace(AGAIN, epoch=0), "epoch 0 is below 1"),
        (PAIRED, replace(AGAIN, in_sync_set=B), "holder 'a' is not in its own in-sync set"),
        (PAIRED, replace(AGAIN, epoch=1), "a claim needs an epoch above 1"),
        (PAIRED, replace(AGAIN, committed_set=A), "a claim carries the committed set unchanged"),
        (NEW, replace(CLAIMED, in_sync_set=BOTH), "a first claim names its author alone"),
        (ALONE, claim(ALONE, member="b", epoch=2, members=B, nonce=b"x"), "'b' is not in the committed set {a}"),
        (ALONE, claim(ALONE, member="a", epoch=2, members=BOTH, nonce=b"x"), "a claim keeps members of {a}"),
        (AGAIN, replace(commit(AGAIN, nonce=b"x"), epoch=3), "a commit repeats the claim of 'a' in epoch 2"),
        (AGAIN, replace(commit(AGAIN, nonce=b"x"), holder="b", in_sync_set=B), "a commit repeats the claim of 'a'"),
        (AGAIN, replace(commit(AGAIN, nonce=b"x"), in_sync_set=BOTH), "a commit repeats the claim of 'a'"),
        (AGAIN, replace(commit(AGAIN, nonce=b"x"), committed_set=BOTH), "a committed record has one set"),
        (ALONE, replace(PAIRED, committed_set=A), "a committed record has one set"),
        (ALONE, replace(PAIRED, epoch=2), "only 'a' may add a member to epoch 1"),
        (ALONE, replace(PAIRED, holder="b"), "only 'a' may add a member to epoch 1"),
        (ALONE, replace(PAIRED, in_sync_set=A, committed_set=A), "without a claim the in-sync set only grows"),
        (PAIRED, replace(PAIRED, version=4, in_sync_set=A, committed_set=A), "without a claim the in-sync set only"),
        (NEW, replace(ALONE, version=1), "the first set is a claim"),
    ],
)
def test_a_step_that_breaks_one_rule_is_refused_by_it(current: Register, desired: Register, words: str) -> None:
    why = check_set(current, current, desired)
    assert why is not None
    assert words in why


def test_an_operator_may_name_whom_he_knows() -> None:
    assert check_force(PAIRED, 3, 2, "b", "because", frozenset()) is None
    assert check_force(ALONE, 2, 2, "b", "because", frozenset()) is None, "the other one may not have been met"
    assert check_force(ALONE, 2, EPOCH_LAST, "a", "because", A) is None
    for seen, epoch, holder, reason, started, words in (
        (3, 2, "", "because", A, "no holder is named"),
        (3, 2, "c", "because", A, "'c' is no member of this pair: its members are a and b"),
        (3, 2, "b", " ", A, "no reason is given"),
        (2, 2, "b", "because", A, "at version 3, the operator has seen 2"),
        (3, 1, "b", "because", A, f"epoch 1 does not lie in 2..{EPOCH_LAST}"),
        (3, EPOCH_LAST + 1, "b", "because", A, "does not lie in 2.."),
    ):
        why = check_force(PAIRED, seen, epoch, holder, reason, started)
        assert why is not None
        assert words in why
    why = check_force(ALONE, 2, 2, "c", "because", BOTH)
    assert why is not None
    assert "is no member" in why
    assert forced(PAIRED, epoch=7, holder="b", nonce=b"n") == Register(4, 7, "b", B, B, RegisterState.CLAIMED, b"n")
