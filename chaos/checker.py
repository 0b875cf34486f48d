"""Decides from a history which promises of the pair were broken; it never talks to a pair.

One function for each invariant of the protocol that can be seen by a user (docs/GUARANTEES.md says which cannot); it
returns what breaks it, a sentence each, and nothing when it holds. What was never seen breaks nothing: a checker proves
faults, not their absence, and each has a test that plants one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from chaos.history import Acked, Delivered, History, Message

READ_BOUND_S = 0.6  # for so long a master that was cut off may read out what it knows: the suspect time
FINDINGS_MAX = 10  # of one invariant; the first is what people look at
GOOD = ("IN_SYNC", "SOLE")

Check = Callable[[History], Iterator[str]]


def one_owner_per_epoch(history: History) -> Iterator[str]:
    """Invariant 1: an epoch number belongs to one member, and two masters of one epoch there never are."""
    owners: dict[int, dict[str, str]] = {}
    for answer in history.answered:
        owners.setdefault(answer.epoch, {})[answer.member] = "answered"
    for seen in history.seen:
        if seen.role == "MASTER":
            owners.setdefault(seen.epoch, {})[seen.member] = "said that it is master"
    for record in history.recorded:
        if record.committed:
            owners.setdefault(record.epoch, {})[record.holder] = "is in the register"
    for epoch, names in owners.items():
        if len(names) > 1:
            yield f"epoch {epoch} has {len(names)} owners: " + ", ".join(f"{name} {how}" for name, how in names.items())


def epochs_never_fall(history: History) -> Iterator[str]:
    """Invariant 1: what a member has as its epoch never decreases, over its restarts neither, while it has its disk."""
    last: dict[tuple[str, str], int] = {}
    for seen in history.seen:
        store = (seen.member, seen.disk)
        if seen.epoch < last.get(store, 0):
            yield f"{seen.member} was in epoch {last[store]} and then in {seen.epoch}, at {seen.at_s:.3f} s"
        last[store] = max(seen.epoch, last.get(store, 0))


def two_masters_never_serve(history: History) -> Iterator[str]:
    """Invariant 3: once an epoch has had an effect, nothing that is asked later is answered in an older one."""
    effects = sorted(
        [(ack.at_s, ack.epoch, ack.asked_s, 0.0) for ack in history.acked]
        + [(answer.at_s, answer.epoch, answer.asked_s, READ_BOUND_S) for answer in history.answered]
    )
    first_at_s: dict[int, float] = {}
    for at_s, epoch, _, _ in effects:
        first_at_s.setdefault(epoch, at_s)
    for _, epoch, asked_s, bound_s in effects:
        newer = [other for other, at_s in first_at_s.items() if other > epoch and at_s + bound_s < asked_s]
        if newer:
            yield f"asked at {asked_s:.3f} s and answered in epoch {epoch}, when epoch {max(newer)} had served already"


def one_message_an_index(history: History) -> Iterator[str]:
    """Invariant 4: an index names one message and a message has one index, in whatever answer or delivery."""
    message_at: dict[int, Message] = {}
    index_of: dict[Message, int] = {}
    events: list[Acked | Delivered] = [*history.acked, *history.delivered]
    for event in events:
        other = message_at.setdefault(event.index, event.message)
        if other != event.message:
            yield f"index {event.index} names {other} and {event.message}"
        first = index_of.setdefault(event.message, event.index)
        if first != event.index:
            yield f"{event.message} is at {first} and at {event.index}: it was stored twice"


def indexes_are_dense(history: History) -> Iterator[str]:
    """Invariant 4: from 1 on, none is left out. To be asked when the queue was drained."""
    if history.left:
        return
    given = {delivery.index for delivery in history.delivered}
    missing = set(range(1, max(given, default=0) + 1)) - given
    if missing:
        yield f"{len(missing)} indexes were never delivered, the first is {min(missing)}"


def nothing_acknowledged_is_lost(history: History) -> Iterator[str]:
    """Invariant 5: what was acknowledged was delivered, or is still there."""
    there = {delivery.message for delivery in history.delivered} | {*history.left}
    for ack in history.acked:
        if ack.message not in there:
            yield f"{ack.message}, acknowledged at index {ack.index} with {ack.copies} copies, is gone"


def order_is_real(history: History) -> Iterator[str]:
    """Invariant 6: what is sent after another was acknowledged has the higher index; each producer's order is kept."""
    by_answer = sorted(history.acked, key=lambda ack: ack.at_s)
    place, highest = 0, 0
    for ack in sorted(history.acked, key=lambda ack: ack.asked_s):
        while place < len(by_answer) and by_answer[place].at_s < ack.asked_s:
            highest = max(highest, by_answer[place].index)
            place += 1
        if ack.index < highest:
            yield f"{ack.message} got index {ack.index} although {highest} had been acknowledged before it was sent"
    for before, after in _of_each_producer(history.acked):
        if after.index < before.index:
            yield f"{after.message} is at {after.index}, before {before.message} at {before.index}"


