"""Plants what no right pair writes in evidence of a real run: each fault at a message, and where an audit must name it.

`at` is a message of `evidence.places`: sent, leased, received and acknowledged once, and so are the next ones.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from bench.audit.evidence import Evidence, Facts
from chaos.journals import (
    ACK_LOST,
    AFTER_DELETION,
    BEFORE_ENTERED,
    BODY_CHANGED,
    BODY_NOT_SENT,
    COPIES_DIFFER,
    DUPLICATE,
    EPOCH_NOT_FENCED,
    GAP,
    ID_OF_OTHER,
    INDEX_TWICE,
    KIND_UNKNOWN,
    LEASE_BITS,
    LEASE_ENDED,
    LEASE_UNKNOWN,
    LEASED_AFTER_END,
    LEASED_TWICE,
    LOST,
    MEMBER_ABSENT,
    NEVER_ENTERED,
    NOTHING,
    QUEUE_DELETED,
    RECEIVED_LOST,
    RECORD_MISSING,
    SENT_BY_OTHER,
    SETTLE_LOST,
    SETTLED_TWICE,
    SETTLED_UNLEASED,
    TAIL_CUT,
    TIME_BACKWARDS,
    Violation,
)

DAY = timedelta(days=1)
BEYOND = 100_000
"""An index that no message of a run has."""
STRANGE_QUEUE = 999_999
"""An id that no queue of a run has."""


class Named(NamedTuple):
    """What an audit must say."""

    kind: str
    index: int | None = None
    log_index: int | None = None
    member: str | None = None

    def is_in(self, each: Violation) -> bool:
        """Whether this violation says it."""
        first = each.index or 0
        return (
            each.kind == self.kind
            and (self.index is None or first <= self.index < first + (each.count or 1))
            and (self.log_index is None or each.log_index == self.log_index)
            and (self.member is None or each.member == self.member)
        )


Plant = Callable[[Evidence, int], list[Named]]
FAULTS: dict[str, Plant] = {}
ALONE: set[str] = set()
"""Of a whole journal, or of what a name means: beside others they are another fault."""


def fault(plant: Plant) -> Plant:
    """One of the table; its name is the function's."""
    FAULTS[plant.__name__.replace("_", " ")] = plant
    return plant


def lease_id_of(epoch: int, log_index: int) -> int:
    """The lease that the record gave."""
    return epoch << LEASE_BITS | log_index


def late(row: Facts) -> Facts:
    """When and where a record is, for a row that is added to it."""
    return {name: row[name] for name in ("log_index", "epoch", "time")}


# -- what is stored ----------------------------------------------------------------------------------------------------


@fault
def message_gone_at_both(run: Evidence, at: int) -> list[Named]:
    run.drop(run.of("ENQUEUED", at))
    return [Named(LOST, at), Named(GAP, at), Named(NEVER_ENTERED, at), Named(RECEIVED_LOST, at), Named(ACK_LOST, at)]


@fault
def message_gone_at_one(run: Evidence, at: int) -> list[Named]:
    run.drop(run.of("ENQUEUED", at, run.members[1:]))
    return [Named(COPIES_DIFFER, at), Named(GAP, at, member=run.members[1])]


@fault
def message_of_which_nobody_tells_gone(run: Evidence, at: int) -> list[Named]:
    for kind in ("ENQUEUED", "LEASED", "ACKED"):
        run.drop(run.single(kind, at))
    run.told = [each for each in run.told if each["index"] != at]
    return [Named(GAP, at)]


@fault
def message_stored_twice(run: Evidence, at: int) -> list[Named]:
    first = run.of("ENQUEUED", at)[0]
    for row in run.of("ENQUEUED", at + 1):
        row.update({name: first[name] for name in ("producer", "sequence", "payload")})
    return [Named(DUPLICATE, at + 1)]


@fault
def index_given_twice_at_both(run: Evidence, at: int) -> list[Named]:
    run.add(run.of("ENQUEUED", at))
    return [Named(INDEX_TWICE, at)]


