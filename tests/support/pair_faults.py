"""Plants what no right pair writes in a small run: one fault each, and as what both audits must name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chaos.journals import LEASE_BITS, Row
from tests.support.pair_histories import APART, MEMBERS, Run, change, message_id, usual


def first_of(run: Run, kind: str, index: int, member: str = "b") -> int:
    return next(at for at, row in enumerate(run.rows) if (row.kind, row.index, row.member) == (kind, index, member))


def without_at_both(run: Run, kind: str, index: int) -> None:
    log_index = run.rows[first_of(run, kind, index)].log_index
    run.rows = [row for row in run.rows if (row.log_index, row.kind, row.index) != (log_index, kind, index)]


def lost(run: Run) -> None:
    without_at_both(run, "ENQUEUED", 20)


def duplicate(run: Run) -> None:
    """The last record stores what an early one has stored."""
    for member in ("a", "b"):
        row = run.rows[first_of(run, "ENQUEUED", 3, member)]
        last = run.rows[first_of(run, "ENQUEUED", 40, member)]
        again = message_id(last.epoch, last.log_index, 99)
        run.rows.append(
            replace(row, log_index=last.log_index, epoch=last.epoch, time_us=last.time_us, index=41, id=again)
        )
    run.heads = [replace(head, next_index=42) if head.next_index == 41 else head for head in run.heads]


def index_twice(run: Run) -> None:
    run.rows.append(run.rows[first_of(run, "ENQUEUED", 7)])


def ghost(run: Run) -> None:
    run.asked = [replace(asked, outcome="fail") if asked.outcome == "unknown" else asked for asked in run.asked]


def unsent(run: Run) -> None:
    run.asked = [asked for asked in run.asked if not (asked.op == "send" and asked.index == 4)]


def settled_twice(run: Run) -> None:
    run.ack(1, 5, 1)


def settle_lost(run: Run) -> None:
    without_at_both(run, "ACKED", 1)


def hole_at_b(run: Run) -> None:
    del run.rows[first_of(run, "ENQUEUED", 5)]


def swapped_at_b(run: Run) -> None:
    one, other = first_of(run, "ENQUEUED", 5), first_of(run, "ENQUEUED", 6)
    run.rows[one], run.rows[other] = (
        replace(run.rows[one], id=run.rows[other].id),
        replace(run.rows[other], id=run.rows[one].id),
    )


def other_body_at_b(run: Run) -> None:
    at = first_of(run, "ENQUEUED", 5)
    run.rows[at] = replace(run.rows[at], payload=b"else")


def epoch_back(run: Run) -> None:
    run.rows = [replace(row, epoch=1) if row.kind == "EXPIRED" else row for row in run.rows]


def inversion(run: Run) -> None:
    at = next(at for at, asked in enumerate(run.asked) if asked.index == 4)
    run.asked[at] = replace(run.asked[at], invoke_ns=run.asked[-1].complete_ns or 0)


def cut_at_b(run: Run) -> None:
    end = run.rows[first_of(run, "ENQUEUED", 40)].log_index
    run.rows = [row for row in run.rows if row.member == "a" or row.log_index < end]


def cut_at_both(run: Run) -> None:
    end = run.rows[first_of(run, "ENQUEUED", 40)].log_index
    run.rows = [row for row in run.rows if row.log_index < end]


def tell_again(run: Run, op: str, at: int, **changes: Any) -> None:
    """What a client was told of a message, once more at the end."""
    asked = next(asked for asked in run.asked if (asked.op, asked.index) == (op, at))
    end = run.asked[-1].invoke_ns + 100
    run.asked.append(replace(asked, **{"invoke_ns": end, "complete_ns": end + 5, **changes}))


def read_short_at_both(run: Run) -> None:
    """The last record, which nobody was told of: as when the last stretch of a lake is gone."""
    run.ends = dict.fromkeys(MEMBERS, run.log_index)
    run.rows = [row for row in run.rows if row.log_index < run.log_index]


def received_unknown(run: Run) -> None:
    tell_again(run, "recv", 20, id=message_id(1, APART * run.place + 3, 999))


def acked_unknown(run: Run) -> None:
    tell_again(run, "ack", 20, id=message_id(1, APART * run.place + 3, 999))


def acked_beyond(run: Run) -> None:
    """Nobody told its id."""
    tell_again(run, "ack", 20, index=77)


def received_beyond(run: Run) -> None:
    tell_again(run, "recv", 20, index=77, id=None)


def received_again(run: Run) -> None:
    tell_again(run, "recv", 2)


def out_of_order(run: Run) -> None:
    """Within one delivery: 4 came when 8 was there already."""
    at = next(at for at, asked in enumerate(run.asked) if (asked.op, asked.index) == ("recv", 4))
    done = run.asked[at].complete_ns or 0
    run.asked[at] = replace(run.asked[at], invoke_ns=done + 1, complete_ns=done + 2)


def other_epoch_told(run: Run) -> None:
    at = next(at for at, asked in enumerate(run.asked) if asked.index == 6)
    run.asked[at] = replace(run.asked[at], epoch=run.epoch + 3)


def leased_twice(run: Run) -> None:
    """Nothing says that the first lease was over."""
    run.rows = [row for row in run.rows if row.kind != "LEASE_ENDED"]


def leased_after_end(run: Run) -> None:
    run.record(run.about("LEASED", 1, 5, 2, run.epoch << LEASE_BITS | run.log_index + 1))


def other_lease(run: Run) -> None:
    """The lease is of a record that gave none."""
    change(run, "ACKED", 20, lease_id=run.epoch << LEASE_BITS | run.rows[first_of(run, "EXPIRED", 1)].log_index)


def lease_of_later(run: Run) -> None:
    change(run, "ACKED", 20, lease_id=run.epoch << LEASE_BITS | run.log_index + 5)


def lease_gone(run: Run) -> None:
    without_at_both(run, "LEASED", 1)


def one_of_two_leases(run: Run) -> None:
    """It was leased again, and settled under a third one."""
    rows = [row for row in run.rows if (row.kind, row.index) == ("LEASED", 25)]
    wrong = rows[0].lease_id - 1
    run.rows = [replace(row, lease_id=wrong) if (row.kind, row.index) == ("ACKED", 25) else row for row in run.rows]


def leased_early(run: Run) -> None:
    row = run.rows[first_of(run, "ENQUEUED", 1)]
    lease = dict(run.about("LEASED", 1, 40, 1, row.epoch << LEASE_BITS | row.log_index))
    for member in MEMBERS:
        run.rows.append(Row(member, row.log_index, row.epoch, time_us=row.time_us, **lease))


def never_entered(run: Run) -> None:
    lease_id = run.epoch << LEASE_BITS | run.log_index + 1
    run.record(run.about("LEASED", 1, 50, 3, lease_id))
    run.record(run.about("ACKED", 1, 50, 3, lease_id))


def clock_back(run: Run) -> None:
    """One record, at both members."""
    change(run, "EXPIRED", 1, time_us=5)


def clock_back_at_b(run: Run) -> None:
    at = first_of(run, "EXPIRED", 1)
    run.rows[at] = replace(run.rows[at], time_us=5)


def id_of_other(run: Run) -> None:
    """Of a message that no client was told of."""
    change(run, "ENQUEUED", 30, id=message_id(1, APART * run.place + 3, 9))


def lease_of_other_record(run: Run) -> None:
    """Whoever settles says the same."""
    lease_id = run.rows[first_of(run, "LEASED", 1)].lease_id
    run.rows = [replace(row, lease_id=lease_id - 1) if row.lease_id == lease_id else row for row in run.rows]


def without_b(run: Run) -> None:
    run.rows = [row for row in run.rows if row.member == "a"]


def no_body_at_b(run: Run) -> None:
    at = first_of(run, "ENQUEUED", 5)
    run.rows[at] = replace(run.rows[at], payload=None)


def other_attributes_at_b(run: Run) -> None:
    at = first_of(run, "ENQUEUED", 5)
    run.rows[at] = replace(run.rows[at], attributes=b"text/html")


def no_attributes_at_b(run: Run) -> None:
    """Beside a body that both have."""
    at = first_of(run, "ENQUEUED", 5)
    run.rows[at] = replace(run.rows[at], attributes=None)


def range_hole_at_b(run: Run) -> None:
    del run.rows[first_of(run, "LEASED", 1)]


def other_range_at_b(run: Run) -> None:
    at = first_of(run, "LEASED", 1)
    run.rows[at] = replace(run.rows[at], count=9)


def doubled_range_at_b(run: Run) -> None:
    run.rows.append(run.rows[first_of(run, "LEASED", 1)])


def other_sequence_at_b(run: Run) -> None:
    at = first_of(run, "ENQUEUED", 5)
    run.rows[at] = replace(run.rows[at], sequence=77)


def other_body_at_both(run: Run) -> None:
    change(run, "ENQUEUED", 5, payload=b"else")


def other_body_that_nobody_was_told_of(run: Run) -> None:
    change(run, "ENQUEUED", 30, payload=b"else")


def other_body_received(run: Run) -> None:
    at = next(at for at, asked in enumerate(run.asked) if (asked.op, asked.index) == ("recv", 6))
    run.asked[at] = replace(run.asked[at], payload_crc32=77)


def other_body_received_of_one_that_nobody_was_told_of(run: Run) -> None:
    at = next(at for at, asked in enumerate(run.asked) if (asked.op, asked.index) == ("recv", 26))
    run.asked[at] = replace(run.asked[at], payload_crc32=77)


def other_producer_at_both(run: Run) -> None:
    change(run, "ENQUEUED", 7, producer=b"stranger")


def no_producer_at_both(run: Run) -> None:
    change(run, "ENQUEUED", 6, producer=None)


def other_sequence_at_both(run: Run) -> None:
    change(run, "ENQUEUED", 8, sequence=77)


def record_gone_at_both(run: Run) -> None:
    """One that did nothing to a queue: nothing refers to it."""
    run.rows = [row for row in run.rows if row.kind != "NOTHING"]


def records_gone_at_b(run: Run) -> None:
    """Two that follow each other, of which the other member has rows."""
    gone = {run.rows[first_of(run, "RELEASED", 9)].log_index + step for step in (0, 1)}
    run.rows = [row for row in run.rows if row.member == "a" or row.log_index not in gone]


def rejected_and_acked(run: Run) -> None:
    row = run.rows[first_of(run, "REJECTED", 12)]
    run.record(run.about("ACKED", 1, 12, 1, row.lease_id))


def unknown_kind(run: Run) -> None:
    run.record(run.about("FORGOTTEN", 1, 3, 1))


def queue_used_after_its_end(run: Run) -> None:
    run.record(run.about("QUEUE_DELETED", 2))
    run.record(run.about("CONFIGURED", 2))


def end_of_no_lease(run: Run) -> None:
    row = run.rows[first_of(run, "ENQUEUED", 5)]
    run.record({"kind": "LEASE_ENDED", "lease_id": row.epoch << LEASE_BITS | row.log_index})


PLANTED: dict[Callable[[Run], None], set[str]] = {
    lost: {"LOST", "GAP", "NEVER_ENTERED", "RECEIVED_LOST", "ACK_LOST"},
    duplicate: {"DUPLICATE"},
    index_twice: {"INDEX_TWICE", "COPIES_DIFFER"},
    ghost: {"GHOST"},
    unsent: {"UNSENT"},
    settled_twice: {"SETTLED_TWICE", "LEASED_AFTER_END"},
    settle_lost: {"SETTLE_LOST"},
    hole_at_b: {"COPIES_DIFFER", "GAP"},
    swapped_at_b: {"COPIES_DIFFER"},
    other_body_at_b: {"COPIES_DIFFER", "BODY_NOT_SENT"},
    epoch_back: {"EPOCH_NOT_FENCED"},
    inversion: {"REAL_TIME_ORDER"},
    cut_at_b: {"COPIES_DIFFER", "TAIL_CUT"},
    cut_at_both: {"TAIL_CUT", "LOST", "SETTLE_LOST"},
    received_unknown: {"RECEIVED_LOST"},
    received_beyond: {"RECEIVED_LOST"},
    acked_unknown: {"ACK_LOST"},
    acked_beyond: {"ACK_LOST"},
    received_again: {"RECEIVED_AFTER_ACK"},
    out_of_order: {"DELIVERY_ORDER"},
    other_epoch_told: {"EPOCH_TOLD"},
    leased_twice: {"LEASED_TWICE"},
    leased_after_end: {"LEASED_AFTER_END"},
    other_lease: {"SETTLED_UNLEASED"},
    lease_of_later: {"SETTLED_UNLEASED"},
    lease_gone: {"SETTLED_UNLEASED"},
    one_of_two_leases: {"SETTLED_UNLEASED"},
    leased_early: {"BEFORE_ENTERED"},
    never_entered: {"NEVER_ENTERED"},
    clock_back: {"TIME_BACKWARDS"},
    clock_back_at_b: {"TIME_BACKWARDS", "COPIES_DIFFER"},
    id_of_other: {"ID_OF_OTHER"},
    lease_of_other_record: {"ID_OF_OTHER"},
    without_b: {"MEMBER_ABSENT"},
    read_short_at_both: {"TAIL_CUT"},
    doubled_range_at_b: {"COPIES_DIFFER"},
    other_sequence_at_b: {"COPIES_DIFFER", "SENT_BY_OTHER"},
    rejected_and_acked: {"SETTLED_TWICE"},
    no_body_at_b: {"COPIES_DIFFER"},
    other_attributes_at_b: {"COPIES_DIFFER"},
    no_attributes_at_b: {"COPIES_DIFFER"},
    range_hole_at_b: {"COPIES_DIFFER", "SETTLED_UNLEASED"},
    other_range_at_b: {"COPIES_DIFFER", "LEASED_TWICE"},
    other_body_at_both: {"BODY_NOT_SENT"},
    other_body_that_nobody_was_told_of: {"BODY_NOT_SENT"},
    other_body_received: {"BODY_CHANGED"},
    other_body_received_of_one_that_nobody_was_told_of: {"BODY_CHANGED"},
    other_producer_at_both: {"SENT_BY_OTHER"},
    no_producer_at_both: {"SENT_BY_OTHER"},
    other_sequence_at_both: {"SENT_BY_OTHER"},
    unknown_kind: {"KIND_UNKNOWN"},
    queue_used_after_its_end: {"AFTER_DELETION"},
    end_of_no_lease: {"LEASE_UNKNOWN"},
    record_gone_at_both: {"RECORD_MISSING"},
    records_gone_at_b: {"RECORD_MISSING", "COPIES_DIFFER", "SETTLED_UNLEASED"},
}
ALONE = {without_b, read_short_at_both, record_gone_at_both, records_gone_at_b}
"""Faults of a whole journal: beside other runs they are another fault."""
OF_BOTH = {
    *(lost, duplicate, ghost, unsent, settled_twice, settle_lost, epoch_back, inversion, received_unknown),
    *(received_beyond, acked_unknown, acked_beyond, received_again, out_of_order, other_epoch_told, leased_twice),
    *(leased_after_end, other_lease, lease_of_later, lease_gone, one_of_two_leases, leased_early, never_entered),
    *(
        clock_back,
        id_of_other,
        lease_of_other_record,
        rejected_and_acked,
        other_body_at_both,
        other_body_that_nobody_was_told_of,
    ),
    *(other_body_received, other_body_received_of_one_that_nobody_was_told_of),
    *(other_producer_at_both, other_sequence_at_both, no_producer_at_both),
    *(unknown_kind, queue_used_after_its_end, end_of_no_lease),
}
"""Faults of which the two journals know nothing of each other's: they stay equal."""


def planted(place: int, plant: Callable[[Run], None]) -> Run:
    run = usual(place)
    plant(run)
    return run
