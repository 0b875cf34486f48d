"""Reactions to several queues by one record, over a pair in one process (V18)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering.reaction import Advice, Effect
from replica.core.state.outcomes import Failed, ReactionDone
from replica.machine.plan import react
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import PERSISTENCE_CONDITIONAL, PERSISTENCE_VOLATILE
from tandemq.v1.reaction_service_pb2 import EXCEPTION_REPORT_HEADERS, ReactionUpdate
from tests.support.clients import create
from tests.unit.replica.core.ordering.test_dying import contents, payloads, take
from tests.unit.replica.core.ordering.test_reacting import Call, filled, taken_over, where
from tests.unit.replica.core.ordering.test_room import send as park
from tests.unit.replica.core.ordering.test_sweeps import numbered, send, update

if TYPE_CHECKING:
    from tandemq.peer.v1.record_pb2 import ReactionCounts
    from tests.support.member import Member
    from tests.support.pair import Pair

ANY = where(selector="tq_index > 0")


def both(count: int = 0, **config: Any) -> tuple[Pair, Member]:
    """Queues q and s with so many messages each, r and t without."""
    pair, master = filled(count)
    create(pair, "s", reactions_enabled=True, **config)
    create(pair, "t")
    if count:
        send(pair, "s", *(b"s%d" % at for at in range(1, 1 + count)))
    return pair, master


def scattered(member: Member, *queues: str, **more: Any) -> Any:
    call = Call(member, ANY, **more)
    reaction = call.reaction
    asks = reaction.asking is not None
    reaction.others = [replace(reaction, queue=name, asking=Advice("them") if asks else None) for name in queues]
    return call


def homes(done: Any) -> list[dict[str, int]]:
    """What was counted at each, without zeros."""
    assert isinstance(done, ReactionDone), done
    return [_counted(each) for each in (done.counts, *done.others)]


def _counted(counts: ReactionCounts) -> dict[str, int]:
    return {field.name: value for field, value in counts.ListFields()}


@pytest.mark.requirement("R216")
def test_v18_all_queues_are_acted_on_by_one_record_and_each_has_its_outcome() -> None:
    pair, master = both(3)
    take(pair, 1)  # of q
    before = master.shared.log.last_index
    done = scattered(master, "s").run()
    assert homes(done) == [{"applied": 2, "locked": 1}, {"applied": 3}]
    assert master.shared.log.last_index == before + 1
    for member in (master, master.peer):
        assert (payloads(member, "q"), payloads(member, "s")) == (numbered(1), [])
    again = scattered(taken_over(pair), "s").run()
    assert (again.duplicate, homes(again)) == (True, homes(done))


@pytest.mark.requirement("R216")
def test_v18_the_first_of_each_is_its_first() -> None:
    _, master = both(2)
    assert homes(scattered(master, "s", first=True).run()) == [{"applied": 1}, {"applied": 1}]
    assert (payloads(master, "q"), payloads(master, "s")) == (numbered(2), [b"s2"])


def test_v18_what_several_queues_move_to_one_enters_it_by_one_record() -> None:
    pair, master = both(2)
    send(pair, "s", b"later", delays_ms=[60_000])
    done = scattered(master, "s", to="r").run()
    assert homes(done) == [{"applied": 2}, {"applied": 3}]
    for member in (master, master.peer):
        assert payloads(member, "r") == [*numbered(1, 2), b"s1", b"s2", b"later"]
        assert (payloads(member, "q"), payloads(member, "s")) == ([], [])
        assert member.shared.machine.queue(member.shared.machine.queue_id("r")).delayed.size == 1
    survivor = taken_over(pair)
    assert payloads(survivor, "r") == [*numbered(1, 2), b"s1", b"s2", b"later"]


def test_v18_each_is_changed_in_its_own_queue() -> None:
    _, master = both(1)
    done = scattered(master, "s", update=ReactionUpdate(payload=b"new")).run()
    assert homes(done) == [{"applied": 1}, {"applied": 1}]
    for member in (master, master.peer):
        assert (payloads(member, "q"), payloads(member, "s")) == ([b"new"], [b"new"])


def test_v18_one_refusal_refuses_all() -> None:
    pair, master = both(2)
    update(pair, "r", max_length=3)
    done = scattered(master, "s", to="r").run()
    assert isinstance(done, Failed)
    assert done.reason == Reason.REASON_QUEUE_FULL
    assert (payloads(master, "q"), payloads(master, "s"), payloads(master, "r")) == (numbered(1, 2), [b"s1", b"s2"], [])
    update(pair, "s", reactions_enabled=False)
    assert scattered(master, "s").run().reason == Reason.REASON_REACTION_DISABLED
    assert payloads(master, "q") == numbered(1, 2)


@pytest.mark.parametrize(
    ("others", "more", "reason"),
    [
        (["q"], {}, Reason.REASON_BAD_REQUEST),
        (["s", "s"], {}, Reason.REASON_BAD_REQUEST),
        (["s"], {"to": "s"}, Reason.REASON_BAD_REQUEST),
        (["s"], {"report_to": "s"}, Reason.REASON_BAD_REQUEST),
        (["nowhere"], {}, Reason.REASON_QUEUE_NOT_FOUND),
    ],
)
def test_v18_a_queue_is_named_once_and_is_there(others: list[str], more: dict[str, Any], reason: Reason) -> None:
    _, master = both(1)
    assert scattered(master, *others, **more).run().reason == reason
    assert (payloads(master, "q"), payloads(master, "s")) == (numbered(1), [b"s1"])


def test_v18_all_together_have_the_limit_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(react, "TARGETS_MAX", 3)
    _, master = both(2)
    assert scattered(master, "s").run().reason == Reason.REASON_TXN_TOO_LARGE
    assert payloads(master, "q") == numbered(1, 2)


def test_v18_one_report_has_the_sums() -> None:
    _, master = both(2)
    assert homes(scattered(master, "s", report_to="t").run()) == [{"applied": 2}, {"applied": 2}]
    (report,) = contents(master, "t")
    assert report.message.properties["tq_applied"].integer == 4


def test_v18_each_queue_is_asked_about_by_itself() -> None:
    _, master = both(2)
    call = scattered(master, "s", asking=Advice("them"))
    assert not call.turn()
    for home in call.reaction.homes:
        for found in home.asking.questions:
            home.asking.effects[found.index] = Effect("r") if found.index == 1 else None
    assert homes(call.run()) == [{"applied": 1, "left": 1}, {"applied": 1, "left": 1}]
    assert payloads(master, "r") == [*numbered(1), b"s1"]
    late = scattered(master, "s", asking=Advice("them"), request_id=b"2" * 16)
    assert not late.turn()
    for home in late.reaction.homes:
        for found in home.asking.questions:
            home.asking.effects[found.index] = Effect("s")
    assert homes(late.run()) == [{"failed": 1}, {"failed": 1}], "one of its queues is where it acts"


@pytest.mark.parametrize("survives", [False, True])
def test_x7_v18_each_copy_is_as_durable_as_the_message_that_it_is_made_of(*, survives: bool) -> None:
    """Volatile ones of one queue and persistent ones of another enter a third by one entry of the record."""
    pair, master = both(persistence=PERSISTENCE_VOLATILE)
    create(pair, "c", persistence=PERSISTENCE_CONDITIONAL)
    send(pair, "q", b"stays")
    send(pair, "s", b"may go")
    done = scattered(master, "s", to="c").run()
    assert homes(done) == [{"applied": 1}, {"applied": 1}]
    machine = master.shared.machine
    assert list(machine.queue(machine.queue_id("c")).volatile) == [(2, 3)]
    if survives:
        assert payloads(taken_over(pair), "c") == [b"stays", b"may go"]
        return
    for member in (master, master.peer):
        pair.crash(member)
    for member in (master, master.peer):
        member.start()
    pair.heal()
    assert pair.master is not None
    assert payloads(pair.master, "c") == [b"stays"]


def test_v7_v18_a_report_to_a_queue_that_it_acts_on_as_well_finds_no_place() -> None:
    """A record has one entry a queue."""
    pair, master = both()
    send(pair, "q", b"1", reply_tos=["s"])
    send(pair, "s", b"2", reply_tos=["t"])
    done = scattered(master, "s", exceptions=EXCEPTION_REPORT_HEADERS).run()
    assert homes(done) == [{"applied": 1, "unreported": 1}, {"applied": 1}]
    assert (payloads(master, "s"), len(payloads(master, "t"))) == ([], 1)


def test_v10_v18_nothing_is_moved_before_those_who_wait_for_room() -> None:
    pair, master = both(1)
    update(pair, "r", max_length=2)
    send(pair, "r", b"there")
    waiting = park(master, "z", wait_ms=60_000, count=2, queue="r")
    pair.settle(20)
    assert waiting.waits
    asks = scattered(master, "s", asking=Advice("them"))
    assert not asks.turn()
    for home in asks.reaction.homes:
        home.asking.effects = {1: Effect("r") if home.queue == "s" else None}
    for call in (asks, scattered(master, "s", to="r", first=True, request_id=b"2" * 16)):
        done = call.run()
        assert isinstance(done, Failed)
        assert (done.reason, "others wait" in done.message) == (Reason.REASON_QUEUE_FULL, True)
    assert (payloads(master, "q"), payloads(master, "s")) == (numbered(1), [b"s1"])
