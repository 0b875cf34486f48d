"""Batches that a macro queue deals to several members by one record, against a plain model of the policy (M2, M13)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.machine import EnqueueCall, Fresh, MacroCall, Refused, Repeated, columns_of
from replica.machine.features.macros import ADD, CREATE, REMOVE, plan_macro
from replica.machine.plan.deal import plan_deal
from replica.machine.sets.ring import Ring
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.common_pb2 import REASON_ENQUEUE_DISABLED, REASON_MESSAGE_TOO_LARGE, REASON_QUEUE_FULL, Reason
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.unit.replica.machine.driver import Driver, batch_of

ROOM = 4
NAMES = ("q0", "q1", "q2")
ID = bytes(range(16))


class World:
    """A macro queue over three queues with room for four."""

    def __init__(self, policy: str) -> None:
        self.driver = Driver()
        self.change(
            CREATE, relationship=pb.RELATIONSHIP_PRODUCER, policy=pb.MacroPolicy.Value(f"MACRO_POLICY_{policy}")
        )
        for name in NAMES:
            self.driver.create(name, max_length=ROOM)
            self.change(ADD, queue=name)

    def change(self, action: record_pb2.MacroAction, **fields: Any) -> None:
        call = MacroCall(action, "m", b"", 0, **fields)
        self.driver.order(plan_macro(self.driver.master.state, self.driver.now_ms, call))

    def plan(self, groups: list[str], sequence: int = 0, **fields: Any) -> Any:
        batch = batch_of([1] * len(groups), queue="m", group_ids=groups, **fields.pop("columns", {}))
        driver = self.driver
        identity = (
            (b"", 0) if "request_id" in fields else (b"p", sequence or driver.master.last_sequence("m", b"p") + 1)
        )
        call = EnqueueCall("m", *identity, columns_of(batch), "a", **fields)
        macro = driver.master.state.macros.by_name["m"]
        return driver.plan(lambda: plan_deal(driver.master.state, driver.now_ms, macro, call))

    def send(self, groups: list[str], **fields: Any) -> dict[int, str | Reason]:
        """By place in the batch, the member that a message has entered, or why it did not."""
        plan = self.plan(groups, **fields)
        assert isinstance(plan, Fresh)
        self.driver.order(plan.header)
        came = outcome(plan.header)
        assert sorted(came) == list(range(len(groups)))
        return came

    def toggle(self, name: str, *, enabled: bool) -> None:
        config = QueueConfig(enqueue_enabled=enabled)
        self.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, name, config=config)

    def places(self, name: str) -> list[tuple[int, int]]:
        """Log index and place in the record's body of each message of a queue, in order."""
        machine = self.driver.master
        queue_id = machine.queue_id(name) or 0
        queue = machine.queue(queue_id)
        return [machine.locate(queue_id, index) for index in range(queue.next_index - queue.length, queue.next_index)]


def outcome(header: record_pb2.RecordHeader) -> dict[int, str | Reason]:
    ops = [header.enqueue] if header.HasField("enqueue") else list(header.txn.enqueues)
    came: dict[int, str | Reason] = {}
    for op in ops:
        ordinals = op.ordinals or range(op.count)
        refused = {each.ordinal: each.reason for each in op.refusals}
        came.update((place, refused.get(ordinal, op.queue)) for ordinal, place in enumerate(ordinals))
    return came


@dataclass
class Model:
    """Where the messages of groups are: whatever a group's first message chose."""

    homes: dict[str, str] = field(default_factory=dict)
    held: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {name: [] for name in NAMES})
    enabled: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(NAMES, True))

    def loose(self, count: int) -> str | None:
        """The member that those without a group go to."""
        able = [name for name in NAMES if self.enabled[name]]
        able.sort(key=lambda name: len(self.held[name]))
        room = {name: ROOM - len(self.held[name]) for name in able}
        found = [name for name in able if room[name] >= count] or [name for name in able if room[name]] or able
        return found[0] if found else None

    def sent(self, groups: list[str], log_index: int, came: dict[int, str | Reason]) -> None:
        """What must have become of a batch."""
        loose = self.loose(groups.count("")) if "" in groups else None
        full: set[str] = set()
        for place, group in enumerate(groups):
            entered = came[place]
            if group and group not in self.homes:
                if not isinstance(entered, str):
                    continue  # its member has not shown itself yet
                self.homes[group] = entered
            home = self.homes[group] if group else loose
            assert home is not None
            if not self.enabled[home]:
                assert came[place] == REASON_ENQUEUE_DISABLED
            elif home in full or len(self.held[home]) == ROOM:
                full.add(home)
                assert came[place] == REASON_QUEUE_FULL
            else:
                assert came[place] == home
                self.held[home].append((log_index, place))


