"""Fetches a JWKS over https: one GET, bounded in size and time, and nowhere else than to that address.

Blocks; for a thread of its own. A redirect is not followed: whoever it leads to was not configured. There is no proxy.
"""

from __future__ import annotations

import http.client
import ssl
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

from replica.tokens.keys import KEYS_BYTES_MAX, BadKeys

TIMEOUT_S = 5.0
"""Of each step: to connect, to hear the answer begin, each read."""
TOTAL_S = 15.0
"""Of all of it, also of a body that comes byte by byte."""
READ_BYTES = 16 << 10


def fetch(address: str, authority: str) -> bytes:
    """What is there. `authority`: a file with those that are believed; empty: this system's. Raises BadKeys."""
    parts = urlsplit(address)
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    until_s = time.monotonic() + TOTAL_S
    cleanup = ExitStack()
    try:
        context = ssl.create_default_context(cafile=authority or None)
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S, context=context)
        cleanup.callback(connection.close)
        connection.request("GET", path, headers={"accept": "application/json", "connection": "close"})
        answer = connection.getresponse()  # keeps the connection, which ends with it
        cleanup.callback(answer.close)
        if answer.status != http.HTTPStatus.OK:
            raise BadKeys(f"answered {answer.status}, and not 200")
        data = b""
        while piece := answer.read1(READ_BYTES):
            data += piece
            if len(data) > KEYS_BYTES_MAX:
                raise BadKeys(f"answered with more than {KEYS_BYTES_MAX} bytes")
            if time.monotonic() > until_s:
                raise BadKeys(f"did not answer within {TOTAL_S:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, BadKeys):
            raise
        raise BadKeys(f"cannot be fetched: {str(error) or type(error).__name__}") from error
    finally:
        cleanup.close()
    return data
