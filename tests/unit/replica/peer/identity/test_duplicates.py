"""Which process of the peer's name is the peer: each row is a sentence of `replica.peer.identity.duplicates`."""

from __future__ import annotations

import pytest

from failover.marks import DataMark
from replica.peer.identity.duplicates import (
    ALIVE_MS,
    LOST_MS,
    SEEN_PROCESS,
    SEEN_START,
    LastConnection,
    PeerInfo,
    PeerRefused,
    check_process,
    other_start,
)
from replica.peer.identity.starts import Start
from tandemq.peer.v1.peer_service_pb2 import DomainHello, Hello

HERE, CUT_OFF, GONE = LastConnection(True, 0, False), LastConnection(False, 0, False), LastConnection(False, 0, True)
GOOD, OLD = DataMark.IN_SYNC, DataMark.STALE


def refused(process: bytes, start: int, data: DataMark, signs: LastConnection, *, counted: bool = True) -> str:
    known = PeerInfo("b", "127.0.0.1:1", incarnation=5, process_id=b"first")
    hello = Hello(member="b", incarnation=start, process_id=process, domains=[DomainHello(data_state=data.value)])
    try:
        check_process(known, hello, signs, counted=counted)
    except PeerRefused as error:
        return str(error)
    return ""


@pytest.mark.parametrize("signs", [HERE, CUT_OFF, GONE])
@pytest.mark.parametrize("data", [GOOD, OLD])
def test_the_same_process_may_always_connect_again(signs: LastConnection, data: DataMark) -> None:
    assert not refused(b"first", 5, data, signs)


@pytest.mark.parametrize("signs", [HERE, CUT_OFF, GONE, LastConnection(True, 60_000, False)])
@pytest.mark.parametrize("start", [1, 4, 5])
def test_a_start_that_was_here_already_is_a_copy_until_it_is_counted(signs: LastConnection, start: int) -> None:
    """Its marks say nothing: it has not heard yet that it is an older one."""
    assert "start 5 of b was here already" in refused(b"other", start, GOOD, signs)
    assert not refused(b"other", 6, GOOD, GONE)


def test_the_caller_is_told_which_start_was_here_already() -> None:
    """It goes on from there where nobody else remembers."""
    known = PeerInfo("b", "127.0.0.1:1", incarnation=5, process_id=b"first")
    with pytest.raises(PeerRefused) as told:
        check_process(known, Hello(member="b", incarnation=5, process_id=b"other"), GONE, counted=True)
    assert told.value.metadata == {SEEN_START: "5", SEEN_PROCESS: b"first".hex()}
    with pytest.raises(PeerRefused) as told:
        check_process(known, Hello(member="b", incarnation=6, process_id=b"other"), HERE, counted=True)
    assert told.value.metadata == {}, "it is a later one, and the other lives"


def test_without_a_third_voice_nobody_counts_and_an_emptied_disk_begins_at_one() -> None:
    assert not refused(b"other", 1, DataMark.EMPTY, GONE, counted=False)
    assert not refused(b"other", 1, GOOD, CUT_OFF, counted=False)


@pytest.mark.parametrize(
    ("data", "connected", "lives_ms"),
    [(GOOD, True, ALIVE_MS), (GOOD, False, 0), (OLD, True, LOST_MS), (OLD, False, LOST_MS)],
)
def test_a_later_start_takes_the_place_once_the_one_before_it_does_not_live(
    data: DataMark, connected: bool, lives_ms: int
) -> None:
    """One that has everything comes of a restart; one that has not may stand beside a frozen original."""
    assert bool(refused(b"other", 6, data, LastConnection(connected, max(0, lives_ms - 1), False))) is bool(lives_ms)
    assert not refused(b"other", 6, data, LastConnection(connected, lives_ms, False))


def test_where_the_port_refuses_nothing_is_waited_for() -> None:
    assert not refused(b"other", 6, OLD, GONE)


def test_whoever_is_the_first_to_come_is_the_peer() -> None:
    hello = Hello(member="b", incarnation=1, process_id=b"any", domains=[DomainHello(data_state=OLD.value)])
    check_process(PeerInfo("b", "127.0.0.1:1"), hello, CUT_OFF, counted=True)


@pytest.mark.parametrize(
    ("seen", "process", "taken"),
    [(0, b"", 0), (5, b"me", 0), (9, b"me", 0), (4, b"other", 4), (5, b"other", 5), (9, b"other", 9), (5, b"", 0)],
)
def test_who_says_hello_says_which_start_of_this_member_it_knows(seen: int, process: bytes, taken: int) -> None:
    """Its own process does not count against it, whatever its number."""
    own = Hello(member="a", incarnation=5, process_id=b"me")
    told = other_start(own, Hello(member="b", seen_incarnation=seen, seen_process_id=process))
    assert told == (Start.of(taken, process) if taken else None)
