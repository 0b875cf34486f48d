"""Says who makes a call, by the certificate of its connection or its token; never decides what that one may do."""

from __future__ import annotations

import functools
from typing import Any

from tandemq.credentials.names import who_of

URI, CERTIFICATE = "peer_uri", "x509_pem_cert"
"""Where gRPC has the URIs of a certificate that it has verified, and the certificate itself."""
SHOWN = "tandemq_principal"
"""Where a call with a token has its principal (`replica.services.bearer`); gRPC itself has no such entry."""
KEPT = 1_024


def principal_of(context: Any) -> str:
    """`principal/NAME`, `member/PAIR/NAME` or `witness/NAME`; empty on a plain connection, and without a network."""
    asked = getattr(context, "auth_context", None)  # calls within a process, and simulated ones, have none
    if asked is None:
        return ""
    found = asked()
    if SHOWN in found:
        return str(found[SHOWN][0].decode())
    who = who_of(each.decode(errors="replace") for each in found.get(URI, ()))
    # gRPC ends a URI at its first NUL: `tandemq:member/orders/b\0.evil` is handed over as that of member b.
    return who if who and who == next(map(_named, found.get(CERTIFICATE, ())), "") else ""


def caller_of(context: Any) -> str:
    """For people: who, and from where."""
    who, where = principal_of(context), str(context.peer())
    return f"{who} at {where}" if who else where


@functools.lru_cache(KEPT)
def _named(pem: bytes) -> str:
    from tandemq.credentials.reading import shown  # nobody without certificates has the library

    try:
        return shown(pem).who
    except ValueError:
        return ""
