"""V16, the second asking: a kept reaction acts by the rights that its sender has when a message comes or comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering.kept_reactions import REPORTED_MAX
from replica.core.state.calls import PendingCall
from replica.machine import AliasCall, Machine, MacroCall, RightCall
from replica.machine.features.macros import ADD, REMOVE
from replica.machine.features.macros import CREATE as MACRO_CREATE
from replica.machine.state.kept import DENIED_RUNS_MAX, KeptIndex
from replica.machine.state.rights import CONSUME, PRODUCE
from tandemq.peer.v1.record_pb2 import KEPT_BY_GROUP, QUEUE_ACTION_DELETE, MacroAction
from tandemq.v1 import reaction_service_pb2 as pb
from tests.support.clients import Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_dying import contents, payloads, take
from tests.unit.replica.core.ordering.test_kept_reactions import (
    ALL,
    FIRST,
    MINUTE,
    STORE,
    alike,
    call_of,
    got,
    groups,
    release,
    store,
)
from tests.unit.replica.core.ordering.test_reacting import counts, taken_over
from tests.unit.replica.core.ordering.test_sweeps import act, send

if TYPE_CHECKING:
    from tests.support.member import Member

WHO = "principal/billing"
UPDATE = {"update": pb.ReactionUpdate(payload=b"changed")}
pytestmark = pytest.mark.requirement("R208")


@pytest.fixture
def pair() -> Pair:
    """Where rights are asked about; billing may consume from q."""
    made = Pair()
    made.asks_rights = True
    made.start()
    create(made, "q", reactions_enabled=True)
    create(made, "r")
    store(made)
    grant(made, CONSUME)
    return made


def change(pair: Pair, right: int, queue: str, *, revoked: bool, committed: bool = True) -> None:
    waiter = Waiter()
    call = RightCall("billing", right, queue, revoked, None, "principal/ops", b"", 0)
    assert pair.master is not None
    pair.master.submit(PendingCall(waiter, call))
    if committed:
        pair.settle(20)
        assert not hasattr(waiter.done, "reason"), waiter.done


def macro(pair: Pair, action: MacroAction, **fields: Any) -> None:
    waiter = Waiter()
    assert pair.master is not None
    pair.master.submit(PendingCall(waiter, MacroCall(action, "all", b"", 0, **fields)))
    pair.settle(20)
    assert not hasattr(waiter.done, "reason"), waiter.done


def grant(pair: Pair, right: int, queue: str = "q") -> None:
    change(pair, right, queue, revoked=False)


def revoke(pair: Pair, right: int, queue: str = "q", *, committed: bool = True) -> None:
    change(pair, right, queue, revoked=True, committed=committed)


def keep(pair: Pair, *, scope: Any = ALL, more: Any = None, who: str = WHO, number: int = 1, report: str = "") -> None:
    assert pair.master is not None
    call = call_of(pair.master, scope, MINUTE, number, more or {}, {"group_id": "g"})
    reaction = call.reaction
    assert reaction.keep is not None
    asked = pb.Reaction.FromString(reaction.keep.body)
    asked.report_to = report
    reaction.keep = reaction.keep._replace(principal=who, body=asked.SerializeToString())
    assert counts(call.run())["kept"]


def arrive(pair: Pair, *rows: bytes) -> None:
    send(pair, "q", *rows, **groups("g"))
    pair.quiesce()


def master_of(pair: Pair) -> Member:
    assert pair.master is not None
    return pair.master


def test_a_message_that_comes_after_the_right_has_gone_is_left_alone(pair: Pair) -> None:
    keep(pair)
    arrive(pair, b"1")
    revoke(pair, CONSUME)
    arrive(pair, b"2", b"3")
    assert payloads(master_of(pair), "q") == [b"2", b"3"]
    assert len(contents(master_of(pair), STORE)) == 1, "it is kept on"
    assert master_of(pair).core.kept.rights.denied == 2
    grant(pair, CONSUME)
    arrive(pair, b"4")
    assert payloads(master_of(pair), "q") == [b"2", b"3"], "by the rights of each moment"
    alike(pair)


def test_the_right_on_a_macro_queue_counts_while_the_queue_is_its_member(pair: Pair) -> None:
    """By its name the reaction was let in, and by its name its sender could consume what comes."""
    macro(pair, MACRO_CREATE)
    grant(pair, CONSUME, "all")
    keep(pair)
    revoke(pair, CONSUME)
    arrive(pair, b"1")
    macro(pair, ADD, queue="q")
    arrive(pair, b"2")
    macro(pair, REMOVE, queue="q")
    arrive(pair, b"3")
    assert payloads(master_of(pair), "q") == [b"1", b"3"]
    alike(pair)


def test_a_revocation_counts_when_it_is_committed(pair: Pair) -> None:
    keep(pair)
    revoke(pair, CONSUME, committed=False)
    arrive(pair, b"1")
    assert payloads(master_of(pair), "q") == [], "nobody has heard of it when the message came"
    arrive(pair, b"2")
    assert payloads(master_of(pair), "q") == [b"2"]


def test_what_comes_back_is_asked_about_by_the_rights_of_that_moment(pair: Pair) -> None:
    arrive(pair, b"1")
    reader = take(pair)
    pair.quiesce()
    assert got(reader) == [b"1"]
    keep(pair)
    revoke(pair, CONSUME)
    release(pair, reader)
    pair.quiesce()
    assert got(reader) == [b"1", b"1"]
    grant(pair, CONSUME)
    release(pair, reader)
    pair.quiesce()
    assert got(reader)[2:] == [b"1"], "it was decided once, and is not decided anew"


@pytest.mark.parametrize(
    ("more", "missing"),
    [({}, (CONSUME, "q")), (UPDATE, (CONSUME, "q")), (UPDATE, (PRODUCE, "q"))]
    + [({"move": pb.ReactionMove(queue="r")}, each) for each in ((CONSUME, "q"), (PRODUCE, "r"))],
)
def test_each_action_needs_its_rights(pair: Pair, more: Any, missing: tuple[int, str]) -> None:
    """DELETE the one to consume, UPDATE also to produce, MOVE to produce at the goal."""
    for needed in ((PRODUCE, "q"), (PRODUCE, "r")):
        grant(pair, *needed)
    keep(pair, more=more)
    revoke(pair, *missing)
    arrive(pair, b"1")
    assert (payloads(master_of(pair), "q"), payloads(master_of(pair), "r")) == ([b"1"], [])
    grant(pair, *missing)
    arrive(pair, b"2")
    after = {"move": ([b"1"], [b"2"]), "update": ([b"1", b"changed"], [])}.get(next(iter(more), ""), ([b"1"], []))
    assert (payloads(master_of(pair), "q"), payloads(master_of(pair), "r")) == after


@pytest.mark.parametrize("granted", ["r", "also-r", "other"])
@pytest.mark.parametrize("named", ["r", "also-r", "nowhere"])
def test_any_name_of_the_queue_that_it_moves_to_will_do(pair: Pair, named: str, granted: str) -> None:
    """A name that no queue has is asked about as it is, and nothing can be moved there."""
    for queue in ("also-r", "also-r-2"):
        master_of(pair).submit(PendingCall(Waiter(), AliasCall(queue, "r", b"", 0)))
    create(pair, "other")
    if named == "nowhere":
        create(pair, named)
    grant(pair, PRODUCE, granted)
    keep(pair, more={"move": pb.ReactionMove(queue=named)})
    if named == "nowhere":
        act(pair, QUEUE_ACTION_DELETE, named)
    arrive(pair, b"1")
    moves = named != "nowhere" and granted != "other"
    assert (payloads(master_of(pair), "q"), payloads(master_of(pair), "r")) == (([], [b"1"]) if moves else ([b"1"], []))
    assert master_of(pair).core.kept.rights.denied == int(not moves)


def test_any_name_of_the_queue_will_do(pair: Pair) -> None:
    master_of(pair).submit(PendingCall(Waiter(), AliasCall("also", "q", b"", 0)))
    pair.settle(20)
    revoke(pair, CONSUME)
    grant(pair, CONSUME, "also")
    keep(pair)
    arrive(pair, b"1")
    assert payloads(master_of(pair), "q") == []


def test_the_first_one_is_not_used_up(pair: Pair) -> None:
    keep(pair, scope=FIRST)
    revoke(pair, CONSUME)
    arrive(pair, b"1", b"2")
    grant(pair, CONSUME)
    arrive(pair, b"3", b"4")
    assert payloads(master_of(pair), "q") == [b"1", b"2", b"4"]
    assert contents(master_of(pair), STORE) == []


@pytest.mark.parametrize("who", ["", "principal/other"])
def test_of_whom_nobody_knows_the_right_of_another_is_nothing(pair: Pair, who: str) -> None:
    """An entry without a name is the manager's own, or of a version that wrote none: it acts, as it did before."""
    keep(pair, who=who)
    arrive(pair, b"1")
    assert payloads(master_of(pair), "q") == ([] if not who else [b"1"])


