"""Judges where messages have gone that leave a queue otherwise than by a consumer: dead letters, moves, answers, drops.

Two ways: by what clients saw alone, and by the log as `chaos.sim.judges.fates` follows it, against what clients were
told. Only queues of a kind in `FATED` are looked at; a run without any costs nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from chaos.sim.judges import fates
from chaos.sim.judges.fates import ANSWER, PLACE, WAITS, Fates
from chaos.sim.judges.kept import PREFIX as KEPT
from chaos.sim.judges.reactions import reactions_do_as_they_were_asked
from chaos.sim.judges.shelves import FINALS, name_of
from chaos.sim.pair.books import ANSWERS, FATED, MOVING, message_of, payload_of
from replica.core.ordering.sweep import Sweep, Verb
from tandemq.client.completion import Final
from tandemq.v1 import queue_service_pb2 as service

if TYPE_CHECKING:
    from chaos.history import Acked, Delivered, Message
    from chaos.sim.pair.books import Book
    from chaos.sim.pair.members import Pair

LOST = "nothing acknowledged is lost"
HEARD = "senders hear what happened"
CONSUMED, REPLIED = service.FINAL_STATE_CONSUMED, service.FINAL_STATE_REPLIED
COUNTED = (
    *("dead letters", "delayed messages", "redriven", "requests answered", "answers copied"),
    *("dropped", "doubles", "refused as full", "reactions"),
)

Finding = tuple[str, str]
"""Rule, and what broke it."""


def broken(pair: Pair) -> Iterator[Finding]:
    """Of each rule the first finding."""
    books = [book for book in pair.run.books if book.kind in FATED]
    if not books:
        return
    seen: set[str] = set()
    for rule, text in _all(pair, books):
        if rule not in seen:
            seen.add(rule)
            yield rule, text


def _all(pair: Pair, books: list[Book]) -> Iterator[Finding]:
    for check in OF_CLIENTS:
        yield from check(pair, books)
    found = _of_log(pair)
    if found is None:
        return
    pair.run.count("fates read")
    for name in COUNTED:
        pair.run.count(name, found.counts[name])
    for point in _points(found):
        pair.run.sometimes(point)
    yield from found.problems
    yield from found.at_rest()
    for judge in OF_LOG:
        yield from judge(pair, found)


def _of_log(pair: Pair) -> Fates | None:
    """The master's log; where its own does not go back to the beginning, its replica's, if that is the same."""
    members = [member for member in pair.members.values() if member.domain is not None]
    for master in members:
        if not master.is_serving:
            continue
        assert master.domain is not None
        digest = master.domain.shared.log.digest
        for member in (master, *(each for each in members if each is not master)):
            if member.domain is not None and member.domain.shared.log.digest == digest:
                found = fates.read(member.machine.disk, pair.members[member.peer].machine.disk)
                if found is not None:
                    return found
    return None


# -- by what clients saw -----------------------------------------------------------------------------------------------


def an_index_names_one_message(_pair: Pair, books: list[Book]) -> Iterator[Finding]:
    """In whatever answer or delivery."""
    for book in books:
        named: dict[int, Message] = {}
        events: list[Acked | Delivered] = [*book.history.acked, *book.history.delivered]
        for event in events:
            known = named.setdefault(event.index, event.message)
            if known != event.message:
                yield PLACE, f"index {event.index} of {book.name} names {known} and {event.message}"


def one_acknowledgement_ends_it(_pair: Pair, books: list[Book]) -> Iterator[Finding]:
    """A message that was in two queues would be acknowledged in both: at the end everything is."""
    done: dict[Message, tuple[str, int]] = {}
    for book in books:
        messages = {each.index: each.message for each in book.history.delivered}
        for index in sorted(book.acknowledged):
            place = book.name, index
            first = done.setdefault(messages[index], place)
            if first != place:
                yield PLACE, f"{messages[index]} was acknowledged at {first} and at {place}"


def what_was_acknowledged_came(_pair: Pair, books: list[Book]) -> Iterator[Finding]:
    """To somebody, in some queue; unless its time may have been over before."""
    books = [book for book in books if book.kind == MOVING]
    there = {each.message for book in books for each in book.history.delivered}
    for book in books:
        for ack in book.history.acked:
            if ack.message not in there and ack.message not in book.wishes.expiring:
                yield LOST, f"{ack.message}, acknowledged at index {ack.index} of {book.name}, is gone"


def delays_are_kept(pair: Pair, books: list[Book]) -> Iterator[Finding]:
    """On any clock, as long as nobody puts a clock forward."""
    if pair.run.clocks_step:
        return
    for book in books:
        asked_s = {ack.message: ack.asked_s for ack in book.history.acked}
        for each in book.history.delivered:
            delay_ms = book.wishes.delays_ms.get(each.message, 0)
            if delay_ms and each.at_s < asked_s.get(each.message, 0) + delay_ms / 1000:
                yield WAITS, f"{each.message} of {book.name} was delivered at {each.at_s:.3f} s, before its time"


def a_request_has_one_end(_pair: Pair, books: list[Book]) -> Iterator[Finding]:
    """All who ask get the same answer; an answer is one that somebody gave, and the one that was confirmed."""
    for book in books:
        wishes = book.wishes
        for index, ends in wishes.ends.items():
            if len(ends) > 1:
                yield ANSWER, f"request {index} of {book.name} ended in {len(ends)} ways: {sorted(ends)}"
            for final, payload in ends:
                tried = wishes.answers.get(index, {})
                if final == Final.REPLIED.name and payload not in tried:
                    yield ANSWER, f"request {index} of {book.name} has the answer {payload!r}, which nobody gave"
        for index, tried in wishes.answers.items():
            confirmed = [payload for payload, is_taken in tried.items() if is_taken]
            if len(confirmed) > 1:
                yield ANSWER, f"request {index} of {book.name} has {len(confirmed)} answers: {confirmed}"
            for final, payload in wishes.ends.get(index, ()):
                if confirmed and (final, payload) != (Final.REPLIED.name, confirmed[0]):
                    text = f"ended as {final} {payload!r}, and {confirmed[0]!r} was taken"
                    yield ANSWER, f"request {index} of {book.name} {text}"


def copies_of_answers_come_once(_pair: Pair, books: list[Book]) -> Iterator[Finding]:
    """And are of answers that somebody gave."""
    given = {payload for book in books for tried in book.wishes.answers.values() for payload in tried}
    for book in books if given else ():
        places: dict[Message, int] = {}
        for each in book.history.delivered if book.kind == ANSWERS else ():
            first = places.setdefault(each.message, each.index)
            if first != each.index:
                yield ANSWER, f"the answer {each.message} is at {first} and at {each.index} of {book.name}"
            if each.message not in {message_of(payload) for payload in given}:
                yield ANSWER, f"{each.message} of {book.name} is the copy of an answer that nobody gave"


OF_CLIENTS: tuple[Callable[[Pair, list[Book]], Iterator[Finding]], ...] = (
    an_index_names_one_message,
    one_acknowledgement_ends_it,
    what_was_acknowledged_came,
    delays_are_kept,
    a_request_has_one_end,
    copies_of_answers_come_once,
)


# -- by the log --------------------------------------------------------------------------------------------------------


def nothing_leaves_by_itself(pair: Pair, found: Fates) -> Iterator[Finding]:
    """What was acknowledged has ended, and what was consumed somebody has asked to settle."""
    for book in pair.run.books:
        for ack in book.history.acked if book.kind in FATED else ():
            if payload_of(ack.message) not in found.payloads:
                yield LOST, f"{ack.message}, acknowledged at index {ack.index} of {book.name}, is not in the log"
    for copy in found.all():
        if copy.shelf.name.startswith(KEPT):
            continue
        book = pair.run.books[copy.shelf.name]
        if not copy.final and book.kind in FATED:
            yield LOST, f"{name_of(copy)} has not ended, and the queue is drained"
        if copy.final == CONSUMED and copy.index not in book.done:
            yield LOST, f"{name_of(copy)} left by {copy.left}, and nobody had done with it"
        if copy.final == REPLIED and copy.answer not in book.wishes.answers.get(copy.index, ()):
            yield ANSWER, f"{name_of(copy)} has the answer {copy.answer!r}, which nobody gave"


def senders_hear_the_truth(pair: Pair, found: Fates) -> Iterator[Finding]:
    """Index by index, end by end."""
    for shelf in found.shelves.values():
        if shelf.name.startswith(KEPT):
            continue
        book = pair.run.books[shelf.name]
        for ack in book.history.acked if book.kind in FATED else ():
            copy = shelf.copies.get(ack.index)
            if copy is None or copy.payload != payload_of(ack.message):
                yield HEARD, f"{ack.message} was acknowledged at {ack.index} of {book.name}, where it is not"
        for index, ends in book.wishes.ends.items():
            copy = shelf.copies[index]
            while copy.became is not None:  # its sender hears of what it is now
                copy = copy.became
            for final, payload in ends:
                if final != Final(copy.final).name or payload != copy.answer:
                    text = f"ended as {Final(copy.final).name} {copy.answer!r}, and its sender was answered {final}"
                    yield HEARD, f"{name_of(copy)} {text} {payload!r}"
        for message, index in book.wishes.doubles.items():
            if payload_of(message) in found.payloads:
                yield HEARD, f"{message} was answered to be a double of {index} of {book.name}, and is stored"


def sweeps_say_what_they_did(pair: Pair, found: Fates) -> Iterator[Finding]:
    """The totals of a call are those of its records, whichever master made them."""
    for book in pair.run.books:
        for request_id, moved in book.wishes.sweeps:
            sweep = Sweep(Verb.MOVE, book.name, request_id, 0)
            names: list[bytes] = []
            while sweep.identity(len(names) + 1) in found.moved:
                names.append(sweep.identity(len(names) + 1))
            if len({found.epochs[name] for name in names}) > 1:
                pair.run.sometimes("a move carried on by the next master")
            total = sum(found.moved[name] for name in names)
            if total != moved:
                yield HEARD, f"a move out of {book.name} says {moved} messages, and its records have {total}"


def totals_are_right(pair: Pair, found: Fates) -> Iterator[Finding]:
    """What a queue says of all that ever happened in it."""
    masters = (each.domain for each in pair.members.values() if each.is_serving and each.domain is not None)
    for machine in (domain.shared.machine for domain in masters):
        for queue_id, shelf in found.shelves.items() if machine is not None else ():
            if machine is None or not machine.has_queue(queue_id):
                continue
            wanted, totals = shelf.totals(), machine.queue(queue_id).totals
            for name in (
                *FINALS.values(),
                "enqueued",
                "duplicates",
                "delivered",
                "released",
                "redelivered",
                "rejected",
            ):
                if getattr(totals, name) != wanted[name]:
                    yield HEARD, f"queue {shelf.name} says {name} {getattr(totals, name)}, and it is {wanted[name]}"


OF_LOG: tuple[Callable[[Pair, Fates], Iterator[Finding]], ...] = (
    nothing_leaves_by_itself,
    senders_hear_the_truth,
    sweeps_say_what_they_did,
    reactions_do_as_they_were_asked,
    totals_are_right,
)


def _points(found: Fates) -> Iterator[str]:
    kinds: Counter[str] = Counter()
    for copy in found.all():
        left_epoch = copy.left.epoch if copy.left is not None else copy.entered.epoch
        is_later = left_epoch > copy.entered.epoch
        if is_later and copy.final == CONSUMED and copy.not_before_ms:
            kinds["a delayed message delivered after a takeover"] += 1
        if copy.died is not None and not copy.rejected and copy.final:
            kinds["a message that was delivered too often"] += 1
        if copy.died is not None and left_epoch > copy.died.epoch:
            kinds["a dead letter moved by the next master"] += 1
        if is_later and copy.final == REPLIED:
            kinds["a request answered after a takeover"] += 1
    kinds["a dead letter moved back"] += found.counts["redriven"]
    kinds["a copy of an answer"] += found.counts["answers copied"]
    kinds["an oldest message dropped"] += found.counts["dropped"]
    return (name for name, number in kinds.items() if number)
