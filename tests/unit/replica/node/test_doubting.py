"""When the doubt about a copy's last writes ends, and who is told of it."""

from __future__ import annotations

import logging

import pytest

from failover.marks import Link
from replica.node.doubting import Doubting
from storage.doubt import Doubt, DoubtKind
from tests.support.pair import Pair

DOUBT = Doubt(DoubtKind.LOG_BEHIND, "The commit log ends with entry 3, and 4 was reported durable", "/d/commit.log")


def test_it_ends_when_both_were_in_step_once_and_does_not_come_back() -> None:
    domain = Pair().start().a.core
    doubting = Doubting([DOUBT])
    for link, open_ in ((Link.DOWN, True), (Link.HANDSHAKE, True), (Link.PAIRED, False), (Link.DOWN, False)):
        domain.shared.link = link
        doubting.look([domain])
        assert doubting.open([domain]) == ((DOUBT,) if open_ else ())


def test_without_a_peer_nobody_confirms_anything() -> None:
    domain = Pair().start().a.core
    domain.shared.link = Link.PAIRED
    domain.shared.peer = ""
    doubting = Doubting([DOUBT])
    doubting.look([domain])
    assert doubting.open([domain]) == (DOUBT,)


def test_it_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tandemq.store"):
        Doubting([DOUBT])
        Doubting([])
    (line,) = caplog.messages
    assert "in doubt: The commit log ends with entry 3" in line
    assert "/d/commit.log" in line
