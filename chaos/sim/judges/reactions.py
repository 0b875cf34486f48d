"""Judges reactions: by the log, without the queue machine. Each acts once, on what it was asked for and nobody held, on
the first or on all; and its sender is answered so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.sim.judges.fates import Fates
    from chaos.sim.judges.shelves import Copy, Reacted
    from chaos.sim.pair.books import Asked
    from chaos.sim.pair.members import Pair

ACTS = "a reaction acts once, on what it was asked for"
HEARD = "who asked for a reaction hears what it did"


def reactions_do_as_they_were_asked(pair: Pair, found: Fates) -> Iterator[tuple[str, str]]:
    """Rule, and what broke it."""
    for request_id, done in found.reactions.items():
        asked = pair.run.books[done.queue].wishes.reactions.get(request_id)
        if asked is None:
            yield ACTS, f"{done.name} is a reaction that nobody asked for"
        else:
            yield from _of_one(done, asked)
            _note(pair, done, asked)
    if found.kept.hits:
        pair.run.sometimes("a kept reaction that acted on what arrived")
    if found.kept.hits_on_return:
        pair.run.sometimes("a kept reaction that acted on what came back")
    for book in pair.run.books:
        for request_id, applied in book.wishes.reacted.items():
            acted = found.reactions.get(request_id)
            if acted is None:
                yield HEARD, f"a reaction of {book.name} was answered, and is not in the log"
            elif applied != len(acted.targets):
                yield HEARD, f"{acted.name} acted on {len(acted.targets)} of {book.name}, and {applied} were answered"


def _of_one(done: Reacted, asked: Asked) -> Iterator[tuple[str, str]]:
    free = [copy.index for copy in _fitting(done.free, asked)]
    wanted = set(free if asked.everything else free[:1])
    if done.targets != wanted:
        text = f"acts on {sorted(done.targets)} of {done.queue}, not on {sorted(wanted)}"
        yield ACTS, f"{done.name} {text}"
    locked = len(_fitting(done.held, asked))
    if done.said.locked != locked or done.said.applied != len(done.targets):
        said = f"{done.said.applied} acted on and {done.said.locked} locked"
        yield HEARD, f"{done.name} says {said}; it is {len(done.targets)} and {locked}"


def _fitting(copies: list[Copy], asked: Asked) -> list[Copy]:
    return [copy for copy in copies if copy.group == asked.line and not copy.inert]


def _note(pair: Pair, done: Reacted, asked: Asked) -> None:
    run = pair.run
    if done.targets:
        run.sometimes(f"a reaction that acted: {asked.verb}")
    elif done.said.locked:
        run.sometimes("a reaction that found its messages with a consumer")
    if any(copy.index in done.targets and copy.waits for copy in done.free):
        run.sometimes("a delayed message cancelled, moved or changed")
