"""Digests that two processes compare: 64 bits of a state, and of all outputs so far; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from tandemq.client.outgoing import to_message
from tandemq.twin.handling import Output

NONE = 0
"""Before the first output."""
MARKS_KEPT = 1_024
"""Digests of states (K9), here and at the pair."""


class Compared(NamedTuple):
    """The twin's outputs up to `number` had the digest `other`, and those of this process have `own`."""

    number: int
    own: int
    other: int
    equal: int
    """The input up to which outputs are known to be the same; 0: none is. The first that differs is behind it."""


def state_digest(state: bytes) -> int:
    return int.from_bytes(blake2b(state, digest_size=8).digest(), "big")


def chained(before: int, index: int, outputs: Iterable[Output]) -> int:
    """Of all outputs up to those of input `index`, which follow those that `before` is of. Never 0."""
    hashed = blake2b(before.to_bytes(8, "big") + index.to_bytes(8, "big"), digest_size=8)
    for queue, payload, attributes in outputs:
        name = queue.encode()
        more = to_message(b"", attributes).SerializeToString(deterministic=True) if attributes else b""
        hashed.update(b"%d,%d,%d:" % (len(name), len(payload), len(more)) + name)
        hashed.update(payload)
        hashed.update(more)
    return int.from_bytes(hashed.digest(), "big") or 1


def shown(digest: int) -> str:
    """As events and errors of the manager show it."""
    return f"{digest:016x}"


class OwnMarks:
    """Digests of this process's states, by the input that each is behind; the last MARKS_KEPT of them (K9)."""

    def __init__(self) -> None:
        self._by_input: dict[int, int] = {}

    def add(self, index: int, digest: int) -> None:
        self._by_input[index] = digest
        while len(self._by_input) > MARKS_KEPT:
            del self._by_input[next(iter(self._by_input))]

    def first_differing(self, theirs: Mapping[int, str]) -> tuple[int, str, str] | None:
        """The first input that both know a state behind and differ there, with this process's digest and the twin's;
        `theirs`: as shown. None: no two states that both know differ.
        """
        for index, digest in sorted(self._by_input.items()):
            if (there := theirs.get(index)) is not None and there != shown(digest):
                return index, shown(digest), there
        return None
