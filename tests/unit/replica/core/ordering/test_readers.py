"""What named readers hold back at each member of a pair in one process, and whom the master gives up."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.ordering.readers import NOBODY, Hold
from replica.core.state.calls import PendingCall
from replica.machine import AdvanceCall, ReaderPlace, RegisterCall
from replica.machine.features.readers import all_readers, lowest_place
from replica.machine.state.errors import Refused
from replica.node.journal import bounds_of
from replica.node.maintenance import NO_JOURNAL, Maintenance
from replica.services.admin.readers import _first_place, _place_of
from tandemq.v1.journal_service_pb2 import AdvanceReaderRequest, JournalPosition, RegisterReaderRequest
from tests.support.clients import Waiter, create
from tests.support.pair import NUMBER, Member, Pair, drive
from tests.support.walk import UpkeepNode, trim

COUNT = 10


def reading(place: int = 3) -> tuple[Pair, Member]:
    """A pair with records, all of them needless but for a reader at that place."""
    pair = Pair().start()
    create(pair)
    master = pair.master
    assert master is not None
    register(pair, master, "lake", place)
    return pair, master


def register(pair: Pair, member: Member, name: str, place: int) -> None:
    call = RegisterCall(name, ReaderPlace(place, 1), 0, restart=False, request_id=b"", request_hash=0)
    member.submit(PendingCall(Waiter(), call))
    pair.settle(200)


def send(pair: Pair, member: Member, count: int = COUNT) -> None:
    create(pair, f"q{member.shared.log.last_index}")
    for _ in range(count):
        create(pair, f"r{member.shared.log.last_index}")


def advance(pair: Pair, member: Member, place: int, name: str = "lake") -> None:
    call = AdvanceCall(name, ReaderPlace(place, 1), b"", 0)
    member.submit(PendingCall(Waiter(), call))


class Clock:
    def __init__(self, pair: Pair) -> None:
        self.pair, self.ahead_ms = pair, 0

    def now_ms(self) -> int:
        return self.pair.wall_ms + self.ahead_ms


class Node(UpkeepNode):
    """With what giving up readers needs besides."""

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.clock = Clock(member.pair)
        self.dispatch = member.dispatch


def upkeep(member: Member, **keep: Any) -> Maintenance:
    return Maintenance(Node(member), member.core, NO_JOURNAL._replace(**keep))  # type: ignore[arg-type]


def place_lost(member: Member, name: str = "lake") -> int:
    return int(next(each.lost_until for each in all_readers(member.shared.machine.state) if each.name == name))


def test_neither_member_trims_what_a_reader_has_not_read() -> None:
    pair, master = reading(3)
    send(pair, master)
    for member in (master, master.peer):
        trim(member)
        member.commit()
        assert member.shared.state.kept_from == 3
    advance(pair, master, 7)
    pair.settle(200)
    for member in (master, master.peer):
        trim(member)
        assert member.shared.state.kept_from == 7


def test_without_readers_nothing_is_held_back() -> None:
    pair = Pair().start()
    create(pair)
    assert pair.master is not None
    send(pair, pair.master)
    trim(pair.master)
    assert pair.master.shared.state.kept_from > COUNT


def test_an_advance_that_is_not_committed_frees_nothing() -> None:
    pair, master = reading(3)
    send(pair, master)
    hold = Hold(master.shared)
    assert hold.lowest() == 3
    pair.cut()
    advance(pair, master, 7)
    assert lowest_place(master.shared.machine.state) == 7
    assert (hold.lowest(), Hold(master.shared).lowest()) == (3, 0)
    pair.disconnect()
    pair.connect()
    pair.settle(400)
    assert hold.lowest() in (3, 7)
    assert hold.lowest() == 7


def test_one_that_registers_late_is_held_back_for_at_once() -> None:
    pair, master = reading(7)
    send(pair, master)
    hold = Hold(master.shared)
    assert hold.lowest() == 7
    register(pair, master, "other", 4)
    assert hold.lowest() == 4


def test_who_begins_anew_is_given_no_place_that_was_given_up() -> None:
    """Between the loss and the trim its old place is still there: to begin there is to lose it again at once."""
    pair, master = reading(3)
    keeper = upkeep(master, reader_bytes=1_000)
    send(pair, master)
    trim(master)
    keeper.mark()
    keeper.node.appended_bytes = 1_001
    keeper._give_up_readers()
    pair.settle(200)
    until = place_lost(master)
    assert bounds_of(master.shared).first == 3, "nothing is trimmed yet"
    asked = RegisterReaderRequest(name="lake", restart=True)
    assert _first_place(master.shared, asked).log_index == until > 3
    with pytest.raises(Refused, match="about to be trimmed"):
        _first_place(master.shared, RegisterReaderRequest(name="lake", position=JournalPosition(log_index=4)))
    register(pair, master, "other", 5)  # as long as somebody else wants it, it is there for all
    assert _first_place(master.shared, asked).log_index == 5


def test_a_reader_beyond_the_bytes_loses_its_place_and_the_journal_goes() -> None:
    pair, master = reading(3)
    keeper = upkeep(master, reader_bytes=1_000)
    send(pair, master)
    trim(master)  # a checkpoint: what the journal itself need not keep
    keeper.mark()
    keeper.node.appended_bytes = 1_000
    keeper._give_up_readers()
    assert place_lost(master) == 0
    keeper.node.appended_bytes = 1_001
    keeper._give_up_readers()
    pair.settle(200)
    for member in (master, master.peer):
        assert place_lost(member) > COUNT
        trim(member)
        assert member.shared.state.kept_from > COUNT
    assert any("lake" in note and "limits.reader_bytes" in note for note in master.notes)
    assert not master.peer.notes or "lake" not in " ".join(master.peer.notes)


def test_a_reader_that_keeps_up_loses_nothing_however_long_the_log() -> None:
    pair, master = reading(3)
    keeper = upkeep(master, reader_bytes=1_000)
    send(pair, master)
    trim(master)
    keeper.mark()
    advance(pair, master, master.shared.log.last_index + 1)
    pair.settle(200)
    keeper.node.appended_bytes = 5_000
    keeper._give_up_readers()
    assert place_lost(master) == 0


def test_a_reader_beyond_the_hours_loses_its_place() -> None:
    pair, master = reading(3)
    send(pair, master)
    trim(master)
    keeper = upkeep(master, reader_ms=3_600_000)
    keeper.mark()
    keeper.node.clock.ahead_ms = 3_500_000  # type: ignore[misc]
    keeper._give_up_readers()
    assert place_lost(master) == 0
    keeper.node.clock.ahead_ms = 3_700_000  # type: ignore[misc]
    keeper._give_up_readers()
    assert place_lost(master) > 0
    assert any("limits.reader_hours" in note for note in master.notes)


def test_a_store_that_is_nearly_full_keeps_nothing_for_readers() -> None:
    pair, master = reading(3)
    send(pair, master)
    trim(master)
    for member in (master.peer, master):
        keeper = upkeep(member)
        keeper.full = True
        keeper.mark()
        keeper._give_up_readers()
        assert (place_lost(master) > 0) is (member is master), "the master orders, and he alone"


@pytest.mark.parametrize("at_replica", [False, True], ids=["master", "replica"])
def test_one_that_registers_while_records_are_looked_at_is_held_back_for(at_replica: bool) -> None:
    """1. A member has told how far it may trim, and looks at what lies there, or waits for a commit. 2. A reader is
    given a place there: nothing says that it is about to go. 3. It went, and nobody told the reader of a loss.
    """
    pair = Pair().start()
    create(pair)
    assert pair.master is not None
    master = pair.master
    send(pair, master)
    member = master.peer if at_replica else master
    keeper = upkeep(member)
    drive(keeper.checkpoint())
    keeper.mark()
    assert keeper._keep_from() >= COUNT
    work = keeper._trim()
    work.send(None)  # in the midst of it
    assert master.shared.progress.trimming == 0
    register(pair, master, "lake", 3)
    drive(work)
    assert member.shared.state.kept_from <= 3
    assert {index for index, _, _ in member.store.scan_prefixes(NUMBER, 1, limit=100)} >= set(range(3, COUNT + 1))
    drive(keeper._trim())
    assert member.shared.state.kept_from == 3
    advance(pair, master, 7)
    pair.settle(200)
    for _ in range(2):  # what an advance frees goes once it is known to be committed
        drive(keeper._trim())
    assert member.shared.state.kept_from == 7


def test_a_replica_keeps_what_a_reader_wants_that_it_has_not_heard_the_commit_of() -> None:
    """The master answers as soon as both have the record; until its next word the replica has not applied it."""
    pair = Pair().start()
    create(pair)
    assert pair.master is not None
    master, replica = pair.master, pair.master.peer
    send(pair, master)
    waiter = Waiter()
    call = RegisterCall("lake", ReaderPlace(3, 1), 0, restart=False, request_id=b"", request_hash=0)
    master.submit(PendingCall(waiter, call))
    master.commit()
    assert pair.deliver(master)
    replica.commit()
    assert pair.deliver(replica)
    assert waiter.done is not None, "both have it"
    assert all_readers(replica.shared.machine.state) == [], "and one of them knows"
    trim(replica)
    assert replica.shared.state.kept_from <= 3


def test_what_is_about_to_be_trimmed_is_promised_to_nobody() -> None:
    pair, master = reading(COUNT)
    send(pair, master)
    trim(master)
    assert master.shared.progress.trimming == master.shared.state.kept_from - 1 == COUNT - 1


def test_what_was_trimmed_of_a_log_that_was_replaced_bars_nobody() -> None:
    _, master = reading(3)
    keeper = upkeep(master)
    drive(keeper._trim())
    progress = master.shared.progress
    progress.trimming, progress.generation = 1 << 40, progress.generation + 1
    drive(keeper._trim())
    assert master.shared.progress.trimming < master.shared.log.last_index


def test_a_hold_knows_nothing_of_a_log_that_was_replaced() -> None:
    _, master = reading(3)
    hold = Hold(master.shared)
    assert hold.lowest() == 3
    machine, master.shared.machine = master.shared.machine, None
    assert hold.lowest() == 0
    master.shared.machine = machine
    assert hold.lowest() == 3
    assert master.shared.log.last_index < NOBODY


@pytest.mark.parametrize("lost", [False, True])
def test_one_that_has_expired_is_told_to_operators(lost: bool) -> None:
    pair, master = reading(3)
    if lost:
        keeper = upkeep(master)
        keeper.full = True
        send(pair, master)
        trim(master)
        keeper.mark()
        keeper._give_up_readers()
    pair.now_ms += 8 * 86_400_000
    pair.settle(200)
    assert all_readers(master.shared.machine.state) == []
    assert any("lake of the journal has expired" in note for note in master.notes)


@pytest.mark.parametrize(
    ("asked", "moves"),
    [((0, 0), False), ((3, 0), False), ((5, 0), False), ((7, 9), False), ((8, 0), True), ((11, 0), True)],
)
def test_an_advance_before_a_filled_copy_begins_moves_nothing_and_is_no_loss(
    asked: tuple[int, int], moves: bool
) -> None:
    """The reader reads it at the other member, and moves on once it is as far as this one's journal begins."""
    pair, master = reading(3)
    send(pair, master)
    reader = next(each for each in all_readers(master.shared.machine.state) if each.name == "lake")
    master.shared.state.kept_from = 8
    parsed = AdvanceReaderRequest(name="lake", position={"log_index": asked[0], "row": asked[1]})
    place = _place_of(master.shared, reader, parsed)
    assert (place is not None and place.log_index == asked[0]) is moves
    with pytest.raises(Refused, match="is not committed"):
        _place_of(master.shared, reader, AdvanceReaderRequest(name="lake", position={"log_index": 1 << 40}))
