"""Decides what the section [tokens] of a configuration means; it looks at no file and asks nobody."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

HTTPS = "https://"
LEEWAY_MAX_S = 300
REFRESH_MIN_S = 10


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Whose bearer tokens are believed at listen_bearer."""

    keys: str = ""  # a file of public keys in PEM or a JWKS, or the https:// address of a JWKS
    keys_authority: str = ""  # for https: ca.pem of who answers there; "" = the authorities of this system
    issuer: str = ""  # `iss` of each token
    audience: str = ""  # what has to stand in its `aud`
    leeway_seconds: int = 30  # how far clocks may differ: a token holds so much longer, and so much earlier
    refresh_seconds: int = 300  # how often a JWKS address is asked; a file is looked at each second


def problem_of_tokens(tokens: Tokens, listen_bearer: str, credentials: str) -> str:
    """What cannot work, and what to do; empty: all of it can."""
    named = {name: getattr(tokens, name) for name in ("keys", "issuer", "audience")}
    if not listen_bearer:
        given = next((name for name, value in named.items() if value), "")
        return f"tokens.{given} is given, but manager.listen_bearer is empty: nobody could show one" if given else ""
    if not credentials:
        return "manager.listen_bearer needs security.credentials: a token is never sent over a plain connection"
    if missing := next((name for name, value in named.items() if not value), ""):
        return f"tokens.{missing} is missing: manager.listen_bearer believes tokens by tokens.keys, issuer and audience"
    if "://" in tokens.keys and not (tokens.keys.startswith(HTTPS) and _has_host(tokens.keys)):
        return f"tokens.keys = {tokens.keys!r}: write https://host/path, or the path of a file"
    if tokens.keys_authority and not tokens.keys.startswith(HTTPS):
        return "tokens.keys_authority is for a tokens.keys that begins with https://; remove it"
    if not 0 <= tokens.leeway_seconds <= LEEWAY_MAX_S:
        return f"tokens.leeway_seconds = {tokens.leeway_seconds}: from 0 to {LEEWAY_MAX_S}"
    if tokens.refresh_seconds < REFRESH_MIN_S:
        return f"tokens.refresh_seconds = {tokens.refresh_seconds}: at least {REFRESH_MIN_S}"
    return ""


def _has_host(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:  # no port is that
        return False
