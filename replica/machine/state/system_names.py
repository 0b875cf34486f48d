"""Says which queues a manager makes for itself, by their names; decides nothing.

No client's queue begins with SYSTEM.; these may be made by hand all the same, with attributes of their own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SYSTEM = "SYSTEM."
"""What names of the managers' own queues begin with."""
XMIT = "SYSTEM.XMIT/"
"""What it is followed by is where the messages in it go to: `manager`, or `manager:domain` (X1); behind that `/queue`,
where all of them are for that one, as a member of macro queues (M4).
"""
FULL = "//"
"""What full names begin with."""
CONSUMER = "xmit"
"""Whose numbered batches those of transmission queues are (X3)."""
DEAD = "SYSTEM.DEAD"
"""Messages that came from another manager and have no place here, or travelled too far (X5). In another domain than the
main one, `/` and its name follow: each has its own, and a name leads to one queue of a manager.
"""
REACTIVE = "SYSTEM.REACTIVE/"
"""What it is followed by is the queue that the reactions in it are kept for (V11)."""
SIDE = "SYSTEM.SIDE/"
"""What it is followed by is the queue with PRODUCER replication that it is this member's side of (K1)."""
TWIN = "SYSTEM.TWIN/"
"""What it is followed by is the name of twins, whose processes make these queues and meet there (K9, K10)."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_QUEUE = r"(?!SYSTEM\.)(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+)*"
_DESTINATION = re.compile(rf"({_NAME})(?::((?!local(?:/|\Z))(?![0-9]+(?:/|\Z)){_NAME}))?(?:/({_QUEUE}))?")
"""As `tandemq.finding.names` has them."""

_DEAD = re.compile(rf"{re.escape(DEAD)}/{_NAME}")


class Destination(NamedTuple):
    """Where the messages of one transmission queue go."""

    manager: str
    domain: str = ""
    """Of that manager; empty: its main one."""
    queue: str = ""
    """Of that manager; empty: each message says for which one it is."""

    @property
    def place(self) -> str:
        """`manager` or `manager:domain`."""
        return f"{self.manager}:{self.domain}" if self.domain else self.manager

    @property
    def full_name(self) -> str:
        """Of its queue; empty: it has none."""
        return f"{FULL}{self}" if self.queue else ""

    def __str__(self) -> str:
        return f"{self.place}/{self.queue}" if self.queue else self.place


def xmit_queue(target: Destination | str) -> str:
    return f"{XMIT}{target}"


def target_of(queue: str) -> Destination | None:
    """Where its messages go; None: it is no transmission queue."""
    found = _DESTINATION.fullmatch(queue.removeprefix(XMIT)) if queue.startswith(XMIT) else None
    return Destination(found[1], found[2] or "", found[3] or "") if found is not None else None


def way_to(full_name: str) -> str:
    """The transmission queue of what goes to that queue of another manager alone."""
    return XMIT + full_name.removeprefix(FULL)


def manager_of(target: str) -> str:
    """Of `manager:domain` or `manager/queue`; else the text itself."""
    found = _DESTINATION.fullmatch(target)
    return found[1] if found is not None else target


def dead_queue(domain: str) -> str:
    """Of that domain; empty: of the main one."""
    return f"{DEAD}/{domain}" if domain else DEAD


def is_dead(queue: str) -> bool:
    return queue == DEAD or _DEAD.fullmatch(queue) is not None


def is_system(queue: str) -> bool:
    return is_dead(queue) or target_of(queue) is not None


def kept_queue(queue: str) -> str:
    """Where the reactions of a queue are kept."""
    return REACTIVE + queue


def side_queue(queue: str) -> str:
    """A member's side of that queue, in the member's own domain."""
    return SIDE + queue


def is_side(queue: str) -> bool:
    return queue.startswith(SIDE)


def shown(queue: str) -> str:
    """What its consumers call that queue: a side has the name of the queue that it is a side of."""
    return queue.removeprefix(SIDE)


def met_in(queue: str) -> str:
    """The twins whose queue it is, and which one of theirs; empty: it is no queue of twins."""
    name = queue.removeprefix(TWIN)
    return name if name != queue else ""


def kept_for(queue: str) -> str:
    """The queue that the reactions in it are kept for; empty: it is no queue of reactions."""
    name = queue.removeprefix(REACTIVE)
    return name if name != queue else ""