def test_it_is_reported_where_the_sender_may_still_send(pair: Pair) -> None:
    grant(pair, PRODUCE, "r")
    keep(pair, report="r")
    revoke(pair, CONSUME)
    arrive(pair, b"1", b"2")
    (report,) = contents(master_of(pair), "r")
    said = report.message.properties
    assert (said["tq_outcome"].text, said["tq_denied"].integer, said["tq_applied"].integer) == ("DENIED", 2, 0)
    revoke(pair, PRODUCE, "r")
    arrive(pair, b"3")
    grant(pair, CONSUME)
    arrive(pair, b"4")
    assert len(contents(master_of(pair), "r")) == 1, "nor of what it does, without the right to send there"
    assert payloads(master_of(pair), "q") == [b"1", b"2", b"3"]
    alike(pair)


def test_the_next_master_goes_by_what_was_decided(pair: Pair) -> None:
    """The record says so: a right that was granted later changes nothing, and nothing is reported twice."""
    grant(pair, PRODUCE, "r")
    keep(pair, report="r")
    revoke(pair, CONSUME)
    arrive(pair, b"1")
    grant(pair, CONSUME)
    alike(pair)
    taken_over(pair)
    pair.quiesce()
    assert payloads(master_of(pair), "q") == [b"1"]
    assert len(contents(master_of(pair), "r")) == 1
    arrive(pair, b"2")
    assert payloads(master_of(pair), "q") == [b"1"], "and by the sender that the entry names"
    revoke(pair, CONSUME)
    arrive(pair, b"3")
    assert payloads(master_of(pair), "q") == [b"1", b"3"]