def first_deliveries_are_in_order(history: History) -> Iterator[str]:
    """Invariant 6: first deliveries come in index order; what an ended lease brings again may come later.

    Each consumer apart: what two of them are given travels at different speed.
    """
    highest: dict[str, int] = {}
    known: set[int] = set()
    for delivery in history.delivered:
        before = highest.get(delivery.consumer, 0)
        if delivery.index not in known and delivery.delivery_count <= 1 and delivery.index < before:
            yield f"{delivery.message} at index {delivery.index} was first delivered after index {before}"
        known.add(delivery.index)
        highest[delivery.consumer] = max(before, delivery.index)


def one_copy_is_recorded_first(history: History) -> Iterator[str]:
    """Invariants 7, 8: an answer with one copy follows a recorded solo epoch, its message's own or a later one."""
    alone = {record.epoch for record in history.recorded if record.committed and len(record.in_sync) == 1}
    versions = {record.version for record in history.recorded}
    if not versions or len(versions) <= max(versions) - min(versions):
        return  # some record was not seen, and may be the one
    for ack in history.acked:
        if ack.copies != 1:
            continue
        solo = min((epoch for epoch in alone if epoch >= ack.epoch), default=0)
        if not solo:
            yield f"{ack.message} was acknowledged on one copy in epoch {ack.epoch}, and nobody was alone"
        late = [record for record in history.recorded if record.asked_s > ack.at_s and record.epoch < solo]
        if late:
            yield f"{ack.message} was acknowledged on one copy while the register still said epoch {late[0].epoch}"


def only_good_copies_serve(history: History) -> Iterator[str]:
    """Invariant 9: a master's copy is IN_SYNC or SOLE."""
    for seen in history.seen:
        if seen.role == "MASTER" and seen.data not in GOOD:
            yield f"{seen.member} served as master of epoch {seen.epoch} on a copy that is {seen.data}"


def nothing_stays_held(history: History) -> Iterator[str]:
    """Invariant 10: no request is parked or held when all is quiet, and no replica is ahead of its master."""
    last = history.last_seen().values()
    for seen in last:
        if seen.parked:
            yield f"{seen.member} still holds {seen.parked} requests"
    masters = [seen for seen in last if seen.role == "MASTER"]
    for seen in last:
        if seen.role == "REPLICA" and masters and seen.log_index > masters[0].log_index:
            yield f"replica {seen.member} is at {seen.log_index}, its master at {masters[0].log_index}"


