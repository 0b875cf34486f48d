"""How a line of an audit log looks: for the member that writes it, and for who reads the file. Decides nothing.

Format: JSON lines. `audit.jsonl` is the newer half, `audit.1.jsonl` the older one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

FILE, OLDER = "audit.jsonl", "audit.1.jsonl"


class AuditLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asked for what, and what came of it."""

    time: str
    member: str
    principal: str
    address: str
    method: str
    object: str
    """Names of queues, or what was granted; `pair`."""
    outcome: str
    """OK, or the reason of a refusal."""
    request: str = ""
    """Its id in hex, where it has one."""
    left_out: int = 0
    """So many refusals of this principal for this reason before it have no line."""


def decoded(lines: Iterable[bytes]) -> tuple[list[AuditLine], int]:
    """Those that are whole, in order, and how many are not: a member was killed while it wrote."""
    found: list[AuditLine] = []
    bad = 0
    for line in filter(None, lines):
        try:
            found.append(msgspec.json.decode(line, type=AuditLine))
        except msgspec.MsgspecError:
            bad += 1
    return found, bad
