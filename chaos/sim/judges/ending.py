"""Judges a simulated run that has come to rest: what clients saw, what the members hold, what was lost on the way.

Checks of what clients see are those of `chaos.checker`; here are the ones that look inside, and those that
only a simulated client can know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from chaos import checker
from chaos.history import History, Message
from chaos.sim.judges import (
    departures,
    disks,
    letters,
    macro_points,
    macros,
    publications,
    rights,
    sides,
    story,
    units,
    weights,
)
from chaos.sim.judges.invariants import NUMBER, Name, name_of_lease
from chaos.sim.judges.links import LINK
from chaos.sim.pair.books import FATED, REQUESTS

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.books import Book, Lease
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from replica.core.state.shared import Shared

OF_PAIR: tuple[checker.Check, ...] = (
    checker.one_owner_per_epoch,
    checker.epochs_never_fall,
    checker.two_masters_never_serve,
    checker.one_copy_is_recorded_first,
    checker.only_good_copies_serve,
    checker.nothing_stays_held,
    checker.a_handoff_has_one_outcome,
    checker.copies_end_equal,
    checker.clients_never_see_an_older_epoch,
    checker.it_ends_whole,
)
OF_ANY_QUEUE: tuple[checker.Check, ...] = (
    checker.one_message_an_index,
    checker.order_is_real,
)
OF_QUEUE: tuple[checker.Check, ...] = (
    *OF_ANY_QUEUE,
    checker.indexes_are_dense,
    checker.nothing_acknowledged_is_lost,
)
"""Of one that keeps everything until it is settled."""

IN_ORDER = checker.first_deliveries_are_in_order.__name__
NEVER = float("inf")
BookCheck = Callable[["Book"], Iterator[str]]


def check(pair: Pair, memory: Memory) -> None:
    """Reports to the run what does not hold; of each check the first finding."""
    _report(pair, "", checker.broken(_of_pair(pair, memory), OF_PAIR))
    for book in pair.run.books:
        book.volatile -= set(made_persistent(book))
        broken = checker.broken(book.history, checks_of(book))
        if IN_ORDER in broken and not out_of_order(book, _may_be_late(pair, book)):
            del broken[IN_ORDER]
        _report(pair, book.name, broken)
        if _went_on(book):
            pair.run.sometimes("a group went on after a takeover")
        for each in OF_BOOK:
            found = next(each(book), None)
            if found is not None:
                pair.run.violation(each.__name__, f"queue {book.name}: {found}")
    if any(member.machine.salvaged for member in pair.members.values()):
        pair.run.sometimes("records kept in salvage")
    for problem in letters.broken(pair):
        pair.run.violation(letters.NAME, problem)
    for rule, problem in departures.broken(pair):
        pair.run.violation(rule, problem)
    for problem in weights.broken(pair, memory.weights):
        pair.run.violation(weights.NAME, problem)
    for rule, problem in (*macros.broken(pair), *publications.broken(pair, memory.publications)):
        pair.run.violation(rule, problem)
    for rule, problems in (
        (rights.NAME, islice(rights.broken(pair, memory.rights), 1)),
        (units.NAME, units.broken(pair, memory.units)),
        (sides.NAME, islice(sides.made(memory.sides, pair), 1)),
        (disks.NAME, disks.broken(pair, memory.invariants)),
    ):
        for problem in problems:
            pair.run.violation(rule, problem)
    strange = next(log_of(pair, memory), None)
    if strange is not None:
        pair.run.violation(LOG, strange)


LOG = "the log says the same"


def log_of(pair: Pair, memory: Memory) -> Iterator[str]:
    """What the log must have come to, against what the members hold, and against what clients were answered."""
    masters = [member for member in pair.members.values() if member.is_serving and member.domain is not None]
    for master in masters:
        assert master.domain is not None
        shared = master.domain.shared
        whole = _whole_log(pair, master, shared)
        if whole is None or shared.machine is None or shared.machine.applied_index != shared.log.last_index:
            continue
        pair.run.count("logs read")
        pair.run.count("leases ended", whole.leases_ended)
        if whole.leases_ended:
            pair.run.sometimes("lease ended")
        if whole.volatile_losses:
            pair.run.sometimes("volatile loss")
        yield from whole.problems
        if whole.machine.digest() != shared.machine.digest():
            yield f"{master.name}'s queues are not what its log makes of them"
        for book in pair.run.books:
            yield from story.delivered_after_settled(whole, book)
            yield from story.not_as_asked(whole, book)
        yield from _missing(pair, memory, whole)


def _whole_log(pair: Pair, master: SimMember, shared: Shared) -> story.Story | None:
    """The master's; where its own does not go back to the beginning, its replica's, if that ends in the same digest."""
    for member in (master, *(each for each in pair.members.values() if each is not master)):
        if member.domain is not None and member.domain.shared.log.digest == shared.log.digest:
            spare = pair.members[member.peer].machine.disk
            whole = story.read(member.machine.disk, sorted(pair.members), shared.limits, _damaged(pair), spare)
            if whole is not None:
                return whole
    return None


def _damaged(pair: Pair) -> dict[str, set[int]]:
    return {book.name: book.damaged for book in pair.run.books if book.damaged}


def _missing(pair: Pair, memory: Memory, whole: story.Story) -> Iterator[str]:
    """What was acknowledged is in the log, and so is what was marked as acknowledged when it was cut away."""
    for name, member in memory.invariants.acknowledged.items():
        if name not in whole.names:
            yield f"{name}, acknowledged by {member}, is not in the log"
    for each in pair.members.values():
        for (number, log_index, epoch), acknowledged in each.machine.salvaged.items():
            if acknowledged and number == NUMBER and Name(epoch, log_index) not in whole.names:
                yield f"{each.name} gave up {Name(epoch, log_index)}, which it had acknowledged"


def _of_pair(pair: Pair, memory: Memory) -> History:
    history = pair.run.history
    modest = memory.invariants.modest
    history.acked = [ack for ack in pair.run.books.acked if ack.copies > 1 or (ack.epoch, ack.index) not in modest]
    if any(member.machine.disk.replaced for member in pair.members.values()):
        history.handed = []  # a member without its disk counts its starts from 1 again, and names handoffs by them
    return history


def _report(pair: Pair, queue: str, broken: dict[str, list[str]]) -> None:
    for name, lines in broken.items():
        pair.run.violation(name, f"queue {queue}: {lines[0]}" if queue else lines[0])


def checks_of(book: Book) -> tuple[checker.Check, ...]:
    """What can be asked of what was seen of this queue."""
    if book.kind == macro_points.MACRO:
        return ()  # its indexes are those of several queues; `macros` follows the log
    if book.kind in FATED or book.kind == LINK:
        return (checker.order_is_real,)
    found = OF_QUEUE if book.kind in ("plain", "two", "ordered", sides.SIDED, macro_points.RANKED) else OF_ANY_QUEUE
    consumers = [each for each in book.consumers if not each.startswith("drain")]
    if book.kind in ("ordered", macro_points.RANKED, sides.SIDED) or len(consumers) > 1:
        # What one of them was given and never got goes to another one late, and as a first delivery; groups are asked
        # about one by one. What is selected for sides goes by priority, as the log is asked about; `sides` asks for one
        # order of numbers.
        return found
    return (*found, checker.first_deliveries_are_in_order)


def out_of_order(book: Book, may_be_late: Collection[int]) -> list[str]:
    """First deliveries out of order, but for some indexes."""
    others = [each for each in book.history.delivered if each.index not in may_be_late]
    return list(checker.first_deliveries_are_in_order(History(delivered=others)))


def _may_be_late(pair: Pair, book: Book) -> set[int]:
    """What was damaged at its master comes after a handoff; and what came by a later lease than its first had one that
    reached nobody: its stream was gone, and the member had not heard of that. The next stream gave it back.
    """
    late = set(book.damaged)
    for member in pair.members.values():
        if member.is_serving and member.domain is not None:
            whole = _whole_log(pair, member, member.domain.shared)
            found = whole.of(book.name) if whole is not None else None
            for lease in book.leases if found is not None else ():
                if found is not None and found.leased.get(lease.index, lease.lease_id) != lease.lease_id:
                    late.add(lease.index)
    return late


def _went_on(book: Book) -> bool:
    """Two masters gave out messages of one group."""
    messages = {each.index: each.message for each in book.history.delivered} if book.groups else {}
    epochs: defaultdict[str, set[int]] = defaultdict(set)
    for lease in book.leases if book.groups else ():
        epochs[book.groups.get(messages[lease.index], "")].add(name_of_lease(lease.lease_id).epoch)
    return any(group and len(found) > 1 for group, found in epochs.items())


def refused_never_appears(book: Book) -> Iterator[str]:
    """What was certainly refused had no effect."""
    for delivery in book.history.delivered:
        if delivery.message in book.refused:
            yield f"{delivery.message} at {delivery.index} was refused: {book.refused[delivery.message]}"


def settled_once(book: Book) -> Iterator[str]:
    """One settlement of a message is confirmed, under whichever lease."""
    seen: set[int] = set()
    for settled in book.history.settled:
        if settled.index in seen:
            yield f"index {settled.index} was settled twice"
        seen.add(settled.index)


def counts_do_not_fall_behind(book: Book) -> Iterator[str]:
    """A delivery counts every one before it whose lease both members had, but for those that were given back."""
    by_index: defaultdict[int, dict[int, Lease]] = defaultdict(dict)
    for lease in book.leases:
        by_index[lease.index].setdefault(lease.lease_id, lease)
    for index, leases in by_index.items():
        before = 0
        for lease_id in sorted(leases):
            lease = leases[lease_id]
            least = 1 + before - book.releases[index]
            if lease.delivery_count < least:
                yield f"index {index} under lease {lease_id} counts {lease.delivery_count} deliveries, not {least}"
            before += lease.waited


def both_have_it_where_two_are_required(book: Book) -> Iterator[str]:
    """A queue that requires two copies acknowledges nothing that one member alone has, whoever asks."""
    if book.kind == "two":
        for ack in book.history.acked:
            if ack.copies < 2:
                yield f"{ack.message} at {ack.index} was acknowledged on {ack.copies}"


def a_repeated_dequeue_brings_the_same(book: Book) -> Iterator[str]:
    """While its lease runs nobody else settles them: all are still there, but for what was held in memory only."""
    for each in book.repetitions if book.kind != REQUESTS else ():  # a request's own time may be over
        gone = [n for n, message in each.held.items() if n not in each.again and message not in book.volatile]
        if gone:
            yield f"{each.consumer} holds {gone}, and got {sorted(each.again)} when it asked again"


def a_lease_is_kept(book: Book) -> Iterator[str]:
    """What somebody holds nobody else is given, unless it was given back."""
    until: dict[int, Lease] = {}
    for lease in sorted(book.leases, key=lambda each: each.lease_id):
        held = until.get(lease.index)
        if held and lease.lease_id != held.lease_id and lease.at_s < held.until_s and not book.releases[lease.index]:
            yield (
                f"index {lease.index} was delivered at {lease.at_s:.3f} s under {lease.lease_id}, and is held under "
                f"{held.lease_id} until {held.until_s:.3f} s"
            )
        if held is None or lease.until_s > held.until_s:
            until[lease.index] = lease


def immediate_is_at_most_once(book: Book) -> Iterator[str]:
    """What is removed at delivery is delivered once."""
    if book.kind != "immediate":
        return
    seen: set[Message] = set()
    for delivery in book.history.delivered:
        if delivery.message in seen:
            yield f"{delivery.message} at {delivery.index} was delivered twice"
        seen.add(delivery.message)


def a_group_never_goes_back(book: Book) -> Iterator[str]:
    """Leases of one group, by whichever master, are of rising indexes: over redelivery and takeover."""
    messages = {each.index: each.message for each in book.history.delivered}
    last: dict[str, Lease] = {}
    for lease in sorted(book.leases, key=lambda each: each.lease_id) if book.groups else ():
        group = book.groups.get(messages[lease.index], "")
        before = last.get(group)
        if group and before is not None and lease.index < before.index:
            leases = f"under {lease.lease_id} and {before.lease_id}"
            yield f"index {lease.index} of {group} came after {before.index}, {leases}"
        last[group] = lease


def one_of_a_group_at_a_time(book: Book) -> Iterator[str]:
    """Nobody is given a message while somebody is still at work on the one before it in its group."""
    last: dict[str, int] = {}
    for each in book.history.delivered if book.groups else ():
        group = book.groups.get(each.message, "")
        before = last.get(group, 0)
        if not group or each.index <= before:
            continue
        if before and book.done.get(before, each.at_s + 1) > each.at_s:
            yield f"index {each.index} of {group} came at {each.at_s:.3f} s, and nobody had done with {before}"
        last[group] = each.index


def volatile_losses_are_counted(book: Book) -> Iterator[str]:
    """Volatile messages that are gone were counted by their queue; others are never lost."""
    if book.kind not in ("volatile", "conditional", "changed"):
        return
    there = {delivery.message for delivery in book.history.delivered}
    gone = [ack.message for ack in book.history.acked if ack.message not in there]
    for message in gone:
        if message not in book.volatile:
            yield f"{message} is persistent, was acknowledged and is gone"
    if len(gone) > book.volatile_lost:
        yield f"{len(gone)} acknowledged messages are gone, the queue counts {book.volatile_lost}"


def made_persistent(book: Book) -> Iterator[Message]:
    """Acknowledged before somebody asked for a change that was answered, and not lost by then; or sent after it and
    before the next one. Of these what its mode saves.
    """
    for place, change in enumerate(book.changes):
        if change.answered_s is None or change.mode == "volatile":
            continue
        following = book.changes[place + 1].asked_s if place + 1 < len(book.changes) else NEVER
        for ack in book.history.acked:
            was_there = ack.at_s <= change.asked_s and book.lost_s.get(ack.index, NEVER) > change.answered_s
            came_later = ack.asked_s >= change.answered_s and ack.at_s <= following
            if (was_there or came_later) and (change.mode == "persistent" or ack.message in book.marked):
                yield ack.message


OF_BOOK: tuple[BookCheck, ...] = (
    refused_never_appears,
    settled_once,
    counts_do_not_fall_behind,
    both_have_it_where_two_are_required,
    a_repeated_dequeue_brings_the_same,
    a_lease_is_kept,
    immediate_is_at_most_once,
    a_group_never_goes_back,
    one_of_a_group_at_a_time,
    volatile_losses_are_counted,
)