STEP = st.one_of(
    st.lists(st.sampled_from(["", "a", "b", "c", "d", "e"]), min_size=1, max_size=5),
    st.sampled_from([*NAMES, *(f"-{name}" for name in NAMES)]),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, min_size=5, max_size=25))
def test_each_group_has_one_member_and_its_order(steps: list[list[str] | str]) -> None:
    """M13: whatever that member can take, and whatever the others do."""
    world, model = World("BY_GROUP"), Model()
    for step in steps:
        if isinstance(step, list):
            if "" in step and not any(model.enabled.values()):
                with pytest.raises(Refused, match="no member of macro queue m is open"):
                    world.plan(step)
                continue
            came = world.send(step)
            model.sent(step, world.driver.log_index, came)
        elif step.startswith("-"):
            world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, step[1:])
            model.held[step[1:]].clear()
        else:
            model.enabled[step] = not model.enabled[step]
            world.toggle(step, enabled=model.enabled[step])
    for name in NAMES:
        assert world.places(name) == model.held[name]
    assert world.driver.restored().digest() == world.driver.master.digest()


def test_a_group_without_room_holds_up_no_other_one() -> None:
    world = World("BY_GROUP")
    home = world.send(["a"])[0]
    other = next(name for name in "bcdefgh" if world.send([name])[0] not in (home, REASON_QUEUE_FULL))
    while world.send(["a"])[0] == home:
        pass
    came = world.send(["a", other, "a"])
    assert (came[0], came[2]) == (REASON_QUEUE_FULL, REASON_QUEUE_FULL)
    assert came[1] in NAMES


def test_a_repetition_finds_all_members_of_the_first_dealing() -> None:
    """M2: by its sequences or its request id, and after a snapshot; the members have changed since."""
    groups = ["a", "b", "c", "d", "a", "b"]
    for identity in ({}, {"request_id": ID, "request_hash": 5}):
        world = World("BY_GROUP")
        came = world.send(groups, **identity)
        assert len(set(came.values())) > 1, "one member has all groups: choose others"
        world.change(REMOVE, queue="q0")
        for name in NAMES:
            world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, name)
        for machine in (world.driver.master, world.driver.restored()):
            world.driver.master = machine
            again = world.plan(groups, **(identity or {"sequence": 1}))
            assert isinstance(again, Repeated)
            run = again.run
            assert (run.count, run.refusals, run.doubles) == (6, (), ())
            found = {place: machine.queue(part.queue_id).name for part in run.parts for place in part.ordinals}
            assert found == came
        if not identity:
            assert world.driver.master.last_sequence("m", b"p") == 6


def test_what_is_refused_at_one_member_is_named_by_its_place_in_the_batch() -> None:
    world = World("BY_GROUP")
    groups = ["a", "b", "c", "d"] * 5
    came = world.send(groups)
    refused = {place: reason for place, reason in came.items() if not isinstance(reason, str)}
    assert set(refused.values()) == {REASON_QUEUE_FULL}
    again = world.plan(groups, sequence=1)
    assert isinstance(again, Repeated)
    assert dict(again.run.refusals) == refused
    entered = sorted(place for part in again.run.parts for place in part.ordinals)
    assert sorted([*entered, *refused]) == list(range(20))


def test_a_dedup_id_is_found_at_the_member_that_its_group_had_before() -> None:
    world = World("BY_GROUP")
    groups = ["a", "b", "c", "d"]
    columns = {"dedup_ids": ["1", "2", "3", "4"]}
    came = world.send(groups, columns=columns)
    home = came[0]
    assert isinstance(home, str)
    world.driver.create("q9")
    world.change(ADD, queue="q9")
    plan = world.plan(groups, columns=columns)
    assert isinstance(plan, Fresh)
    ops = plan.header.txn.enqueues
    assert [len(op.duplicates) for op in ops] == [op.count for op in ops]
    world.driver.order(plan.header)
    again = world.plan(groups, sequence=5, columns=columns)
    assert isinstance(again, Repeated)
    assert [place for place, _ in again.run.doubles] == [0, 1, 2, 3]


