"""Decides how certificates name members, witnesses and clients. Pure; it reads no certificate.

A URI says who somebody is, and is compared as it stands. Who dials a member knows only a DNS name to compare with, so
each member and each witness has one of its own as well: pairs and members may have names that are none in DNS, and two
of them must never be alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

SCHEME = "tandemq:"
ZONE = "tandemq"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of members, pairs, witnesses and clients
WITNESS_DEFAULT = "witness"
_PARTS = {"member": 2, "principal": 1, "witness": 1}.items()  # names behind each kind
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?")
_HASHED = "x--"
"""What a label begins with that is the digest of a name. No name that stands as it is begins so."""


def member(pair: str, name: str) -> str:
    """Who a member is."""
    return f"member/{pair}/{name}"


def principal(name: str) -> str:
    """Who a client is, by the name in its certificate; a name with its kind stays as it is."""
    return name if "/" in name else f"principal/{name}"


def problem_of(who: str) -> str:
    """What is wrong with it, and what to do; empty: nothing. `member/PAIR/NAME`, `witness/NAME`, `principal/NAME`."""
    kind, *names = who.split("/")
    if (kind, len(names)) not in _PARTS:
        return f"{who[:200]!r}: write NAME for a client, member/PAIR/NAME, or witness/NAME"
    wrong = next((name for name in names if not NAME.fullmatch(name)), None)
    if wrong is not None:
        return f"{wrong[:80]!r} in {who[:200]!r}: use up to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit"
    return ""


def uri(who: str) -> str:
    """As it stands in a certificate."""
    return SCHEME + who


def who_of(uris: Iterable[str]) -> str:
    """Who has a certificate with these URIs; empty when it names nobody here, or more than one."""
    ours = [each.removeprefix(SCHEME) for each in uris if each.startswith(SCHEME)]
    return ours[0] if len(ours) == 1 and not problem_of(ours[0]) else ""


def dns(who: str) -> str:
    """The name by which it is expected where it is dialled; empty for a client, which nobody dials."""
    kind, *names = who.split("/")
    if kind == "principal":
        return ""
    return ".".join([*(_label(name) for name in reversed(names)), kind, ZONE])


def _label(name: str) -> str:
    """DNS takes capitals for small letters, and a dot for the end of a label."""
    if _LABEL.fullmatch(name) and not name.startswith(_HASHED):
        return name
    return _HASHED + hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
