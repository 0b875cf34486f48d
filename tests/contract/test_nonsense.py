"""What answers at a port and is not what is expected there: calls fail by name, and nobody who asks is ended by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner

from failover.authority import Authority, CasUnknown, Unreachable, WitnessAuthority
from failover.etcd import EtcdAuthority
from failover.register import Register
from tandemq import aio
from tandemq.cli import root
from tandemq.errors import ServerFault
from tests.support.nonsense import answering_nonsense

BY_NAME = {
    "witness": lambda endpoint: WitnessAuthority(endpoint, "east", "a"),
    "etcd": lambda endpoint: EtcdAuthority((endpoint,), "/t", "east", "a"),
}


@pytest.fixture
async def endpoint() -> AsyncIterator[str]:
    async with answering_nonsense() as endpoint:
        yield endpoint


@pytest.mark.parametrize("name", BY_NAME)
async def test_no_answer_of_an_authority_that_nobody_can_read_is_a_fact(endpoint: str, name: str) -> None:
    made: Authority = BY_NAME[name](endpoint)
    try:
        vars(made)["_connected"] = True  # as after an answer that was good
        seen = await made.get("main")
        assert isinstance(seen, Unreachable)
        assert "nobody can read" in seen.why
        assert not made.connected
        wanted = Register(1, 1, "a", frozenset("a"), frozenset("a"), nonce=b"n" * 16)
        done = await made.compare_and_set("main", Register(), wanted)
        assert isinstance(done, CasUnknown)
        assert "nobody can read" in done.why
        assert isinstance(await made.force("main", 0, 1, "a", "a test"), CasUnknown)
    finally:
        await made.close()


async def test_a_client_hears_of_it_and_does_not_know_what_was_done(endpoint: str) -> None:
    async with aio.connect(endpoint) as client:
        with pytest.raises(ServerFault, match="nobody can read") as raised:
            await client.enqueue("q", [b"x"])
        assert not raised.value.definite
        calls: tuple[Any, ...] = (client.list_queues(), client.get_queue("q"))
        for call in calls:
            with pytest.raises(ServerFault, match="nobody can read"):
                await call


@pytest.mark.parametrize("command", [["pair", "status"], ["doctor"]])
async def test_the_command_says_that_it_can_read_nothing(endpoint: str, command: list[str]) -> None:
    words = [*command, "--target", endpoint, "-o", "json"]
    done = await asyncio.to_thread(CliRunner().invoke, root, words)
    assert "nobody can read" in done.output
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code not in (0, 70)
