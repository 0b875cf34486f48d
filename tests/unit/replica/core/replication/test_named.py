"""Whether a replica that has just come back knows that its copy counts, before the open is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Role
from tests.support.clients import create
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.pair import Member


def replica_again(pair: Pair, member: Member) -> None:
    """Dead and back before its master has given it up; it follows, and the open is not acknowledged."""
    pair.crash(member)
    member.start()
    pair.connect()
    while member.role is not Role.REPLICA:
        assert pair.one(disks=member.peer.name)
    assert not member.core.target.opened
    assert member.shared.state.data is DataMark.IN_SYNC


def taken_over() -> Pair:
    """Epoch 1, which A began alone, is over: both members were in the set with which A began epoch 2."""
    pair = Pair().start()
    create(pair)
    pair.crash(pair.a)
    pair.a.start()
    pair.connect()
    pair.settle(400)
    assert pair.is_paired
    assert pair.register.in_sync_set == {"a", "b"}
    return pair


def test_it_counts_where_the_epoch_began_with_it() -> None:
    pair = taken_over()
    assert pair.master is not None
    replica = pair.master.peer
    replica_again(pair, replica)
    assert replica.core.target.counts
    pair.settle(400)
    assert pair.is_paired


def test_it_does_not_where_it_was_added_later() -> None:
    """Only the master knows when: what it was sent before may have been acknowledged without it."""
    pair = Pair().start()
    create(pair)
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.settle(400)
    assert pair.a.serving
    assert pair.register.in_sync_set == {"a"}
    pair.b.start()
    pair.connect()
    pair.settle(400)
    assert pair.is_paired
    replica_again(pair, pair.b)
    assert not pair.b.core.target.counts
    pair.settle(400)
    assert pair.b.core.target.counts


def test_it_does_not_while_its_copy_is_an_older_one() -> None:
    pair = taken_over()
    assert pair.master is not None
    replica = pair.master.peer
    replica_again(pair, replica)
    replica.shared.mark(DataMark.STALE)
    assert not replica.core.target.counts
