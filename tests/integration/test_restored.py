"""What was put back from an older copy never wins: a member's directory, the witness's, a producer's identity."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.errors import TandemqError
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process


def _kill(cluster: Cluster, *names: str) -> None:
    """SIGKILL, and gone when it returns: what it left on disk is what is copied."""
    for name in names:
        cluster.kill(name)
    for name in names:
        process = cluster.children[name].process
        assert process is not None
        process.wait(OUTER_S)
        if process.stdin is not None:
            process.stdin.close()


async def _mains(client: aio.Client) -> dict[str, Any]:
    answers = await client.pair_status()
    found = [answer.status.member for answer in answers if answer.status is not None]
    return {member.name: member.domains[0] for member in found}


async def _whole(client: aio.Client) -> dict[str, Any] | None:
    mains = await _mains(client)
    return mains if len(mains) == 2 and all(main.link_state == 5 for main in mains.values()) else None


@pytest.mark.promise
@pytest.mark.parametrize("first", ["a", "b"])
async def test_an_older_copy_of_a_directory_follows_and_takes_nothing_back(tmp_path: Path, first: str) -> None:
    """The copy says IN_SYNC in good faith, and its member is the one that the register names."""
    async with patient(tmp_path / "c").running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue("q")
        async with client.producer("q") as producer:
            await producer.send_many([b"old"] * 10)
        _kill(cluster, "a", "b")
        directory = Path(cluster.config("a").data_dir)
        shutil.copytree(directory, tmp_path / "copy")
        await cluster.restart("a")
        await cluster.restart("b")
        await until(lambda: _whole(client), "the pair is whole")
        async with client.producer("q") as producer:
            receipts = await producer.send_many([b"new"] * 10)
        assert {receipt.copies for receipt in receipts} == {2}
        _kill(cluster, "a", "b")
        shutil.rmtree(directory)
        shutil.copytree(tmp_path / "copy", directory)
        for name in (first, "b" if first == "a" else "a"):
            cluster.spawn(name)
        await until(lambda: _whole(client), "the pair is whole with the old copy in it")
        assert (await client.get_queue("q")).length == 20


async def test_a_witness_that_was_put_back_wipes_nobody(tmp_path: Path) -> None:
    """It gives one epoch out again. The member that served alone in it keeps its data and waits for an operator."""
    async with patient(tmp_path / "c").running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue("q")
        await until(lambda: _whole(client), "the pair is whole")
        witness = tmp_path / "c" / "witness"
        _kill(cluster, "witness")
        shutil.copytree(witness, tmp_path / "copy")
        cluster.spawn("witness")
        _kill(cluster, "b")

        async def alone() -> bool:
            async with client.producer("q") as producer:
                return {receipt.copies for receipt in await producer.send_many([b"alone"] * 10)} == {1}

        await until(alone, "a serves alone")
        before = (await _mains(client))["a"].log_index
        _kill(cluster, "a", "witness")
        shutil.rmtree(witness)
        shutil.copytree(tmp_path / "copy", witness)
        cluster.spawn("witness")
        cluster.spawn("b")

        async def stale_serves() -> bool:
            mains = await _mains(client)
            return "b" in mains and mains["b"].role == 4

        await until(stale_serves, "the register that was put back lets b serve")
        cluster.spawn("a")

        async def diverged() -> bool:
            mains = await _mains(client)
            return "a" in mains and mains["a"].role == 8

        await until(diverged, "a says that the two have diverged")
        assert (await _mains(client))["a"].log_index >= before


async def test_two_producers_with_one_client_id_are_told_apart(tmp_path: Path) -> None:
    """The second one's messages are other messages under used sequences: never answered as repetitions."""
    async with (
        patient(tmp_path / "c").running() as cluster,
        aio.connect(cluster.target) as one,
        aio.connect(cluster.target) as two,
    ):
        await one.create_queue("q")
        first, second = one.producer("q", client_id=b"same"), two.producer("q", client_id=b"same")
        reasons = []
        for number in range(20):
            for producer, name in ((first, b"A"), (second, b"B")):
                try:
                    await producer.send(b"%s-%d" % (name, number))
                    reasons.append("")
                except TandemqError as error:
                    reasons.append(error.reason)
        assert set(reasons) == {""}  # one of them went on under an identity of its own
        assert (await one.get_queue("q")).length == len(reasons) == 40
