"""What becomes of a batch for another manager of which a message was lost (X4). Real managers, in this process."""

from __future__ import annotations

import msgspec
import pytest

from replica.machine.state.system_names import DEAD
from replica.services.links import carrier
from tandemq import Outgoing
from tandemq.cli.queue_batch import facts_of
from tandemq.client import aio
from tandemq.config import Limits
from tandemq.embedded import open_manager
from tests.support.until import until
from tests.unit.replica.services.links.linked import ENABLED, WRITER, XMIT, Managers, batch_taken, is_empty, payloads

DURABLE, VOLATILE = {"persistent": True}, {"persistent": False}


async def _last_number(client: aio.Client) -> int:
    found = await client.writer_state(WRITER)
    return found.batch if found is not None else 0


@pytest.mark.slow
async def test_x4_what_is_left_of_a_batch_that_is_there_is_acknowledged(managers: Managers) -> None:
    """East died between the unit at west and its own acknowledgement, and a volatile message of the batch with it."""
    messages = [Outgoing(b"volatile", VOLATILE), Outgoing(b"durable", DURABLE)]
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        history = await batch_taken(managers, messages, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        await west.transact([], {"orders": messages}, writer=WRITER, number=1, query_id=history)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await until(lambda: is_empty(east), "what is left is acknowledged")
            assert (await east.get_queue(XMIT)).volatile_lost_total == 1
            await east.transact([], {"//west/orders": [b"behind it"]}, forward=True)
            await until(lambda: is_empty(east), "the next message is acknowledged")
        assert await payloads(west) == [b"volatile", b"durable", b"behind it"], "each once"
        assert await _last_number(west) == 2


@pytest.mark.slow
async def test_x4_what_is_left_of_a_batch_that_is_not_there_goes_under_the_next_number(
    managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "DOUBT_S", 0.5)  # so long it is waited for a call that may be under way
    messages = [Outgoing(b"1", DURABLE), Outgoing(b"volatile", VOLATILE), Outgoing(b"2", DURABLE)]
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, messages, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await east.transact([], {"//west/orders": [Outgoing(b"3", DURABLE)]}, forward=True)
            await until(lambda: is_empty(east), "everything is acknowledged")
        assert await payloads(west) == [b"1", b"2", b"3"], "in order"
        assert await _last_number(west) >= 2


@pytest.mark.slow
async def test_x4_the_agents_lease_does_not_end_by_time(managers: Managers) -> None:
    """What comes back after it was sent would be sent again under another number."""
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, [Outgoing(b"1", DURABLE)], west)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            (batch,) = (await east.get_batches(XMIT, "xmit")).batches
    assert batch.expires_at is None
    assert facts_of(batch)["expires_at"] is None


@pytest.mark.slow
async def test_x4_a_batch_of_which_nothing_is_left_is_no_obstacle(
    managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "DOUBT_S", 0.5)
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, [Outgoing(b"volatile", VOLATILE)], west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await east.transact([], {"//west/orders": [b"behind it"]}, forward=True)
            await until(lambda: is_empty(east), "everything is acknowledged")
        assert await payloads(west) == [b"behind it"]
        assert await _last_number(west) == 2, "its number is not taken again"


@pytest.mark.slow
async def test_x3_a_new_batch_has_a_number_that_is_new_at_the_target(managers: Managers) -> None:
    """East went back to a backup: west has had batches of it that it does not know."""
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders")
        for payload, number in ((b"1", 2), (b"2", 0)):
            async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
                await east.transact([], {"//west/orders": [payload]}, forward=True)
                await until(lambda east=east: is_empty(east), "it is acknowledged")  # type: ignore[misc]  # of this turn
            if number:
                found = await west.writer_state(WRITER)
                assert found is not None
                assert found.batch == number - 1
                unknown = {"orders": [b"unknown"]}
                await west.transact([], unknown, writer=WRITER, number=number, after=1, query_id=found.query_id)
        assert await payloads(west) == [b"1", b"unknown", b"2"]
        assert await _last_number(west) == 3


@pytest.mark.slow
async def test_x3_a_number_of_somebody_else_of_this_name_acknowledges_nothing(
    managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left stays until the name is free: the other one's numbers say nothing of these batches."""
    said: list[str] = []
    monkeypatch.setattr(carrier, "NOTE_S", 0.0)
    monkeypatch.setattr(carrier.Carrier, "_note", lambda _self, _text, why: said.append(why))
    messages = [Outgoing(b"volatile", VOLATILE), Outgoing(b"durable", DURABLE)]
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await batch_taken(managers, messages, west)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        await west.create_queue("theirs")
        await west.transact([], {"theirs": [b"x"]}, writer=WRITER, number=7, query_id="another history")
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await until(lambda: any("belongs to another manager" in why for why in said), "the agent has seen it")
            assert (await east.get_queue(XMIT)).length == 1
        assert await payloads(west) == []


@pytest.mark.slow
async def test_x5_what_is_larger_than_a_call_to_the_target_is_a_dead_letter_here(managers: Managers) -> None:
    """West takes smaller calls than east; a letter for its dead letters would be as large."""
    small = msgspec.structs.replace(managers.west, limits=Limits(max_batch_bytes=1 << 20))
    async with open_manager(small), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders")
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            for queue, large in (("orders", b"x"), ("absent", b"y")):
                sent = [b"1", b"2"]
                await east.transact([], {"//west/orders": sent}, forward=True)
                await east.transact([], {f"//west/{queue}": [large * (2 << 20)]}, forward=True)
            await until(lambda: is_empty(east), "nothing stands in its way")
            dead = [message async for message in east.browse(DEAD)]
            assert [len(each.payload) for each in dead] == [2 << 20, 2 << 20]
            assert {each.properties["tq_dead_letter_reason"] for each in dead} == {"TXN_TOO_LARGE"}
            assert [each.properties["tq_origin_queue"] for each in dead] == ["//west/orders", "//west/absent"]
            assert all("tq_to" not in each.properties for each in dead)
        assert await payloads(west) == [b"1", b"2"] * 2


@pytest.mark.slow
async def test_x7_what_does_not_say_that_it_is_volatile_is_persistent_on_its_way(managers: Managers) -> None:
    """Its queue at west is persistent, as queues are; east without a peer loses all that is volatile when it stops."""
    messages = [Outgoing(b"says nothing"), Outgoing(b"volatile", VOLATILE)]
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        done = await east.transact([], {"//west/orders": messages}, forward=True)
        async with east.producer("//west/orders", forward=True) as producer:
            await producer.send(b"streamed")
        assert done["//west/orders"][0].id
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders")
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await until(lambda: is_empty(east), "everything is acknowledged")
        assert await payloads(west) == [b"says nothing", b"streamed"]
