"""Judges where rejected messages of a simulated run have gone: each to the dead-letter queue of its queue, once; and
nothing else goes there. Reads what clients saw, and what was left at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chaos.sim.pair.books import FATED

if TYPE_CHECKING:
    from chaos.history import Message
    from chaos.sim.pair.books import Book
    from chaos.sim.pair.members import Pair

NAME = "dead letters are where they belong"
POINT = "a rejected message among the dead letters"
DEAD = "dead"
"""The kind of a queue of such: what was volatile may have left gaps in it."""
_SUFFIX = ".dead"


def dead_letters_of(queue: str) -> str:
    """Where its rejected messages go."""
    return queue + _SUFFIX


def broken(pair: Pair) -> Iterator[str]:
    """What does not hold, of each queue that somebody has rejected messages of: the first finding."""
    books = {book.name: book for book in pair.run.books}
    for book in books.values():
        if book.rejecting and book.kind not in FATED:
            letters = books.get(dead_letters_of(book.name))
            found = Counter(each.message for each in letters.history.delivered) if letters is not None else Counter()
            if found:
                pair.run.sometimes(POINT)
            problem = next(_of_queue(book, found), None)
            if problem is not None:
                yield f"queue {book.name}: {problem}"


def _of_queue(book: Book, found: Counter[Message]) -> Iterator[str]:
    messages = {each.index: each.message for each in book.history.delivered}
    for index in sorted(book.rejected):
        message = messages[index]
        if not found[message] and message not in book.volatile:
            yield f"{message} at {index} was rejected, and is not among the dead letters"
    done = {messages[index] for index in book.acknowledged} - book.repeated
    tried = {messages[index] for index in book.rejecting if index in messages}
    for message, times in found.items():
        if message in book.repeated:
            continue  # there may be two of them
        if times > 1:
            yield f"{message} is among the dead letters {times} times"
        if message in done:
            yield f"{message} was acknowledged, and is among the dead letters"
        if message not in tried:
            yield f"{message} is among the dead letters, and nobody has rejected it"
