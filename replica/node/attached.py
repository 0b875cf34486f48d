"""Knows which clients have a stream open at this member, to which queue, and whether from another host; decides
nothing. One that the peer has sent on is attached at the peer.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class AttachedClients(NamedTuple):
    """Clients of one queue, or of all."""

    consumers: int = 0
    producers: int = 0
    remote: int = 0

    @property
    def all(self) -> int:
        """Whatever they do."""
        return self.consumers + self.producers

    @property
    def local(self) -> int:
        """From this host."""
        return self.all - self.remote


NOBODY = AttachedClients()


class Client(NamedTuple):
    """One with an open stream."""

    queue: str
    """As it named it."""
    producer: bool
    remote: bool


class Attached:
    """The clients of this member. What a count costs does not depend on how many there are."""

    def __init__(self) -> None:
        self._all: Counter[tuple[bool, bool]] = Counter()
        self._of: dict[str, Counter[tuple[bool, bool]]] = {}

    @contextmanager
    def client(self, client: Client | None) -> Iterator[None]:
        """While its stream is open. None: it is the peer's."""
        if client is None:
            yield
            return
        kind = client.producer, client.remote
        self._all[kind] += 1
        self._of.setdefault(client.queue, Counter())[kind] += 1
        try:
            yield
        finally:
            self._all[kind] -= 1
            mine = self._of[client.queue]
            mine[kind] -= 1
            if not mine.total():
                del self._of[client.queue]

    def kinds(self) -> Counter[tuple[bool, bool]]:
        """How many, by whether they send and whether they are remote."""
        return self._all.copy()

    def counts(self, *names: str) -> AttachedClients:
        """Of a queue by its name and aliases; without a name, of all queues."""
        found = [each for each in map(self._of.get, names) if each] if names else [self._all]
        if not found:
            return NOBODY
        consumers = sum(each[False, remote] for each in found for remote in (False, True))
        producers = sum(each[True, remote] for each in found for remote in (False, True))
        return AttachedClients(
            consumers, producers, sum(each[producer, True] for each in found for producer in (False, True))
        )