@fault
def row_doubled_at_one(run: Evidence, at: int) -> list[Named]:
    run.add(run.of("ENQUEUED", at, run.members[1:]))
    return [Named(COPIES_DIFFER, at), Named(INDEX_TWICE, at)]


@fault
def ids_swapped_at_one(run: Evidence, at: int) -> list[Named]:
    (one,), (other,) = (run.of("ENQUEUED", index, run.members[1:]) for index in (at, at + 1))
    one["id"], other["id"] = other["id"], one["id"]
    return [Named(COPIES_DIFFER, at), Named(COPIES_DIFFER, at + 1)]


@fault
def other_sequence_at_one(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at, run.members[1:]):
        row["sequence"] += 77_777
    return [Named(COPIES_DIFFER, at)]


@fault
def other_queue_at_one(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at, run.members[1:]):
        row["queue_id"] += 1
    return [Named(COPIES_DIFFER, at)]


@fault
def other_producer_at_both(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at):
        row["producer"] = b"a stranger"
    return [Named(SENT_BY_OTHER, at)]


@fault
def other_sequence_at_both(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at):
        row["sequence"] += 77_777
    return [Named(SENT_BY_OTHER, at)]


@fault
def id_of_another_record(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at):
        row["id"] = row["id"][:8] + (row["log_index"] + 1).to_bytes(6, "big") + row["id"][14:]
    return [Named(ID_OF_OTHER, at)]


# -- bodies ------------------------------------------------------------------------------------------------------------


@fault
def other_body_at_one(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at, run.members[1:]):
        row["payload"] += b"!"
    return [Named(COPIES_DIFFER, at), Named(BODY_NOT_SENT, at)]


@fault
def no_body_at_one(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at, run.members[1:]):
        row["payload"] = None
    return [Named(COPIES_DIFFER, at)]


@fault
def other_body_at_both(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at):
        row["payload"] += b"!"
    return [Named(BODY_NOT_SENT, at)]


@fault
def empty_body_at_both(run: Evidence, at: int) -> list[Named]:
    for row in run.of("ENQUEUED", at):
        row["payload"] = b""
    return [Named(BODY_NOT_SENT, at)]


@fault
def bodies_swapped_at_both(run: Evidence, at: int) -> list[Named]:
    for one, other in zip(run.of("ENQUEUED", at), run.of("ENQUEUED", at + 1), strict=True):
        one["payload"], other["payload"] = other["payload"], one["payload"]
    return [Named(BODY_NOT_SENT, at), Named(BODY_NOT_SENT, at + 1)]


@fault
def other_body_received(run: Evidence, at: int) -> list[Named]:
    for each in run.told_of("recv", at):
        each["payload_crc32"] ^= 1
    return [Named(BODY_CHANGED, at)]


# -- records -----------------------------------------------------------------------------------------------------------


@fault
def record_of_nothing_gone_at_both(run: Evidence, at: int) -> list[Named]:
    """Nothing refers to it. `at`: the place is chosen so that the next fault has another one."""
    known = sorted({row["log_index"] for row in run.every() if row["kind"] == NOTHING})
    gone = known[at % len(known)]
    run.drop([row for row in run.every() if row["log_index"] == gone])
    return [Named(RECORD_MISSING, log_index=gone, member=member) for member in run.members]


@fault
def record_gone_at_one(run: Evidence, at: int) -> list[Named]:
    gone = run.of("ENQUEUED", at)[0]["log_index"]
    run.drop([row for row in run.every(run.members[1:]) if row["log_index"] == gone])
    return [Named(RECORD_MISSING, log_index=gone, member=run.members[1]), Named(COPIES_DIFFER, at)]


@fault
def record_of_a_lease_gone_at_both(run: Evidence, at: int) -> list[Named]:
    gone = run.of("LEASED", at)[0]["log_index"]
    run.drop([row for row in run.every() if row["log_index"] == gone])
    missing = [Named(RECORD_MISSING, log_index=gone, member=member) for member in run.members]
    return [*missing, Named(SETTLED_UNLEASED, at)]


