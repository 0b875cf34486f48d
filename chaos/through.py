"""Counts what came of messages that somebody carries from one queue to another; it never talks to either.

The carrier puts each message into the second queue and settles it in the first: at least once, in an order of its own.
So what is sent has an index in one queue and what arrives has one in the other, and they are not compared.
"""

from __future__ import annotations

from typing import NamedTuple

from chaos import checker
from chaos.checker import Check
from chaos.history import FAIL, History, Message

# What a history of two queues proves. The others compare indexes, or want that nobody else is at work.
CHECKS: tuple[Check, ...] = (
    checker.one_owner_per_epoch,
    checker.epochs_never_fall,
    checker.two_masters_never_serve,
    checker.nothing_acknowledged_is_lost,
    checker.order_is_real,
    checker.one_copy_is_recorded_first,
    checker.only_good_copies_serve,
    checker.a_handoff_has_one_outcome,
    checker.settled_stays_settled,
    checker.clients_never_see_an_older_epoch,
    checker.it_ends_whole,
)


class Carried(NamedTuple):
    """The figures."""

    acknowledged: int
    arrived: int
    lost: int  # acknowledged in the first queue, never in the second
    doubled: int  # more than once in the second
    unexpected: int  # in the second, and never sent or certainly refused
    redelivered: int  # given again from the second because it was not settled


def take(history: History) -> Carried:
    """Of a run that was drained."""
    places: dict[Message, set[int]] = {}
    for delivery in history.delivered:
        places.setdefault(delivery.message, set()).add(delivery.index)
    acknowledged = {ack.message for ack in history.acked}
    sent = [operation for operation in history.operations if operation.verb == "enqueue"]
    possible = {message for operation in sent if operation.outcome != FAIL for message in operation.messages}
    copies = sum(len(each) for each in places.values())
    return Carried(
        acknowledged=len(acknowledged),
        arrived=len(places),
        lost=len(acknowledged - places.keys() - {*history.left}),
        doubled=copies - len(places),
        unexpected=len(places.keys() - possible),
        redelivered=len(history.delivered) - copies,
    )
