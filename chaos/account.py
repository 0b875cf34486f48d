"""Counts what a history and the faults in it come to: the figures of a campaign and of a drill; it never judges.

Every figure is a count of facts or a length of time between two of them. None where nothing was there to be measured.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from chaos import checker
from chaos.history import FAIL, UNKNOWN, Acked, Delivered, History, Message

SPAN_S = 0.3  # answers of a master that are farther apart leave time without one between them
AWAKE_S = 0.15  # three looks; where an observer was at work less often than that, it did not look


class Span(NamedTuple):
    """A stretch of time."""

    from_s: float
    to_s: float

    @property
    def length_s(self) -> float:
        return max(0.0, self.to_s - self.from_s)


class Gap(NamedTuple):
    """Between two answers of a master: how much of it the observer looked at, and how much it did not."""

    looked_s: float
    not_looked_s: float


class Account(NamedTuple):
    """The figures. Times are in milliseconds."""

    operations: int
    acknowledged: int
    failed: int  # operations that certainly had no effect
    unknown: int  # operations without an outcome
    recovered: int  # messages of unknown outcome that were there all the same
    delivered: int
    redelivered: int
    lost: int  # acknowledged and never delivered
    duplicates: int  # stored twice, settled twice, or delivered after they were settled
    unexpected: int  # delivered, and never sent or certainly refused
    order_breaks: int
    no_master_ms: int  # looked at, and nobody answered as master
    not_looked_ms: int  # between answers of a master, and the observer was held up: nothing is known of it
    two_masters_ms: int
    degraded_ms: int | None  # one copy, by the register
    longest_pause_ms: int
    recovery_ms: tuple[int, ...]  # of each round of faults: its longest time without an acknowledgement
    recovery_looked_ms: tuple[int, ...]  # the same, without the time in which the clients' own process was held up
    resync_ms: tuple[int, ...]  # of each round: from its end until both copies were in the register again


def take(history: History, rounds: Sequence[Span]) -> Account:
    """The account of a run that was drained. `rounds` are from the first strike to when all was healed."""
    first_delivery = Counter(delivery.message for delivery in history.delivered)
    awake = sorted(history.awake)
    windows = list(_windows(rounds))
    gaps = list(without_answers(history))
    return Account(
        operations=len(history.operations),
        acknowledged=len(history.acked),
        failed=sum(operation.outcome == FAIL for operation in history.operations),
        unknown=sum(operation.outcome == UNKNOWN for operation in history.operations),
        recovered=len(_of_outcome(history, UNKNOWN) & first_delivery.keys()),
        delivered=len(first_delivery),
        redelivered=sum(first_delivery.values()) - len(first_delivery),
        lost=len({ack.message for ack in history.acked} - first_delivery.keys() - {*history.left}),
        duplicates=_duplicates(history),
        unexpected=_unexpected(history, first_delivery.keys()),
        order_breaks=_count(checker.order_is_real(history)) + _count(checker.first_deliveries_are_in_order(history)),
        no_master_ms=_ms(sum(gap.looked_s for gap in gaps)),
        not_looked_ms=_ms(sum(gap.not_looked_s for gap in gaps)),
        two_masters_ms=_ms(sum(span.length_s for span in with_two_masters(history))),
        degraded_ms=_ms(sum(span.length_s for span in alone(history))) if history.recorded else None,
        longest_pause_ms=_ms(_longest(_pauses(history, Span(-math.inf, math.inf)))),
        recovery_ms=tuple(_ms(_longest(_pauses(history, window))) for window in windows),
        recovery_looked_ms=tuple(_ms(_longest(_pauses(history, window), awake)) for window in windows),
        resync_ms=tuple(_ms(length_s) for length_s in _resyncs(history, rounds)),
    )


def quantile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def without_answers(history: History) -> Iterator[Gap]:
    """Stretches between two answers that only a master gives, longer than answers are apart.

    An acknowledgement is one too: the master serves, however long the observer's own question is under way.

    A gap in which the observer looked for no longer than that is none of the pair's: `looked_s` is 0 then. A look may
    wait at a member until there is a master: what is counted is the time without an answer, not looks that failed.
    """
    times = sorted([*(answer.at_s for answer in history.answered), *(ack.at_s for ack in history.acked)])
    awake = sorted(history.awake)
    for before, after in pairwise(times):
        if after - before > SPAN_S:
            looked_s = _looked_s(Span(before, after), awake)
            yield Gap(looked_s if looked_s > SPAN_S else 0.0, after - before - looked_s)


def _looked_s(span: Span, awake: Sequence[float]) -> float:
    """How much of it the observer was at work; `awake` is sorted."""
    moments = [span.from_s, *awake[bisect_right(awake, span.from_s) : bisect_left(awake, span.to_s)], span.to_s]
    return sum(to_s - from_s for from_s, to_s in pairwise(moments) if to_s - from_s <= AWAKE_S)


def with_two_masters(history: History) -> Iterator[Span]:
    """Stretches in which two members certainly answered as master: between two answers each."""
    spans: dict[str, list[Span]] = {}
    for member in {answer.member for answer in history.answered}:
        mine = [answer for answer in history.answered if answer.member == member]
        spans[member] = [
            Span(before.at_s, after.asked_s)
            for before, after in pairwise(sorted(mine, key=lambda answer: answer.at_s))
            if before.epoch == after.epoch and after.at_s - before.at_s <= SPAN_S
        ]
    for one, other in pairwise(spans.values()):
        place = 0
        for span in one:
            while place < len(other) and other[place].to_s <= span.from_s:
                place += 1
            both = (Span(max(span.from_s, each.from_s), min(span.to_s, each.to_s)) for each in other[place : place + 2])
            yield from (each for each in both if each.length_s > 0)


def alone(history: History) -> Iterator[Span]:
    """Stretches in which the register had one member in sync."""
    since_s: float | None = None
    last_s = 0.0
    version = 0
    for record in sorted(history.recorded, key=lambda record: record.at_s):
        if record.version < version:
            continue  # an older look that came late
        version, last_s = record.version, record.at_s
        if len(record.in_sync) == 1 and since_s is None:
            since_s = record.at_s
        elif len(record.in_sync) > 1 and since_s is not None:
            yield Span(since_s, record.at_s)
            since_s = None
    if since_s is not None:
        yield Span(since_s, last_s)


def _windows(rounds: Sequence[Span]) -> Iterator[Span]:
    """From each round's first strike to the next one's."""
    ends = [*(span.from_s for span in rounds[1:]), math.inf][: len(rounds)]
    return (Span(span.from_s, end_s) for span, end_s in zip(rounds, ends, strict=True))


def _pauses(history: History, window: Span) -> Iterator[Span]:
    """Between two acknowledgements; one that began before the window counts from there."""
    times = [ack.at_s for ack in history.acked if ack.at_s <= window.to_s]
    inside = [at_s for at_s in times if at_s >= window.from_s]
    start = [window.from_s] if math.isfinite(window.from_s) else []
    return (Span(before, after) for before, after in pairwise([*start, *inside]))


def _longest(pauses: Iterator[Span], awake: Sequence[float] | None = None) -> float:
    """With `awake`: of what was looked at; a short pause counts whole."""
    return max(
        (each.length_s if awake is None or each.length_s <= SPAN_S else _looked_s(each, awake) for each in pauses),
        default=0.0,
    )


def _resyncs(history: History, rounds: Sequence[Span]) -> Iterator[float]:
    solo = list(alone(history))
    for window, span in zip(_windows(rounds), rounds, strict=True):
        ends = [each.to_s for each in solo if window.from_s <= each.from_s < window.to_s]
        if ends:
            yield max(0.0, max(ends) - span.to_s)


def _duplicates(history: History) -> int:
    indexes: dict[Message, set[int]] = {}
    events: list[Acked | Delivered] = [*history.acked, *history.delivered]
    for event in events:
        indexes.setdefault(event.message, set()).add(event.index)
    return sum(len(each) - 1 for each in indexes.values()) + _count(checker.settled_stays_settled(history))


def _unexpected(history: History, delivered: Iterable[Message]) -> int:
    if not history.operations:
        return 0
    asked = {message for operation in history.operations for message in operation.messages}
    return len({*delivered} - asked) + len(_of_outcome(history, FAIL) & {*delivered})


def _of_outcome(history: History, outcome: str) -> set[Message]:
    return {
        message
        for operation in history.operations
        if operation.outcome == outcome and operation.verb == "enqueue"
        for message in operation.messages
    }


def _count(findings: Iterator[str]) -> int:
    return sum(1 for _ in findings)


def _ms(length_s: float) -> int:
    return round(length_s * 1000)
