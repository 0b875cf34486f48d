"""The promotion table, over all small facts: who may claim, that one does, and that never both do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product
from typing import NamedTuple

import pytest

from failover.log_end import log_end
from failover.marks import DataMark, Link, Role
from failover.promotion import (
    REPLICA_BIAS_MS,
    RETRY_MS,
    RETRY_MS_MAX,
    TABLE,
    Claim,
    Decision,
    Facts,
    Follow,
    PromotionRow,
    Wait,
    Why,
    claim_delay_ms,
    decide,
    next_epoch,
    retry_delay_ms,
    row_of,
    unrecorded_epoch,
    words_of,
)
from failover.register import Register, RegisterState, add_member, check_set, claim, commit
from tandemq.v1 import common_pb2

A, B = "a", "b"
BOTH = frozenset({A, B})
GOOD = (DataMark.IN_SYNC, DataMark.SOLE)


def alone(member: str) -> frozenset[str]:
    return frozenset({member})


def registers() -> list[Register]:
    """Every kind: new, claimed and committed, each holder, each pair of sets, a stranger's."""
    found = [Register()]
    for holder in (A, B):
        first = claim(Register(), member=holder, epoch=1, members=alone(holder), nonce=b"1")
        solo = commit(first, nonce=b"2")
        pair = add_member(solo, member_added=B if holder == A else A, nonce=b"3")
        found += [first, solo, pair]
        for base, author in product((solo, pair), (A, B)):
            for members in (alone(author), BOTH):
                if author in base.eligible_set and members <= base.eligible_set:
                    claimed = claim(base, member=author, epoch=2, members=members, nonce=b"4")
                    found += [claimed, commit(claimed, nonce=b"5")]
    stranger = claim(Register(), member="c", epoch=1, members=alone("c"), nonce=b"1")
    return [*found, commit(stranger, nonce=b"2")]


REGISTERS = registers()
EPOCH_PAIRS = [(0, 0), (1, 1), (1, 2), (2, 1)]


def mirrored(facts: Facts) -> Facts:
    """The same moment as the peer sees it; neither is master."""
    assert facts.peer_data is not None
    return replace(
        facts,
        member=facts.peer,
        peer=facts.member,
        data=facts.peer_data,
        peer_data=facts.data,
        epoch=facts.peer_epoch,
        peer_epoch=facts.epoch,
        end=facts.peer_end,
        peer_end=facts.end,
    )


SHORT, LONG = log_end([(1, 1)], 4, b"short"), log_end([(1, 1)], 5, b"long")
OTHER = log_end([(1, 1)], 5, b"other")
END_PAIRS = [(LONG, LONG), (SHORT, LONG), (LONG, SHORT), (LONG, OTHER)]


def connected_facts() -> Iterator[Facts]:
    cases = product([None, *REGISTERS], DataMark, DataMark, EPOCH_PAIRS, END_PAIRS)
    for register, data, peer_data, (epoch, peer_epoch), (end, peer_end) in cases:
        if (end, peer_end) != END_PAIRS[0] and not (data.is_good and peer_data.is_good):
            continue  # ends are compared between good copies alone
        yield Facts(
            member=A,
            peer=B,
            data=data,
            peer_connected=True,
            peer_role_master=False,
            peer_data=peer_data,
            register=register,
            peer_lost=False,
            epoch=epoch,
            peer_epoch=peer_epoch,
            end=end,
            peer_end=peer_end,
        )


def all_facts() -> Iterator[Facts]:
    for facts in connected_facts():
        for each in (facts, mirrored(facts)):
            unmet = unknown(each)
            for peer_role_master, peer_lost, young, lets in product((False, True), repeat=4):
                told = {"peer_role_master": peer_role_master, "peer_lost": peer_lost, "young_claim": young}
                yield replace(each, verdict_lets=lets, **told)
                for away in unmet:
                    yield replace(away, verdict_lets=lets, peer_connected=False, **told)
                    if not (peer_role_master or young) and peer_lost and lets:
                        yield replace(away, peer_lost=True, not_met=True, peer_connected=False)


