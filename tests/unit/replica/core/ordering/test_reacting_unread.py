"""Reactions over records that are damaged on disk, and the bounds of what is read and written at once, over a pair in
one process: what cannot be read is left alone, and nothing else waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import reaction_looks, reaction_rows
from replica.core.selection import selecting
from replica.machine.plan import react
from storage.store import Append, WriteBatch
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tests.unit.replica.core.ordering import test_kept_reactions as kept
from tests.unit.replica.core.ordering.test_dying import contents, payloads, take
from tests.unit.replica.core.ordering.test_reacting import Call, counts, filled, run, where
from tests.unit.replica.core.ordering.test_sweeps import numbered, send

if TYPE_CHECKING:
    from tests.support.member import Member

ANY = where(selector="tq_index > 0")


def hurt(member: Member, queue: str, *indexes: int) -> None:
    """A bit of each of their records turns over on its disk, and its memory has let go of all records."""
    shared, store, machine = member.shared, member.store, member.shared.machine
    for index in indexes:
        (part,) = machine.state.named(queue).segments.parts(index, index + 1)
        record = store.read(shared.domain, part.log_index)
        assert record is not None
        damaged = record[:-1] + bytes([record[-1] ^ 1])
        store.commit(WriteBatch(inserts=[Append(shared.domain, part.log_index, damaged)]))
    shared.log.ring.clear()


def left(member: Member) -> list[int]:
    """Indexes of what is in q; it may not be readable."""
    machine = member.shared.machine
    return [part.first + at for part in machine.browse(machine.queue_id("q"), 0, 0) for at in range(part.count)]


@pytest.mark.parametrize("by", ["ids", "selector", "correlation id", "group"])
def test_v3_what_cannot_be_read_is_refused_where_it_is_named_and_else_fits_nothing(by: str) -> None:
    pair, master = filled()
    for row in numbered(1, 2, 3):
        send(pair, "q", row, group_ids=["g"], correlation_ids=["c"])
    asked = {
        "ids": where(ids=[row.id for row in contents(master, "q")]),
        "selector": ANY,
        "correlation id": where(correlation_id="c"),
        "group": where(group_id="g"),
    }[by]
    hurt(master, "q", 2)
    done = run(pair, asked)
    assert counts(done) == ({"applied": 2, "refused": 1} if by == "ids" else {"applied": 2})
    assert left(master) == [2]


@pytest.mark.parametrize(
    "action", [{"to": "r"}, {"update": pb.ReactionUpdate(payload=b"new")}, {"exceptions": pb.EXCEPTION_REPORT_FULL}]
)
def test_v9_what_was_damaged_since_it_was_looked_at_stays_where_something_is_made_of_it(
    action: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal needs none of it."""
    monkeypatch.setattr(reaction_looks, "LOOKS_MAX", 2)
    pair, master = filled()
    for row in numbered(1, 2, 3):
        send(pair, "q", row, reply_tos=["r"])
    call = Call(master, ANY, **action)
    assert not call.turn()
    hurt(master, "q", 1)
    removes = "exceptions" in action
    assert counts(call.run()) == ({"applied": 3} if removes else {"applied": 2, "refused": 1})
    assert left(master) == {"to": [1], "update": [1, 4, 5], "exceptions": []}[next(iter(action))]
    assert payloads(master, "r") == ([] if "update" in action else numbered(2, 3))


