"""An issuer of tokens with real keys, for tests: what it signs is believed where its public half is configured."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER, AUDIENCE = "https://issuer.example", "tandemq"


@cache
def key_of(algorithm: str, number: int = 0) -> Any:
    """One private key for each number: making one takes a while."""
    del number
    match algorithm:
        case "RS256":
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def pem(*keys: Any) -> bytes:
    """Their public halves."""
    return b"".join(each.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for each in keys)


def jwk(kid: str, algorithm: str, key: Any, **more: Any) -> dict[str, Any]:
    """The public half of one, as a JWKS has it."""
    makers: dict[str, Any] = {
        "RS256": jwt.algorithms.RSAAlgorithm,
        "ES256": jwt.algorithms.ECAlgorithm,
        "EdDSA": jwt.algorithms.OKPAlgorithm,
    }
    return {"kid": kid, "use": "sig", **json.loads(makers[algorithm].to_jwk(key.public_key())), **more}


def jwks(*entries: dict[str, Any]) -> bytes:
    """A set of them."""
    return json.dumps({"keys": list(entries)}).encode()


def claims(sub: Any = "billing", **changes: Any) -> dict[str, Any]:
    """For an hour; a change to None leaves one out."""
    now = time.time()
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": sub, "iat": int(now), "exp": now + 3_600, **changes}
    return {name: value for name, value in found.items() if value is not None}


def token(
    sub: Any = "billing", algorithm: str = "ES256", key: Any = None, kid: str | None = None, **changes: Any
) -> str:
    """A signed one."""
    headers = {} if kid is None else {"kid": kid}
    signing = key if key is not None else key_of(algorithm)
    return jwt.encode(claims(sub, **changes), signing, algorithm=algorithm, headers=headers)


def shown_in(directory: Path, authority: Path, said: str) -> Path:
    """A directory of credentials with that token."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ca.pem").write_bytes(authority.read_bytes())
    made = directory / "token.new"
    made.touch(0o600)
    made.write_text(said)
    made.replace(directory / "token")
    return directory