def unknown(facts: Facts) -> tuple[Facts, ...]:
    """The same without the peer's mark: one of all that differ in nothing else."""
    return (replace(facts, peer_data=None),) if facts.peer_data is DataMark.IN_SYNC else ()


def eligible(member: str, data: DataMark | None, register: Register) -> bool:
    return data in GOOD and member in register.eligible_set


def outrun(facts: Facts) -> bool:
    """The peer may claim too, and knows an epoch that neither the register nor this member knows."""
    assert facts.register is not None
    may = eligible(facts.peer, facts.peer_data, facts.register)
    return may and facts.peer_epoch > max(facts.register.epoch, facts.epoch)


def test_never_do_both_members_of_a_connected_pair_claim() -> None:
    for facts in connected_facts():
        assert not (isinstance(decide(facts), Claim) and isinstance(decide(mirrored(facts)), Claim)), facts


def test_exactly_one_claims_when_one_may() -> None:
    """P8: both waiting is as wrong as both claiming."""
    for facts in connected_facts():
        if facts.register is None or facts.register.vouches_for_nobody:
            continue
        may_a = eligible(A, facts.data, facts.register) and not outrun(facts)
        may = may_a or (eligible(B, facts.peer_data, facts.register) and not outrun(mirrored(facts)))
        both_may = may_a and eligible(B, facts.peer_data, facts.register) and not outrun(mirrored(facts))
        if both_may and (facts.end, facts.peer_end) == (LONG, OTHER):
            may = False  # for an operator
        claims = [isinstance(decide(each), Claim) for each in (facts, mirrored(facts))]
        assert sum(claims) == may, facts


class Judged(NamedTuple):
    """What came of all small facts; they are too many to keep."""

    claims: list[tuple[Facts, Claim]]
    rows: list[PromotionRow]
    words: dict[str, set[str]]
    reasons: set[Why]
    others_followed: list[Facts]
    """Where the peer is no connected master and is followed all the same, or is one and is not."""
    without_register: set[Decision]
    """Where the register cannot be read, and the peer is no connected master."""


@pytest.fixture(scope="module")
def judged() -> Judged:
    found = Judged([], [], {}, set(), [], set())
    for facts in chain(all_facts(), *map(unknown, connected_facts())):
        row, decision = row_of(facts), decide(facts)
        if row not in found.rows:
            found.rows.append(row)
        for name, word in words_of(facts).items():
            found.words.setdefault(name, set()).add(word)
        found.reasons.add(decision.reason)
        leads = facts.peer_connected and facts.peer_role_master
        if isinstance(decision, Claim):
            found.claims.append((facts, decision))
        if isinstance(decision, Follow) != leads:
            found.others_followed.append(facts)
        if facts.register is None and not leads:
            found.without_register.add(decision)
    return found


@pytest.mark.slow
def test_only_an_eligible_member_claims_and_names_only_eligible_members(judged: Judged) -> None:
    """P5, P9; not connected, a member speaks for itself alone and only once the peer is lost."""
    assert judged.claims
    for facts, decision in judged.claims:
        assert facts.register is not None, facts
        assert facts.member in decision.members
        alone = facts.peer_lost and facts.verdict_lets and decision.members == {facts.member}
        assert facts.peer_connected or alone, facts
        if facts.register.vouches_for_nobody:
            assert decision.members == {facts.member}, facts
            assert facts.peer_connected, facts
            continue
        assert eligible(facts.member, facts.data, facts.register), facts
        if facts.peer in decision.members:
            assert eligible(facts.peer, facts.peer_data, facts.register), facts


@pytest.mark.slow
def test_every_claim_is_one_that_the_register_lets_in(judged: Judged) -> None:
    for facts, decision in judged.claims:
        assert facts.register is not None
        desired = claim(
            facts.register,
            member=facts.member,
            epoch=next_epoch(facts.register, facts.epoch, 0, facts.peer_epoch),
            members=decision.members,
            nonce=b"x",
        )
        assert check_set(facts.register, facts.register, desired) is None, facts


