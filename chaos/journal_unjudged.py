"""Decides what an audit must say that it did not judge, and why, out of what it saw; both audits say it with this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from chaos.journals import MEMBERS_MAX, Span


class Seen(NamedTuple):
    """What there was to judge."""

    spans: Mapping[str, Span]
    records: Mapping[str, int]
    """By member, those that have a row."""
    asked: Mapping[str, int]
    """Rows of the client history, by operation."""
    answered: Mapping[str, int]
    """Those of them that are ok and have an index; of equal ones the first."""
    doubled: int
    """Rows of the client history that are there already."""
    early: int
    """Messages that came, or were acknowledged, before they were sent, by the clocks of who reported it."""
    apart_ns: int
    """By how much at most."""
    strange: int
    """Messages that were sent, and are in no journal as their client sent them."""
    unordered: int
    """Messages that were received with a priority that is not known."""
    unstored: int
    """Settlements under leases whose record went with their master."""
    trimmed: int
    """Settlements under leases of before the journal."""
    whole_domain: bool
    absent: Collection[str]
    heads: bool
    ends: bool
    every_record_from: Mapping[str, int]
    """By member, from where on each record has a row."""
    at_sides: int = 0
    """Messages that sides of queues gave, or had settled."""


def lines_of(seen: Seen) -> list[str]:
    """A sentence each."""
    return [*_of_journals(seen), *_of_clients(seen)]


def _of_journals(seen: Seen) -> list[str]:
    found = []
    if len(seen.spans) < MEMBERS_MAX:
        found.append("The copies were not compared: there is the journal of one member only.")
    found += [f"The copies were not compared: nothing of member {member} is there." for member in sorted(seen.absent)]
    for member, span in seen.spans.items():
        if span.first > 1:
            found.append(
                f"Nothing is said of records before {span.first:,} of member {member}: its journal begins there."
            )
        found += _of_records(seen, member, span)
    if not seen.heads:
        found.append("Tails were not judged: no member has said where it stands.")
    elif not seen.ends:
        found.append(
            "The tail of settlements was not judged: it is not known up to which record the journals were read."
        )
    if not seen.whole_domain:
        found.append(
            "Messages leased to two at once were not judged: rows of leases that end are of no queue, and left out."
        )
    if seen.unstored:
        text = "they left before it was durable, and their master was lost. That is no fault"
        found.append(f"{seen.unstored:,} settlements are of deliveries whose lease is in no journal: {text}.")
    if seen.trimmed:
        found.append(f"{seen.trimmed:,} settlements were not judged: their leases are of before the journal.")
    return found


def _of_records(seen: Seen, member: str, span: Span) -> list[str]:
    if member in seen.absent:
        return []
    every = seen.every_record_from.get(member)
    if every is not None and every > span.first:
        text = "they were read without those that give no row"
        return [
            f"Records of member {member} before {every:,} that are missing at both members were not judged: {text}."
        ]
    rowless = span.next - span.first - seen.records.get(member, 0)
    if every is None and rowless:
        text = "the journal was not asked to tell those that give none from those that are missing at both members"
        return [f"{rowless:,} records of member {member} have no row: {text}."]
    return []


def _of_clients(seen: Seen) -> list[str]:
    if not seen.asked and not seen.at_sides:
        return ["Lost messages and what clients received were not judged: there is no client history."]
    found = []
    names = {"send": "sent, so nothing of lost or unsent messages was", "recv": "received, so no delivery was"}
    names["ack"] = "acknowledged, so no lost acknowledgement was"
    for op, text in names.items():
        if not seen.asked.get(op):
            found.append(f"The client history has no message that was {text} judged.")
    if 0 < seen.answered.get("send", 0) <= seen.strange:
        found.append("No message is in the journals as its client sent it: is the client history of another run?")
    if 0 < seen.answered.get("recv", 0) < seen.answered.get("ack", 0):
        text = f"{seen.answered['recv']:,} deliveries and {seen.answered['ack']:,} acknowledgements"
        found.append(f"The client history has {text}: rows of what was received are missing, and were not judged.")
    if seen.doubled:
        found.append(f"{seen.doubled:,} rows of the client history are there twice: they were taken once.")
    if seen.early:
        text = "clocks of clients differ, and what is judged by time may accuse what is right"
        found.append(f"{seen.early:,} messages came up to {seen.apart_ns / 1e9:,.3f} s before they were sent: {text}.")
    if seen.at_sides:
        text = "each member's own domain has them, and no journal of the pair"
        found.append(
            f"{seen.at_sides:,} deliveries and acknowledgements at sides of PRODUCER queues were not judged: {text}."
        )
    if seen.unordered:
        text = "the history tells no priority of them, or their order depends on more than it"
        found.append(f"The order of {seen.unordered:,} deliveries was not judged: {text}.")
    return found
