"""Custom reactions over real gRPC, real disks and real commands (V10): what they come to, over kill -9 while a command
is asked.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.client.filtering import Where
from tandemq.client.identity import new_request_id
from tandemq.client.outgoing import Outgoing
from tandemq.client.reactions import Custom, Outcome
from tandemq.config_custom import Custom as CustomConfig
from tandemq.errors import InvalidRequest, Refused
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.integration.support import roles
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process

DISCOUNT = Path(__file__).parents[2] / "deploy" / "reactions" / "discount.py"
SLOW = """
import json, os, sys, time
note = sys.argv[1]
open(note, "a").write("asked\\n")
while os.path.exists(note + ".hold"):
    time.sleep(0.01)
print(json.dumps({"id": json.load(sys.stdin)["id"], "action": "DELETE"}))
"""

LARGE = """
import base64, json, sys
asked = json.load(sys.stdin)
text = base64.b64encode(bytes(700_000)).decode()
print(json.dumps({"id": asked["id"], "action": "UPDATE", "payload": text}))
"""


def config(note: Path, call_ms: int = 20_000) -> CustomConfig:
    commands = {
        "discount": [sys.executable, "-S", str(DISCOUNT)],
        "large": [sys.executable, "-S", "-c", LARGE],
        "slow": [sys.executable, "-S", "-c", SLOW, str(note)],
    }
    lines = tuple(f"{name}={shlex.join(argv)}" for name, argv in commands.items())
    return CustomConfig(commands=lines, call_ms=call_ms, total_ms=call_ms)


async def prices(client: aio.Client, queue: str) -> list[object]:
    return [message.properties.get("price") async for message in client.browse(queue)]


@pytest.mark.requirement("R212")
async def test_v10_a_command_is_asked_and_kill_9_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    note = tmp_path / "note"
    settings = {name: {"custom": config(note)} for name in ("a", "b")}
    async with (
        patient(tmp_path / "pair", settings=settings).running() as cluster,
        aio.connect(cluster.target) as client,
    ):
        await client.create_queue("orders", QueueConfig(reactions_enabled=True))
        await client.create_queue("review")
        for price in (50, 0, 5_000, None):
            properties = {} if price is None else {"price": price}
            await client.send("orders", b"boxes", group_id="g", properties=properties)
        await _refusals(client)
        done = await client.react("orders", Where(group_id="g"), Custom("discount", b"10"), everything=True)
        assert (done.outcome, done.applied, done.left, done.failed) == (Outcome.APPLIED, 3, 1, 0)
        assert (await prices(client, "orders"), await prices(client, "review")) == ([None, 45], [5_000])
        failed = await client.react("orders", "price = 45", Custom("discount", b"much"))
        assert (failed.outcome, failed.applied, failed.failed) == (Outcome.FAILED, 0, 1)
        await _too_large(client)
        await _by_hand(cluster)
        await _metrics(cluster)
        await _killed_while_it_is_asked(cluster, client, note)


async def _refusals(client: aio.Client) -> None:
    with pytest.raises(Refused, match=r"REACTION_DISABLED.*'absent'.*known there: discount, large, slow"):
        await client.react("orders", Where(group_id="g"), Custom("absent"))
    with pytest.raises(InvalidRequest, match="cannot be kept"):
        await client.react("orders", Where(group_id="g"), Custom("discount"), sticky=timedelta(seconds=1))
    with pytest.raises(InvalidRequest, match="MESSAGE_TOO_LARGE"):
        await client.react("orders", Where(group_id="g"), Custom("discount", bytes(1 << 20)))


async def _too_large(client: aio.Client) -> None:
    """Refused as soon as the answers are more than one record may hold, and nothing is done."""
    await client.create_queue("many", QueueConfig(reactions_enabled=True))
    await client.enqueue("many", [Outgoing(b"%d" % number, {"group_id": "g"}) for number in range(12)])
    with pytest.raises(InvalidRequest, match=r"TXN_TOO_LARGE.*the answers about its messages"):
        await client.react("many", Where(group_id="g"), Custom("large"), everything=True)
    assert [message.payload async for message in client.browse("many")] == [b"%d" % number for number in range(12)]


async def _by_hand(cluster: Cluster) -> None:
    arguments = ["msg", "react", "orders", "--where", "price = 45", "--custom", "discount", "--input", "100"]
    result = await asyncio.to_thread(
        CliRunner().invoke, root, [*arguments, "--target", cluster.target, "--output", "json"]
    )
    assert result.exit_code == 0, result.output
    assert (json.loads(result.stdout)["outcome"], json.loads(result.stdout)["applied"]) == ("APPLIED", 1)


def read_page(address: str) -> str:
    with urlopen(address) as page:
        text: str = page.read().decode()
    return text


def asked(note: Path) -> int:
    """How often the command was run."""
    return len(note.read_text().split())


async def _metrics(cluster: Cluster) -> None:
    master, _ = await roles(cluster)
    lines = (await asyncio.to_thread(read_page, f"http://{cluster.config(master).listen_http}/metrics")).splitlines()
    assert 'tandemq_custom_reactions_total{answer="failed",name="discount"} 1.0' in lines
    assert 'tandemq_custom_reactions_total{answer="delete",name="slow"} 0.0' in lines


async def _killed_while_it_is_asked(cluster: Cluster, client: aio.Client, note: Path) -> None:
    """The next master asks again, for nothing was recorded; a repetition then asks nobody."""
    hold = note.with_name(note.name + ".hold")
    hold.touch()
    master, _ = await roles(cluster)
    request_id = new_request_id()

    async def call() -> tuple[Outcome, int, bool]:
        done = await client.react("orders", Where(group_id="g"), Custom("slow"), everything=True, request_id=request_id)
        return done.outcome, done.applied, done.duplicate

    calling = asyncio.create_task(call())
    await until(note.exists)
    cluster.kill(master)
    hold.unlink()
    assert await calling == (Outcome.APPLIED, 1, False)
    assert asked(note) == 2
    assert await call() == (Outcome.APPLIED, 1, True)
    assert asked(note) == 2
    assert await prices(client, "orders") == []
