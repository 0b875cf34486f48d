"""Every script in docs/examples does what its recorded output says, and the snippets of the first pages run one after
another, against a real pair.

REWRITE=1 writes the outputs anew; read the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tandemq import aio
from tandemq.config_custom import Custom
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
SECONDS = 40.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def members(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    discount = shlex.join([sys.executable, "-S", str(ROOT / "deploy" / "reactions" / "discount.py")])
    custom = Custom(
        commands=(f"discount={discount}",), call_ms=20_000, total_ms=20_000
    )  # whatever else the machine does
    settings = {name: {"custom": custom} for name in ("a", "b")}
    async with patient(tmp_path_factory.mktemp("examples"), settings=settings).running() as cluster:
        yield f"{cluster.endpoint('a')},{cluster.endpoint('b')}"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
async def test_an_example_prints_what_is_written_beside_it(script: Path, members: str) -> None:
    out = await printed(str(script), members)
    recorded = script.with_suffix(".out")
    if os.environ.get("REWRITE"):
        recorded.write_bytes(out)
    assert recorded.exists(), f"run it once with REWRITE=1, then read {recorded.name}"
    assert out.decode().splitlines() == recorded.read_text().splitlines()


def snippets(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_new_reader_can_run_one_page_after_the_other(members: str) -> None:
    """The quick start made its queue; what the pages make beside it has other names."""
    first, second = members.split(",")
    commands = re.findall(r"^tandemq queue create (\S+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands
    async with aio.connect(members) as client:
        for name in commands:
            await client.create_queue(name)
        for snippet in (*snippets("README.md"), *snippets("docs/CLASSIC.md")):
            for name in commands:  # each snippet receives one
                await client.enqueue(name, [b"sent before"])
            assert "127.0.0.1:7600" in snippet
            await printed("-c", snippet.replace("127.0.0.1:7600", first).replace("127.0.0.1:7610", second))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_snippets_about_reactions_run_as_one(members: str) -> None:
    first, second = members.split(",")
    page = "".join((*snippets("docs/REACTIVE.md"), "client.close()\n"))
    await printed("-c", page.replace("127.0.0.1:7600", first).replace("127.0.0.1:7610", second))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_about_units_of_work_runs_as_one(members: str) -> None:
    first, second = members.split(",")
    page = "".join(snippets("docs/UNITS.md"))
    await printed("-c", page.replace("127.0.0.1:7600", first).replace("127.0.0.1:7610", second))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_about_twins_runs_as_one(members: str) -> None:
    first, second = members.split(",")
    page = "".join(snippets("docs/TWINS.md"))
    await printed("-c", page.replace("127.0.0.1:7600", first).replace("127.0.0.1:7610", second))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_about_macro_queues_runs_as_one(members: str) -> None:
    first, second = members.split(",")
    page = "".join(snippets("docs/MACRO.md"))
    await printed("-c", page.replace("127.0.0.1:7600", first).replace("127.0.0.1:7610", second))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_snippets_about_units_of_work_run(members: str) -> None:
    first, second = members.split(",")
    found = [each for each in snippets("docs/CLIENTS.md") if "client.transact" in each or "client.unit" in each]
    assert len(found) == 2
    async with aio.connect(members) as client:
        known = {info.name for info in await client.list_queues()}
        for name in {"orders", "legs", "ledger"} - known:
            await client.create_queue(name)
        for snippet in found:
            await client.purge_queue("legs")
            await client.enqueue("orders", [b"sent before"])
            await printed("-c", snippet.replace("127.0.0.1:7600", first).replace("127.0.0.1:7610", second))
            assert len([each async for each in client.browse("legs")]) == 1


async def printed(*arguments: str) -> bytes:
    """What a script says; it ends well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", *arguments),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(OUTER_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return out


def test_there_are_examples() -> None:
    assert SCRIPTS
