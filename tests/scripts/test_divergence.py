"""Two histories, where a script cannot make them: a forged frame, a number that is given twice. The others are told in
`protocol/divergence*.txt` and beside them.
"""

from __future__ import annotations

import pytest

from failover.marks import DataMark, Role
from tandemq.peer.v1.peer_service_pb2 import SyncBegin
from tests.support.checks import require
from tests.support.clients import Producer, remaining
from tests.support.pair import NUMBER, Member, Pair
from tests.support.stories import ends_well, paired
from tests.support.walk import trim


def contents(member: Member) -> list[bytes]:
    return [payload for _, payload in remaining(member)]


def meet(pair: Pair) -> None:
    """A comes back and meets B."""
    pair.a.start()
    pair.connect()
    pair.settle(3000)


def test_forged_outdate() -> None:
    """From a stranger, from an older epoch, or at a master: refused, and nothing has changed."""
    pair, _ = paired()
    a, b = pair.a.core.mastership, pair.b.core.mastership
    epoch = pair.a.shared.state.epoch
    pair.b.shared.state.promised_epoch = epoch + 1
    for mastership, by_member, number in ((b, "c", 99), (b, "a", epoch), (a, "b", 99), (a, "", 0), (b, "b", 99)):
        why_not = mastership.copy_orders.outdate("test", by_member=by_member, epoch=number)
        require(why_not != "", f"{by_member!r} outdates {mastership.shared.member} with epoch {number}")
    pair.b.shared.state.promised_epoch = 0
    pair.b.shared.mark(DataMark.SOLE)
    why_not = b.copy_orders.outdate("test", by_member="a", epoch=epoch)
    require(
        "may be the only current one" in why_not, "a copy that was alone in the caller's own epoch is outdated by it"
    )
    pair.b.shared.mark(DataMark.IN_SYNC)
    require(pair.is_paired, f"the pair is whole: {pair.describe()}")


def test_p13_a_sync_below_what_was_promised_is_not_followed() -> None:
    """Lower means below the highest number that is durable here *or promised*."""
    pair, _ = paired()
    b, epoch = pair.b.core.mastership.following, pair.a.shared.state.epoch
    pair.b.shared.state.promised_epoch = epoch + 2
    require(not b.may_follow(epoch + 1, SyncBegin()), f"B follows epoch {epoch + 1} and has promised {epoch + 2}")
    require(pair.b.role is Role.REPLICA, "nothing has changed")
    require(b.may_follow(epoch + 2, SyncBegin()), "the promised one is followed")


def test_required_member_diverges() -> None:
    """A requires B when B finds out about two histories (a register that was put back): A goes on without it."""
    pair, x = paired()
    pair.b.core.mastership.role.become_diverged("test", 0)
    pair.b.dispatch(pair.b.core)
    op = x.send(pair.a)
    pair.settle(2000)
    require(pair.b.role is Role.DIVERGED, f"B took part: {pair.describe()}")
    require(op.done is not None, f"A waits for a member that waits for an operator: {pair.describe()}")
    require(op.done is not None and op.done.copies == 1, "A answers alone")
    require(pair.b.core.mastership.copy_orders.give_up_history("test") == "", "B gives way")
    pair.b.dispatch(pair.b.core)
    ends_well(pair, x)


def test_two_owners_at_once() -> None:
    """Cut off from each other and from the register, each is told to go on, and both take one number. Both stop; an
    operator keeps A's history, and B's is copied.
    """
    pair, _ = paired()
    pair.disconnect()
    pair.checks.excused = True
    told = []
    for member in (pair.a, pair.b):
        # Of itself each takes a number that the other one cannot; a register that was put back gives one twice.
        member.core.mastership.claims.begin_unrecorded(frozenset({member.name}), "told to", epoch=2)
        member.dispatch(member.core)
        pair.quiesce(keep=("",), link=False)
        told.append(Producer(pair, f"of-{member.name}"))
        told[-1].send(member)
        pair.quiesce(keep=("",), link=False)
    require(all(producer.ops[0].done is not None for producer in told), "both answer alone")
    pair.connect()
    pair.quiesce(keep=("",))
    roles = (pair.a.role, pair.b.role)
    require(roles == (Role.DIVERGED, Role.DIVERGED), f"one wiped the other, or is about to: {pair.describe()}")
    require(pair.b.core.mastership.copy_orders.give_up_history("test") == "", "B gives way")
    pair.b.dispatch(pair.b.core)
    pair.settle(500)
    require(pair.a.core.mastership.force("test") == "", "A is forced")
    pair.a.dispatch(pair.a.core)
    pair.heal()
    pair.checks.equal()
    require(contents(pair.a) == [b"x/1", b"of-a/1"], "A's history stands")
    require(any(pair.b.salvaged.values()), "what B acknowledged vanished")
    require(not any(pair.a.salvaged.values()), "nothing of A went")


def one_number_twice_and_trimmed() -> None:
    """Each was told to go on alone, one after the other, and both took one number; B was recorded later and has trimmed
    the record that shows whose epoch it was. A comes back: nothing proves that B has what A acknowledged.
    """
    pair, _ = paired()
    pair.disconnect()
    pair.checks.excused = True
    pair.witness_away = True
    for member in (pair.a, pair.b):
        member.core.mastership.claims.begin_unrecorded(frozenset({member.name}), "told to", epoch=99)
        member.dispatch(member.core)
        pair.quiesce(keep=("",), link=False)
        for number in range(3):
            Producer(pair, f"of-{member.name}{number}").send(member)
            pair.quiesce(keep=("",), link=False)
    pair.crash(pair.a)
    pair.witness_away = False
    for _ in range(2):
        pair.b.lost(refused=True)
        pair.settle(2000)
        Producer(pair, f"later-{pair.now_ms}").send(pair.b)
        pair.settle(300)
        trim(pair.b)
        pair.b.commit()
        pair.crash(pair.b)
        pair.b.start()
    pair.b.lost(refused=True)
    pair.settle(2000)
    trim(pair.b)
    pair.b.commit()
    held = pair.a.store.bounds(NUMBER)
    meet(pair)
    require(pair.a.role is Role.DIVERGED, f"acknowledged operations went in silence: {pair.describe()}")
    require(pair.a.store.bounds(NUMBER) == held, "acknowledged operations were cut")
    require(pair.b.serving, "B goes on")


def test_one_number_twice_and_trimmed() -> None:
    one_number_twice_and_trimmed()


def test_one_number_twice_is_seen_by_what_is_not_known() -> None:
    """Where nothing is known of the peer's log it counts as different."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replica.core.replication.divergence.as_far_as_not_alone", lambda _shared, end: end)
        with pytest.raises(AssertionError, match="in silence"):
            one_number_twice_and_trimmed()
