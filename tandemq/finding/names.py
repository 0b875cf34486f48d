"""Decides what a full name is: `//manager/relative/name`, or `//manager:domain/...`. Pure; it looks nothing up.

`///relative/name` leaves the manager out: the queue was exported, and a resolver knows whose it is. A relative name
never begins with a slash, so no relative name is a full one.

A domain belongs to the way, and not to the queue, which one name of a manager is enough for: what is sent on carries to
one domain of its target (X1). Whoever speaks with that manager itself leaves it out.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from tandemq.errors import TandemqError, error_of

MARK = "//"
DOMAIN_MARK = ":"
NAMES_KEPT = 1024
"""That were taken apart last: messages of a link name few queues, each again and again."""
NAME_BYTES_MAX = 255  # of a relative name, as managers have it
MANAGER_CHARACTERS_MAX = 64
LOCAL = "local"
"""What each member calls the domain that it has for itself: no name leads there from another manager."""
_MANAGER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_CHARACTERS = "A-Z a-z 0-9 . _ -"


class FullName(NamedTuple):
    """A queue, or with an empty `queue` a manager; one of the two is not empty."""

    manager: str  # a manager, a pair, or an alias of one; empty: a resolver knows
    queue: str  # relative to the manager
    domain: str = ""  # of the manager, to which what is sent on is carried; empty: its main one

    def __str__(self) -> str:
        domain = f"{DOMAIN_MARK}{self.domain}" if self.domain else ""
        return f"{MARK}{self.manager}{domain}" + (f"/{self.queue}" if self.queue else "")


def is_full(name: str) -> bool:
    """Whether it says more than a name relative to the manager that one is connected to."""
    return name.startswith(MARK)


@functools.lru_cache(NAMES_KEPT)
def parse_place(text: str) -> FullName:
    """What a client can be connected to: `//manager`, `//manager/queue` or `///queue`. Raises BAD_NAME."""
    if text.startswith(("/.:", "/...")):
        raise _bad(text, "is a name of DCE; write //manager or //manager/queue")
    if not is_full(text):
        raise _bad(text, "does not begin with two slashes; write //manager or //manager/queue")
    place, _, queue = text.removeprefix(MARK).partition("/")
    manager, mark, domain = place.partition(DOMAIN_MARK)
    if not place and not queue:
        raise _bad(text, "names nothing; write //manager, //manager/queue, or ///queue for an exported queue")
    if place:
        check_manager(manager, text)
    if mark:
        _check_domain(manager, domain, text)
    if queue:
        check_queue(queue, text)
    return FullName(manager, queue, domain)


def parse_queue(text: str) -> FullName:
    """A queue's full name. Raises BAD_NAME."""
    name = parse_place(text)
    if not name.queue:
        raise _bad(text, f"names a manager and no queue; write {MARK}{name.manager}/queue")
    return name


def check_manager(name: str, within: str = "") -> None:
    """Raises BAD_NAME unless a manager, a pair or an alias of one may be called so. `within`: what it is a part of."""
    if len(name) > MANAGER_CHARACTERS_MAX:
        raise _bad(within or name, f"its manager's name has {len(name)} characters; at most {MANAGER_CHARACTERS_MAX}")
    if not _MANAGER.fullmatch(name):
        raise _bad(within or name, f"{name!r} is no manager's name: use {_CHARACTERS}, a letter or digit first")


def _check_domain(manager: str, name: str, within: str) -> None:
    if name.isdecimal():
        raise _bad(within, f"{name} is no domain's name here; give endpoints without slashes: host:port,host:port")
    if name == LOCAL:
        text = f"{LOCAL} is what each member has for itself, and no name leads there; write {MARK}{manager}/queue"
        raise _bad(within, text)
    if len(name) > MANAGER_CHARACTERS_MAX:
        raise _bad(within, f"its domain's name has {len(name)} characters; at most {MANAGER_CHARACTERS_MAX}")
    if not _MANAGER.fullmatch(name):
        raise _bad(within, f"{name!r} is no domain's name: use {_CHARACTERS}, a letter or digit first")


def check_queue(name: str, within: str = "") -> None:
    """Raises BAD_NAME unless it is a relative name by the rules that managers have."""
    if len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
        raise _bad(within or name, f"its relative name is longer than {NAME_BYTES_MAX} bytes")
    for segment in name.split("/"):
        if not segment:
            raise _bad(within or name, "a segment is empty; take out the second of two slashes, or the last one")
        if segment in (".", ".."):
            raise _bad(within or name, f"segment {segment!r} means nothing here; write the name in full")
        if not _SEGMENT.fullmatch(segment):
            raise _bad(within or name, f"{segment!r} is no segment of a name: use {_CHARACTERS}")


def _bad(text: str, why: str) -> TandemqError:
    shown = text if len(text) <= NAME_BYTES_MAX else text[:NAME_BYTES_MAX] + "..."
    return error_of("BAD_NAME", f"{shown!r}: {why}", {"name": shown})
