"""What status says about the peer's death, as a table: each row is a situation and the sentence for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from failover.classifier import SafetyClass
from failover.marks import DataMark, Role
from replica.operations.forecast import DomainView, advice, if_peer_dies

BOTH = frozenset({"a", "b"})
ALONE = frozenset({"a"})
ZZ = frozenset({"zz"})
MASTER = DomainView(
    member="a", peer="b", role=Role.MASTER, data=DataMark.IN_SYNC, in_sync_set=BOTH, serving=True, required=BOTH
)
REPLICA = DomainView(member="b", peer="a", role=Role.REPLICA, data=DataMark.IN_SYNC, in_sync_set=BOTH)
LOST_MASTER = replace(MASTER, role=Role.MASTER_SUSPENDED, connected=False)
LOST_REPLICA = replace(REPLICA, role=Role.PROBE, connected=False, last_index=47)
UNWITNESSED = {"authority": "none", "authority_reachable": False}
BY_B = {"classifier": "alt-path", "safety": SafetyClass.B}


@pytest.mark.parametrize(
    ("view", "sentence"),
    [
        (replace(MASTER, peer=""), ""),
        (MASTER, "a goes on alone with one copy once the witness has recorded it; nothing is lost"),
        (replace(MASTER, authority="etcd", classifier="etcd"), "a goes on alone with one copy once the etcd has"),
        (replace(MASTER, required=ALONE, in_sync_set=ALONE), "nothing changes: a serves alone already, with one copy"),
        (replace(MASTER, authority_reachable=False), "a stops acknowledging and waits, because the witness cannot be"),
        (replace(MASTER, authority_reachable=False), "`tandemq pair decide continue`"),
        (replace(MASTER, paused=True), "waits, because automation is paused here"),
        (replace(MASTER, classifier="command"), "alone if classifier command says so and the witness agrees"),
        (replace(MASTER, classifier="command", mode="observe"), "goes on alone with one copy once the witness has"),
        (replace(MASTER, classifier="operator"), "waits, because the classifier is `operator`"),
        (replace(MASTER, **UNWITNESSED, classifier="suspend"), "waits, because no classifier decides"),
        (replace(MASTER, **UNWITNESSED, classifier="command", mode="off"), "waits, because no classifier decides"),
        (replace(MASTER, **UNWITNESSED, **BY_B), "alt-path is of class B and there is no authority"),
        (replace(MASTER, **UNWITNESSED, **BY_B, accept_unproven=True), "alone if classifier alt-path says so"),
        (replace(MASTER, **UNWITNESSED, classifier="peer-outdate"), "alone if classifier peer-outdate says so"),
        (REPLICA, "b takes over with everything acknowledged, once the witness has recorded it"),
        (replace(REPLICA, in_sync_set=ALONE), "nobody serves: the copy at b is not in the in-sync set, so it waits"),
        (replace(REPLICA, data=DataMark.SYNCING), "nobody serves: the copy at b is SYNCING, so it waits for a"),
        (replace(REPLICA, authority_reachable=False), "nobody serves, because the witness cannot be reached"),
        (replace(REPLICA, authority_reachable=False), "`tandemq pair decide assume`"),
        (replace(REPLICA, paused=True), "nobody serves, because automation is paused here"),
        (replace(REPLICA, classifier="command"), "if classifier command says so and the witness agrees"),
        (replace(REPLICA, role=Role.MAINTENANCE), "nobody serves: b is in maintenance"),
        (replace(REPLICA, role=Role.PROBE), "b serves nobody now, and that does not change"),
        (replace(REPLICA, role=Role.DIVERGED), "b serves nobody now, and that does not change"),
    ],
)
def test_if_the_peer_dies_now(view: DomainView, sentence: str) -> None:
    assert sentence in if_peer_dies(view)
    assert if_peer_dies(view) == "" or sentence


@pytest.mark.parametrize(
    ("view", "sentence"),
    [
        (MASTER, ""),
        (REPLICA, ""),
        (replace(REPLICA, role=Role.INIT), ""),
        (replace(LOST_REPLICA, peer=""), ""),
        (replace(REPLICA, role=Role.DIVERGED), "`tandemq pair resolve --keep MEMBER`"),
        (replace(REPLICA, role=Role.MAINTENANCE), "`tandemq pair maintenance off` brings it back"),
        (replace(REPLICA, role=Role.FAILED), "start it again"),
        (replace(REPLICA, role=Role.CEDING), "ends by itself"),
        (replace(LOST_REPLICA, connected=True), "b and a are deciding who serves; look again"),
        (replace(LOST_REPLICA, connected=True, in_sync_set=ZZ), "the register names zz, which is neither b nor a, so"),
        (replace(LOST_REPLICA, connected=True, in_sync_set=ZZ), "`tandemq witness set-epoch --holder MEMBER`"),
        (replace(LOST_REPLICA, in_sync_set=ZZ), "`tandemq pair failover --force --member MEMBER`"),
        (replace(LOST_REPLICA, connected=True, nobody=True), "no connected member is known to hold everything"),
        (replace(LOST_REPLICA, connected=True, nobody=True), "`tandemq witness set-epoch --holder MEMBER`"),
        (LOST_REPLICA, "a is lost and the witness is asked; look again"),
        (replace(LOST_REPLICA, authority_reachable=False), "a is lost and the witness cannot be reached: bring a back"),
        (replace(LOST_REPLICA, authority_reachable=False), "`tandemq pair decide assume`"),
        (replace(LOST_MASTER, authority_reachable=False), "`tandemq pair decide continue`"),
        (replace(LOST_REPLICA, paused=True), "run `tandemq pair resume`, bring a back"),
        (replace(LOST_REPLICA, waiting=True), "a is lost and classifier witness did not decide: bring a back"),
        (replace(LOST_REPLICA, classifier="command"), "classifier command is asked; if it does not answer"),
        (replace(LOST_REPLICA, in_sync_set=ALONE), "the copy at b is not in the in-sync set, a may hold more: start a"),
        (replace(LOST_REPLICA, data=DataMark.STALE), "accept what is lost after 47: `tandemq pair failover --force`"),
        (replace(LOST_REPLICA, data=DataMark.EMPTY), "b holds nothing yet: start a"),
        # Suspended with the register against it is impossible: it was in the set when it served.
        (replace(LOST_MASTER, in_sync_set=frozenset({"b"})), "the witness is asked"),
    ],
)
def test_what_holds_it_back_and_what_to_do(view: DomainView, sentence: str) -> None:
    assert sentence in advice(view)
    assert bool(advice(view)) is bool(sentence)


@pytest.mark.parametrize("lost", [LOST_MASTER, LOST_REPLICA])
@pytest.mark.parametrize(
    ("lacks", "why"),
    [({"held_everything": False}, "is not known to hold everything"), ({"may_claim": False}, "has not confirmed this")],
)
def test_no_verdict_is_advised_that_would_be_refused(lost: DomainView, lacks: dict[str, bool], why: str) -> None:
    text = advice(replace(lost, authority_reachable=False, **lacks))
    assert why in text
    assert "`tandemq pair failover --force`" in text
    assert "decide" not in text


def test_advice_about_a_stranger_never_sends_anybody_round_in_circles() -> None:
    for connected in (True, False):
        for authority in ("witness", "etcd", "none"):
            text = advice(replace(LOST_REPLICA, connected=connected, authority=authority, in_sync_set=ZZ))
            assert "look again" not in text
            assert "start zz" not in text
            assert ("set-epoch" in text) is (authority == "witness")


def test_the_whole_condition_of_a_verdict_is_named() -> None:
    for text in (advice(replace(LOST_REPLICA, waiting=True)), if_peer_dies(replace(MASTER, authority_reachable=False))):
        assert "is down and has not served alone since the link broke" in text


def test_every_role_and_mark_has_one_sentence() -> None:
    for role in Role:
        for data in DataMark:
            for connected in (True, False):
                view = replace(REPLICA, role=role, data=data, connected=connected)
                for text in (if_peer_dies(view), advice(view)):
                    assert "\n" not in text
                    assert not text.endswith(".")
                assert if_peer_dies(view)
