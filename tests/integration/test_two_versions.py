"""A pair one member of which is older: which records neither is made to read that it does not know (decision 0106).

The older one is this version, which says of itself that it speaks the first protocol alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.client.backup import take_backup
from tandemq.config_links import Links
from tandemq.errors import TandemqError
from tandemq.twin import Twin
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1.manager_admin_service_pb2 import GetManagerRequest
from tests.integration.support import new_id, raw_to
from tests.integration.twin_pairing import PRODUCER, State, pairing, sums
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
OLDER = ["tests.support.older_member"]
WORDS = "the peer speaks protocol 1 to 1, this member 2 to 2; upgrade the older one"
SELECTED = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, lockstep=admin.LOCKSTEP_SELECTED)


class Versions:
    """A pair whose members are as old as a test says."""

    def __init__(self, folder: Path) -> None:
        known = {"links": Links(managers=("west=127.0.0.1:9",))}  # nobody is there, and nobody is asked
        self.cluster = patient(folder, settings=dict.fromkeys(("a", "b"), known))
        self._programs = {name: list(self.cluster.children[name].arguments) for name in ("a", "b")}
        self.older("b")

    def older(self, name: str) -> None:
        """From its next start on."""
        child = self.cluster.children[name]
        child.arguments = [*OLDER, *self._programs[name][1:]]
        child.environment = {"PYTHONPATH": str(ROOT)}

    def newer(self, name: str) -> None:
        child = self.cluster.children[name]
        child.arguments, child.environment = self._programs[name], {}

    async def protocols(self, name: str) -> tuple[int, int]:
        """The oldest and the newest that it speaks, as things stand."""
        async with raw_to(self.cluster.endpoint(name)) as [member]:
            said = await member.manager.GetManager(GetManagerRequest(), timeout=OUTER_S)
            return said.protocol_min, said.protocol_max


@pytest.fixture
async def versions(tmp_path: Path) -> AsyncIterator[Versions]:
    made = Versions(tmp_path / "pair")
    async with made.cluster.running():
        yield made


async def test_nothing_newer_is_made_while_a_member_is_older_and_it_is_refused_once_there_are(
    versions: Versions, tmp_path: Path
) -> None:
    cluster = versions.cluster
    async with aio.connect(cluster.target, timeout=OUTER_S) as client:
        assert await versions.protocols("a") == (1, 2)
        assert await versions.protocols("b") == (1, 1)
        await client.create_queue("plain")
        await _with_a_backup_of_sides(cluster, tmp_path)
        for master in ("a", "b"):  # through the newer one as well as through the older one
            await _handed_to(cluster, client, master)
            for make in (
                lambda: client.create_queue("inputs", PRODUCER),
                lambda: client.create_queue("inputs", SELECTED),
                lambda: client.restore_queue("inputs", "sides.tqb"),
                lambda: client.create_macro("all"),
                lambda: client.create_proxy("far", "//west/orders"),
                lambda: client.grant_right("billing", "produce", "plain"),
            ):
                with pytest.raises(TandemqError, match=r"NEWER_FORMAT: .*speaks protocol 1, .*came with 2: upgrade"):
                    await make()
            await client.enqueue("plain", [b"as before"])
        assert (await client.get_queue("plain")).length == 2
        assert await versions.protocols("a") == (1, 2), "nothing that the older one does not know was made"

        # Alone the newer one may; then the older one is refused, and nothing that it has is touched.
        cluster.kill("b")
        await cluster.wait_for(lambda view: view.masters() == ["a"], "taken over", OUTER_S)
        async with pairing(cluster, client, tmp_path) as made:
            assert await versions.protocols("a") == (2, 2)
            await made.send(1, 2)
            a = made.twin("a")
            made.start(a)
            await made.reach(2, a)
            await cluster.restart("b")
            for name in ("a", "b"):
                await until(lambda name=name: WORDS in _log(cluster, name), f"{name} says why")
            await made.send(4)
            await made.reach(3, a)
            assert "they have no protocol in common" in await asyncio.to_thread(_doctor, cluster)
            assert cluster.children["b"].running, "it waits to be upgraded"

            # Upgraded it takes what it has missed, and its own side serves.
            versions.newer("b")
            cluster.kill("b")
            await cluster.restart("b")
            await cluster.wait_for(lambda view: view.whole(), "whole again", OUTER_S)
            b: Twin[State] = made.twin("b")
            made.start(b)
            await made.reach(3, a, b)
            assert a.state == b.state == {"sum": 7}
            await made.settled()
            assert await made.sent() == sums(1, 2, 4)
        assert (await client.get_queue("plain")).length == 2


async def _with_a_backup_of_sides(cluster: Cluster, folder: Path) -> None:
    """Of another pair, whose members both know them."""
    parts: list[bytes] = []
    async with patient(folder / "other").running() as other, aio.connect(other.target, timeout=OUTER_S) as client:
        await client.create_queue("inputs", PRODUCER)
        await take_backup(other.endpoint("a"), parts.append)
    for member in cluster.members:
        directory = Path(cluster.config(member).data_dir) / "backups"
        directory.mkdir()
        (directory / "sides.tqb").write_bytes(b"".join(parts))


async def test_what_is_held_says_which_protocol_is_spoken_after_a_restart_too(versions: Versions) -> None:
    """And a queue with sides that is gone: its records are in the log, which the peer may still be sent."""
    cluster = versions.cluster
    versions.newer("b")
    cluster.kill("b")
    await cluster.restart("b")
    await cluster.wait_for(lambda view: view.whole(), "whole", OUTER_S)

    async def asks_for_sides() -> bool:
        return [await versions.protocols(name) for name in ("a", "b")] == [(2, 2), (2, 2)]

    async with aio.connect(cluster.target, timeout=OUTER_S) as client, raw_to(cluster.endpoint("a")) as [member]:
        assert await versions.protocols("b") == (1, 2)
        await client.create_queue("inputs", SELECTED)
        await until(asks_for_sides, "both have it")
        for name in ("a", "b"):
            cluster.kill(name)
        await asyncio.gather(*(cluster.restart(name) for name in ("a", "b")))
        await cluster.wait_for(lambda view: view.whole(), "whole again", OUTER_S)
        assert await asks_for_sides(), "a start finds what is on the disk"
        await member.admin.DeleteQueue(admin.DeleteQueueRequest(name="inputs", request_id=new_id()), timeout=OUTER_S)
        assert await asks_for_sides()


async def _handed_to(cluster: Cluster, client: aio.Client, name: str) -> None:
    view = await cluster.wait_for(lambda view: view.whole(), "whole", OUTER_S)
    if view.masters()[0] != name:
        assert (await client.handoff(reason="test")).done
        await cluster.wait_for(lambda view: view.whole() and view.masters()[0] == name, "handed over", OUTER_S)


def _log(cluster: Cluster, name: str) -> str:
    return cluster.children[name].log.read_text(encoding="utf-8", errors="replace")


def _doctor(cluster: Cluster) -> str:
    words = ["doctor", "--no-classifier", "--target", cluster.target, "-o", "json"]
    found: list[dict[str, Any]] = json.loads(CliRunner().invoke(root, words).stdout)["findings"]
    return " ".join(each["what"] for each in found if each["check"] == "versions")
