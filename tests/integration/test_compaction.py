"""A member of a pair is compacted while the other one serves; status says meanwhile that the pair is not whole."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandemq import aio
from tandemq.cli.view import PairView
from tests.integration.support import gone
from tests.support.clusters import patient

pytestmark = pytest.mark.process
MEAN = (b"[/x]", b"[link=http://stranger]x[/link]", b"\x1b]0;title\x07\x1b[2J", "\u202e\x9b31m".encode())


async def command(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tandemq", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_replica_is_compacted_and_catches_up(tmp_path: Path) -> None:
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue("q")
        async with client.producer("q") as producer:
            await producer.send_many([b"x" * 10_000] * 500)
            await cluster.wait_for(PairView.equal, "both hold them")
            master = next(iter((await cluster.status()).masters()))
            replica = next(name for name in cluster.members if name != master)
            directory = Path(cluster.config(replica).data_dir)

            code, _, said = await command("backup", "compact", str(directory))
            assert (code, "DIRECTORY_IN_USE" in said) == (1, True), said
            assert (await command("pair", "status", "--target", cluster.target))[0] == 0

            await gone(cluster, replica)
            code, shown, _ = await command("pair", "status", "--target", cluster.target, "-o", "table")
            assert code == 1
            assert f"not whole: {replica} does not answer" in shown
            before = (directory / "data.mdb").stat().st_size
            code, shown, said = await command("backup", "compact", str(directory), "-o", "json")
            assert code == 0, said
            done = json.loads(shown)
            assert (done["before_bytes"], done["after_bytes"]) == (before, (directory / "data.mdb").stat().st_size)
            assert done["rows"] > 0
            await producer.send_many(MEAN)
        cluster.spawn(replica)
        await cluster.wait_for(PairView.equal, "the compacted member has caught up")

        words = ("msg", "browse", "q", "--from-index", "501", "--target", cluster.target)
        code, shown, said = await command(*words, "-o", "table")
        assert code == 0, said
        for text in ("[/x]", "[link=http://stranger]x[/link]", r"\x1b]0;title\x07\x1b[2J", r"\u202e\x9b31m"):
            assert text in shown
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(shown)
        code, shown, said = await command(*words, "-o", "json")
        assert [each["body"].encode() for each in json.loads(shown)["messages"]] == list(MEAN)