def test_a_connected_master_is_followed_whatever_else_is_known(judged: Judged) -> None:
    assert judged.others_followed == []


def test_without_a_readable_register_nobody_claims(judged: Judged) -> None:
    assert judged.without_register == {Wait(Why.REGISTER_UNREADABLE)}


def test_every_reason_is_reached(judged: Judged) -> None:
    assert judged.reasons == set(Why)


def test_every_row_decides_something_and_every_word_of_a_row_occurs(judged: Judged) -> None:
    """A row that never fits, or a misspelt word, would be a rule that nobody obeys."""
    for row in TABLE:
        for name, word in row.when.items():
            assert word in judged.words[name], row
    assert [row for row in TABLE if row not in judged.rows] == []


# ---- rows, one by one


def facts_of(
    register: Register | None,
    data: DataMark,
    peer_data: DataMark | None,
    *,
    member: str = A,
    epoch: int = 0,
    peer_epoch: int = 0,
    young_claim: bool = False,
) -> Facts:
    """Connected when the peer's mark is given; else the peer is lost."""
    return Facts(
        member=member,
        peer=B if member == A else A,
        data=data,
        peer_connected=peer_data is not None,
        peer_role_master=False,
        peer_data=peer_data,
        register=register,
        peer_lost=peer_data is None,
        epoch=epoch,
        peer_epoch=peer_epoch,
        young_claim=young_claim,
    )


def committed(member: str, epoch: int = 1) -> Register:
    return commit(claim(Register(), member=member, epoch=epoch, members=alone(member), nonce=b"c"), nonce=b"d")


def paired() -> Register:
    return add_member(committed(A), member_added=B, nonce=b"p")


def both(facts: Facts) -> tuple[Decision, Decision]:
    return decide(facts), decide(mirrored(facts))


def test_ruling_4_the_lower_name_forms_the_pair() -> None:
    found = both(facts_of(Register(), DataMark.EMPTY, DataMark.EMPTY))
    assert found == (Claim(alone(A), Why.FORMATION), Wait(Why.FORMATION_OTHER))
    assert decide(facts_of(Register(), DataMark.EMPTY, None)) == Wait(Why.BLANK_ALONE)


def test_formation_interrupted_before_its_commit_is_taken_up_again() -> None:
    first = claim(Register(), member=A, epoch=1, members=alone(A), nonce=b"1")
    for data in (DataMark.EMPTY, DataMark.SOLE):  # before and after the local commit
        assert decide(facts_of(first, data, DataMark.EMPTY)).__class__ is Claim


def test_wiped_register_the_member_that_served_alone_wins_over_one_that_still_believes_itself_in_sync() -> None:
    """a is the lower name and IN_SYNC since e1; b went solo in e2 and acknowledged; then the witness lost its disk."""
    facts = facts_of(Register(), DataMark.IN_SYNC, DataMark.SOLE, epoch=1, peer_epoch=2)
    assert both(facts) == (Wait(Why.BLANK_OTHER_COPY), Claim(alone(B), Why.BLANK_BEST_COPY))
    # the higher epoch counts before the mark: a claim that was never committed leaves SOLE behind, too
    facts = facts_of(Register(), DataMark.SOLE, DataMark.IN_SYNC, epoch=2, peer_epoch=3)
    assert both(facts) == (Wait(Why.BLANK_OTHER_COPY), Claim(alone(B), Why.BLANK_BEST_COPY))
    # without epochs the mark decides
    facts = facts_of(Register(), DataMark.IN_SYNC, DataMark.SOLE)
    assert both(facts) == (Wait(Why.BLANK_OTHER_COPY), Claim(alone(B), Why.BLANK_BEST_COPY))


