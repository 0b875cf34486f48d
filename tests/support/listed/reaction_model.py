"""Reactions as one would explain them: which messages one fits, what it does to them, and what is kept (V1-V15)."""

from __future__ import annotations

from itertools import pairwise

from tests.support.listed.model import FAR, Attributes, Message, Queue, Refusal, Within
from tests.support.listed.pair_model import Pair
from tests.support.listed.reaction import MOVE, UPDATE, Counts, Reaction

KEPT = "SYSTEM.REACTIVE/"
"""And the name of the queue that something is kept for."""
HITS_MAX = 16


class UnsureError(Exception):
    """Several things ended by themselves, and only the pair knows which one was first."""


def fits(reaction: Reaction, message: Message, ids: frozenset[bytes]) -> bool:
    """`ids`: by which the message is known."""
    return (
        (reaction.ids is None or not reaction.ids.isdisjoint(ids))
        and reaction.correlation in (None, message.correlation)
        and reaction.group in (None, message.group)
        and (reaction.grade is None or reaction.grade == message.grade)
    )


def find(queue: Queue, reaction: Reaction) -> tuple[list[int], Counts]:
    """What it acts on now, and what it finds beside that."""
    fit = {index: each for index, each in queue.messages.items() if fits(reaction, each, each.ids)}
    live = {index: each for index, each in fit.items() if not each.inert}
    waiting = [index for index, each in live.items() if each.lease is None and not each.dying]
    counts = Counts(
        locked=sum(each.lease is not None for each in live.values()),
        inert=len(fit) - len(live),
        dying=sum(each.dying for each in live.values()),
    )
    targets = [first_of(queue, waiting)] if reaction.first and waiting else sorted(waiting)
    counts.kept = reaction.keep_ms is not None and not (reaction.first and targets)
    return targets, counts


def first_of(queue: Queue, waiting: list[int]) -> int:
    """The one that would be delivered first, delayed ones after all others (V5)."""

    def place(index: int) -> tuple[int, int, int]:
        message = queue.messages[index]
        if message.delayed is None:
            return 0, -message.priority, index
        return 1, message.delayed.low, index

    return min(waiting, key=place)


def is_unsure(queue: Queue, reaction: Reaction) -> bool:
    """Which of the delayed ones is first cannot be said."""
    fit = [each for each in queue.messages.values() if fits(reaction, each, each.ids)]
    times = sorted({each.delayed for each in fit if each.delayed is not None})
    return any(later.low <= earlier.high for earlier, later in pairwise(times))


def store_of(pair: Pair, queue: Queue, *, makes: bool = False) -> Queue | None:
    """Where the reactions are that are kept for that one. It is made for the first one."""
    name = KEPT + queue.name
    if makes and name not in pair.queues:
        pair.queues[name] = Queue(name, Attributes(kind="ONE_WAY", dead_letters=False, enqueue_enabled=False))
    return pair.queues.get(name)


def check(pair: Pair, queue: Queue, reaction: Reaction) -> None:
    """Whatever it finds."""
    if not queue.config.reactions:
        raise Refusal("REACTION_DISABLED")
    to = pair.named(reaction.to) if reaction.to else None
    if to is queue or (reaction.report_to and pair.named(reaction.report_to) in (queue, to)):
        raise Refusal("BAD_REQUEST")


def check_room(pair: Pair, queue: Queue, reaction: Reaction, count: int, left: int = 0) -> None:
    """What it puts somewhere finds a place there, as things are now. `count`: of what it acts on; `left`: of that, how
    much has left already.
    """
    if reaction.report_to:
        to = pair.named(reaction.report_to)
        to.check_may_send()
        if not to.room():
            raise Refusal("QUEUE_FULL")
    if count and reaction.action == MOVE:
        to = pair.named(reaction.to)
        to.check_may_send()
        if len(to.messages) + count > to.config.max_length:
            raise Refusal("QUEUE_FULL")
    if count and reaction.action == UPDATE:
        queue.check_may_send()
        if len(queue.messages) + left > queue.config.max_length:
            raise Refusal("QUEUE_FULL")


def act(
    pair: Pair, queue: Queue, reaction: Reaction, targets: list[int], counts: Counts, now: Within, used: int = 0
) -> None:
    """All of it; nothing is refused any more. `used`: where it was kept."""
    enter(pair, queue, reaction, leave(queue, reaction, targets), counts, now, used)