@fault
def epoch_back(run: Evidence, at: int) -> list[Named]:
    record = run.single("ACKED", at)[0]["log_index"]
    for row in run.every():
        if row["log_index"] == record:
            row["epoch"] = 1
    return [Named(EPOCH_NOT_FENCED, log_index=record)]


@fault
def time_back_at_both(run: Evidence, at: int) -> list[Named]:
    record = run.of("ENQUEUED", at)[0]["log_index"]
    for row in run.every():
        if row["log_index"] == record:
            row["time"] -= DAY
    return [Named(TIME_BACKWARDS, log_index=record, member=member) for member in run.members]


@fault
def time_back_at_one(run: Evidence, at: int) -> list[Named]:
    record = run.of("ENQUEUED", at)[0]["log_index"]
    for row in run.every(run.members[1:]):
        if row["log_index"] == record:
            row["time"] -= DAY
    return [Named(TIME_BACKWARDS, log_index=record, member=run.members[1]), Named(COPIES_DIFFER, at)]


@fault
def tail_of_a_queue_cut(run: Evidence, at: int) -> list[Named]:  # noqa: ARG001 - of the queue, not of a message
    found = []
    for member, heads in run.heads.items():
        for head in heads:
            if head["queue"] == run.queue:
                found.append(Named(TAIL_CUT, head["next_index"], member=member))
                head["next_index"] += 3
    return found


@fault
def tail_of_records_cut(run: Evidence, at: int) -> list[Named]:  # noqa: ARG001 - as above
    found = []
    for member, heads in run.heads.items():
        end = run.spans[member].end.log_index
        found.append(Named(TAIL_CUT, log_index=end, member=member))
        for head in heads:
            head["next_log_index"] = end + 5
    return found


@fault
def member_absent(run: Evidence, at: int) -> list[Named]:  # noqa: ARG001 - as above
    run.rows[run.members[1]].clear()
    return [Named(MEMBER_ABSENT, member=run.members[1])]


# -- lives -------------------------------------------------------------------------------------------------------------


@fault
def acknowledged_twice(run: Evidence, at: int) -> list[Named]:
    run.add(run.single("ACKED", at), **late(run.last()))
    return [Named(SETTLED_TWICE, at)]


@fault
def rejected_and_acknowledged(run: Evidence, at: int) -> list[Named]:
    run.add(run.single("ACKED", at), kind="REJECTED")
    return [Named(SETTLED_TWICE, at)]


@fault
def expired_and_acknowledged(run: Evidence, at: int) -> list[Named]:
    run.add(run.single("ACKED", at), kind="EXPIRED", lease_id=0)
    return [Named(SETTLED_TWICE, at)]


@fault
def acknowledgement_gone(run: Evidence, at: int) -> list[Named]:
    run.drop(run.single("ACKED", at))
    return [Named(SETTLE_LOST, at)]


@fault
def acknowledgement_became_a_release(run: Evidence, at: int) -> list[Named]:
    for row in run.single("ACKED", at):
        row["kind"] = "RELEASED"
    return [Named(SETTLE_LOST, at)]


@fault
def acknowledgement_of_one_more(run: Evidence, at: int) -> list[Named]:
    run.single("ACKED", at + 1)
    for row in run.single("ACKED", at):
        row["count"] = 2
    return [Named(SETTLED_TWICE, at + 1)]


@fault
def never_stored(run: Evidence, at: int) -> list[Named]:
    end = run.last()
    lease_id = lease_id_of(end["epoch"], end["log_index"])
    beyond = {"index": BEYOND + at, "count": 3, "lease_id": lease_id, **late(end)}
    for kind in ("LEASED", "ACKED"):
        run.add(run.single(kind, at), **beyond)
    return [Named(NEVER_ENTERED, BEYOND + at)]


@fault
def acknowledged_before_it_was_stored(run: Evidence, at: int) -> list[Named]:
    stored = run.of("ENQUEUED", at)[0]
    before = max((row for row in run.every() if row["log_index"] < stored["log_index"]), key=_log_index)
    for row in run.single("ACKED", at):
        row.update(late(before))
    return [Named(BEFORE_ENTERED, at)]