@pytest.mark.parametrize(
    ("data", "peer_data", "epoch", "peer_epoch"),
    [
        (DataMark.SOLE, DataMark.SOLE, 2, 2),  # two owners of one epoch
        (DataMark.IN_SYNC, DataMark.DAMAGED, 2, 1),  # what is damaged may be the only copy of something
        (DataMark.IN_SYNC, DataMark.STALE, 1, 2),  # the outdated one knows an epoch that the good one does not
        (DataMark.STALE, DataMark.EMPTY, 1, 0),
        (DataMark.SYNCING, DataMark.STALE, 1, 1),
    ],
)
def test_wiped_register_and_unclear_copies_are_for_an_operator(
    data: DataMark, peer_data: DataMark, epoch: int, peer_epoch: int
) -> None:
    facts = facts_of(Register(), data, peer_data, epoch=epoch, peer_epoch=peer_epoch)
    assert both(facts) == (Wait(Why.BLANK_UNCLEAR), Wait(Why.BLANK_UNCLEAR))


@pytest.mark.parametrize("peer_data", [DataMark.EMPTY, DataMark.SYNCING, DataMark.STALE])
@pytest.mark.parametrize("data", GOOD)
def test_wiped_register_and_one_good_copy(data: DataMark, peer_data: DataMark) -> None:
    found = both(facts_of(Register(), data, peer_data, epoch=1, peer_epoch=1))
    assert found == (Claim(alone(A), Why.BLANK_BEST_COPY), Wait(Why.BLANK_OTHER_COPY))


def test_p9_both_in_the_set_keep_it_one_in_the_set_claims_alone() -> None:
    found = both(facts_of(paired(), DataMark.IN_SYNC, DataMark.IN_SYNC))
    assert found == (Claim(BOTH, Why.NAMED_HOLDER), Wait(Why.NAMED_OTHER))
    found = both(facts_of(committed(B), DataMark.IN_SYNC, DataMark.SOLE))
    assert found == (Wait(Why.ONLY_PEER_ELIGIBLE), Claim(alone(B), Why.OTHER_NOT_ELIGIBLE))


@pytest.mark.parametrize("data", [mark for mark in DataMark if mark not in GOOD])
def test_a_mark_below_good_never_claims_against_a_known_register(data: DataMark) -> None:
    """protocol-check.md section 3: without it an empty disk becomes master."""
    assert decide(facts_of(paired(), data, None)) == Wait(Why.NOT_ELIGIBLE)
    assert decide(facts_of(paired(), data, data)) == Wait(Why.NONE_ELIGIBLE)


def test_matrix_both_crashed_the_first_back_serves_only_if_the_register_names_it() -> None:
    assert decide(facts_of(paired(), DataMark.IN_SYNC, None)) == Claim(alone(A), Why.PEER_LOST)
    assert decide(facts_of(committed(B), DataMark.IN_SYNC, None)) == Wait(Why.NOT_ELIGIBLE)


def test_a_silent_peer_is_not_lost_before_the_verdict() -> None:
    facts = replace(facts_of(paired(), DataMark.IN_SYNC, None), peer_lost=False)
    assert decide(facts) == Wait(Why.NOT_LOST_YET)


@pytest.mark.parametrize("holder", [A, B])
def test_p20_of_two_that_may_claim_the_longer_log_goes_first_whoever_is_named(holder: str) -> None:
    register = commit(claim(paired(), member=holder, epoch=2, members=BOTH, nonce=b"2"), nonce=b"3")
    facts = replace(facts_of(register, DataMark.IN_SYNC, DataMark.IN_SYNC, epoch=2, peer_epoch=2), end=SHORT)
    found = both(replace(facts, peer_end=LONG))
    assert found == (Wait(Why.PEER_LONGER), Claim(BOTH, Why.OWN_LONGER))
    assert both(replace(facts, end=LONG, peer_end=OTHER)) == (Wait(Why.ENDS_DIFFER), Wait(Why.ENDS_DIFFER))


def test_p20_a_wiped_register_and_two_copies_in_sync() -> None:
    """The longer one, although a has the lower name; a copy that served alone goes before all that."""
    facts = replace(facts_of(Register(), DataMark.IN_SYNC, DataMark.IN_SYNC, epoch=1, peer_epoch=1), end=SHORT)
    found = both(replace(facts, peer_end=LONG))
    assert found == (Wait(Why.BLANK_OTHER_COPY), Claim(alone(B), Why.BLANK_BEST_COPY))
    assert both(replace(facts, end=LONG, peer_end=OTHER)) == (Wait(Why.BLANK_UNCLEAR), Wait(Why.BLANK_UNCLEAR))
    sole = replace(facts, data=DataMark.SOLE, epoch=2, peer_end=LONG)
    assert both(sole) == (Claim(alone(A), Why.BLANK_BEST_COPY), Wait(Why.BLANK_OTHER_COPY))


