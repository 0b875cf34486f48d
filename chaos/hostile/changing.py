"""Rights that change at a bad moment, while members are killed, stopped or handed over: each change is made once,
and is at both.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from chaos.cluster import Cluster
from chaos.hostile.inputs import Input
from chaos.hostile.target import Target
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.config import to_toml
from tandemq.errors import Denied, TandemqError

BOUND_S = 40.0
BEFORE, MOST, AT_ONCE = 5, 10_000, 8
CHANGED = "changed"
"""Whose rights change: nobody's that is at work."""


class Changes:
    """Those of one pair."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def both(self, target: Target) -> str:
        """By one version, at both members at a time."""
        async with _ops(target) as client:
            version = (await client.list_rights()).version

        async def granted(name: str) -> str:
            async with _ops(target, target.clients[name]) as client:
                try:
                    await client.grant_right(CHANGED, "produce", f"of/{name}", expected_version=version)
                except TandemqError as error:
                    return error.reason
            return "OK"

        return " and ".join(sorted(await asyncio.gather(*map(granted, target.clients))))

    async def handoff(self, target: Target) -> str:
        """One after the other, while the mastership goes to the other member and back."""
        granting = _Granting("handoff")
        async with _ops(target) as client, granting.of(client):
            for name in reversed(target.clients):
                await granting.reached(BEFORE)
                async with asyncio.timeout(BOUND_S):
                    while not await _handed_over(client, name):
                        await granting.reached(1)
            await granting.reached(BEFORE)
        return await granting.verdict([_ops(target, each) for each in target.clients.values()])

    async def takeover(self, target: Target) -> str:
        """The master is killed while one is under way."""
        granting, master = _Granting("takeover"), next(iter(target.clients))
        async with _ops(target) as client, granting.of(client):
            await granting.reached(BEFORE)
            self._cluster.kill(master)
            await granting.reached(BEFORE)
        await self._cluster.restart(master)
        await self._cluster.wait_for(PairView.equal, "both have everything again", BOUND_S)
        return await granting.verdict([_ops(target, each) for each in target.clients.values()])

    async def cut_off(self, target: Target) -> str:
        """A member that is stopped misses a revocation: it lets nobody in by what it knew."""
        (master, at_master), (replica, at_replica) = target.clients.items()
        async with _ops(target) as client:
            await client.grant_right("crowd", "browse", "orders")
            self._cluster.pause(replica)
            try:
                await self._cluster.wait_for(lambda view: _alone(view, master), "the master goes on alone", BOUND_S)
                await client.revoke_right("crowd", "browse", "orders")
            finally:
                self._cluster.resume(replica)
            answers = [await _browsed(target, at_replica), await _browsed(target, at_master)]
            await self._cluster.wait_for(PairView.equal, "both have everything again", BOUND_S)
            answers.append(await _browsed(target, at_replica))
        return next((each for each in answers if each != "PERMISSION_DENIED"), answers[-1])

    async def last_administrator(self, _target: Target) -> str:
        """A configuration without one is refused; and no record takes from one what he may."""
        config = self._cluster.config("a")
        config = msgspec.structs.replace(config, security=msgspec.structs.replace(config.security, administrators=()))
        file = Path(self._cluster.credentials).parents[1] / "nobody.toml"
        file.write_text(to_toml(config), encoding="utf-8")
        words = [sys.executable, "-m", "tandemq", "serve", "--config", str(file)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
        _, said = await process.communicate()
        return "CONFIG_ERROR" if b"security.administrators is empty" in said and process.returncode else f"{said!r}"

    async def many(self, target: Target) -> str:
        """As many as there may be, and one more; then they are taken back, or no other row could grant."""
        async with _ops(target) as client:
            free = MOST - len((await client.list_rights()).grants)
            await _each(client.grant_right, free)
            try:
                await client.grant_right(CHANGED, "produce", "one/more")
            except TandemqError as error:
                answer = error.reason
            else:
                answer = "it was granted"
            async with aio.connect(target.master, credentials=target.who("billing"), timeout=BOUND_S) as billing:
                await billing.send("orders", b"among so many")
            await _each(client.revoke_right, free)
        return answer


def changes_of(cluster: Cluster) -> list[Input]:
    """In the order in which they are tried."""
    changes = Changes(cluster)
    return [
        Input("rights changed at both members at a time, by one version", "OK and VERSION_MISMATCH", changes.both),
        Input("rights changed during handoffs", "each once, at both", changes.handoff),
        Input("a takeover between a grant and its answer", "each once, at both", changes.takeover),
        Input("a right revoked while a member is cut off", "PERMISSION_DENIED", changes.cut_off),
        Input("the last administrator removed", "CONFIG_ERROR", changes.last_administrator),
        Input(f"{MOST:,} grants, and one more", "QUOTA_EXCEEDED", changes.many),
    ]


def _ops(target: Target, endpoint: str = "") -> aio.Client:
    return aio.connect(
        endpoint or ",".join(target.clients.values()),
        credentials=target.who("ops"),
        timeout=BOUND_S,
        follow_master=not endpoint,
    )


class _Granting:
    """Grants one right after the other, each by the version that the one before it has left."""

    def __init__(self, of: str) -> None:
        self._prefix = f"of/{of}"
        self.versions: list[int] = []
        self._one = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: aio.Client | None = None

    def of(self, client: aio.Client) -> _Granting:
        """Until the block ends."""
        self._client = client
        return self

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def reached(self, more: int) -> None:
        """So many more were granted."""
        assert self._task is not None
        wanted = len(self.versions) + more
        async with asyncio.timeout(BOUND_S):
            while len(self.versions) < wanted:
                self._one.clear()
                waiting = asyncio.create_task(self._one.wait())
                await asyncio.wait((waiting, self._task), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if self._task.done():
                    self._task.result()

    async def verdict(self, clients: Sequence[aio.Client]) -> str:
        """What both members have of them."""
        if self.versions != list(range(self.versions[0], self.versions[0] + len(self.versions))):
            return f"versions {self.versions}"
        wanted = {f"{self._prefix}/{number}" for number in range(len(self.versions))}
        for client in clients:
            async with client:
                found = {each.pattern for each in (await client.list_rights(CHANGED)).grants}
            if wanted - found:
                return f"{len(wanted - found)} are gone"
        return "each once, at both"

    async def _run(self) -> None:
        assert self._client is not None
        while True:
            version = await self._client.grant_right(CHANGED, "produce", f"{self._prefix}/{len(self.versions)}")
            self.versions.append(version)
            self._one.set()


async def _handed_over(client: aio.Client, to: str) -> bool:
    try:
        return (await client.handoff(to=to, reason="while rights change")).done
    except TandemqError:
        return False


def _alone(view: PairView, master: str) -> bool:
    parts = [part for each in view.members if each.name == master and (part := each.domain("main"))]
    return view.masters() == [master] and [part.in_sync_set for part in parts] == [(master,)]


async def _browsed(target: Target, endpoint: str) -> str:
    async with aio.connect(endpoint, credentials=target.who("crowd"), timeout=BOUND_S, follow_master=False) as client:
        try:
            async for _ in client.browse("orders"):
                break
        except Denied as denied:
            return denied.reason
        except TandemqError as error:
            return error.reason
    return "OK"


async def _each(change: Any, count: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await change(CHANGED, "produce", f"many/{number}")

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
