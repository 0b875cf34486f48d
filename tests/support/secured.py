"""The pairs with certificates that tests start: whose there are, where they are, and who may do what from the start."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chaos.cluster import CLIENT, WITNESS, Cluster
from tandemq import aio
from tandemq.config_security import Security
from tandemq.credentials.development import prepare
from tests.support.clusters import patient
from tests.support.until import OUTER_S

OPERATOR = "ops"
"""Whose the credentials of the cluster itself are: the administrator."""


def people(*principals: str, pair: str = "pair") -> dict[str, str]:
    """Everybody who has a certificate, by the name of his directory: members, witness, operator, and these."""
    own = {
        "a": f"member/{pair}/a",
        "b": f"member/{pair}/b",
        WITNESS: "witness/witness",
        CLIENT: f"principal/{OPERATOR}",
    }
    return own | {name: f"principal/{name}" for name in principals}


def issued(folder: Path, *principals: str, pair: str = "pair") -> Path:
    """The directory of their directories, made below `folder` with an authority beside it."""
    shown = folder / "credentials"
    prepare(shown, folder / "authority", people(*principals, pair=pair))
    return shown


def secured(folder: Path, *principals: str, quotas: tuple[str, ...] = (), **settings: Any) -> Cluster:
    """A pair that is still to be started, with certificates for these beside its own."""
    shown = issued(folder, *principals)
    if quotas:
        settings["settings"] = {
            name: {"security": Security(credentials=str(shown / name), administrators=(OPERATOR,), quotas=quotas)}
            for name in ("a", "b")
        }
    return patient(folder / "pair", secured=shown, operators=[OPERATOR], **settings)


def credentials_of(pair: Cluster, who: str) -> Path:
    """Of a principal, or of the operator."""
    own = Path(pair.credentials)
    return own if who == OPERATOR else own.with_name(who)


def client_of(pair: Cluster, who: str = OPERATOR, endpoint: str = "", **settings: Any) -> aio.Client:
    """`endpoint`: of one member; empty: of both."""
    own = credentials_of(pair, who)
    return aio.connect(endpoint or pair.target, credentials=own, **{"timeout": OUTER_S, **settings})


async def start_secured(pair: Cluster, rights: Iterable[tuple[str, str, str]] = (), queues: Iterable[str] = ()) -> None:
    """Starts it, makes the queues and grants the rights: who, which, where."""
    await pair.start()
    async with client_of(pair) as ops:
        for queue in queues:
            await ops.create_queue(queue)
        for right in rights:
            await ops.grant_right(*right)
