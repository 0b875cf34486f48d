"""Says who makes a call, by the certificate of its connection; it never decides what that one may do."""

from __future__ import annotations

from typing import Any

from tandemq.credentials.names import who_of

URI = "peer_uri"
"""Where gRPC has the URIs of a certificate that it has verified."""


def principal_of(context: Any) -> str:
    """`principal/NAME`, `member/PAIR/NAME` or `witness/NAME`; empty on a plain connection, and without a network."""
    asked = getattr(context, "auth_context", None)  # calls within a process, and simulated ones, have none
    if asked is None:
        return ""
    return who_of(each.decode(errors="replace") for each in asked().get(URI, ()))


def caller_of(context: Any) -> str:
    """For people: who, and from where."""
    who, where = principal_of(context), str(context.peer())
    return f"{who} at {where}" if who else where