@fault
def leased_before_it_was_stored(run: Evidence, at: int) -> list[Named]:
    stored = run.of("ENQUEUED", at)[0]
    before = max((row for row in run.every() if row["log_index"] < stored["log_index"]), key=_log_index)
    for row in run.single("LEASED", at):
        row.update(late(before))
    return [Named(BEFORE_ENTERED, at)]


def _log_index(row: Facts) -> int:
    number: int = row["log_index"]
    return number


@fault
def leased_to_two(run: Evidence, at: int) -> list[Named]:
    acked = run.of("ACKED", at)[0]
    again = lease_id_of(acked["epoch"], acked["log_index"])
    run.add(run.single("LEASED", at), lease_id=again, **late(acked))
    return [Named(LEASED_TWICE, at)]


@fault
def leased_after_it_left(run: Evidence, at: int) -> list[Named]:
    end = run.last()
    again = lease_id_of(end["epoch"], end["log_index"])
    run.add(run.single("LEASED", at), lease_id=again, **late(end))
    return [Named(LEASED_AFTER_END, at)]


@fault
def lease_gone(run: Evidence, at: int) -> list[Named]:
    run.drop(run.single("LEASED", at))
    return [Named(SETTLED_UNLEASED, at)]


@fault
def lease_of_another_record(run: Evidence, at: int) -> list[Named]:
    stored = run.of("ENQUEUED", at)[0]
    for row in run.single("ACKED", at):
        row["lease_id"] = lease_id_of(stored["epoch"], stored["log_index"])
    return [Named(SETTLED_UNLEASED, at)]


@fault
def lease_of_later(run: Evidence, at: int) -> list[Named]:
    for row in run.single("ACKED", at):
        row["lease_id"] = lease_id_of(row["epoch"], row["log_index"] + 5)
    return [Named(SETTLED_UNLEASED, at)]


@fault
def row_of_an_unknown_kind(run: Evidence, at: int) -> list[Named]:
    acked = run.of("ACKED", at)[0]
    run.add(run.single("ACKED", at), kind="FORGOTTEN", lease_id=0)
    return [Named(KIND_UNKNOWN, log_index=acked["log_index"])]


@fault
def row_after_its_queue_was_deleted(run: Evidence, at: int) -> list[Named]:
    stored, acked = run.of("ENQUEUED", at)[0], run.of("ACKED", at)[0]
    plain = {"queue": None, "queue_id": STRANGE_QUEUE, "index": 0, "count": 0, "lease_id": 0}
    acks = run.single("ACKED", at)
    run.add(acks, **{**plain, "kind": "CONFIGURED"})
    run.add(acks, **{**plain, "kind": QUEUE_DELETED, **late(stored)})
    return [Named(AFTER_DELETION, log_index=acked["log_index"])]


@fault
def end_of_a_lease_that_was_never_given(run: Evidence, at: int) -> list[Named]:
    stored, acked = run.of("ENQUEUED", at)[0], run.of("ACKED", at)[0]
    lease_id = lease_id_of(stored["epoch"], stored["log_index"])
    none = {"queue": None, "queue_id": 0, "index": 0, "count": 0}
    run.add(run.single("ACKED", at), kind=LEASE_ENDED, lease_id=lease_id, **none)
    return [Named(LEASE_UNKNOWN, log_index=acked["log_index"])]


@fault
def lease_gone_at_one(run: Evidence, at: int) -> list[Named]:
    run.drop(run.single("LEASED", at, run.members[1:]))
    return [Named(COPIES_DIFFER, at)]


@fault
def lease_of_more_at_one(run: Evidence, at: int) -> list[Named]:
    run.single("LEASED", at + 1)
    for row in run.single("LEASED", at, run.members[1:]):
        row["count"] = 2
    return [Named(COPIES_DIFFER, at)]


@fault
def lease_doubled_at_one(run: Evidence, at: int) -> list[Named]:
    run.add(run.single("LEASED", at, run.members[1:]))
    return [Named(COPIES_DIFFER, at)]


ALONE.update({"member absent", "other queue at one"})