def test_p20_a_start_waits_for_a_peer_that_may_claim_too() -> None:
    facts = facts_of(paired(), DataMark.IN_SYNC, None)
    assert decide(replace(facts, not_met=True)) == Wait(Why.NOT_MET_YET)
    assert decide(facts) == Claim(alone(A), Why.PEER_LOST)


# ---- the stories of protocol-check.md section 2, as far as they are decided here


def test_story_own_number_plus_one() -> None:
    """P4: a opened e2 with {both} before b heard of it; b, still at e1, claims 3."""
    register = claim(paired(), member=A, epoch=2, members=BOTH, nonce=b"2")
    assert next_epoch(register, own_epoch=1, promised_epoch=0, peer_epoch=0) == 3


def test_story_same_number_by_handoff() -> None:
    """P15: a ceded e2 and stored the promise; its own later claim is 3, whatever became of the handoff."""
    assert next_epoch(paired(), own_epoch=1, promised_epoch=2, peer_epoch=0) == 3


@pytest.mark.parametrize("epochs", list(product((0, 1, 5), repeat=4)))
def test_p4_the_next_epoch_is_above_all_that_are_known(epochs: tuple[int, int, int, int]) -> None:
    in_register, own, promised, peer = epochs
    assert next_epoch(Register(epoch=in_register), own, promised, peer) == max(epochs) + 1
    assert next_epoch(None, own, promised, peer) == max(own, promised, peer) + 1  # P18


def test_story_left_over_claim() -> None:
    """P7: the register says "CLAIMED e2 by b", the pair ran in e1; the tidying epoch is b's and keeps the set."""
    left_over = claim(paired(), member=B, epoch=2, members=alone(B), nonce=b"b")
    found = both(facts_of(left_over, DataMark.IN_SYNC, DataMark.IN_SYNC, epoch=1, peer_epoch=1))
    assert found == (Wait(Why.NAMED_OTHER), Claim(BOTH, Why.NAMED_HOLDER))


def test_story_duel() -> None:
    """P8: a ceded and crashed, both would claim. From whatever either claimed last, one of them is to go on."""
    register = paired()
    for epoch, author in enumerate((B, A, B, A), start=2):
        register = claim(register, member=author, epoch=epoch, members=alone(author), nonce=b"d")
        decisions = dict(zip((A, B), both(facts_of(register, DataMark.IN_SYNC, DataMark.IN_SYNC)), strict=True))
        assert {name for name, decision in decisions.items() if isinstance(decision, Claim)} == {author}


def test_story_both_wait() -> None:
    """P8: b claimed the ceded e2 and crashed before storing it; a's promised e2 does not make a "ahead"."""
    register = claim(paired(), member=B, epoch=2, members=alone(B), nonce=b"b")
    facts = facts_of(register, DataMark.IN_SYNC, DataMark.IN_SYNC, epoch=1, peer_epoch=1)
    assert [type(decision) for decision in both(facts)] == [Wait, Claim]
    assert next_epoch(register, own_epoch=1, promised_epoch=0, peer_epoch=1) == 3


def test_story_duel_of_two_that_are_cut_off() -> None:
    """P8: a young claim of the peer is left alone, an old one is not; one's own never holds one back."""
    of_peer = claim(paired(), member=B, epoch=2, members=alone(B), nonce=b"b")
    own = claim(paired(), member=A, epoch=2, members=alone(A), nonce=b"a")
    assert decide(facts_of(of_peer, DataMark.IN_SYNC, None, young_claim=True)) == Wait(Why.YOUNG_CLAIM)
    assert decide(facts_of(of_peer, DataMark.IN_SYNC, None)) == Claim(alone(A), Why.PEER_LOST)
    assert decide(facts_of(own, DataMark.IN_SYNC, None, young_claim=True)) == Claim(alone(A), Why.PEER_LOST)