def test_a_member_that_goes_moves_its_own_groups_alone() -> None:
    ring = Ring()
    for member in range(1, 9):
        ring.add(member)
    keys = [number * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for number in range(2_000)]
    before = {key: ring.home(key) for key in keys}
    shares = [list(before.values()).count(member) for member in range(1, 9)]
    assert min(shares) > 2_000 / 8 / 2
    ring.discard(3)
    assert {key for key in keys if ring.home(key) != before[key]} == {key for key in keys if before[key] == 3}
    ring.add(3)
    ring.add(3)
    assert {key: ring.home(key) for key in keys} == before


COPIES = st.one_of(st.integers(1, 4), st.sampled_from([*NAMES, *(f"-{name}" for name in NAMES)]))


@pytest.mark.requirement("R084")
@pytest.mark.parametrize("policy", ["DUPLICATE", "DUPLICATE_BEST_EFFORT"])
@settings(max_examples=40, deadline=None)
@given(steps=st.lists(COPIES, min_size=5, max_size=25))
def test_each_message_enters_all_members_or_those_that_can(policy: str, steps: list[int | str]) -> None:
    """M4: by one record; all or nothing where it is not best effort."""
    world, model = World(policy), Model()
    everybody = policy == "DUPLICATE"
    for step in steps:
        if isinstance(step, int):
            able = [name for name in NAMES if model.enabled[name]]
            if not able or (everybody and len(able) < len(NAMES)):
                with pytest.raises(Refused, match="open"):
                    world.plan([""] * step)
                continue
            plan = world.plan([""] * step)
            world.driver.order(plan.header)
            for place in range(step):
                room = [name for name in able if len(model.held[name]) < ROOM]
                takers = room if not everybody or len(room) == len(NAMES) else []
                assert [name for name, places in taken(plan.header).items() if place in places] == takers
                refused = plan.header.enqueue.refusals or plan.header.txn.deal.refusals
                assert (place in [each.ordinal for each in refused]) == (not takers)
                for name in takers:
                    model.held[name].append((world.driver.log_index, place))
        elif step.startswith("-"):
            world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, step[1:])
            model.held[step[1:]].clear()
        else:
            model.enabled[step] = not model.enabled[step]
            world.toggle(step, enabled=model.enabled[step])
    for name in NAMES:
        assert world.places(name) == model.held[name]
    assert world.driver.restored().digest() == world.driver.master.digest()


def taken(header: record_pb2.RecordHeader) -> dict[str, list[int]]:
    """By member, the places of what has entered it."""
    return {op.queue: list(op.ordinals) for op in header.txn.enqueues}


@pytest.mark.requirement("R086")
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.one_of(st.integers(1, 7), COPIES), min_size=5, max_size=25))
def test_round_robin_deals_message_by_message(steps: list[int | str]) -> None:
    """M2: each one the member behind the last; behind what finds all of them full nothing of its batch enters."""
    world, model, last = World("ROUND_ROBIN"), Model(), -1
    for step in steps:
        if isinstance(step, int):
            if not any(model.enabled.values()):
                with pytest.raises(Refused, match="no member of macro queue m is open"):
                    world.plan([""] * step)
                continue
            came = world.send([""] * step)
            for place in range(step):
                turn = [NAMES[(last + 1 + number) % len(NAMES)] for number in range(len(NAMES))]
                able = [name for name in turn if model.enabled[name] and len(model.held[name]) < ROOM]
                assert came[place] == (able[0] if able else REASON_QUEUE_FULL)
                if able:
                    model.held[able[0]].append((world.driver.log_index, place))
                    last = NAMES.index(able[0])
        elif step.startswith("-"):
            world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, step[1:])
            model.held[step[1:]].clear()
        else:
            model.enabled[step] = not model.enabled[step]
            world.toggle(step, enabled=model.enabled[step])
    for name in NAMES:
        assert world.places(name) == model.held[name]
    assert world.driver.restored().digest() == world.driver.master.digest()


