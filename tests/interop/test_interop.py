"""Clients in other languages, as far as their toolchains are here; `make interop` runs all and says so aloud."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop import golden
from tests.interop.clients import CLIENTS, HERE, Missing
from tests.interop.secured import secured
from tests.interop.sessions import COPIES, FALSE_SCRIPTS, SCRIPT, UNITS, run_false_scripts, run_session
from tests.support.clusters import quick

QUICK_TO_BUILD = ("go", "node")


def command_of(name: str) -> list[str]:
    try:
        return CLIENTS[name]()
    except Missing as missing:
        pytest.skip(f"SKIPPED, NOT PASSED: {name}: {missing}")


@pytest.mark.process
@pytest.mark.timeout(630)  # the first run downloads and compiles; later ones take seconds
@pytest.mark.parametrize("name", QUICK_TO_BUILD)
async def test_a_client_from_the_protos_alone(name: str, tmp_path: Path) -> None:
    command = command_of(name)
    async with quick(tmp_path).running() as cluster:
        assert await run_false_scripts(command, cluster.endpoint("a")) == len(FALSE_SCRIPTS)
        session = await run_session(cluster, command, lambda _line: None)
    assert (session.sent, session.taken, session.kills, session.handoffs) == (1580, 1580, 2, 1)


@pytest.mark.process
@pytest.mark.timeout(630)
@pytest.mark.parametrize("name", QUICK_TO_BUILD)
async def test_a_client_reads_that_a_message_is_stored_on_fewer_copies(name: str, tmp_path: Path) -> None:
    command = command_of(name)
    async with quick(tmp_path).running() as cluster:
        session = await run_session(cluster, command, lambda _line: None, COPIES)
    assert (session.sent, session.taken, session.lost) == (10, 10, 2)


@pytest.mark.process
@pytest.mark.timeout(630)
@pytest.mark.parametrize("name", QUICK_TO_BUILD)
async def test_a_client_takes_and_sends_as_one(name: str, tmp_path: Path) -> None:
    """Messages that are followed by two others each, over two kills and a handoff: U2, U8, U11."""
    command = command_of(name)
    async with quick(tmp_path).running() as cluster:
        session = await run_session(cluster, command, lambda _line: None, UNITS)
    assert (session.sent, session.taken, session.kills, session.handoffs) == (900, 900, 2, 1)


@pytest.mark.process
@pytest.mark.timeout(630)
@pytest.mark.parametrize("name", QUICK_TO_BUILD)
async def test_a_client_shows_a_certificate_over_kills_and_a_handoff(name: str, tmp_path: Path) -> None:
    command = command_of(name)
    async with secured(tmp_path) as pair:
        session = await run_session(pair.cluster, command, lambda _line: None, credentials=pair.credentials)
    assert (session.sent, session.taken, session.kills, session.handoffs) == (1580, 1580, 2, 1)


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "sources"),
    [(["gofmt", "-l"], "go/*.go"), (["rustfmt", "--check", "-l", "--edition", "2024"], "rust/src/main.rs")],
)
def test_sources_are_as_their_formatter_leaves_them(arguments: list[str], sources: str) -> None:
    formatter = shutil.which(arguments[0])
    if formatter is None or subprocess.run([formatter], stdin=subprocess.DEVNULL, check=False).returncode:
        pytest.skip(f"SKIPPED, NOT PASSED: {arguments[0]} is not here")  # rustup leaves a name without a program
    files = sorted(map(str, HERE.glob(sources)))
    assert files
    done = subprocess.run([*arguments, *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("name", list(golden.MESSAGES))
def test_golden_messages_are_read_and_written_as_they_are(name: str) -> None:
    """The committed bytes are the contract: what reads or writes them otherwise has changed it."""
    data = (golden.FOLDER / f"{name}.binpb").read_bytes()
    message = type(golden.MESSAGES[name]).FromString(data)
    assert message == golden.MESSAGES[name]
    assert message.SerializeToString(deterministic=True) == data
    [line] = [line for line in SCRIPT.read_text(encoding="utf-8").splitlines() if f"message={name} " in line]
    assert line.partition("facts=")[2] == golden.facts(message)
