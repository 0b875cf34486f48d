"""Says what an audit finds, out of what, and what it does not judge; docs/SPARK.md shows these tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chaos.journals import (
    ACK_LOST,
    AFTER_DELETION,
    BEFORE_ENTERED,
    BODY_CHANGED,
    BODY_NOT_SENT,
    COPIES_DIFFER,
    DELIVERY_ORDER,
    DUPLICATE,
    EPOCH_NOT_FENCED,
    EPOCH_TOLD,
    GAP,
    GHOST,
    ID_OF_OTHER,
    INDEX_TWICE,
    KIND_UNKNOWN,
    LEASE_UNKNOWN,
    LEASED_AFTER_END,
    LEASED_TWICE,
    LOST,
    MEMBER_ABSENT,
    NEVER_ENTERED,
    REAL_TIME_ORDER,
    RECEIVED_AFTER_ACK,
    RECEIVED_LOST,
    RECORD_MISSING,
    SENT_BY_OTHER,
    SETTLE_LOST,
    SETTLED_TWICE,
    SETTLED_UNLEASED,
    TAIL_CUT,
    TIME_BACKWARDS,
    UNSENT,
)


class Kind(NamedTuple):
    """One broken promise."""

    meaning: str
    out_of: str
    """What it is judged from."""
    not_judged: str = ""
    """What of it is left out, and why."""


JOURNALS, BOTH = "journals", "both journals"
SENT, RECEIVED, ACKED = "sent", "received", "acknowledged"
_TRIMMED = "what entered before the first record that is kept"

CHECKED = {
    LOST: Kind("a client was answered that the message is stored, and it is in no journal", SENT, _TRIMMED),
    DUPLICATE: Kind(
        "one message of one producer is stored at a second index",
        JOURNALS,
        "what a record moved or dead-lettered: it is stored again under the request that asked for it",
    ),
    INDEX_TWICE: Kind("one index of a queue was given to two rows of one member's journal", JOURNALS),
    GHOST: Kind("a client was answered that the message is certainly not stored, and it is", SENT),
    UNSENT: Kind(
        "the message is stored, and no client of that queue sent it",
        SENT,
        "queues to which no client of the history sent; messages that the pair moved by itself",
    ),
    SETTLED_TWICE: Kind("the message left the queue twice", JOURNALS),
    SETTLE_LOST: Kind(
        "a client was answered that the message is acknowledged, and no journal says so", ACKED, _TRIMMED
    ),
    COPIES_DIFFER: Kind(
        "the two members' journals differ in a row",
        BOTH,
        "a body that one member cannot show, where the message was volatile when it was read: it became persistent "
        "later (SAVED), or its queue was changed behind it (CONFIGURED). A body that neither shows",
    ),
    GAP: Kind("indexes of a queue are missing between others in a member's journal", JOURNALS),
    EPOCH_NOT_FENCED: Kind("a record of an older epoch stands after the first of a newer one", JOURNALS),
    REAL_TIME_ORDER: Kind(
        "a message has a lower index than one that was acknowledged before it was sent",
        SENT,
        "clients of two hosts: all times must be of one host's clock",
    ),
    TAIL_CUT: Kind(
        "the journal ends before the place where the member said that it ended",
        "heads",
        "the tail of settlements, where nobody says up to which record the journals were read",
    ),
    MEMBER_ABSENT: Kind("a member said which records it has, and none of them is there", "heads"),
    RECORD_MISSING: Kind(
        "a member's journal has no row of records, and it was read with a row of each",
        "journals that were read with every record",
        "records that an older version read, or that a member of an older version gave; chosen queues "
        "(`source.queues`): what names no queue is left out",
    ),
    TIME_BACKWARDS: Kind("a record has an earlier time than the one before it", JOURNALS),
    ID_OF_OTHER: Kind(
        "the id of a message names another record than the one that stores it, or a lease another than its own",
        JOURNALS,
    ),
    KIND_UNKNOWN: Kind("a row is of a kind that no journal has", JOURNALS),
    AFTER_DELETION: Kind("a record did something to a queue that an earlier one had deleted", JOURNALS),
    LEASE_UNKNOWN: Kind(
        "a lease ended that no record gave",
        JOURNALS,
        "chosen queues (`source.queues`); a lease that was trimmed, or lost with its master",
    ),
    NEVER_ENTERED: Kind("messages were leased or left the queue, and no record stored them", JOURNALS, _TRIMMED),
    BEFORE_ENTERED: Kind("a message was leased, or left the queue, before the record that stored it", JOURNALS),
    LEASED_TWICE: Kind(
        "a message was leased while another lease held it",
        JOURNALS,
        "chosen queues (`source.queues`): leases that end are of no queue. A lease that was never stored",
    ),
    LEASED_AFTER_END: Kind("a message was leased after it had left the queue", JOURNALS),
    SETTLED_UNLEASED: Kind(
        "messages were settled under a lease that never held them",
        JOURNALS,
        "a lease that left before it was durable: a master that is lost takes its record with it. It is counted",
    ),
    ACK_LOST: Kind(
        "a client was answered that the message is acknowledged, and no journal ever stored it", ACKED, _TRIMMED
    ),
    RECEIVED_LOST: Kind("a client received the message, and no journal ever stored it", RECEIVED, _TRIMMED),
    RECEIVED_AFTER_ACK: Kind(
        "a message came again after its acknowledgement was confirmed, and no lease explains it",
        f"{RECEIVED}, {ACKED}",
        "one delivery more for each epoch between its entering and its end: a lease may have been lost there",
    ),
    DELIVERY_ORDER: Kind(
        "a client first received the message after one with a higher index of the same priority",
        RECEIVED,
        "messages whose priority the history does not tell; those that were leased again or delayed; two clients, or "
        "two epochs, against each other; what one batch brought together",
    ),
    EPOCH_TOLD: Kind("a client was answered with another epoch than the one that the id of its message has", SENT),
    SENT_BY_OTHER: Kind(
        "the message is stored as one of another producer, or under another sequence, than its client sent it",
        SENT,
        "messages of which the history has no `producer` or no `sequence`",
    ),
    BODY_NOT_SENT: Kind(
        "the message is stored with another body than its client sent",
        SENT,
        "messages of which the history keeps no `payload_crc32`; volatile ones, whose body no journal shows",
    ),
    BODY_CHANGED: Kind(
        "a client received another body than was sent, or where that is not known than is stored",
        RECEIVED,
        "messages of which the history keeps no `payload_crc32`",
    ),
}
KINDS = tuple(CHECKED)
MEANING = {kind: each.meaning for kind, each in CHECKED.items()}


NOT_JUDGED = {
    "copies": "where there is the journal of one member only",
    "records before the first that is kept": "they were trimmed",
    "records that have no row": "some give none: places of readers, tables of weights, repetitions. Journals that are "
    "read with every record tell them, and so does a lake of this version; of others their number is said",
    "tails": "without heads; the tail of settlements also where nobody says how far the journals were read. "
    "`pipeline audit` takes that from the lake",
    "a lease that was never stored": "never a fault: a delivery on a stream leaves before its lease is durable, and a "
    "master that is lost then takes the lease with it. Settlements under such leases are counted",
    "lost messages, and what clients received": "without rows of clients that sent, received or acknowledged",
    "what clients received and acknowledged at the sides of a queue with PRODUCER replication": "each member's own "
    "domain has that, and no journal of the pair; both sides give everything, with lockstep SELECTED by numbers that "
    "are no indexes. What entered, and what both have passed, is judged as everywhere",
    "a body that neither member shows": "it may be that of a volatile message. Change no queue's persistence while "
    "ingest runs, or ingest again before the audit",
    "what clients say of queues that are not in the lake": "with `source.queues`",
}
"""What, and when. What of it applies to a run stands in the first lines of its report."""


def tables() -> str:
    """As docs/SPARK.md has them."""
    kinds = ((f"`{kind}`", each.meaning, each.out_of, each.not_judged or "-") for kind, each in CHECKED.items())
    first = _table(("kind", "what it means", "judged from", "what of it is not judged"), kinds)
    return f"{first}\n{_table(('what is not judged', 'when, and why'), NOT_JUDGED.items())}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"