def test_a_new_master_asks_by_all_that_was_answered_before_it(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A revocation is in force with its first commit, and nobody is asked before that."""
    keep(pair)
    old, waiter = master_of(pair), Waiter()
    monkeypatch.setattr(old.core.kept, "ask", lambda: None)  # it dies between the two records
    arrive(pair, b"1")
    old.submit(PendingCall(waiter, RightCall("billing", CONSUME, "q", True, None, "principal/ops", b"", 0)))
    while waiter.done is None:
        assert pair.one()
    assert old.peer.shared.machine.state.rights.grants, "the replica has not heard that it is committed"
    new = taken_over(pair)
    pair.quiesce()
    assert payloads(new, "q") == [b"1"]


def test_of_many_that_are_denied_a_few_have_their_own_record_and_report(pair: Pair) -> None:
    """A thousand may fit a message, and none of them ends it: a record each is half a second for nothing."""
    grant(pair, PRODUCE, "r")
    for number in range(1, 101):
        keep(pair, number=number, report="r")
    revoke(pair, CONSUME)
    before = master_of(pair).shared.log.last_index
    send(pair, "q", b"1", b"2", **groups("g"))
    pair.quiesce()
    assert master_of(pair).shared.log.last_index - before == 1 + REPORTED_MAX + 1
    assert payloads(master_of(pair), "q") == [b"1", b"2"]
    assert len(contents(master_of(pair), "r")) == REPORTED_MAX
    assert master_of(pair).core.kept.rights.denied == 200
    index = master_of(pair).shared.machine.state.named(STORE).kept
    assert index is not None
    assert all(index.is_denied(number, message) for number in range(1, 101) for message in (1, 2))
    alike(pair)


def test_snapshots_know_what_was_decided(pair: Pair) -> None:
    keep(pair)
    revoke(pair, CONSUME)
    arrive(pair, b"1", b"2")
    machine = master_of(pair).shared.machine
    again = Machine.restore(machine.snapshot(), ["a", "b"], machine.state.limits)
    index = again.state.named(STORE).kept
    assert index is not None
    assert [index.is_denied(1, message) for message in (1, 2, 3)] == [True, True, False]
    assert again.digest() == machine.digest()


def test_what_it_was_denied_is_bounded() -> None:
    """Beyond that it is denied all before the end, which is on the side of who has not the right."""
    index = KeptIndex(1)
    index.put(5, KEPT_BY_GROUP, [7])
    for message in range(10, 10 + 2 * DENIED_RUNS_MAX, 2):
        index.deny(5, [(message, message + 1)], 1)
    assert not index.is_denied(5, 11)
    index.deny(5, [(1_000, 1_001)], 1)
    assert index.is_denied(5, 11)
    assert index.denied[5].run_count == 1
    index.deny(5, [(1_000, 1_002)], 900)
    assert not index.is_denied(5, 11), "what is gone is forgotten"
    index.forget(5, 6)
    assert index.denied == {}
