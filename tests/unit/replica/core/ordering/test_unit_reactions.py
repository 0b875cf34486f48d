"""Reactions in open units of work, over a pair in one process: what they lock, what the commit does with it, and what
every other end leaves as it was (V15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.state.calls import RollbackUnit
from replica.core.state.outcomes import ReactionDone, UnitDone, UnitEnded, UnitKept
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, QUEUE_ACTION_PURGE
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_ORDERED
from tests.support.clients import create
from tests.unit.replica.core.ordering.test_dying import contents, info, payloads, take
from tests.unit.replica.core.ordering.test_kept_reactions import call_of, store
from tests.unit.replica.core.ordering.test_open_units import asked, begun, commit, got, new_id, put, settle, why
from tests.unit.replica.core.ordering.test_reacting import Call, filled, taken_over, where
from tests.unit.replica.core.ordering.test_sweeps import act, numbered, send, update

if TYPE_CHECKING:
    from tests.support.member import Member
    from tests.support.pair import Pair

pytestmark = pytest.mark.requirement("R210")
ALL = where(selector="tq_index > 0")
NOON = 43_200_000


def held(pair: Pair, unit: bytes, asked_for: Any = ALL, **more: Any) -> Any:
    assert pair.master is not None
    return Call(pair.master, asked_for, unit=unit, request_id=more.pop("request_id", new_id()), **more).run()


def found(done: Any) -> dict[str, int]:
    """What the answer says that is not 0."""
    assert isinstance(done, ReactionDone), done
    counts = {field.name: value for field, value in done.counts.ListFields()}
    return {**counts, "held": done.held} if done.held else counts


def rolled_back(pair: Pair, unit: bytes) -> int:
    done = asked(pair, RollbackUnit(unit))
    assert isinstance(done, UnitEnded), done
    return done.returned


def places(member: Member, queue: str = "q") -> list[tuple[int, bytes, int]]:
    """Index, body and deliveries of each message."""
    return [(row.index, row.message.payload, row.delivery_count) for row in contents(member, queue)]


def same(pair: Pair) -> None:
    """Both members have the same state."""
    pair.settle(300)
    assert pair.master is not None
    assert pair.master.shared.machine.digest() == pair.master.peer.shared.machine.digest()


def mixed(**config: Any) -> tuple[Pair, Member]:
    """Ready, delayed and blocked ones."""
    pair, master = filled(group_mode=GROUP_MODE_ORDERED, **config)
    delays = [0, NOON, 0, 0]
    send(pair, "q", *numbered(1, 2, 3, 4), group_ids=["", "", "g", "g"], delays_ms=delays)
    assert (info(master).ready, info(master).delayed, info(master).blocked) == (2, 1, 1)
    return pair, master


@pytest.mark.parametrize("action", ["delete", "update", "move"])
def test_v15_the_commit_acts_on_what_was_locked_and_nothing_sees_it_before(action: str) -> None:
    pair, master = mixed()
    before, unit = places(master), begun(pair)
    change = pb.ReactionUpdate(payload=b"new")
    more: dict[str, Any] = {"update": {"update": change}, "move": {"to": "r"}}.get(action, {})
    assert found(held(pair, unit, **more)) == {"held": 4}
    assert (places(master), info(master).locked, info(master).leased) == (before, 4, 4)
    reader = take(pair)
    assert reader.delivered == []
    master.core.consumers.on_following()  # its stream is gone
    assert found(held(pair, begun(pair))) == found(Call(master, ALL, request_id=new_id()).run()) == {"locked": 4}
    same(pair)
    done = commit(pair, unit)
    assert isinstance(done, UnitDone), done
    assert done.puts == []
    gone = {"delete": [], "update": [b"new"] * 4, "move": []}[action]
    assert (payloads(master, "q"), info(master).reacted_total) == (gone, 4)
    assert payloads(master, "r") == (numbered(1, 2, 3, 4) if action == "move" else [])
    there = info(master, "r" if action == "move" else "q")
    assert (there.delayed, there.locked, there.leased) == (int(action != "delete"), 0, 0)
    same(pair)


@pytest.mark.parametrize("end", ["rollback", "deadline", "takeover"])
def test_v15_without_a_commit_each_is_where_it_was_and_no_delivery_counts(end: str) -> None:
    pair, master = mixed(max_deliveries=1)
    before, unit = places(master), begun(pair, 500 if end == "deadline" else 60_000)
    assert found(held(pair, unit)) == {"held": 4}
    match end:
        case "rollback":
            assert rolled_back(pair, unit) == 4
        case "deadline":
            pair.settle(700)
        case "takeover":
            master = taken_over(pair)
    if end != "takeover":
        same(pair)
    assert places(master) == before
    assert all(deliveries == 0 for _, _, deliveries in places(master))
    totals = info(master)
    assert (totals.ready, totals.delayed, totals.blocked, totals.locked) == (2, 1, 1, 0)
    assert (totals.redelivered_total, totals.released_total, totals.delivered_total) == (0, 0, 0)
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert [body for _, _, body in take(pair).delivered] == numbered(1, 3)


def test_v15_what_was_got_by_the_same_unit_counts_and_what_was_locked_does_not() -> None:
    pair, master = filled(3)
    unit = begun(pair)
    got(pair, unit)
    assert found(held(pair, unit)) == {"held": 2, "locked": 1}
    assert rolled_back(pair, unit) == 3
    assert [deliveries for _, _, deliveries in places(master)] == [1, 0, 0]


def test_v15_one_record_holds_what_is_got_put_and_acted_on() -> None:
    pair, master = filled(3)
    unit = begun(pair)
    taken = got(pair, unit)
    assert found(held(pair, unit, where(ids=[contents(master, "q")[1].id]))) == {"held": 1}
    put(pair, unit, "r", b"put")
    last = master.shared.log.last_index
    assert isinstance(commit(pair, unit), UnitDone)
    assert master.shared.log.last_index == last + 1
    assert (payloads(master, "q"), payloads(master, "r")) == ([b"z/3"], [b"put"])
    assert taken.lease_id
    same(pair)


def test_v15_first_in_two_units_are_two_messages() -> None:
    pair, master = filled(3)
    one, two = begun(pair), begun(pair)
    assert found(held(pair, one, first=True)) == {"held": 1}
    assert found(held(pair, two, first=True)) == {"held": 1, "locked": 1}
    assert isinstance(commit(pair, two), UnitDone)
    assert payloads(master, "q") == [b"z/1", b"z/3"]
    assert rolled_back(pair, one) == 1
    assert [body for _, _, body in take(pair).delivered] == [b"z/1", b"z/3"]


def test_v15_what_is_sticky_is_kept_by_the_commit_alone_and_looks_at_what_came_meanwhile() -> None:
    pair, master = filled()
    store(pair)
    for end in (rolled_back, commit):
        unit, there = begun(pair), len(payloads(master, "q"))
        call = call_of(master, pb.REACTION_SCOPE_ALL, 60_000, 1, {}, {"group_id": "g"})
        call.reaction.unit, call.reaction.request_id = unit, new_id()
        assert found(call.run()) == {"kept": 1, **({"held": 1} if there else {})}
        send(pair, "q", b"meanwhile", group_ids=["g"])
        assert payloads(master, "SYSTEM.REACTIVE/q") == []
        end(pair, unit)
        pair.settle(200)
        kept = end is commit
        assert len(payloads(master, "SYSTEM.REACTIVE/q")) == kept
        assert payloads(master, "q") == ([] if kept else [b"meanwhile"])
    send(pair, "q", b"later", group_ids=["g"])
    pair.settle(200)
    assert payloads(master, "q") == []
    same(pair)


def test_v15_its_time_comes_while_it_is_locked_and_it_is_delivered_after_the_end() -> None:
    pair, master = filled()
    send(pair, "q", b"soon", delays_ms=[300])
    unit = begun(pair)
    assert found(held(pair, unit)) == {"held": 1}
    reader = take(pair)
    pair.settle(1_000)
    assert (reader.delivered, info(master).delayed) == ([], 0)
    assert rolled_back(pair, unit) == 1
    pair.settle(300)
    assert [body for _, _, body in reader.delivered] == [b"soon"]


def test_v15_it_expires_only_after_it_is_unlocked() -> None:
    pair, master = filled()
    send(pair, "q", b"short", ttls_ms=[300])
    unit = begun(pair)
    assert found(held(pair, unit)) == {"held": 1}
    pair.settle(1_000)
    assert info(master).length == 1
    assert rolled_back(pair, unit) == 1
    pair.settle(300)
    assert (info(master).length, info(master).expired_total) == (0, 1)


def test_v15_repeated_it_gets_its_first_answer() -> None:
    pair, _ = filled(2)
    unit, name = begun(pair), new_id()
    first = held(pair, unit, request_id=name)
    assert (found(first), first.duplicate) == ({"held": 2}, False)
    again = held(pair, unit, request_id=name)
    assert (found(again), again.duplicate) == ({"held": 2}, True)
    done = commit(pair, unit)
    repeated = commit(pair, unit)
    assert (done.duplicate, repeated.duplicate, repeated.puts) == (False, True, [])
    assert why(held(pair, unit)) == "INVALID_STATE"


def test_v15_a_queue_is_entered_by_one_call_of_a_unit() -> None:
    pair, master = filled(3)
    create(pair, "s")
    unit = begun(pair)
    first = where(ids=[contents(master, "q")[0].id])
    assert found(held(pair, unit, first, to="r")) == {"held": 1}
    assert why(put(pair, unit, "r", b"x")) == "BAD_REQUEST"
    assert why(held(pair, unit, to="r")) == "BAD_REQUEST"
    assert why(held(pair, unit, report_to="r")) == "BAD_REQUEST"
    put(pair, unit, "s", b"y")
    assert why(held(pair, unit, to="s")) == "BAD_REQUEST"
    assert isinstance(commit(pair, unit), UnitDone)
    assert (payloads(master, "q"), payloads(master, "r"), payloads(master, "s")) == ([b"z/2", b"z/3"], [b"z/1"], [b"y"])


def test_v15_a_purge_leaves_what_is_locked_and_a_deleted_queue_ends_the_unit() -> None:
    pair, master = filled(2)
    unit = begun(pair)
    assert found(held(pair, unit, to="r")) == {"held": 2}
    act(pair, QUEUE_ACTION_PURGE, "q")
    assert info(master).length == 2
    act(pair, QUEUE_ACTION_DELETE, "q")
    assert why(commit(pair, unit)) == "LEASE_LOST"
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert payloads(master, "r") == []
    same(pair)


def test_v15_switched_off_meanwhile_the_commit_is_refused_and_the_unit_stays_open() -> None:
    pair, master = filled(2)
    unit = begun(pair)
    assert found(held(pair, unit)) == {"held": 2}
    update(pair, "q", reactions_enabled=False)
    assert why(commit(pair, unit)) == "REACTION_DISABLED"
    assert info(master).locked == 2
    update(pair, "q", reactions_enabled=True)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(master, "q") == []


def test_v15_a_report_without_room_refuses_the_commit() -> None:
    pair, master = filled(1)
    create(pair, "s", max_length=1)
    send(pair, "s", b"in the way")
    unit = begun(pair)
    assert found(held(pair, unit, report_to="s")) == {"held": 1}
    assert why(commit(pair, unit)) == "QUEUE_FULL"
    update(pair, "s", max_length=2)
    assert isinstance(commit(pair, unit), UnitDone)
    assert [row.message.properties["tq_outcome"].text for row in contents(master, "s")][1:] == ["APPLIED"]


def test_v15_the_line_of_a_group_waits_for_what_is_locked() -> None:
    pair, master = filled(group_mode=GROUP_MODE_ORDERED)
    send(pair, "q", *numbered(1, 2, 3), group_ids=["g"] * 3)
    one, two = begun(pair), begun(pair)
    assert found(held(pair, one, first=True)) == {"held": 1}
    assert found(held(pair, two, first=True)) == {"held": 1, "locked": 1}
    reader = take(pair)
    assert isinstance(commit(pair, one), UnitDone)
    assert (reader.delivered, info(master).blocked) == ([], 1)
    assert rolled_back(pair, two) == 1
    pair.settle(100)
    assert [body for _, _, body in reader.delivered] == numbered(2)
    same(pair)


def test_v15_nobody_settles_what_is_locked_not_even_its_unit() -> None:
    pair, master = filled(2)
    unit = begun(pair)
    assert found(held(pair, unit)) == {"held": 2}
    (lease_id,) = master.shared.machine.unit_leases()
    assert why(settle(pair, unit, lease_id, 1)) == "BAD_REQUEST"
    assert why(settle(pair, unit, lease_id + 1, 1)) == "LEASE_LOST"
    assert isinstance(commit(pair, unit), UnitDone)


@pytest.mark.parametrize("leaves", ["taken by the unit", "settled by the unit", "cancelled by the unit"])
def test_u7_a_report_finds_the_room_that_the_unit_itself_makes(leaves: str) -> None:
    """It is decided against the queues as its own settlements leave them."""
    pair, master = filled()
    create(pair, "s", max_length=1, reactions_enabled=True)
    send(pair, "q", *numbered(1))
    send(pair, "s", b"in the way")
    unit = begun(pair)
    match leaves:
        case "taken by the unit":
            got(pair, unit, "s")
        case "settled by the unit":
            lease = got(pair, queue="s")
            assert isinstance(settle(pair, unit, lease.lease_id, 1, queue="s"), UnitKept)
        case _:
            call = Call(master, ALL, unit=unit, request_id=new_id())
            call.reaction.queue = "s"
            assert found(call.run()) == {"held": 1}
    assert found(held(pair, unit, report_to="s")) == {"held": 1}
    assert isinstance(commit(pair, unit), UnitDone)
    (report,) = payloads(master, "s")
    assert report != b"in the way"
    assert payloads(master, "q") == []
    same(pair)


def test_u7_what_lasts_is_named_before_a_want_of_room() -> None:
    """Whoever is refused for want of room repeats it, and this one is never done."""
    pair, _ = filled()
    create(pair, "s", max_length=1)
    send(pair, "s", b"in the way")
    send(pair, "q", *numbered(1))
    unit = begun(pair)
    assert isinstance(put(pair, unit, "r", b"a"), UnitKept)
    assert found(held(pair, unit, report_to="s")) == {"held": 1}
    assert why(commit(pair, unit)) == "QUEUE_FULL"
    update(pair, "r", enqueue_enabled=False)
    assert why(commit(pair, unit)) == "ENQUEUE_DISABLED"
    update(pair, "r", enqueue_enabled=True)
    update(pair, "s", max_length=2)
    assert isinstance(commit(pair, unit), UnitDone)
