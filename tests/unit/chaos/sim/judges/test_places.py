"""What a reader wants is kept: asked of batches that are put on the disks of a run which ended well."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chaos.sim.judges.invariants import NUMBER, STATE
from chaos.sim.judges.places import RULE, Places
from chaos.sim.pair.members import Pair
from chaos.sim.pair.plan import Call, ClientPlan, Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from failover.marks import DataMark
from replica.core.state.durable import decode_state
from replica.core.state.progress import Pending
from replica.machine.features.readers import all_readers
from storage.store import WriteBatch
from tandemq.peer.v1.record_pb2 import READER_ACTION_REGISTER, ReaderOp, RecordHeader

READS = (Call(50, "read", {"rows": 0, "advance": False, "forgets": False, "only": False}),)
PLACE = 4


@pytest.fixture
def places() -> Places:
    """A pair at rest that knows a reader, who was told `PLACE`; both members keep their logs from 2 on."""
    clients = (
        ClientPlan("p0", "producer", (Call(0, "send", {"count": 2}),), {"number": 0}),
        ClientPlan("reader0", "reader", READS),
    )
    world = World(Plan(1, "none", clients=clients, safety_ms=200))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    world.loop.buried = False  # it may tell of violations again
    world.memory.places.begins("reader0", PLACE, registered_ms(world.pair))
    for member in world.pair.members:
        world.memory.places.on_commit(member, facts(world.memory.places, 2, DataMark.SYNCING))
    return world.memory.places


def registered_ms(pair: Pair) -> int:
    """When the pair says that the reader began."""
    domain = pair.members["b"].domain
    assert domain is not None
    assert domain.shared.machine is not None
    (reader,) = all_readers(domain.shared.machine.state)
    return reader.registered_ms


def facts(places: Places, kept_from: int, data: DataMark = DataMark.IN_SYNC) -> WriteBatch:
    """A member's log begins there from now on."""
    stored = places._pair.members["b"].machine.disk.meta(STATE)
    assert stored is not None
    return WriteBatch(meta={STATE: replace(decode_state(stored), kept_from=kept_from, data=data).encode()})


def broken(places: Places) -> list[str]:
    return [each for each in places._pair.run.outcome.violations if each.startswith(RULE)]


def test_trimming_up_to_the_place_is_fine(places: Places) -> None:
    places.on_commit("b", facts(places, PLACE))
    assert broken(places) == []


@pytest.mark.parametrize("begins", [2, PLACE, PLACE + 2], ids=["before it", "at it", "behind it"])
def test_what_is_wanted_and_there_goes(places: Places, begins: int) -> None:
    """Also where the member's log begins behind the place already: what follows is wanted as much."""
    places.on_commit("b", facts(places, begins, DataMark.SYNCING))
    places.on_commit("b", facts(places, begins + 4))
    assert len(broken(places)) == 1


def test_a_copy_that_is_filled_anew_begins_where_it_was_filled_up_to(places: Places) -> None:
    """The end of a transfer is no batch that drops anything, nor the one that emptied the copy."""
    emptied = facts(places, 2, DataMark.SYNCING)
    emptied.wipe.add(NUMBER)
    places.on_commit("b", emptied)
    places.on_commit("b", facts(places, PLACE + 2, DataMark.SYNCING))
    dropped = facts(places, PLACE + 2)
    dropped.drops[NUMBER] = [3]
    places.on_commit("b", dropped)
    assert broken(places) == []


def test_a_trim_that_drops_nothing_hides_it_too(places: Places) -> None:
    """Each record there holds messages still, and the journal is read from `kept_from` on."""
    places.on_commit("b", facts(places, PLACE + 1))
    assert len(broken(places)) == 1


def test_whoever_was_never_sent_the_reader_cannot_keep_anything_for_it(places: Places) -> None:
    places.begins("reader1", PLACE, 1)
    places.forget("reader0")
    places.on_commit("b", facts(places, PLACE + 4))
    assert broken(places) == []


def test_what_a_member_was_sent_and_has_not_applied_counts(places: Places) -> None:
    member = places._pair.members["b"]
    assert member.domain is not None
    shared = member.domain.shared
    header = RecordHeader(reader=ReaderOp(name="reader1", action=READER_ACTION_REGISTER))
    places.begins("reader1", PLACE, 1)
    places.forget("reader0")
    shared.progress.pending.append(Pending(shared.log.last_index + 1, 1, header))
    places.on_commit("b", facts(places, PLACE + 4))
    assert len(broken(places)) == 1


def test_whoever_was_not_sent_yet_that_the_reader_began_again_keeps_nothing_for_that(places: Places) -> None:
    """It knows the reader from before; seed 1064980, of a replica that stood still meanwhile."""
    places.begins("reader0", PLACE, registered_ms(places._pair) + 1)
    places.on_commit("b", facts(places, PLACE + 4))
    assert broken(places) == []


def test_what_a_member_was_sent_of_a_reader_that_began_again_counts(places: Places) -> None:
    member = places._pair.members["b"]
    assert member.domain is not None
    shared = member.domain.shared
    again = RecordHeader(reader=ReaderOp(name="reader0", action=READER_ACTION_REGISTER))
    places.begins("reader0", PLACE, registered_ms(places._pair) + 1)
    shared.progress.pending.append(Pending(shared.log.last_index + 1, 1, again))
    places.on_commit("b", facts(places, PLACE + 4))
    assert len(broken(places)) == 1


@pytest.mark.parametrize(("data", "kept"), [(DataMark.IN_SYNC, True), (DataMark.SYNCING, False)])
def test_whoever_begins_while_a_copy_is_filled_is_promised_nothing_of_it(
    places: Places, monkeypatch: pytest.MonkeyPatch, data: DataMark, kept: bool
) -> None:
    """Its journal will begin where whoever fills it was up to; seed 1149914."""
    stored = facts(places, 2, data).meta[STATE]
    monkeypatch.setattr(places._pair.members["b"].machine.disk, "meta", lambda _key: stored)
    places.begins("reader0", PLACE, registered_ms(places._pair))
    assert places.is_kept("reader0") is kept
