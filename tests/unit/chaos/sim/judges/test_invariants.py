"""Each rule that is asked at every step of a simulated pair, with a violation planted into a run that ended well."""

from __future__ import annotations

import pytest

from chaos.sim.judges import fates, publications
from chaos.sim.judges.invariants import NUMBER, STATE, Name, name_of_lease
from chaos.sim.judges.story import delivered_after_settled, read
from chaos.sim.pair.plan import Call, ClientPlan, Plan
from chaos.sim.tools.product import run, silence
from chaos.sim.tools.replay import KEPT_FOLDER, load, problems, shows
from chaos.sim.world.world import World
from replica.core.replication.recall import Recall
from replica.core.state.durable import decode_state
from replica.core.state.effects import Deliver, Persist, Reply, Salvage
from replica.core.state.outcomes import EnqueueDone, LeaseDone
from replica.machine import SegmentSlice
from storage.records import PREFIX_SIZE
from storage.store import Append, WriteBatch

SENDS = tuple(Call(10 * n, "send", {"count": 2}) for n in range(5))


@pytest.fixture
def world() -> World:
    """A pair at rest, with ten messages that were sent, and taken by the drain."""
    plan = Plan(1, "none", clients=(ClientPlan("p0", "producer", SENDS, {"number": 0}),), safety_ms=100)
    made = World(plan)
    with silence():
        outcome = made.run()
    assert outcome.violations == []
    assert outcome.counters["acked"] == 10
    assert outcome.counters["logs read"] == 1
    assert made.memory.invariants.acknowledged, "the cores are not watched"
    assert len(made.memory.invariants.digests) > 5, "the disks are not watched"
    made.loop.buried = False  # it may tell of violations again
    return made


def rules(world: World) -> list[str]:
    return [violation.partition(":")[0] for violation in world.outcome.violations]


def master(world: World) -> str:
    return next(name for name, member in world.pair.members.items() if member.is_serving)


def effects_at(world: World, name: str, *effects: object) -> None:
    member = world.pair.members[name]
    assert member.domain is not None
    world.memory.invariants.on_step(member, member.domain, effects)  # type: ignore[arg-type]  # effects


def acknowledged(name: Name, copies: int) -> Reply:
    done = EnqueueDone(1, 1, 1, name.log_index, name.epoch, copies, False, (), False, False)
    return Reply(None, done)  # type: ignore[arg-type]  # nobody waits


