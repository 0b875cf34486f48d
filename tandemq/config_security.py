"""Decides what the section [security] of a configuration means; it looks at no file."""

from __future__ import annotations

import msgspec

from tandemq.config_quotas import problem_of_quotas
from tandemq.credentials import names

AUDIT_BYTES_MIN = 64 << 10


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """Mutual TLS. Without credentials everything is plain, and stays on this machine."""

    credentials: str = ""  # directory with ca.pem, cert.pem, key.pem; they are read again at each handshake
    administrators: tuple[str, ...] = ()  # clients who may do everything and grant rights, by the names of certificates
    audit_bytes: int = 64 << 20  # of audit.jsonl and the one before it, who was refused and who gave orders; 0 = none
    audit_refusals: int = 10  # lines a second for one principal and reason; how many more there were is counted
    quotas: tuple[str, ...] = ()  # NAME=KIND:N,KIND:N, of the kinds in docs/SECURITY.md; * is each client without one
    witness: str = names.WITNESS_DEFAULT  # NAME of the witness's certificate, which is for witness/NAME


def problem_of_security(security: Security, pair: str = "", *members: str) -> str:
    """What cannot work, and what to do; empty: all of it can."""
    if security.credentials and pair and pair in members:
        return (
            f"manager.pair = {pair!r} is also the name of a member: with credentials it would be one with a single "
            f"manager called {pair}, whose certificate is for {names.member(pair, pair)}; give one another name"
        )
    if security.credentials and not security.administrators:
        return (
            "security.administrators is empty: nobody could grant anybody a right; name the clients who may do "
            'everything, as administrators = ["ops"]'
        )
    if security.audit_bytes < 0 or 0 < security.audit_bytes < AUDIT_BYTES_MIN:
        return f"security.audit_bytes = {security.audit_bytes}: at least {AUDIT_BYTES_MIN}, or 0 for no audit log"
    if security.audit_refusals < 1:
        return f"security.audit_refusals = {security.audit_refusals}: at least 1"
    for name in security.administrators:
        if problem := names.problem_of(names.principal(name)):
            return f"security.administrators: {problem}"
    if problem := problem_of_quotas(security.quotas):
        return f"security.quotas: {problem}"
    if security.quotas and not security.credentials:
        return "security.quotas: nobody has a name without certificates; give security.credentials as well"
    if problem := names.problem_of(f"witness/{security.witness}"):
        return f"security.witness = {problem}"
    return ""
