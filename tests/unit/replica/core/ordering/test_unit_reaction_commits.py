"""What is seen of a reaction in an open unit when it is asked for, and what only at the commit (V15, U4, U7)."""

from __future__ import annotations

import pytest

from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, QueueDone, UnitDone, UnitKept
from replica.machine import QueueCall
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import PERSISTENCE_CONDITIONAL, PERSISTENCE_PERSISTENT, QueueConfig
from tests.support.clients import Waiter, create
from tests.unit.replica.core.ordering import test_room
from tests.unit.replica.core.ordering.test_dying import begin, contents, payloads
from tests.unit.replica.core.ordering.test_kept_reactions import call_of, store
from tests.unit.replica.core.ordering.test_open_units import begun, commit, got, new_id, put, why
from tests.unit.replica.core.ordering.test_reacting import filled, where
from tests.unit.replica.core.ordering.test_sweeps import send, update
from tests.unit.replica.core.ordering.test_unit_reactions import found, held
from tests.unit.replica.machine.test_many_queues import steps

pytestmark = pytest.mark.requirement("R210")
NOBODY = where(correlation_id="nobody")
LOCKS = 50


def test_a_copy_is_as_durable_as_its_message_is_at_the_commit() -> None:
    """R153: it became persistent while it was locked, and was answered so."""
    pair, master = begin(2, volatile=True, persistence=PERSISTENCE_CONDITIONAL, reactions_enabled=True)
    create(pair, "r", persistence=PERSISTENCE_CONDITIONAL)
    unit = begun(pair)
    held(pair, unit, to="r")
    waiter = Waiter()
    config = QueueConfig(persistence=PERSISTENCE_PERSISTENT)
    master.submit(PendingCall(waiter, QueueCall(QUEUE_ACTION_UPDATE, "q", config, ["persistence"])))
    pair.settle(2000)
    assert isinstance(waiter.done, QueueDone)
    assert isinstance(commit(pair, unit), UnitDone)
    pair.settle(500)
    moved = payloads(master, "r")
    for each in (master, master.peer):
        pair.crash(each, written=True)
    pair.heal()
    pair.settle(3000)
    assert pair.master is not None
    assert payloads(pair.master, "r") == moved != []


def test_reports_of_several_reactions_for_one_queue_all_enter() -> None:
    """V7, V15."""
    pair, master = filled()
    send(pair, "q", b"1", b"2", correlation_ids=["a", "b"], reply_tos=["r"])
    unit = begun(pair)
    for name in "ab":
        held(pair, unit, where(correlation_id=name), exceptions=pb.EXCEPTION_REPORT_FULL)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(master, "r") == [b"1", b"2"]


def test_what_no_commit_could_do_is_refused_at_once_and_the_unit_goes_on() -> None:
    """U4, V15."""
    pair, master = filled(1, max_message_bytes=10)
    store(pair)
    unit = begun(pair)
    assert why(held(pair, unit, update=pb.ReactionUpdate(payload=b"x" * 11))) == "MESSAGE_TOO_LARGE"
    large = {"update": pb.ReactionUpdate(payload=b"x" * (1100 << 10))}
    call = call_of(master, pb.REACTION_SCOPE_ALL, 60_000, 1, large, {"group_id": "g"})
    call.reaction.unit, call.reaction.request_id = unit, new_id()
    assert why(call.run()) == "MESSAGE_TOO_LARGE"
    put(pair, unit, "r", b"note")
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(master, "r") == [b"note"]


def test_a_reaction_that_found_nothing_is_in_nobodys_way() -> None:
    """V15: whether a unit can be committed hangs on what it does."""
    pair, master = filled(1)
    unit = begun(pair)
    assert found(held(pair, unit, NOBODY, to="r")) == {}
    assert isinstance(put(pair, unit, "r", b"behind"), UnitKept)
    assert found(held(pair, unit, NOBODY, to="r")) == {}
    update(pair, "q", reactions_enabled=False)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(master, "r") == [b"behind"]


def test_a_move_does_not_pass_those_who_wait_for_room() -> None:
    """U7, V9."""
    pair, master = filled(2)
    create(pair, "f", max_length=2)
    send(pair, "f", b"a", b"b")
    waits = test_room.send(master, "p", wait_ms=60_000, count=2, queue="f")
    pair.settle(20)
    unit = begun(pair)
    got(pair, unit, "f")
    held(pair, unit, where(ids=[contents(master, "q")[0].id]), to="f")
    refused = commit(pair, unit)
    assert isinstance(refused, Failed)
    assert why(refused) == "QUEUE_FULL"
    assert not waits.waiter.answers


def test_a_page_costs_the_same_beside_many_locks() -> None:
    """A browser was asking each lock about each record: 16 s for 1,000 messages beside 2,000 locks."""
    pair, master = filled(0)
    for number in range(LOCKS):
        send(pair, "q", b"%d" % number)
    machine = master.shared.machine
    assert machine is not None
    queue_id = machine.queue_id("q")
    assert queue_id is not None

    def page() -> None:
        machine.segments_of(queue_id, machine.browse(queue_id, 0, 2 * LOCKS), delivered=False)

    before = steps(page)
    unit = begun(pair)
    for row in contents(master, "q"):
        held(pair, unit, where(ids=[row.id]))
    assert steps(page) < before + 30 * LOCKS