@pytest.mark.parametrize(
    ("duplicate", "good", "modest"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_master_may_say_one_copy_of_a_repetition_while_it_sends_everything(
    world: World, duplicate: bool, good: bool, modest: bool
) -> None:
    """The replica that it requires has let go of its copy; of what is new it says nothing by then."""
    name = master(world)
    member = world.pair.members[name]
    assert member.domain is not None
    member.domain.source.peer_is_good = good
    epoch = world.pair.run.registers.get("main").epoch
    done = EnqueueDone(1, 1, 1, 3, epoch, 1, duplicate, (), False, False)
    effects_at(world, name, Reply(None, done))  # type: ignore[arg-type]  # nobody waits
    assert ((epoch, 1) in world.memory.invariants.modest) is modest


def test_a_second_record_under_one_name(world: World) -> None:
    record = bytearray(world.pair.members["a"].machine.disk.record(NUMBER, 3) or b"")
    record[PREFIX_SIZE - 1] ^= 1  # of its digest
    world.memory.invariants.on_commit("b", WriteBatch(appends=[Append(NUMBER, 3, bytes(record))]))
    assert rules(world) == ["one name, one record"]


def test_an_epoch_that_falls_on_a_disk(world: World) -> None:
    disk = world.pair.members["a"].machine.disk
    state = decode_state(disk.meta(STATE) or b"")
    state.epoch -= 1
    batch = WriteBatch(meta={STATE: state.encode()})
    world.memory.invariants.on_commit("a", batch)
    assert rules(world) == ["epochs never fall"]
    world.outcome.violations.clear()
    disk.replaced += 1  # an older image was put back, and that is another matter
    world.memory.invariants.on_commit("a", batch)
    assert rules(world) == []


def test_two_owners_of_an_epoch(world: World) -> None:
    world.memory.invariants.owners[1] = "somebody else"
    world.memory.invariants._serving.clear()
    effects_at(world, master(world))
    assert rules(world) == ["one owner of an epoch"]


def test_a_master_that_lacks_what_was_acknowledged(world: World) -> None:
    world.memory.invariants.highest[1] = Name(1, 1000)
    world.memory.invariants._serving.clear()
    effects_at(world, master(world))
    assert rules(world) == ["everything acknowledged is served"]


def test_a_master_that_lacks_what_a_later_epoch_has_acknowledged(world: World) -> None:
    """It is not for it to know, as long as nothing commits without the other member."""
    member = world.pair.members[master(world)]
    assert member.domain is not None
    later = member.domain.shared.state.epoch + 1
    world.memory.invariants.highest[later] = Name(later, 1000)
    world.memory.invariants._serving.clear()
    effects_at(world, member.name)
    assert rules(world) == []
    member.domain.mastership.commit.required = frozenset({member.name})
    world.memory.invariants._serving.clear()
    effects_at(world, member.name)
    assert rules(world) == ["everything acknowledged is served"]


def test_an_answer_that_names_more_copies_than_there_are(world: World) -> None:
    name = next(iter(world.memory.invariants.acknowledged))
    effects_at(world, master(world), acknowledged(name, 2))
    assert rules(world) == []
    other = world.pair.members["b" if master(world) == "a" else "a"]
    content = other.machine.disk._content
    assert content is not None
    del content._logs[NUMBER].rows[name.log_index]
    effects_at(world, master(world), acknowledged(name, 2))
    assert rules(world) == ["copies are true"]


@pytest.mark.parametrize("byte", [0, 14, PREFIX_SIZE - 1], ids=["magic", "epoch", "digest"])
def test_a_copy_that_is_damaged_was_there(world: World, byte: int) -> None:
    name = next(iter(world.memory.invariants.acknowledged))
    disk = world.pair.members["a"].machine.disk
    disk.flip((NUMBER, name.log_index), byte / len(disk.record(NUMBER, name.log_index) or b""))
    effects_at(world, master(world), acknowledged(name, 2))
    assert rules(world) == []


def test_a_delivery_of_what_is_not_committed(world: World) -> None:
    part = SegmentSlice(1000, 1, 0, 1, None, None)
    done = LeaseDone(1, "q", 0, [part], duplicate=False)
    effects_at(world, master(world), Deliver(None, done))  # type: ignore[arg-type]  # nobody takes it
    assert rules(world) == ["nothing uncommitted is delivered"]


@pytest.mark.parametrize("bit", [None, 3, 18, 8 * PREFIX_SIZE], ids=["whole", "magic", "format", "header"])
def test_a_cut_of_what_nobody_has_copied(world: World, bit: int | None) -> None:
    """Nor does damage make up for a copy: a record that cannot be read may be one that somebody was told of."""
    name = master(world)
    disk = world.pair.members[name].machine.disk
    last = max(index for index in range(1, 100) if disk.record(NUMBER, index) is not None)
    if bit is not None:
        assert disk._content is not None
        disk._content.flip((NUMBER, last), (bit + 0.5) / (8 * len(disk.record(NUMBER, last) or b"")))
    effects_at(world, name, Salvage(1, last, last, "because"), Persist(cut=0))
    assert rules(world) == []
    effects_at(world, name, Salvage(1, last - 1, last, "because"), Persist(cut=last - 1))
    assert rules(world) == ["what is cut is copied"]


def test_a_lease_that_was_made_after_its_message_was_settled(world: World) -> None:
    member = world.pair.members[master(world)]
    assert member.domain is not None
    found = read(member.machine.disk, ["a", "b"], member.domain.shared.limits)
    assert found is not None
    book = world.pair.run.books["q"]
    assert book.leases
    assert list(delivered_after_settled(found, book)) == []
    found.queues[1].settled[1] = Name(1, name_of_lease(book.leases[0].lease_id).log_index - 1)
    assert len(list(delivered_after_settled(found, book))) == 1


def test_a_log_that_misses_what_was_acknowledged_or_given_up(world: World) -> None:
    from chaos.sim.judges.ending import log_of

    assert list(log_of(world.pair, world.memory)) == []
    world.pair.members["a"].machine.salvaged[NUMBER, 1000, 1] = True
    assert "gave up" in next(log_of(world.pair, world.memory))
    world.memory.invariants.acknowledged[Name(9, 1000)] = "a"
    assert "is not in the log" in next(log_of(world.pair, world.memory))


def test_queues_that_are_not_what_the_log_makes_of_them(world: World) -> None:
    from chaos.sim.judges.ending import log_of

    member = world.pair.members[master(world)]
    assert member.domain is not None
    machine = member.domain.shared.machine
    assert machine is not None
    machine.state.queues[1].totals.enqueued += 1
    assert "are not what its log makes of them" in next(log_of(world.pair, world.memory))


def test_volatile_messages_that_a_restart_gives_up_while_the_peer_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = load(KEPT_FOLDER / "volatile-lost-by-a-restart.json")
    assert problems(kept, run) == []
    monkeypatch.setattr(Recall, "is_done", lambda _self, _now_ms: True)  # it claims without asking
    assert shows(run(kept.plan), kept.expected)


def test_damage_on_the_disk_that_is_delivered_and_damage_that_is_refused(world: World) -> None:
    name = master(world)
    member = world.pair.members[name]
    assert member.domain is not None
    member.domain.shared.log.ring.clear()  # what is in memory is not read from the disk
    slices = [SegmentSlice(3, 1, 0, 1, None, None)]
    effects_at(world, name, Deliver(None, LeaseDone(1, "q", 0, slices, duplicate=False)))  # type: ignore[arg-type]
    assert rules(world) == []
    content = member.machine.disk._content
    assert content is not None
    content.flip((NUMBER, 3), 0.99)
    effects_at(world, name, Reply(None, LeaseDone(1, "q", 0, slices, duplicate=True)))  # type: ignore[arg-type]
    assert rules(world) == [], "the shell refuses it"
    effects_at(world, name, Reply(None, LeaseDone(1, "q", 0, slices, duplicate=False)))  # type: ignore[arg-type]
    assert rules(world) == ["nothing damaged is delivered"]
    disk, spare = member.machine.disk, world.pair.members[member.peer].machine.disk
    limits = member.domain.shared.limits
    assert read(disk, ["a", "b"], limits) is None, "a log that is damaged tells no story"
    found = read(disk, ["a", "b"], limits, spare=spare)
    assert found is not None, "but the other member has the same"
    assert found.problems == []
    assert found.machine.digest() == member.domain.shared.machine.digest()  # type: ignore[union-attr]  # it serves
    assert (fates.read(disk), publications.read(disk)) == (None, None)
    assert None not in (fates.read(disk, spare), publications.read(disk, spare))
    assert spare._content is not None
    other = spare._content._logs[NUMBER].rows
    other[3], whole = other[4], other[3]
    assert read(disk, ["a", "b"], limits, spare=spare) is None, "not the record that was there"
    other[3] = whole
    spare._content.flip((NUMBER, 3), 0.99)
    assert read(disk, ["a", "b"], limits, spare=spare) is None