def leave(queue: Queue, reaction: Reaction, targets: list[int]) -> dict[int, Message]:
    """What it acts on is not there any more."""
    gone = {index: queue.messages[index] for index in targets}
    for index in targets:
        if reaction.action == UPDATE:
            del queue.messages[index]  # its end is that of the next version
        else:
            queue.end(index, "REACTED")
    queue.totals.reacted += len(targets)
    return gone


def enter(
    pair: Pair, queue: Queue, reaction: Reaction, gone: dict[int, Message], counts: Counts, now: Within, used: int = 0
) -> None:
    """What comes instead, what is reported and what is kept."""
    counts.applied = len(gone)
    if reaction.exceptions:
        _report_to_senders(pair, queue, reaction, [each for each in gone.values() if each.reply_to], counts)
    if reaction.report_to:
        report = Message(b"", 0, correlation=reaction.call, report=_report(reaction, counts))
        _put(pair.named(reaction.report_to), [report])
    store = store_of(pair, queue)
    if reaction.action == UPDATE:
        at = used or (store.next_index if store is not None and counts.kept else 0)
        for index, message in gone.items():
            _change(queue, index, message, reaction, now, (KEPT + queue.name, at) if at else None)
    if reaction.action == MOVE and gone:
        to = pair.named(reaction.to)
        for message in gone.values():
            delayed, expires = message.delayed, message.expires
            if expires is None and to.config.ttl_ms:
                expires = now.plus(to.config.ttl_ms)
            to.add(message.copy(delayed=delayed, expires=expires), now)
    if counts.kept:
        assert store is not None
        expires = now.plus(reaction.keep_ms) if reaction.keep_ms else FAR
        store.add(Message(reaction.body, len(reaction.body), expires=expires, reaction=reaction), now)


def _change(
    queue: Queue, index: int, old: Message, reaction: Reaction, now: Within, seen: tuple[str, int] | None
) -> None:
    """It enters again: its handle and its ids go on (V8)."""
    new = old.copy(
        expires=old.expires,
        delayed=old.delayed,
        ids=old.ids,
        first=old.first or index,
        first_id=old.first_id or old.own_id,
        version=old.version + 1,
        seen=seen or old.seen,
    )
    if reaction.payload is not None:
        new.payload = reaction.payload
    if reaction.new_grade is not None:
        new.grade = reaction.new_grade
    if reaction.priority is not None:
        new.priority = reaction.priority
    if reaction.delay_ms is not None:
        new.delayed = now.plus(reaction.delay_ms) if reaction.delay_ms else None
    if new.expires is None and queue.config.ttl_ms:
        new.expires = now.plus(queue.config.ttl_ms)
    queue.add(new, now)


def _report(reaction: Reaction, counts: Counts) -> tuple[object, ...]:
    outcome = Counts(counts.applied, counts.locked, kept=counts.kept).outcome
    numbers = counts.applied, counts.locked, counts.inert, counts.dying, 0, counts.unreported
    return "reaction", outcome, reaction.queue, *numbers


def _report_to_senders(pair: Pair, queue: Queue, reaction: Reaction, gone: list[Message], counts: Counts) -> None:
    """Where there is room (V7)."""
    for name in sorted({each.reply_to for each in gone}):
        to = pair.find(name)
        full = reaction.exceptions == "FULL"
        rows = [
            Message(
                each.payload if full else b"",
                each.size if full else 0,
                correlation=each.correlation,
                grade=each.grade,
                version=each.version,
                origin=each.origin,
                report=("reacted", queue.name),
            )
            for each in gone
            if each.reply_to == name
        ]
        fit = 0
        if to is not None and to is not queue and to.state == "OPEN" and to.config.enqueue_enabled:
            fit = min(to.room(), len(rows))
            beside = reaction.report_to and pair.find(reaction.report_to) is to
            if beside and to.room() < len(rows) + 1:  # they enter with the report, all of them or none
                fit = 0
            _put(to, rows[:fit])
        counts.unreported += len(rows) - fit


def _put(to: Queue, rows: list[Message]) -> None:
    to.drop_for(len(rows))
    for row in rows:
        to.add(row, None)


# -- what is kept ------------------------------------------------------------------------------------------------------


