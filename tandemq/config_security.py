"""Decides what the section [security] of a configuration means; it looks at no file."""

from __future__ import annotations

import msgspec

from tandemq.credentials import names


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """Mutual TLS. Without credentials everything is plain, and stays on this machine."""

    credentials: str = ""  # directory with ca.pem, cert.pem, key.pem; they are read again at each handshake
    witness: str = names.WITNESS_DEFAULT  # NAME of the witness's certificate, which is for witness/NAME


def problem_of_security(security: Security, pair: str = "", *members: str) -> str:
    """What cannot work, and what to do; empty: all of it can."""
    if security.credentials and pair and pair in members:
        return (
            f"manager.pair = {pair!r} is also the name of a member: with credentials it would be one with a single "
            f"manager called {pair}, whose certificate is for {names.member(pair, pair)}; give one another name"
        )
    if problem := names.problem_of(f"witness/{security.witness}"):
        return f"security.witness = {problem}"
    return ""
