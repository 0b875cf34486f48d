"""An issuer of bearer tokens for a pair on this machine: its key, what members know of it, and its tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from chaos.cluster import Cluster
from tandemq.config import BEARER_OFFSET, member_ports
from tandemq.config_tokens import Tokens
from tandemq.credentials.files import AUTHORITY, TOKEN

ISSUER, AUDIENCE, ALGORITHM = "https://issuer.example", "tandemq", "ES256"
LASTS_S = 3_600.0


class Issuer(NamedTuple):
    """One key, whose public half is in a file."""

    key: ec.EllipticCurvePrivateKey
    file: Path

    def token(self, sub: str, **changes: Any) -> str:
        """Signed, for an hour. `changes`: of its claims; `key`, `algorithm`: signed by another one."""
        key, algorithm = changes.pop("key", self.key), changes.pop("algorithm", ALGORITHM)
        now_s = time.time()
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": sub, "iat": int(now_s), "exp": now_s + LASTS_S, **changes}
        return jwt.encode(claims, key, algorithm=algorithm)


def issuer(directory: Path) -> Issuer:
    """A new one, whose public key is in that directory."""
    key = new_key()
    file = directory / "keys.pem"
    file.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return Issuer(key, file)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Of the kind that is used here."""
    return ec.generate_private_key(ec.SECP256R1())


def show(directory: Path, authority: Path, token: str) -> None:
    """A directory of credentials with that token, also over an older one."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    believe(directory, authority)
    made = directory / f"{TOKEN}.new"
    made.touch(0o600)
    made.write_text(token, encoding="ascii")
    made.replace(directory / TOKEN)


def believe(directory: Path, authority: Path) -> None:
    """That directory has the authorities of now."""
    (directory / AUTHORITY).write_bytes((authority / AUTHORITY).read_bytes())


def bearer_ports(cluster: Cluster) -> dict[str, str]:
    """Endpoints for clients with tokens, by member."""
    places = range(len(cluster.members))
    ports = [member_ports(cluster.base_port, at).client + BEARER_OFFSET for at in places]
    return {name: f"{cluster.host}:{port}" for name, port in zip(cluster.members, ports, strict=True)}


def taking_tokens(of: Issuer, endpoints: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Settings of members that believe it."""
    said = Tokens(keys=str(of.file), issuer=ISSUER, audience=AUDIENCE)
    return {name: {"listen_bearer": endpoint, "tokens": said} for name, endpoint in endpoints.items()}
