"""Decides what names a producer, a consumer and a call. It never reuses a random name."""

from __future__ import annotations

from tandemq import ambient
from tandemq.errors import InvalidRequest

CLIENT_ID_BYTES_MAX = 64
SUFFIX_BYTES_MAX = 8  # room that is kept for the suffix of a producer whose sequences are spent (Outbox.switching)


def new_client_id(given: bytes | str | None) -> bytes:
    """The bytes that name a producer or consumer: what was given (1 to 56 bytes), or 16 random ones."""
    if given is None:
        return ambient.random_bytes(16)
    name = given.encode() if isinstance(given, str) else given
    if not 1 <= len(name) <= CLIENT_ID_BYTES_MAX - SUFFIX_BYTES_MAX:
        raise InvalidRequest(
            "BAD_REQUEST", f"a client id has 1 to {CLIENT_ID_BYTES_MAX - SUFFIX_BYTES_MAX} bytes", definite=True
        )
    return name


def new_request_id() -> bytes:
    """16 random bytes."""
    return ambient.random_bytes(16)