def ask(pair: Pair, now: Within, *, by_time: bool = False) -> set[str]:
    """Those that are kept act on what came and what came back, before anybody has it (V12, V13). Says what was touched.
    `by_time`: what came back did so by itself. Raises UnsureError.
    """
    touched: set[str] = set()
    for _ in range(HITS_MAX):
        queues = [queue for queue in pair.queues.values() if any(each.unasked for each in queue.messages.values())]
        if not queues:
            break
        for queue in queues:
            touched |= _ask(pair, queue, now, by_time=by_time)
    return touched


def _ask(pair: Pair, queue: Queue, now: Within, *, by_time: bool) -> set[str]:
    store = store_of(pair, queue)
    asked = [index for index, each in queue.messages.items() if each.unasked and each.lease is None and not each.dying]
    for message in queue.messages.values():
        message.unasked = False
    hits: dict[int, list[int]] = {}
    for index in asked if store is not None else ():
        assert store is not None
        for at, entry in store.messages.items():
            if entry.reaction is not None and _hits(queue.messages[index], store, at, entry.reaction):
                hits.setdefault(at, []).append(index)
    for at, targets in sorted(hits.items()):
        assert store is not None
        if not queue.config.reactions:
            for index in targets:
                queue.messages[index].stuck = True
        elif at in store.messages:
            _act_kept(pair, queue, store, at, [index for index in targets if index in queue.messages], now, by_time)
    return {each.name for each in pair.queues.values()} if hits else set()


def _hits(message: Message, store: Queue, at: int, reaction: Reaction) -> bool:
    if message.inert or (message.seen is not None and message.seen[0] == store.name and at <= message.seen[1]):
        return False
    return fits(reaction, message, message.ids | ({message.first_id} if message.first_id else set()))


def _act_kept(pair: Pair, queue: Queue, store: Queue, at: int, targets: list[int], now: Within, by_time: bool) -> None:
    reaction = store.messages[at].reaction
    assert reaction is not None
    if not targets:
        return
    if reaction.first:
        if by_time and len(targets) > 1:
            raise UnsureError
        targets = [first_of(queue, targets)]
    silent = reaction._replace(report_to="")
    for attempt in (reaction, silent, silent._replace(exceptions="")):
        try:
            check(pair, queue, attempt)
            check_room(pair, queue, attempt, len(targets))
        except Refusal:
            continue
        act(pair, queue, attempt, sorted(targets), Counts(), now, used=at)
        if reaction.first:
            store.end(at, "REACTED")
            store.totals.reacted += 1
        return
    for index in targets:
        queue.messages[index].stuck = True


def kept_of(pair: Pair) -> dict[str, list[Reaction]]:
    """What is kept now, by the queue that it is for."""
    found = {name: list(queue.messages.values()) for name, queue in pair.queues.items() if name.startswith(KEPT)}
    return {name.removeprefix(KEPT): [each.reaction for each in rows if each.reaction] for name, rows in found.items()}


def check_ended(pair: Pair, before: dict[str, list[Reaction]]) -> None:
    """Raises UnsureError where one has ended at about the time at which something came back that it fits, or what came
    back did.
    """
    after = kept_of(pair)
    for name, reactions in before.items():
        queue = pair.queues.get(name)
        for reaction in reactions if queue is not None else ():
            assert queue is not None
            ended = reaction not in after.get(name, ())
            back = [each for each in queue.messages.values() if ended and each.unasked and each.lease is None]
            if any(fits(reaction, each, each.ids | {each.first_id}) for each in (*back, *queue.late)):
                raise UnsureError


def ask_again(pair: Pair) -> None:
    """There is another master, which does not know what its predecessor has asked about."""
    for queue in pair.queues.values():
        for message in queue.messages.values():
            message.unasked = message.unasked or message.stuck
            message.stuck = False


def end_kept(pair: Pair, queue: Queue) -> None:
    """It is deleted: what is kept for it ends with it."""
    store = store_of(pair, queue)
    for at in list(store.messages) if store is not None else ():
        assert store is not None
        store.end(at, "PURGED")
        store.totals.purged += 1


# -- in units of work --------------------------------------------------------------------------------------------------


def entered_by(pair: Pair, queue: Queue, reaction: Reaction, targets: list[int], counts: Counts) -> set[Queue]:
    """Queues that it puts something into."""
    names = [reaction.report_to] + ([reaction.to] if targets else [])
    found = {pair.named(name) for name in names if name}
    if targets and reaction.action == UPDATE:
        found.add(queue)
    if counts.kept:
        store = store_of(pair, queue)
        assert store is not None
        found.add(store)
    return found
