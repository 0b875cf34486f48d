"""How a caller tells which epoch it has seen, where its request has no field for that: a metadata entry of the call.

A member that knows less refuses (STALE_EPOCH) instead of answering from the past. Without it a master that was replaced
and does not know it yet would say that a queue exists which its caller has just deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

KEY = "x-tandemq-seen"
EPOCH_MAX = (1 << 64) - 1
EPOCH_DIGITS_MAX = 20


def told(domain: str, epoch: int) -> tuple[tuple[str, str], ...]:
    """The metadata that says so: `main=3`. None for a caller who has seen nothing."""
    return ((KEY, f"{domain}={epoch}"),) if epoch else ()


def read(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, int]:
    """The highest epoch by domain. Raises ValueError, in words for the caller, for an entry that cannot be one."""
    found: dict[str, int] = {}
    for key, value in metadata:
        if key == KEY:
            domain, _, digits = str(value).partition("=")
            is_number = digits.isascii() and digits.isdigit() and len(digits) <= EPOCH_DIGITS_MAX
            if not domain or not is_number or int(digits) > EPOCH_MAX:
                raise ValueError(f"{KEY} is {str(value)[:80]!r}; it must be DOMAIN=EPOCH, as main=3")
            found[domain] = max(found.get(domain, 0), int(digits))
    return found
