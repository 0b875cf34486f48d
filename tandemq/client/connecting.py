"""Says why a client could not connect, where certificates are the reason; asks once, when the client has given up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tandemq.channels import Open, Renewed, open_channel
from tandemq.errors import TandemqError, TimedOut, Unreachable


class NotTrusted(Unreachable):
    """There was no connection, because one side has no certificate that the other one takes."""


async def why_unreachable(opener: Open, endpoints: Iterable[str]) -> str:
    """In a sentence; empty: certificates are not the reason, or nobody knows. Ends within about a second."""
    if isinstance(opener, Renewed):
        directory = opener.directory
    elif opener is open_channel:
        directory = ""
    else:
        return ""  # no network of this machine
    from tandemq.credentials.trouble import why_not  # with what TLS needs

    said = await asyncio.gather(*(why_not(each, directory) for each in endpoints))
    return "; ".join(dict.fromkeys(filter(None, said)))


async def explained(error: TandemqError, opener: Open, endpoints: Iterable[str], *, found_nobody: bool) -> TandemqError:
    """The error by which a call or a stream ends, with the reason where it is that. `found_nobody`: by an attempt
    before, for the last one may have had no time to connect.
    """
    away = isinstance(error, Unreachable) or (isinstance(error, TimedOut) and found_nobody)
    if not away or not (why := await why_unreachable(opener, endpoints)):
        return error
    return NotTrusted("UNREACHABLE", why, error.metadata, definite=error.definite, retryable=error.retryable)
