"""Which member's copy a backup may be taken from without a word: one that is current."""

from __future__ import annotations

from failover.marks import Role
from replica.services.admin.backup import _is_current
from tests.support.clients import create
from tests.support.pair import Pair


def test_a_replica_is_current_by_its_log_once_its_directory_is_known_to_be_no_older_copy() -> None:
    pair = Pair().start()
    create(pair)
    pair.crash(pair.a)
    pair.a.start()
    pair.connect()
    pair.settle(400)
    assert pair.master is not None
    replica = pair.master.peer
    pair.crash(replica)
    replica.start()
    replica.core.mastership.claims.let_claim(allowed=False)  # the witness has not seen this start yet
    pair.connect()
    while replica.role is not Role.REPLICA:
        assert not _is_current(replica.core)
        assert pair.one(disks=pair.master.name)
    assert replica.core.target.counts
    assert not replica.core.target.opened
    assert not _is_current(replica.core), "an older copy of this epoch has such a log too"
    replica.core.mastership.claims.let_claim(allowed=True)
    assert _is_current(replica.core)
    replica.core.mastership.claims.let_claim(allowed=False)
    pair.settle(400)
    assert replica.core.target.opened
    assert _is_current(replica.core)
