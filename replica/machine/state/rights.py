"""What principals may do, as granted by records and as committed; decides by names and patterns alone.

A pattern is the name of a queue, or ends in `*` (one segment more) or `**` (one or more). Which ones cover a name
follows from the name, so that a decision is a few look-ups however many grants there are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

PRODUCE, CONSUME, BROWSE, ADMINISTER, OBSERVE, OPERATE = range(1, 7)
"""As tandemq.v1.Right numbers them."""
OF_QUEUES = (PRODUCE, CONSUME, BROWSE, ADMINISTER)
OF_PAIR = (OBSERVE, OPERATE)
ALL = "**"
"""Every queue of this manager. No queue is called so."""
ELSEWHERE = "//"
"""What a queue of another manager begins with."""
NAME_CHARS_MAX = 2 + 64 + 1 + 64 + 1 + 255
"""Of `//manager:domain/name`. No grant covers what is longer: it is no queue's name, and has as many patterns as
slashes."""


class Key(NamedTuple):
    principal: str
    right: int
    pattern: str


class Grant(NamedTuple):
    key: Key
    version: int  # of all rights, after it
    log_index: int  # of its record
    by: str
    granted_ms: int


class InForce:
    """Committed grants. A right counts when it is on every copy that must have it, and not before."""

    def __init__(self) -> None:
        self.version = 0
        self._grants: dict[Key, Grant] = {}
        self._counts: Counter[tuple[str, int]] = Counter()

    def set(self, key: Key, grant: Grant | None, version: int) -> None:
        """None: it is taken away."""
        self.version = version
        if grant is not None:
            self._counts[key[:2]] += key not in self._grants
            self._grants[key] = grant
        elif self._grants.pop(key, None) is not None:
            self._counts[key[:2]] -= 1

    def deciding(self, principal: str, right: int, name: str) -> Grant | None:
        """The narrowest grant of this right on a queue, or with an empty name on the pair; None: there is none."""
        grants = self._grants
        if len(name) > NAME_CHARS_MAX:
            return None
        for pattern in covering(name):
            if (found := grants.get(Key(principal, right, pattern))) is not None:
                return found
        return None

    def sees(self, principal: str, name: str) -> bool:
        """Whether it has any right on the queue: for whoever has none, the queue is not there."""
        return any(self.deciding(principal, right, name) is not None for right in OF_QUEUES)

    def has_some(self, principal: str, right: int) -> bool:
        """Whether it has this right on some queue."""
        return self._counts[principal, right] > 0

    def listed(self, principal: str) -> list[Grant]:
        """By principal, right and pattern; empty: of all."""
        return [grant for key, grant in sorted(self._grants.items()) if principal in ("", key.principal)]


class Rights:
    """The rights of one domain: what is granted, and of that what counts."""

    def __init__(self) -> None:
        self.version = 0  # of the last change; versions are never used again
        self.grants: dict[Key, Grant] = {}
        self.in_force = InForce()
        self.pending: deque[tuple[int, Key, Grant | None, int]] = deque()
        """What is ordered and not committed, by rising log index, with the version after it."""

    def change(self, log_index: int, key: Key, grant: Grant | None, version: int) -> None:
        """Has been ordered."""
        self.version = version
        if grant is None:
            del self.grants[key]
        else:
            self.grants[key] = grant
        self.pending.append((log_index, key, grant, version))

    def commit(self, log_index: int) -> None:
        """Everything up to here is on every copy that must have it."""
        pending = self.pending
        while pending and pending[0][0] <= log_index:
            self.in_force.set(*pending.popleft()[1:])

    @classmethod
    def of(cls, grants: list[Grant], version: int, commit_index: int) -> Rights:
        """As they were in a snapshot. What was taken away by a record that is not committed there is gone at once."""
        made = cls()
        made.version = version
        for grant in sorted(grants, key=lambda each: each.log_index):
            made.change(grant.log_index, grant.key, grant, version)
        made.commit(commit_index)
        if not made.pending:
            made.in_force.version = version
        return made


def covering(name: str) -> Iterator[str]:
    """The patterns that cover a name, the narrowest first."""
    yield name
    if name in ("", ALL):
        return
    above = name.rpartition("/")[0]
    floor = 1 if name.startswith(ELSEWHERE) else 0  # of a queue of another manager `//` stays
    yield f"{above}/*" if above else "*"
    while len(above) > floor:
        yield f"{above}/**"
        above = above.rpartition("/")[0]
    yield f"//{ALL}" if floor else ALL