def sent_in_turn(world: World, sizes: list[int], **columns: Any) -> dict[int, str | Reason]:
    """Payload bytes of each message of the batch."""
    batch = batch_of(sizes, queue="m", **columns)
    state = world.driver.master.state
    call = EnqueueCall("m", b"p", world.driver.master.last_sequence("m", b"p") + 1, columns_of(batch), "a")
    plan = world.driver.plan(lambda: plan_deal(state, world.driver.now_ms, state.macros.by_name["m"], call))
    assert isinstance(plan, Fresh)
    world.driver.order(plan.header)
    return outcome(plan.header)


def test_what_is_too_large_for_all_is_refused_alone_and_takes_no_turn() -> None:
    world = World("ROUND_ROBIN")
    for name in NAMES:
        world.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, name, config=QueueConfig(max_message_bytes=5))
    came = sent_in_turn(world, [1, 9, 1, 1])
    assert came == {0: "q0", 1: REASON_MESSAGE_TOO_LARGE, 2: "q1", 3: "q2"}
    assert sent_in_turn(world, [1]) == {0: "q0"}


def test_a_member_that_never_takes_a_message_for_its_size_is_passed_over() -> None:
    world = World("ROUND_ROBIN")
    world.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q1", config=QueueConfig(max_message_bytes=5))
    assert sent_in_turn(world, [1, 9, 9, 1, 1]) == {0: "q0", 1: "q2", 2: "q0", 3: "q1", 4: "q2"}


def test_a_dedup_id_is_found_where_it_was_dealt_whoever_has_the_turn() -> None:
    """Once in a batch and over batches; also at a member that takes nothing now."""
    world = World("ROUND_ROBIN")
    ids = {"dedup_ids": ["a", "b", "a", "c"]}
    first = sent_in_turn(world, [1] * 4, **ids)
    assert first == {0: "q0", 1: "q1", 2: "q0", 3: "q2"}
    world.toggle("q1", enabled=False)
    sent_in_turn(world, [1] * 4, **ids)
    assert [len(world.places(name)) for name in NAMES] == [1, 1, 1]
    run = world.plan([""] * 4, sequence=5, columns=ids).run
    assert ([place for place, _ in run.doubles], run.refusals) == ([0, 1, 2, 3], ())


def test_the_body_of_a_copy_stays_until_the_last_member_needs_it_no_more() -> None:
    """U14."""
    world = World("DUPLICATE")
    world.driver.order(world.plan(["", ""]).header)
    sent = world.driver.log_index
    for name in NAMES:
        assert sent not in world.driver.freed
        world.driver.queue(record_pb2.QUEUE_ACTION_PURGE, name)
    assert sent in world.driver.freed


def test_a_message_that_one_member_never_takes_enters_none_and_the_others_of_its_batch_enter_all() -> None:
    world = World("DUPLICATE")
    world.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q1", config=QueueConfig(max_message_bytes=5))
    batch = batch_of([1, 9, 1], queue="m")
    call = EnqueueCall("m", b"p", 1, columns_of(batch), "a")
    macro = world.driver.master.state.macros.by_name["m"]
    plan = world.driver.plan(lambda: plan_deal(world.driver.master.state, world.driver.now_ms, macro, call))
    world.driver.order(plan.header)
    assert taken(plan.header) == {name: [0, 2] for name in NAMES}
    again = world.driver.plan(lambda: plan_deal(world.driver.master.state, world.driver.now_ms, macro, call))
    assert isinstance(again, Repeated)
    assert again.run.refusals == ((1, REASON_MESSAGE_TOO_LARGE),)
    assert [list(part.ordinals) for part in again.run.parts] == [[0, 2]] * 3


@pytest.mark.parametrize("policy", ["DUPLICATE", "DUPLICATE_BEST_EFFORT"])
def test_what_enters_none_counts_at_the_member_that_has_no_room(policy: str) -> None:
    """And not at one that has: whoever looks for the full one finds it."""
    world = World(policy)
    full = NAMES if policy == "DUPLICATE_BEST_EFFORT" else ("q1",)
    for name in full:
        world.driver.enqueue(batch_of([1] * ROOM, queue=name))
    assert world.send(["", ""]) == {0: REASON_QUEUE_FULL, 1: REASON_QUEUE_FULL}
    machine = world.driver.master
    counts = {name: machine.queue(machine.queue_id(name) or 0).totals.refused_full for name in NAMES}
    assert counts == {name: int(name == full[0]) for name in NAMES}
