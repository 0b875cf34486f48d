"""What the calls of an open unit count with, against what they say themselves: messages, bytes and ranges of the unit,
and bytes of all units (U3), over a pair in one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from replica.core.ordering import open_units
from replica.core.ordering.open_units import CALL_BYTES, MESSAGE_BYTES
from replica.core.state.calls import RollbackUnit
from replica.core.state.outcomes import ReactionDone, UnitDone, UnitEnded, UnitKept
from replica.machine import Limits
from tandemq.v1 import reaction_service_pb2 as pb
from tests.support.clients import create
from tests.unit.replica.core.ordering.test_dying import info, payloads
from tests.unit.replica.core.ordering.test_kept_reactions import STORE, call_of, store
from tests.unit.replica.core.ordering.test_open_units import asked, begun, commit, new_id, put, why
from tests.unit.replica.core.ordering.test_reacting import filled
from tests.unit.replica.core.ordering.test_sweeps import numbered, send

if TYPE_CHECKING:
    from replica.core.ordering.held_reaction import HeldReaction
    from replica.core.ordering.open_unit import OpenUnit
    from tests.support.member import Member
    from tests.support.pair import Pair

pytestmark = pytest.mark.requirement("R210")
MOVE, CHANGE = {"move": pb.ReactionMove(queue="r")}, {"update": pb.ReactionUpdate(payload=b"x" * 40)}


class Reacts(NamedTuple):
    """A reaction to the three messages of q, and how many messages enter queues by it."""

    enters: int
    action: dict[str, Any]
    keeps: bool = False
    exceptions: pb.ExceptionReport = pb.EXCEPTION_REPORT_NONE
    group: str = "g"

    @property
    def targets(self) -> int:
        return 3 if self.group == "g" else 0

    def run(self, member: Member, unit: bytes) -> Any:
        call = call_of(member, pb.REACTION_SCOPE_ALL, 60_000, 1, self.action, {"group_id": self.group})
        reaction = call.reaction
        reaction.unit, reaction.request_id, reaction.exceptions = unit, new_id(), self.exceptions
        if not self.keeps:
            reaction.keep = None
        return call.run()


DELETE, TOLD = {"delete": pb.ReactionDelete()}, {"report_to": "s"}
REACTIONS = {
    "delete": Reacts(0, DELETE),
    "move": Reacts(3, MOVE),
    "change": Reacts(3, CHANGE),
    "tell the senders": Reacts(3, DELETE, exceptions=pb.EXCEPTION_REPORT_FULL),
    "report": Reacts(1, {**DELETE, **TOLD}),
    "keep": Reacts(1, DELETE, keeps=True),
    "keep and report": Reacts(2, {**DELETE, **TOLD}, keeps=True),
    "move, keep and report": Reacts(5, {**MOVE, **TOLD}, keeps=True),
    "nothing found": Reacts(0, DELETE, group="nobody"),
    "nothing found, kept and reported": Reacts(2, {**DELETE, **TOLD}, keeps=True, group="nobody"),
}
each_reaction = pytest.mark.parametrize("reacts", REACTIONS.values(), ids=REACTIONS)


def begin() -> tuple[Pair, Member, bytes]:
    """Three messages of a group, a queue for each purpose, and a unit that puts one message."""
    pair, master = filled()
    for queue in "stu":
        create(pair, queue)
    store(pair)
    send(pair, "q", *numbered(1, 2, 3), group_ids=["g"] * 3, reply_tos=["t"])
    unit = begun(pair)
    assert isinstance(put(pair, unit, "u", b"a"), UnitKept)
    return pair, master, unit


def limit(master: Member, **limits: Any) -> None:
    master.shared.limits = Limits(dedup_sequences=1000, **limits)


def open_unit(master: Member, unit: bytes) -> OpenUnit:
    found = master.core.orders.units.find(unit)
    assert found is not None
    return found


def size_of(held: HeldReaction) -> int:
    """Bytes of what enters, and of what is kept."""
    keep = held.reaction.keep
    messages = [*held.making.rows, *(each.message for each in held.making.exceptions)]
    return sum(message.ByteSize() for message in messages) + (len(keep.body) if keep is not None else 0)


@each_reaction
def test_u3_what_a_reaction_makes_are_messages_of_its_unit(reacts: Reacts) -> None:
    """With one message less than that it is refused, and nothing is locked."""
    pair, master, unit = begin()
    if reacts.enters:
        limit(master, batch_messages_max=reacts.enters)
        refused = reacts.run(master, unit)
        assert why(refused) == "TXN_TOO_LARGE"
        assert f"{1 + reacts.enters} messages" in refused.message
        assert info(master).locked == 0
    limit(master, batch_messages_max=max(2, 1 + reacts.enters))
    assert isinstance(reacts.run(master, unit), ReactionDone)
    found = open_unit(master, unit)
    assert (found.messages, found.ranges, info(master).locked) == (1 + reacts.enters, reacts.targets, reacts.targets)
    limit(master, batch_messages_max=max(4, 1 + reacts.enters))
    more = 4 - (1 + reacts.enters)
    if more > 0:
        assert isinstance(put(pair, unit, "u", *[b"b"] * more), UnitKept)
    assert why(put(pair, unit, "u", b"c")) == "TXN_TOO_LARGE"
    limit(master)
    assert isinstance(commit(pair, unit), UnitDone)
    entered = [len(payloads(master, queue)) for queue in ("r", "s", "t", STORE)]
    changed = payloads(master, "q").count(b"x" * 40)
    assert sum(entered) + changed == reacts.enters


@each_reaction
@pytest.mark.parametrize("end", ["commit", "rollback", "deadline"])
def test_u3_its_bytes_are_counted_until_the_unit_ends(
    reacts: Reacts, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, master, unit = begin()
    units = master.core.orders.units
    before, of_all = open_unit(master, unit).bytes, units.bytes
    assert isinstance(reacts.run(master, unit), ReactionDone)
    (held,) = open_unit(master, unit).reactions.values()
    size = size_of(held)
    assert open_unit(master, unit).bytes == before + size + reacts.enters * MESSAGE_BYTES
    assert (units.bytes, units.gets) == (of_all + size + CALL_BYTES, int(reacts.targets > 0))
    match end:
        case "commit":
            assert isinstance(commit(pair, unit), UnitDone)
        case "rollback":
            assert isinstance(asked(pair, RollbackUnit(unit)), UnitEnded)
        case "deadline":
            pair.settle(31_000)
    assert (units.bytes, units.gets, len(units)) == (0, 0, 0)
    if not size or end == "commit":
        return
    unit = begun(pair)
    needed = size + reacts.enters * MESSAGE_BYTES
    monkeypatch.setattr(open_units, "BYTES_MAX", needed - 1)
    assert why(reacts.run(master, unit)) == "QUOTA_EXCEEDED"
    assert info(master).locked == 0
    monkeypatch.setattr(open_units, "BYTES_MAX", needed)
    assert isinstance(reacts.run(master, unit), ReactionDone)


@pytest.mark.parametrize("ranges", [2, 3])
def test_u3_what_a_reaction_has_locked_are_ranges_of_its_unit(ranges: int) -> None:
    _, master, unit = begin()
    limit(master, settlement_ranges_max=ranges)
    done = REACTIONS["delete"].run(master, unit)
    if ranges == 2:
        assert why(done) == "TXN_TOO_LARGE"
        assert "3 ranges" in done.message
    else:
        assert isinstance(done, ReactionDone)
