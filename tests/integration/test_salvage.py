"""Two histories in real processes: DIVERGED over a restart, resolved, salvaged, and what was lost put back once."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.errors import from_rpc_error
from tandemq.v1 import pair_service_pb2 as pb
from tests.integration.support import Raw, raw_to
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

COMMON, ALONE, TAKEN = 5, 20, 3
DIVERGED, MASTER, PROBE = 8, 4, 2


def kill(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.kill(name)
        process = cluster.children[name].process
        assert process is not None
        process.wait(OUTER_S)
        if process.stdin is not None:
            process.stdin.close()


async def mains(client: aio.Client) -> dict[str, Any]:
    answers = await client.pair_status()
    found = [answer.status.member for answer in answers if answer.status is not None]
    return {member.name: member.domains[0] for member in found}


async def role_of(client: aio.Client, name: str) -> int:
    found = (await mains(client)).get(name)
    return found.role if found is not None else 0


async def whole(client: aio.Client) -> bool:
    seen = await mains(client)
    return len(seen) == 2 and all(main.link_state == 5 for main in seen.values())


async def tandemq(*arguments: str) -> tuple[int, dict[str, Any], str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "tandemq", *arguments, "-o", "json",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, json.loads(out) if out else {}, err.decode()


async def diverge(cluster: Cluster, tmp_path: Path, client: aio.Client, a: Raw) -> None:
    """A serves ALONE messages alone, of which TAKEN are settled; the witness is put back, and B serves without them."""
    await client.create_queue("q")
    await until(lambda: whole(client), "the pair is whole")
    async with client.producer("q", client_id=b"producer") as producer:
        await producer.send_many([b"common/%d" % number for number in range(COMMON)])
        assert await a.take("q", COMMON) == [b"common/%d" % number for number in range(COMMON)]
        witness = tmp_path / "c" / "witness"
        kill(cluster, "witness")
        shutil.copytree(witness, tmp_path / "copy")
        cluster.spawn("witness")
        kill(cluster, "b")
        receipts = await producer.send_many([b"alone/%d" % number for number in range(ALONE)])
        assert {receipt.copies for receipt in receipts} == {1}
    await a.send("q", b"unary")
    assert len(await a.take("q", TAKEN)) == TAKEN
    kill(cluster, "a", "witness")
    shutil.rmtree(witness)
    shutil.copytree(tmp_path / "copy", witness)
    cluster.spawn("witness")
    cluster.spawn("b")
    await until(lambda: served_by_b(client), "the register that was put back lets b serve")
    cluster.spawn("a")
    await until(lambda: diverged_a(client), "a says that there are two histories")


async def served_by_b(client: aio.Client) -> bool:
    return await role_of(client, "b") == MASTER


async def diverged_a(client: aio.Client) -> bool:
    return await role_of(client, "a") == DIVERGED


async def refusal(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value).reason


@pytest.mark.promise
async def test_invariant14_what_was_cut_is_salvaged_and_put_back_once(tmp_path: Path) -> None:
    async with patient(tmp_path / "c").running() as cluster, aio.connect(cluster.target) as client:
        endpoints = {name: cluster.config(name).endpoint for name in ("a", "b")}
        async with raw_to(endpoints["a"], endpoints["b"]) as (a, b):
            await diverge(cluster, tmp_path, client, a)
            async with client.producer("q") as producer:
                await producer.send(b"new")
            kill(cluster, "a")
            cluster.spawn("a")
            await until(lambda: diverged_a(client), "a restart changes nothing of it")

            # -- bad orders change nothing
            resolve = a.pair.Resolve
            assert await refusal(resolve(pb.ResolveRequest(keep="c", reason="r"))) == "BAD_REQUEST"
            assert await refusal(resolve(pb.ResolveRequest(keep="b"))) == "BAD_REQUEST"
            assert await refusal(resolve(pb.ResolveRequest(keep="a", reason="r"))) == "INVALID_STATE"
            assert await refusal(resolve(pb.ResolveRequest(keep="b", reason="r", domain="x"))) == "BAD_NAME"
            assert await refusal(a.pair.Resync(pb.ResyncRequest())) == "INVALID_STATE"
            assert await refusal(b.pair.Resync(pb.ResyncRequest())) == "INVALID_STATE"
            assert not (await b.pair.Outdate(pb.OutdateRequest(by_member="a", epoch=99))).done
            assert await role_of(client, "a") == DIVERGED

            # -- b's history stands
            answer = await resolve(pb.ResolveRequest(keep="b", reason="b has the newer orders"))
            assert answer.done
            assert answer.salvage
            await until(lambda: whole(client), "a has b's state")
            assert (await client.get_queue("q")).length == 1
            (file,) = (await a.pair.ListSalvage(pb.ListSalvageRequest())).files
            assert file.name == answer.salvage
            assert file.acknowledged == file.operations > 0
            assert "newer orders" in file.reason

            # -- and a's messages come back: each once, in order, without what was taken
            target = ["--target", f"{endpoints['a']},{endpoints['b']}"]
            code, listed, _ = await tandemq("pair", "salvage", "ls", *target)
            assert (code, [row["member"] for row in listed["files"]]) == (0, ["a"])
            code, shown, _ = await tandemq("pair", "salvage", "show", file.name, *target)
            assert code == 0
            enqueues = [row for row in shown["operations"] if row["operation"] == "enqueue"]
            assert sum(row["messages"] for row in enqueues) == ALONE + 1
            assert sum(row["done"] for row in enqueues) == TAKEN
            imports = [await tandemq("pair", "salvage", "import", file.name, *target) for _ in range(3)]
            assert [code for code, _, _ in imports] == [0, 0, 0], imports
            assert imports[0][1]["outcomes"]["imported"] >= 2
            assert imports[1][1]["outcomes"].get("imported") is None
            left = [b"new", *(b"alone/%d" % number for number in range(TAKEN, ALONE)), b"unary"]
            assert (await client.get_queue("q")).length == len(left)
            assert await b.take("q", 100) == left
            code, _, text = await tandemq("pair", "salvage", "import", "main-1-1-1.salvage", *target)
            assert (code, "salvage ls" in text) == (1, True)


async def test_a_forced_failover_is_taken_back_and_what_it_took_in_is_put_back(tmp_path: Path) -> None:
    async with patient(tmp_path / "c").running() as cluster, aio.connect(cluster.target) as client:
        endpoints = {name: cluster.config(name).endpoint for name in ("a", "b")}
        target = ["--target", f"{endpoints['a']},{endpoints['b']}"]
        await client.create_queue("q")
        await until(lambda: whole(client), "the pair is whole")
        kill(cluster, "b")
        async with client.producer("q") as producer:
            await producer.send_many([b"alone"] * 10)
        kill(cluster, "a")
        cluster.spawn("b")

        async def b_waits() -> bool:
            return await role_of(client, "b") == PROBE

        await until(b_waits, "b lacks what a acknowledged, and waits")
        order = ["pair", "failover", "--force", "--member", "b", *target]
        code, stated, _ = await tandemq(*order)
        assert code == 1
        code, done, text = await tandemq(
            *order, "--accept-loss-after", str(stated["last_index"]), "--reason", "a burnt", "--yes"
        )
        assert code == 0, (done, text)
        await until(lambda: served_by_b(client), "b serves by force")
        async with client.producer("q") as producer:
            await producer.send(b"new")
        cluster.spawn("a")
        await until(lambda: diverged_a(client), "a did not burn, and says that there are two histories")

        code, done, text = await tandemq("pair", "resolve", "--keep", "a", "--reason", "a is back", "--yes", *target)
        assert code == 0, (done, text)
        await until(lambda: whole(client), "the pair is whole")
        assert await role_of(client, "a") == MASTER
        assert (await client.get_queue("q")).length == 10
        code, listed, _ = await tandemq("pair", "salvage", "ls", *target)
        (file,) = [row for row in listed["files"] if row["acknowledged"]]
        assert (file["member"], file["name"]) == ("b", done["salvage"])
        code, imported, _ = await tandemq("pair", "salvage", "import", file["name"], *target)
        assert (code, imported["outcomes"]["imported"]) == (0, 1)
        assert (await client.get_queue("q")).length == 11
        code, verified, text = await tandemq("pair", "verify", *target)
        assert (code, verified["equal"]) == (0, True), text