@pytest.mark.parametrize("scope", [kept.ALL, kept.FIRST])
def test_v12_a_kept_reaction_that_cannot_be_read_holds_up_nothing(scope: Any) -> None:
    """Neither the message nor another reaction that fits it."""
    pair, master = kept.begin()
    kept.keep(pair, scope=scope, number=1, group_id="g")
    kept.keep(pair, scope=scope, number=2, correlation_id="c")
    hurt(master, kept.STORE, 1)
    send(pair, "q", *numbered(1, 2), group_ids=["g", "g"], correlation_ids=["", "c"])
    pair.quiesce()
    assert payloads(master, "q") == numbered(1)
    assert kept.got(take(pair)) == numbered(1)


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [{"to": "r"}, {"update": pb.ReactionUpdate(content_type="t")}])
def test_v6_records_that_hold_more_than_is_read_at_once_are_refused_by_name(
    action: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, master = filled()
    for row in numbered(1, 2, 3):
        send(pair, "q", row)
    parts = master.shared.machine.state.named("q").segments.parts(1, 4)
    size = sum(len(master.core.dying.read(part.log_index).body) for part in parts)
    monkeypatch.setattr(reaction_rows, "READ_MAX", size - 1)
    done = run(pair, ANY, **action)
    assert (done.reason, done.metadata) == (Reason.REASON_TXN_TOO_LARGE, {"limit": str(size - 1)})
    assert "the records that hold its messages" in done.message
    assert left(master) == [1, 2, 3]
    monkeypatch.setattr(reaction_rows, "READ_MAX", size)
    assert counts(run(pair, ANY, request_id=b"2" * 16, **action)) == {"applied": 3}


@pytest.mark.parametrize("targets", [3, 4])
def test_v6_as_many_as_a_record_holds_are_acted_on_wherever_they_are(
    targets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(react, "TARGETS_MAX", 3)
    pair, master = filled(9)
    ids = [row.id for row in contents(master, "q")]
    done = run(pair, where(ids=[ids[3], *ids[9 - targets + 1 :]]))
    if targets == 3:
        assert counts(done) == {"applied": 3}
    else:
        assert done.reason == Reason.REASON_TXN_TOO_LARGE


@pytest.mark.parametrize("looks", [1, 2, 3, 9])
@pytest.mark.parametrize("by", ["ids", "selector"])
def test_v3_a_turn_looks_at_so_many_messages(by: str, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a selector at fewer, the heavier it is; at one in any case."""
    _, master = filled(5)
    asked = where(selector="tq_index > 0 and tq_index < 100")
    if by == "ids":
        asked = where(ids=[row.id for row in contents(master, "q")])
    monkeypatch.setattr(reaction_looks, "LOOKS_MAX", looks)
    weight = asked.selector.weight if asked.selector is not None else 1
    call, turns = Call(master, asked), 1
    while not call.turn():
        turns += 1
    assert turns == -(-5 // max(1, looks // weight))


@pytest.mark.parametrize(("name", "most"), [("NAMED_MAX", 2), ("ENTRIES_MAX", 2)])
@pytest.mark.parametrize("asked", [{"group_id": "g"}, {"correlation_id": "c"}])
def test_v3_more_of_one_id_than_an_index_lists_are_found_by_looking(
    name: str, most: int, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, name, most)
    pair, master = filled()
    send(pair, "q", *numbered(1, 2, 3, 4, 5), group_ids=["g"] * 4 + ["h"], correlation_ids=["c"] * 4 + ["d"])
    assert counts(run(pair, where(**asked))) == {"applied": 4}
    assert payloads(master, "q") == numbered(5)


@pytest.mark.parametrize("targets", [2, 3, 8])
def test_v12_what_is_too_much_for_one_record_of_a_kept_reaction_is_several(
    targets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halves, until each fits; one alone that does not stays as it is."""
    pair, master = kept.begin()
    kept.keep(pair, more={"update": pb.ReactionUpdate(payload=b"x" * 100)}, group_id="g")
    monkeypatch.setattr(reaction_rows, "BYTES_MAX", 250)
    before = master.shared.log.last_index
    send(pair, "q", *numbered(*range(1, 1 + targets)), group_ids=["g"] * targets)
    pair.quiesce()
    assert payloads(master, "q") == [b"x" * 100] * targets
    log = master.shared.log
    moved = [log.header_at(at).txn.enqueues for at in range(before + 1, log.last_index + 1)]
    assert max(op.count for ops in moved for op in ops) == 1
    assert sum(len(ops) for ops in moved) == targets
    monkeypatch.setattr(reaction_rows, "BYTES_MAX", 50)
    send(pair, "q", b"stays", group_ids=["g"])
    pair.quiesce()
    assert payloads(master, "q")[-1] == b"stays"
