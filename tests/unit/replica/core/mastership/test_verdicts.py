"""What a member knows of itself as its peer is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from failover.classifier import Answer, EventKind, Evidence, Verdict
from failover.gate import Consequence
from failover.marks import DataMark, Link, Role
from replica.core.mastership.verdicts import Verdicts


@pytest.mark.parametrize(
    ("link", "role", "met"),
    [
        (Link.HANDSHAKE, Role.PROBE, False),
        (Link.SYNC_DST, Role.REPLICA, False),
        (Link.PAIRED, Role.REPLICA, True),
        (Link.SYNC_SRC, Role.MASTER, True),
    ],
)
def test_a_copy_that_was_not_in_step_when_the_connection_ended_may_be_behind(link: Link, role: Role, met: bool) -> None:
    """1. A member is back and connected. 2. Its peer, which went on alone, dies before it has sent everything."""
    state = SimpleNamespace(data=DataMark.IN_SYNC, in_sync_set=["a", "b"])
    shared: Any = SimpleNamespace(member="a", link=Link.DOWN, role=Role.PROBE, state=state)
    view: Any = SimpleNamespace(readable=False, register=None, in_sync_set={"a", "b"})
    peer: Any = SimpleNamespace(connected=False, hello=None)
    verdicts = Verdicts(shared, view, peer)

    def ruled() -> Consequence:
        off = Answer("", verdicts.generation, Verdict.ASSUME_MASTERSHIP, "no power", Evidence.PEER_POWERED_OFF)
        return verdicts.take(off, EventKind.AUTHORITY_LOST, 0).effect

    assert not verdicts.met
    verdicts.on_connected()
    shared.link, shared.role = link, role
    verdicts.on_disconnected(0)
    assert verdicts.met is met
    shared.link, shared.role = Link.DOWN, Role.PROBE
    verdicts.on_disconnected(0)
    assert verdicts.met is met, "nothing was connected since"
    assert ruled() is (Consequence.CLAIM_UNRECORDED if met else Consequence.REFUSE)
    verdicts.on_connected()
    shared.link = Link.HANDSHAKE
    verdicts.on_disconnected(0)
    assert not verdicts.met