# ---- timing


def test_ruling_9_the_master_goes_at_once_the_replica_after_its_bias() -> None:
    assert claim_delay_ms(role_is_master=True, link_reset_and_refused=False) == 0
    assert claim_delay_ms(role_is_master=False, link_reset_and_refused=False) == REPLICA_BIAS_MS == 300
    assert claim_delay_ms(role_is_master=False, link_reset_and_refused=True) == 0
    assert claim_delay_ms(role_is_master=False, link_reset_and_refused=False, bias_ms=7) == 7


def test_retries_double_stay_bounded_and_keep_the_masters_head_start() -> None:
    assert retry_delay_ms(1, 0.0, role_was_master=True) == RETRY_MS
    assert retry_delay_ms(2, 0.0, role_was_master=True) == 2 * RETRY_MS
    assert retry_delay_ms(10_000, 0.0, role_was_master=True) == RETRY_MS_MAX
    for attempt, jitter in product((1, 5, 100), (0.0, 0.5, 0.999)):
        master = retry_delay_ms(attempt, jitter, role_was_master=True)
        assert master < 2 * RETRY_MS_MAX
        assert retry_delay_ms(attempt, jitter, role_was_master=False) == master + REPLICA_BIAS_MS


# ---- marks


def test_the_axes_have_the_numbers_of_the_contract() -> None:
    for ours, theirs, prefix in (
        (Role, common_pb2.Role, "ROLE_"),
        (DataMark, common_pb2.DataState, "DATA_STATE_"),
        (Link, common_pb2.LinkState, "LINK_STATE_"),
    ):
        names = {f"{prefix}{member.name}": member.value for member in ours}
        assert names | {f"{prefix}UNSPECIFIED": 0} == dict(theirs.items())


def test_good_marks() -> None:
    assert tuple(mark for mark in DataMark if mark.is_good) == GOOD


def test_a_member_that_missed_an_unrecorded_epoch_does_not_claim_beside_the_one_that_served_it() -> None:
    """docs/decisions/0005: a handoff or an operator's word while the authority was away."""
    register = Register(1, 1, A, frozenset({A, B}), frozenset({A, B}), RegisterState.COMMITTED, b"1")
    facts = Facts(A, B, DataMark.IN_SYNC, True, False, DataMark.SOLE, register, False, epoch=1, peer_epoch=2)
    assert decide(facts) == Wait(Why.ONLY_PEER_ELIGIBLE)
    assert decide(mirrored(facts)) == Claim(frozenset({B}), Why.OTHER_NOT_ELIGIBLE)


def test_an_unrecorded_epoch_of_a_member_that_the_register_excludes_bars_nobody() -> None:
    """An operator was wrong, and the other one has claimed since: it goes on, and the histories meet as DIVERGED."""
    alone = frozenset({A})
    register = Register(3, 2, A, alone, alone, RegisterState.COMMITTED, b"2")
    facts = Facts(A, B, DataMark.SOLE, True, False, DataMark.SOLE, register, False, epoch=2, peer_epoch=3)
    assert decide(facts) == Claim(alone, Why.OTHER_NOT_ELIGIBLE)
    assert decide(mirrored(facts)) == Wait(Why.ONLY_PEER_ELIGIBLE)


def test_unrecorded_epochs_of_two_members_are_never_one() -> None:
    """Both begin alone while the register is away, from wherever they last met; either may have claimed since."""
    taken: set[int] = set()
    for base in (2, 3, 900, 1_025, 5_000):
        both = (unrecorded_epoch(base, A, B), unrecorded_epoch(base, B, A))
        assert both[0] != both[1]
        assert min(both) > base
        taken.update(both)
    assert taken.isdisjoint(range(2, 1_024)), "what the register gives out meanwhile"
    assert max(taken) < 1 << 24, "a lease id has 24 bits for it"
