"""Whether an epoch is under way in which this member is alone: then its peer has to prove itself anew."""

from __future__ import annotations

from tests.support.pair import Pair


def test_only_a_claim_without_the_peer_goes_alone() -> None:
    pair = Pair().start()
    claims = pair.a.core.mastership.claims
    assert not claims.goes_alone, "no claim is under way"
    for members, alone in ((frozenset("ab"), False), (frozenset("a"), True)):
        claims.begin(members, "for a test")
        assert claims.goes_alone is alone
