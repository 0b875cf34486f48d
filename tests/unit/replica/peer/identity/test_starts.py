"""Which starts of a member were on this data directory: what the peer and the witness have seen is compared with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.peer.identity import starts
from replica.peer.identity.starts import ANCHORS, ID_BYTES, RECENT, Start, Starts, begin
from storage.errors import CorruptRecord

NUMBERS = st.integers(1, 40)
PROCESSES = st.binary(max_size=20)


def process(name: str) -> bytes:
    return Start.of(0, name.encode()).process


def begun(own: Starts, *names: str) -> Starts:
    """So many processes, one after the other, that nobody has counted."""
    for name in names:
        own = begin(own.number, own.encode(), name.encode())
    return own


FIRST = begin(0, b"", b"p1")
FEW = 24


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many are remembered: what is asked of each start among more than are remembered costs their number cubed.
    Tests without it keep as many as a member does.
    """
    monkeypatch.setattr(starts, "ANCHORS", FEW)
    monkeypatch.setattr(starts, "RECENT", FEW)


def test_a_new_directory_begins_at_one() -> None:
    assert (FIRST.number, FIRST.process) == (1, process("p1"))
    assert FIRST.is_others(Start.of(1, b"other")), "the member has had that number, on a directory that is gone"
    assert FIRST.is_others(Start.of(7, b"other"))
    assert not FIRST.is_others(Start.of(1, b"p1"))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("counts", [0, 3, FEW * 2])
def test_starts_that_nobody_counts_do_not_reach_another_ones_number(counts: int) -> None:
    """An image of start 1 is put back, and its processes end one after the other: the original's is none of them, also
    once one of them was counted, by a witness that knows no better.
    """
    own = begun(FIRST.counted(), *(f"image{number}" for number in range(counts)))
    own = begun(own.counted() if counts else own, "next")
    assert own.number == 2 + counts
    for number in range(2, own.number + 1):
        assert own.is_others(Start.of(number, b"original")), number
    assert not own.is_others(Start.of(1, b"p1"))
    assert len(own.encode()) <= (FEW + FEW) * (9 + ID_BYTES)


