"""Decides what `security.quotas` of a configuration means: how much a client may ask of one member.

Without an entry nobody is counted; administrators and members are never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tandemq.credentials import names

EVERYBODY = "*"
AMOUNT_MAX = 1 << 40


class Quota(NamedTuple):
    """What one principal may ask of a member, and keep; 0: as much as it wants. The first three are for a second."""

    messages: int = 0
    """That it sends."""
    bytes: int = 0
    """Of requests, and of the batches of Produce streams."""
    calls: int = 0
    """That it begins; each stream is one."""
    streams: int = 0
    """Open at a time."""
    connections: int = 0
    """In use at a time."""
    units: int = 0
    """Units of work that are open at a time at this member, as the master of their domains."""
    queues: int = 0
    """Of its own, in each domain; that domain's master decides by what its records say."""
    stored: int = 0
    """Payload bytes in those."""
    identities: int = 0
    """Clients that are remembered as senders to those."""


def quotas_of(entries: Iterable[str]) -> Mapping[str, Quota]:
    """By principal, and by EVERYBODY. Raises ValueError with what is wrong, and what to do."""
    found: dict[str, Quota] = {}
    for entry in entries:
        name, mark, text = entry.partition("=")
        who = name if name == EVERYBODY else names.principal(name)
        if not mark or not text:
            raise ValueError(f"{entry!r}: write NAME=messages:1000,streams:50, or *= for everybody else")
        if who != EVERYBODY and (problem := names.problem_of(who)):
            raise ValueError(problem)
        if who in found:
            raise ValueError(f"{name!r} is there twice; write what it may in one entry")
        found[who] = _quota(entry, text)
    return found


def problem_of_quotas(entries: Iterable[str]) -> str:
    """What cannot work, and what to do; empty: all of it can."""
    try:
        quotas_of(entries)
    except ValueError as error:
        return str(error)
    return ""


def _quota(entry: str, text: str) -> Quota:
    amounts: dict[str, int] = {}
    for part in text.split(","):
        kind, _, amount = part.strip().partition(":")
        if kind not in Quota._fields or kind in amounts:
            known = ", ".join(Quota._fields)
            raise ValueError(f"{entry!r}: {kind!r} is none of {known}, or is there twice")
        if not amount.isdecimal() or not 1 <= int(amount) <= AMOUNT_MAX:
            raise ValueError(f"{entry!r}: {kind}:{amount}: write a whole number from 1 on; leave out what has no bound")
        amounts[kind] = int(amount)
    return Quota(**amounts)
