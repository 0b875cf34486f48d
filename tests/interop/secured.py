"""A pair with certificates for a client in any language, and directories of credentials for it, with a certificate and
with a token: no administrator's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import tandemq
from chaos.cluster import CLIENT, WITNESS, Cluster
from tandemq.config import BEARER_OFFSET, member_ports
from tandemq.config_tokens import Tokens
from tandemq.credentials.development import prepare
from tests.support import tokens
from tests.support.clusters import quick

PEOPLE = {
    "a": "member/pair/a",
    "b": "member/pair/b",
    WITNESS: "witness/witness",
    CLIENT: "principal/ops",
    "other": "principal/other",
}
RIGHTS = ("administer", "produce", "consume", "browse")


class Secured(NamedTuple):
    """It runs."""

    cluster: Cluster
    credentials: str
    """Of a client that may do everything with queues, and nothing with the pair."""
    token: str
    """The same client's, who shows a token instead of a certificate."""
    endpoints: dict[str, str]
    """Where tokens are taken, by member."""


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[Secured]:
    """Until the block ends."""
    shown = folder / "credentials"
    prepare(shown, folder / "authority", PEOPLE)
    (keys := folder / "keys.pem").write_bytes(tokens.pem(tokens.key_of("ES256")))
    said = Tokens(keys=str(keys), issuer=tokens.ISSUER, audience=tokens.AUDIENCE)
    pair = quick(folder, secured=shown, operators=["ops"])
    ports = {name: member_ports(pair.base_port, at).client + BEARER_OFFSET for at, name in enumerate(pair.members)}
    endpoints = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    pair.settings = {name: {"listen_bearer": endpoint, "tokens": said} for name, endpoint in endpoints.items()}
    by_token = tokens.shown_in(folder / "by-token", shown / "other" / "ca.pem", tokens.token("other"))
    async with pair.running() as cluster:
        async with tandemq.aio.connect(cluster.target, credentials=cluster.credentials) as client:
            for right in RIGHTS:
                await client.grant_right("other", right, "**")
        yield Secured(cluster, str(shown / "other"), str(by_token), endpoints)
