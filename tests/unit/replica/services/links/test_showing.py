"""What an operator sees of messages for another manager, and how he ends a batch that is under way (X4). Real managers,
in this process, and the command line.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from replica.machine.state.system_names import Destination
from replica.services.links import agent as agents
from replica.services.links import carrier as carriers
from replica.services.links.carrier import Carrier, GivenBack
from replica.services.links.far_side import FarSide
from tandemq import Outgoing
from tandemq.cli import root
from tandemq.client import aio
from tandemq.client.aio import Going, Transmission
from tandemq.config_links import Links
from tandemq.embedded import open_manager
from tandemq.errors import NotFound
from tests.support.until import until
from tests.unit.replica.services.links.linked import ENABLED, WRITER, XMIT, Managers, batch_taken, is_empty, payloads

TWO = [Outgoing(b"1", {"persistent": True}), Outgoing(b"2", {"persistent": True})]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for is the same, and not as long."""
    monkeypatch.setattr(agents, "CALL_S", 0.5)
    monkeypatch.setattr(carriers, "DOUBT_S", 1.0)
    monkeypatch.setattr(carriers, "BACKOFF_MAX_S", 0.2)


async def stands(client: aio.Client, why: str) -> Transmission:
    """The link, once it waits for that."""

    async def found() -> Transmission | None:
        (each,) = await client.list_transmissions()
        return each if each.state is Going.WAITING and why in each.why else None

    standing = await until(found, f"the link stands still: {why}")
    assert standing is not None
    return standing


async def command(managers: Managers, *words: str) -> Result:
    given = ["xmit", *words, "--target", managers.east.listen_client]
    return await asyncio.to_thread(CliRunner().invoke, root, given)


async def shown(managers: Managers, *words: str) -> dict[str, Any]:
    done = await command(managers, *words, "-o", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
async def test_a_link_that_stands_still_says_why_and_since_when(managers: Managers) -> None:
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, TWO, west)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await stands(east, "ENQUEUE_DISABLED")
            (row,) = (await shown(managers, "ls"))["transmissions"]
            assert row.pop("waiting_seconds") >= 0
            assert "orders" in row.pop("why")
            assert row == {
                "manager": "west",
                "via": "",
                "queue": XMIT,
                "messages": 2,
                "state": "waiting",
                "last_batch": 1,
                "open_batches": [1],
                "open_messages": 2,
                "addresses": [managers.west.listen_client],
            }
            await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
            await until(lambda: is_empty(east), "it goes on")
            (row,) = (await shown(managers, "ls"))["transmissions"]
            assert (row["state"], row["why"], row["open_batches"], row["last_batch"]) == ("idle", "", [], 1)
            assert (await shown(managers, "release", "west"))["batches"] == []
            with pytest.raises(NotFound, match="nobody"):
                await east.release_transmission("nobody")


@pytest.mark.slow
async def test_x4_a_batch_that_the_target_has_not_goes_again_under_the_next_number(managers: Managers) -> None:
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, TWO, west)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await stands(east, "ENQUEUE_DISABLED")
            done = await shown(managers, "release", "west")
            assert (done["batches"], done["released"], done["acknowledged"]) == ([1], 2, 0)
            assert (done["silence"], done["in_doubt"]) == ("", 0)
            await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
            await until(lambda: is_empty(east), "it goes on")
            (link,) = await east.list_transmissions()
            assert link.last_batch >= 2
        assert await payloads(west) == [b"1", b"2"]


@pytest.mark.slow
async def test_x4_a_batch_that_the_target_has_is_acknowledged(managers: Managers) -> None:
    """The agent does so itself as soon as it finds west: this one does not know where that is."""
    alone = msgspec.structs.replace(managers.east, links=Links())
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        history = await batch_taken(managers, TWO, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        await west.transact([], {"orders": TWO}, writer=WRITER, number=1, query_id=history)
        async with open_manager(alone) as manager, aio.connect(alone.listen_client) as east:
            members, reports = manager._members, manager._reports
            assert members is not None
            assert reports is not None
            domain = members.by_name["local"]
            assert domain.shared.machine is not None
            link = Carrier(members, reports, domain, domain.shared.machine.state.named(XMIT), Destination("west"))
            link.far = FarSide(west, link.writer, "east", "")
            assert await link.give_back(unasked=False) == GivenBack(numbers=(1,), acknowledged=2)
            assert await is_empty(east)
        assert await payloads(west) == [b"1", b"2"]


@pytest.mark.slow
async def test_x4_what_a_silent_target_may_have_is_given_back_only_on_demand(managers: Managers) -> None:
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, TWO, west)
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        await stands(east, "")
        refused = await command(managers, "release", "west")
        assert refused.exit_code == 1
        assert "batch 1, 2 messages" in refused.stderr
        assert "they may be there twice" in refused.stderr
        assert "--yes" in refused.stderr
        assert [each.number for each in (await east.get_batches(XMIT, "xmit")).batches] == [1], "nothing was done"
        done = await shown(managers, "release", "west", "--yes")
        assert done["silence"]
        assert (done["batches"], done["released"], done["in_doubt"]) == ([1], 2, 2)
        assert [message.payload for message in await east.dequeue(XMIT, 10)] == [b"1", b"2"]


@pytest.mark.slow
async def test_x3_what_another_lineage_has_sent_under_the_name_says_nothing_of_a_batch(managers: Managers) -> None:
    """Its number is higher than that of the batch here, of which nothing is there."""
    messages = [Outgoing(b"durable", {"persistent": True}), Outgoing(b"volatile", {"persistent": False})]
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, messages, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        await west.transact([], {"orders": [b"theirs"]}, writer=WRITER, number=7, query_id="another")
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            assert (await stands(east, "WRITER_TAKEN")).messages == 1, "what is left is not acknowledged"
            done = await east.release_transmission("west")
            assert "WRITER_TAKEN" in done.silence
            assert (done.in_doubt, done.released, done.acknowledged) == (1, 0, 0)
            assert await west.release_writer(WRITER)
            await until(lambda: is_empty(east), "it goes on")
        assert await payloads(west) == [b"theirs", b"durable"]
