"""A pair with certificates for a client in any language, and a directory of credentials for it: no administrator's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import tandemq
from chaos.cluster import CLIENT, WITNESS, Cluster
from tandemq.credentials.development import prepare
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


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[Secured]:
    """Until the block ends."""
    shown = folder / "credentials"
    prepare(shown, folder / "authority", PEOPLE)
    async with quick(folder, secured=shown, operators=["ops"]).running() as cluster:
        async with tandemq.aio.connect(cluster.target, credentials=cluster.credentials) as client:
            for right in RIGHTS:
                await client.grant_right("other", right, "**")
        yield Secured(cluster, str(shown / "other"))