def a_handoff_has_one_outcome(history: History) -> Iterator[str]:
    """Invariant 11: an order has one outcome, and one that was done made one member master of a new epoch."""
    outcomes: dict[str, set[tuple[bool, str, int]]] = {}
    for handed in history.handed:
        if handed.handoff_id:
            outcomes.setdefault(handed.handoff_id, set()).add((handed.done, handed.master, handed.epoch))
        if not handed.done and not handed.reasons:
            yield f"a handoff at {handed.at_s:.3f} s was refused without a reason"
    for name, found in outcomes.items():
        if len(found) > 1:
            yield f"handoff {name} has {len(found)} outcomes: {sorted(found)}"
    for handed in history.handed:
        wrong = [a for a in history.answered if handed.done and a.epoch == handed.epoch and a.member != handed.master]
        if wrong:
            yield f"epoch {handed.epoch} was handed to {handed.master}, and {wrong[0].member} answered in it"


def copies_end_equal(history: History) -> Iterator[str]:
    """Invariant 13: members that say that they are in sync hold the same log and the same queues, when all is quiet."""
    last = [seen for seen in history.last_seen().values() if seen.data in GOOD]
    for name in ("log_index", "digest", "state_digest"):
        values = {getattr(seen, name) for seen in last} - {""}  # of a state that is large it may be left out
        if len(values) > 1:
            yield f"the copies differ in {name}: {', '.join(f'{seen.member} {getattr(seen, name)}' for seen in last)}"


def settled_stays_settled(history: History) -> Iterator[str]:
    """Invariant 15: a message is settled once, and not delivered again after that was confirmed."""
    settled_s: dict[int, float] = {}
    for settled in history.settled:
        if settled.index in settled_s:
            yield f"index {settled.index} was settled twice"
        settled_s.setdefault(settled.index, settled.at_s)
    for delivery in history.delivered:
        if settled_s.get(delivery.index, delivery.at_s) < delivery.at_s:
            yield f"{delivery.message} was delivered at {delivery.at_s:.3f} s, after it was settled"


def clients_never_see_an_older_epoch(history: History) -> Iterator[str]:
    """Invariant 16: a producer's later message is never answered in an older epoch.

    In the order of its messages: the answer to a repetition names the epoch in which the message was ordered first, and
    may come a moment after the answer to the next one.
    """
    for before, after in _of_each_producer(history.acked):
        if after.epoch < before.epoch:
            yield f"{after.message} was answered in epoch {after.epoch}, {before.message} in {before.epoch}"


def it_ends_whole(history: History) -> Iterator[str]:
    """Invariant 18: with the faults healed there are a master and replicas in sync again. To be asked at the end."""
    last = history.last_seen()
    roles = sorted(seen.role for seen in last.values())
    if roles != sorted(["MASTER"] + ["REPLICA"] * (len(last) - 1)) or any(s.data != "IN_SYNC" for s in last.values()):
        yield "not whole at the end: " + ", ".join(f"{s.member} {s.role} {s.data}" for s in last.values())


CHECKS: tuple[Check, ...] = (
    one_owner_per_epoch,
    epochs_never_fall,
    two_masters_never_serve,
    one_message_an_index,
    indexes_are_dense,
    nothing_acknowledged_is_lost,
    order_is_real,
    first_deliveries_are_in_order,
    one_copy_is_recorded_first,
    only_good_copies_serve,
    nothing_stays_held,
    a_handoff_has_one_outcome,
    copies_end_equal,
    settled_stays_settled,
    clients_never_see_an_older_epoch,
    it_ends_whole,
)
# Those that hold only while nobody else uses the pair.
OF_A_QUIET_PAIR = (copies_end_equal, nothing_stays_held)


def broken(history: History, checks: Iterable[Check] = CHECKS) -> dict[str, list[str]]:
    """What each broken invariant says, by the name of its check; empty when all hold."""
    found = {
        check.__name__: [line for line, _ in zip(check(history), range(FINDINGS_MAX), strict=False)] for check in checks
    }
    return {name: lines for name, lines in found.items() if lines}


def _of_each_producer(acked: Iterable[Acked]) -> Iterator[tuple[Acked, Acked]]:
    """Neighbours by number."""
    by_message = sorted(acked, key=lambda ack: ack.message)
    return ((one, other) for one, other in pairwise(by_message) if one.message.producer == other.message.producer)