@pytest.mark.usefixtures("few")
def test_who_was_alone_for_many_starts_knows_the_one_that_its_peer_names() -> None:
    """Counted each time; the peer comes back, and knows one of long ago."""
    own = FIRST.counted()
    for number in range(FEW * 4):
        own = begun(own, f"p{number + 2}").counted()
        for seen in (1, number // 2 + 1, number + 1):
            assert not own.is_others(Start.of(seen, f"p{seen}".encode())), (own.number, seen)


def test_who_ends_early_many_times_knows_whom_its_peer_was_connected_with() -> None:
    own = begun(FIRST.counted(), "connected", *(f"early{number}" for number in range(RECENT - 3)), "last")
    assert not own.is_others(Start.of(2, b"connected"))


def test_who_was_counted_knows_its_starts_before_that_nobody_has_counted() -> None:
    """The peer was connected with one of them."""
    own = begun(FIRST.counted(), "connected", "p3").counted()
    assert not own.is_others(Start.of(2, b"connected"))


def test_a_start_that_was_counted_does_not_hide_another_ones_before_it() -> None:
    """The first one here was not counted: on this directory its number was nobody else's."""
    own = begun(FIRST, "p2").counted()
    assert own.is_others(Start.of(1, b"other"))


def test_who_is_counted_again_and_again_forgets_nobody_over_it() -> None:
    own = begun(FIRST.counted(), "p2").counted()
    again = own
    for _ in range(ANCHORS):
        again = again.counted()
    assert again.is_others(Start.of(1, b"other"))
    assert again == own


def test_who_was_given_the_state_of_more_others_than_are_remembered_takes_none_for_a_stranger() -> None:
    """Those let go are before everything that is remembered; its own starts go further back, and do not count there."""
    own, others = FIRST, []
    for number in range(ANCHORS // 2 + 1):
        others.append(Start.of(own.number + 1, f"other{number}".encode()))
        own = own.after(others[-1]).counted()
    assert others[0] not in own.anchors
    assert [seen for seen in others if own.is_others(seen)] == []


def test_what_is_before_everything_that_is_remembered_was_here_once() -> None:
    """The register may have been put back, and a version before this one has kept no processes."""
    own = begin(7, b"", b"new")
    assert own.number == 8
    assert not own.is_others(Start.of(7, b"of the version before"))
    assert own.is_others(Start.of(8, b"other"))
    assert not begun(own.counted(), "next").is_others(Start.of(3, b"other"))


def test_a_version_that_keeps_none_may_run_between() -> None:
    own = begun(FIRST.counted(), "p2")
    back = begin(own.number + 3, own.encode(), b"later")  # three starts of the other version
    assert back == Starts((), (Start.of(own.number + 4, b"later"),))
    assert not back.is_others(Start.of(own.number + 3, b"of the other version"))


def test_it_goes_on_from_another_ones_start() -> None:
    seen = Start.of(5, b"other")
    own = begun(FIRST, "p2").after(seen)
    assert (own.number, own.process) == (6, process("p2"))
    assert not own.is_others(seen)
    assert not own.is_others(Start.of(2, b"p2")), "a claim of its old number may be under way"
    assert own.is_others(Start.of(5, b"third"))
    again = begun(own, "p3")
    assert again.number == 7
    assert not again.is_others(seen), "its state came from there"
    lower = begun(FIRST, "p2", "p3", "p4").after(Start.of(2, b"other"))
    assert lower.number == 5
    assert not lower.is_others(Start.of(2, b"other"))


def test_where_nobody_says_which_process_it_was_the_number_decides() -> None:
    own = begun(FIRST, "p2")
    assert own.is_others(Start(2))
    assert not own.is_others(Start(1))
    assert not begun(own.after(Start(2)), "p3").is_others(Start(2))


@given(st.lists(st.tuples(NUMBERS, PROCESSES, st.booleans()), max_size=300), PROCESSES)
def test_who_gave_way_does_so_once_and_what_is_kept_is_read_again(
    others: list[tuple[int, bytes, bool]], own_id: bytes
) -> None:
    own = begin(0, b"", own_id)
    for number, other_id, is_counted in others:
        seen, before = Start.of(number, other_id), own.number
        if own.is_others(seen):
            own = own.after(seen)
            assert not own.is_others(seen)
            assert own.number > max(before, number)
        own = own.counted() if is_counted else begin(own.number, own.encode(), own_id)
    read = begin(own.number, own.encode(), b"next")
    assert read.anchors == own.anchors
    assert (*own.recent, read.recent[-1])[-RECENT:] == read.recent
    assert read.number == own.number + 1
    assert max(len(read.anchors) / ANCHORS, len(read.recent) / RECENT) <= 1


@pytest.mark.parametrize("stored", [b"x", bytes(16), bytes(18)])
def test_what_is_no_list_is_not_read_as_one(stored: bytes) -> None:
    with pytest.raises(CorruptRecord, match="list of the last starts"):
        begin(1, stored, b"p")


@pytest.mark.parametrize(
    "name", [b"", b"\0", b"a", b"ends \0\0\0", bytes(8) + b"x", bytes(7) + b"\0", b"\1" + bytes(7)]
)
def test_ids_of_any_length_are_kept(name: bytes) -> None:
    own = begin(0, b"", name)
    assert begin(1, own.encode(), b"next").recent[0] == own.recent[0]


@pytest.mark.usefixtures("few")
def test_ends_that_nobody_counts_do_not_let_the_original_slip_away() -> None:
    """No start of the directory was counted as it was copied: there is no other end of what is remembered."""
    original = Start.of(2, b"original")
    own = begun(FIRST, *(f"image{number}" for number in range(FEW * 2)))
    assert own.is_others(original)
    assert begun(own, "next").counted().is_others(original)


def test_a_disk_that_begins_at_one_again_is_known_to_who_was_counted_a_hundred_times() -> None:
    """The register was emptied and the disk replaced: both say start 1, of a process that was never here."""
    own = FIRST.counted()
    for number in range(100):
        own = begun(own, f"p{number + 2}").counted()
    assert own.is_others(Start.of(1, b"of the new disk"))
