"""Judges reactions: by the log, without the queue machine. Each acts once, on what it was asked for and nobody held, on
the first or on all; and its sender is answered so.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING

from chaos.sim.judges.shelves import name_of
from chaos.sim.kernel.asked import CHANGE, DELETE, DOES, FAIL, LEAVE, MOVE, word_about

if TYPE_CHECKING:
    from chaos.sim.judges.fates import Fates
    from chaos.sim.judges.shelves import Copy, Reacted
    from chaos.sim.pair.books import Asked
    from chaos.sim.pair.members import Pair

ACTS = "a reaction acts once, on what it was asked for"
DONE = MappingProxyType({"cancel": DELETE, "move": MOVE, "change": CHANGE})
"""What becomes of messages, by the verb."""
ASK = "ask"
"""Of a reaction that asks a program what becomes of each message."""
HEARD = "who asked for a reaction hears what it did"


def reactions_do_as_they_were_asked(pair: Pair, found: Fates) -> Iterator[tuple[str, str]]:
    """Rule, and what broke it."""
    scattered: dict[bytes, set[str]] = {}
    for (request_id, _), done in found.reactions.items():
        asked = pair.run.books[done.queue].wishes.reactions.get(request_id)
        if asked is None:
            yield ACTS, f"{done.name} is a reaction that nobody asked for"
        else:
            yield from _of_one(done, asked)
            _note(pair, done, asked)
            scattered.setdefault(request_id, set()).add(done.queue)
    if found.kept.hits:
        pair.run.sometimes("a kept reaction that acted on what arrived")
    if found.kept.hits_on_return:
        pair.run.sometimes("a kept reaction that acted on what came back")
    for book in pair.run.books:
        for request_id, applied in book.wishes.reacted.items():
            acted = found.reactions.get((request_id, book.name))
            if acted is None:
                yield HEARD, f"a reaction of {book.name} was answered, and is not in the log"
            elif applied != len(acted.targets):
                yield HEARD, f"{acted.name} acted on {len(acted.targets)} of {book.name}, and {applied} were answered"
        for request_id in book.wishes.reactions.keys() & scattered.keys():
            if book.name not in scattered[request_id]:
                yield ACTS, f"a reaction to several queues was carried out, and not at {book.name}"
    if any(len(queues) > 1 for queues in scattered.values()):
        pair.run.sometimes("a reaction carried out at several queues")


def _of_one(done: Reacted, asked: Asked) -> Iterator[tuple[str, str]]:
    free = _fitting(done.free, asked)
    if asked.verb == ASK:
        if not any(_is_as_told(done, asked, free, bound) for bound in (0, *(copy.index for copy in free))):
            told = {copy.index: word_about(copy.payload) for copy in free}
            yield ACTS, f"{done.name} acts on {sorted(done.targets)} and says {done.said}; it was told {told}"
    elif done.targets != (wanted := {copy.index for copy in (free if asked.everything else free[:1])}):
        text = f"acts on {sorted(done.targets)} of {done.queue}, not on {sorted(wanted)}"
        yield ACTS, f"{done.name} {text}"
    for copy in free:
        wished = word_about(copy.payload) if asked.verb == ASK else DONE[asked.verb]
        if copy.index in done.targets and (became := _became(copy)) != wished:
            yield ACTS, f"{done.name}: it was to {wished} {name_of(copy)}, and did {became}"
    locked = len(_fitting(done.held, asked))
    if done.said.locked != locked or done.said.applied != len(done.targets):
        said = f"{done.said.applied} acted on and {done.said.locked} locked"
        yield HEARD, f"{done.name} says {said}; it is {len(done.targets)} and {locked}"


def _became(copy: Copy) -> str:
    return CHANGE if copy.became is not None else MOVE if copy.moved_to else DELETE


def _is_as_told(done: Reacted, asked: Asked, free: list[Copy], bound: int) -> bool:
    """Whether it did what the program says of what was there up to that index: more may have come while it asked."""
    meant = [copy for copy in free if copy.index <= bound]
    words = {copy.index: word_about(copy.payload) for copy in (meant if asked.everything else meant[:1])}
    wanted, said = {index for index, word in words.items() if word in DOES}, [*words.values()]
    late = wanted - done.targets  # no time was left to ask about them
    counts = said.count(LEAVE), said.count(FAIL) + len(late)
    return done.targets <= wanted and (done.said.left, done.said.failed) == counts


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
