"""Reads the public keys by which tokens are believed: PEM, or a JWKS. Pure; it fetches nothing.

A key verifies one algorithm alone, which follows from its kind and from nothing that a token says. Kinds that are not
in the list are left out, as those that encrypt are.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jwt
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""All that there are; `none` and those with a shared secret (HS256) never are among them."""
KEYS_MAX = 16
"""A token that names no key is tried with each of its algorithm."""
KEYS_BYTES_MAX = 256 << 10
RSA_BITS_MIN, RSA_BITS_MAX = 2_048, 8_192
"""The second: what verifying one token may take."""
BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_PRIVATE = ("d", "k")
"""Of a JWK: what makes it the secret half, or a shared secret."""
_KIND = MappingProxyType({"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"})


class BadKeys(ValueError):  # noqa: N818 - reads well where it is caught
    """Keys of no use; the message says what is wrong and what to do."""


class TokenKey(NamedTuple):
    """One key."""

    kid: str
    """By which a token names it; empty: it has no name, and is tried for any."""
    algorithm: str
    key: PublicKey


def read_keys(data: bytes) -> tuple[TokenKey, ...]:
    """The keys in a file of PEM, or in a JWKS. Raises BadKeys."""
    if len(data) > KEYS_BYTES_MAX:
        raise BadKeys(f"has more than {KEYS_BYTES_MAX} bytes; is it something else?")
    found = _of_pem(data) if b"-----BEGIN " in data else _of_jwks(data)
    if not found:
        raise BadKeys(f"has no public key for {', '.join(ALGORITHMS)}: RSA, P-256 or Ed25519, to verify signatures")
    if len(found) > KEYS_MAX:
        raise BadKeys(f"has {len(found)} keys, and {KEYS_MAX} are the most; leave out those that sign nothing any more")
    return tuple(found)


def _of_pem(data: bytes) -> list[TokenKey]:
    found = []
    for block in BLOCK.finditer(data):
        label = block[1].decode()
        if "PRIVATE" in label:
            raise BadKeys("holds a private key; give the public one: openssl pkey -pubout")
        try:
            if label == "CERTIFICATE":
                key: object = x509.load_pem_x509_certificate(block[0]).public_key()
            else:
                key = load_pem_public_key(block[0])
        except (ValueError, UnsupportedAlgorithm) as error:
            raise BadKeys(f"{label}: cannot be read: {error}") from error
        if (known := _known("", key)) is None:
            raise BadKeys(f"{label}: of a kind that verifies none of {', '.join(ALGORITHMS)}")
        found.append(known)
    return found


def _of_jwks(data: bytes) -> list[TokenKey]:
    try:
        said: Any = json.loads(data)
        entries = [entry for entry in said["keys"] if isinstance(entry, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadKeys('is neither PEM nor a JWKS: {"keys": [...]}') from None
    if len(entries) > 4 * KEYS_MAX:
        raise BadKeys(f"has {len(entries)} keys, and {KEYS_MAX} are the most")
    found = []
    for entry in entries:
        if entry.get("use", "sig") != "sig" or entry.get("kty") not in _KIND:
            continue
        if any(each in entry for each in _PRIVATE):
            raise BadKeys("holds a private key; publish the public half alone")
        try:
            key = jwt.PyJWK(entry, algorithm=_KIND[entry["kty"]]).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
            continue  # of a curve or a form that is not ours
        kid = entry.get("kid", "")
        if (known := _known(kid if isinstance(kid, str) else "", key)) is None:
            continue
        if entry.get("alg", known.algorithm) == known.algorithm:
            found.append(known)
    return found


def _known(kid: str, key: object) -> TokenKey | None:
    if isinstance(key, rsa.RSAPublicKey) and RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        return TokenKey(kid, "RS256", key)
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return TokenKey(kid, "ES256", key)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return TokenKey(kid, "EdDSA", key)
    return None
