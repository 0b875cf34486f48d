"""V17: reactions for a queue of another manager. Two real managers, in this process."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from replica.machine import AckBatchCall
from replica.services.links.carrier import Carrier, NotHere
from tandemq import Outgoing
from tandemq.client import aio
from tandemq.client.calls import QUEUE_SERVICE, TRANSACTION_SERVICE
from tandemq.client.filtering import Where
from tandemq.client.identity import new_request_id
from tandemq.client.reactions import Cancel, Change, Custom, Outcome
from tandemq.config_links import Links
from tandemq.embedded import open_manager
from tandemq.errors import InvalidRequest, NotFound
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_DROP_HEAD, OVERFLOW_REJECT, QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueRequest, EnqueueResponse
from tandemq.v1.reaction_service_pb2 import Reaction
from tandemq.v1.transaction_service_pb2 import QueueMessages, TransactRequest, TransactResponse
from tests.support.until import until
from tests.unit.replica.services.links.linked import DISABLED, ENABLED, XMIT, Managers, is_empty, payloads

TO = "//west/orders"
OPEN = QueueConfig(reactions_enabled=True)
SHUT = QueueConfig(reactions_enabled=True, enqueue_enabled=False)


async def _send(east: aio.Client, *payloads_: bytes, **attributes: object) -> list[bytes]:
    """Their ids."""
    done = await east.transact([], {TO: [Outgoing(each, attributes) for each in payloads_]}, forward=True)
    return [receipt.id for receipt in done[TO]]


async def _dead(west: aio.Client) -> list[str]:
    try:
        return [str(each.properties["tq_dead_letter_reason"]) async for each in west.browse("SYSTEM.DEAD")]
    except NotFound:
        return []


@pytest.mark.slow
async def test_v17_what_waits_here_is_acted_on_here_and_nothing_goes_on(managers: Managers) -> None:
    """Example 10, first half: changed where it waits. West is away."""
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        _, one, other = await _send(east, b"1", b"2", b"3")
        done = await east.react(TO, Where(ids=(one,)), Cancel(), forward=True)
        assert (done.outcome, done.applied, done.forwarded) == (Outcome.APPLIED, 1, "")
        done = await east.react(TO, Where(ids=(other,)), Change(payload=b"changed"), forward=True)
        assert (done.applied, done.forwarded) == (1, "")
        async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
            await west.create_queue("orders", OPEN)
            await until(lambda: is_empty(east), "everything is acknowledged")
            got = [message async for message in west.browse("orders")]
            assert [each.payload for each in got] == [b"1", b"changed"]
            assert got[1].properties["tq_source_id"] == other, "the id of its first put"
            assert "tq_first_id" not in got[1].properties
            again = await east.react(TO, Where(ids=(other,)), Cancel(), forward=True)
            assert (again.outcome, again.applied, again.forwarded) == (Outcome.STORED, 0, XMIT)
            await until(lambda: is_empty(east), "it is done there")
            assert await payloads(west) == [b"1"]


async def _taken(east: aio.Client, count: int) -> bool:
    found = await east.get_batches(XMIT, "xmit")
    return sum(each.messages for each in found.batches) == count


@pytest.mark.slow
async def test_v17_what_the_agent_has_is_followed_and_nothing_is_overtaken(managers: Managers) -> None:
    """R203; example 10, second half: the reaction arrives behind it."""
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders", SHUT)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await east.create_queue("replies")
            await _send(east, b"1", correlation_id="a")
            await until(lambda: _taken(east, 1), "the agent has it")
            done = await east.react(
                TO, Where(correlation_id="a"), Cancel(), report_to="replies", correlation_id="mine", forward=True
            )
            assert (done.outcome, done.locked, done.forwarded) == (Outcome.STORED, 1, XMIT)
            await _send(east, b"2", correlation_id="a")
            await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
            await until(lambda: is_empty(east), "everything is acknowledged")
            assert await payloads(west) == [b"2"], "it acted on what was sent before it, and on nothing else"


@pytest.mark.slow
async def test_v17_with_all_it_acts_here_and_there(managers: Managers) -> None:
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders", OPEN)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await _send(east, b"1", b"2", group_id="g")
            await _send(east, b"other", group_id="h")
            await until(lambda: is_empty(east), "they are there")
            await _send(east, b"later", group_id="g", delay=timedelta(hours=1))
            await east.transact(
                [], {"//west/others": [Outgoing(b"x", {"group_id": "g", "delay": timedelta(hours=1)})]}, forward=True
            )
            done = await east.react(TO, Where(group_id="g"), Cancel(), everything=True, forward=True)
            assert (done.outcome, done.applied, done.forwarded) == (Outcome.APPLIED, 1, XMIT)

            async def is_done() -> bool:
                return await payloads(west) == [b"other"]

            await until(is_done, "it has acted there")

            async def is_alone() -> bool:
                return (await east.get_queue(XMIT)).length == 1

            await until(is_alone, "what is for another queue stays")


@pytest.mark.slow
async def test_v17_ids_mean_the_messages_of_the_manager_that_gave_them(managers: Managers) -> None:
    """A message that west was given by others may have the same id there."""
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders", OPEN)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            own = [(await west.enqueue("orders", [b"west %d" % number]))[0].id for number in range(20)]
            ids = [each for number in range(4) for each in await _send(east, b"east %d" % number)]
            await until(lambda: is_empty(east), "they are there")
            assert set(own) & set(ids), "some ids are of both"
            done = await east.react(TO, Where(ids=ids), Cancel(), everything=True, forward=True)
            assert done.forwarded
            await until(lambda: is_empty(east), "it is done there")
            assert await payloads(west) == [b"west %d" % number for number in range(20)]


@pytest.mark.slow
async def test_v17_a_reaction_that_is_refused_is_a_dead_letter_and_holds_up_nothing(managers: Managers) -> None:
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders", DISABLED)
        await west.update_queue("orders", ENABLED, ["enqueue_enabled"])
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await _send(east, b"1")
            await until(lambda: is_empty(east), "it is there")
            for queue in ("orders", "absent"):
                done = await east.react(f"//west/{queue}", "a = 1", Cancel(), forward=True)
                assert done.outcome == Outcome.STORED
            await _send(east, b"2")
            await until(lambda: is_empty(east), "everything is acknowledged")
            assert await payloads(west) == [b"1", b"2"]
            assert await _dead(west) == ["REACTION_DISABLED", "QUEUE_NOT_FOUND"]


@pytest.mark.slow
async def test_v17_a_step_that_is_repeated_acts_once(managers: Managers, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the death of a master between the step at the target and its acknowledgement here."""
    steps, lost = Carrier._react, []
    original = Carrier._order

    async def order(carrier: Carrier, call: object) -> object:
        if isinstance(call, AckBatchCall) and lost == ["step"]:
            lost.append("acknowledgement")
            raise NotHere
        return await original(carrier, call)  # type: ignore[arg-type]  # whatever it was

    async def react(carrier: Carrier, *step: object) -> None:
        await steps(carrier, *step)  # type: ignore[arg-type]  # as it was called
        lost.append("step")

    monkeypatch.setattr(Carrier, "_order", order)
    monkeypatch.setattr(Carrier, "_react", react)
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders", OPEN)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await _send(east, b"1", b"2", b"3", correlation_id="a")
            await until(lambda: is_empty(east), "they are there")
            await east.react(TO, Where(correlation_id="a"), Cancel(), forward=True)
            await until(lambda: is_empty(east), "the reaction is acknowledged")
            assert lost == ["step", "acknowledgement", "step"]
            assert await payloads(west) == [b"2", b"3"]


@pytest.mark.slow
async def test_v17_who_asked_hears_what_it_came_to_there(managers: Managers) -> None:
    west_knows = msgspec.structs.replace(managers.west, links=Links(managers=(f"east={managers.east.listen_client}",)))
    async with open_manager(west_knows), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders", OPEN)
        await west.create_queue("shut")
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            await east.create_queue("replies")
            await _send(east, b"1", b"2", group_id="g")
            await until(lambda: is_empty(east), "they are there")
            await _send(east, b"3", group_id="g", delay=timedelta(hours=1))
            for queue in ("orders", "shut"):
                done = await east.react(
                    f"//west/{queue}",
                    Where(group_id="g"),
                    Cancel(),
                    everything=True,
                    report_to="replies",
                    correlation_id=queue,
                    forward=True,
                )
                assert done.forwarded

            async def reported() -> bool:
                return (await east.get_queue("replies")).length == 3

            await until(reported, "what was done here, and both from there")
            got = [message async for message in east.browse("replies")]
            said = [
                (
                    each.attributes.get("correlation_id"),
                    each.properties["tq_outcome"],
                    each.properties.get("tq_applied"),
                )
                for each in got
            ]
            assert said == [("orders", "APPLIED", 1), ("orders", "APPLIED", 2), ("shut", "REFUSED", None)]
            assert got[2].properties["tq_dead_letter_reason"] == "REACTION_DISABLED"
            assert await _dead(west) == ["REACTION_DISABLED"]


@pytest.mark.slow
async def test_v17_it_is_kept_there_for_what_comes_back(managers: Managers) -> None:
    """By an id of east, of which west has one of its own."""
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders", OPEN)
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            ids = await _send(east, b"east")
            await until(lambda: is_empty(east), "it is there")
            taken = await west.dequeue("orders")
            done = await east.react(TO, Where(ids=ids), Cancel(), sticky=timedelta(minutes=5), forward=True)
            assert done.forwarded
            assert not done.kept
            await until(lambda: is_empty(east), "it is done there")
            assert (await west.get_queue("SYSTEM.REACTIVE/orders")).length == 1
            while (await west.enqueue("orders", [b"west"]))[0].id[8:] < ids[0][8:]:
                pass
            await taken.release()
            left = await payloads(west)
            assert set(left) == {b"west"}
            assert (await west.get_queue("SYSTEM.REACTIVE/orders")).length == 0


@pytest.mark.slow
async def test_v17_a_full_link_is_cancelled_and_drops_nothing_that_leaves_it_anyway(managers: Managers) -> None:
    """It dropped by the same record what it removed, which no member could apply, at any start."""
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        for overflow in (OVERFLOW_REJECT, OVERFLOW_DROP_HEAD):
            await _send(east, b"1", b"2", correlation_id="a")
            fields = ["max_length", "overflow"]
            length = (await east.get_queue(XMIT)).length
            await east.update_queue(XMIT, QueueConfig(max_length=length, overflow=overflow), fields)
            done = await east.react(TO, Where(correlation_id="a"), Cancel(), everything=True, forward=True)
            assert (done.applied, done.forwarded) == (2, XMIT)
            await east.update_queue(XMIT, QueueConfig(max_length=100), ["max_length"])
        before = (await east.get_queue(XMIT)).length
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        assert (await east.get_queue(XMIT)).length == before == 2, "what it wrote can be read again"


@pytest.mark.slow
async def test_v17_what_only_says_that_it_is_a_reaction_is_a_message(managers: Managers) -> None:
    """Whoever calls himself a manager may say so; the member ended, and at each start again."""
    async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
        await west.create_queue("orders")
        async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
            message = Message(payload=b"\xff\xff\xff", persistent=True)
            message.properties["tq_reaction"].flag = True
            puts = [QueueMessages(queue=TO, messages=[message])]
            request = TransactRequest(request_id=new_request_id(), forwarder="me", puts=puts)
            await east.links.own.caller.call(TRANSACTION_SERVICE + "Transact", request, TransactResponse)
            await until(lambda: is_empty(east), "it has left")
            assert await payloads(west) == [b"\xff\xff\xff"]


@pytest.mark.slow
@pytest.mark.requirement("R216")
async def test_v17_a_program_and_several_queues_are_for_queues_of_one_manager(managers: Managers) -> None:
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:
        for name in ("q", "r"):
            await east.create_queue(name, OPEN)
            await east.enqueue(name, [b"1"])
        for queues, action in ((TO, Custom("them")), ([TO, "q"], Cancel()), (["q", TO], Cancel())):
            with pytest.raises(InvalidRequest, match=r"BAD_REQUEST.* of another manager") as refused:
                await east.react(queues, "tq_index > 0", action, forward=True)
            assert refused.value.definite
        with pytest.raises(NotFound):
            await east.get_queue(XMIT)
        done = await east.react(["q", "//east/r"], "tq_index > 0", Cancel(), forward=True)
        assert [(home.queue, home.applied) for home in done.homes] == [("q", 1), ("//east/r", 1)]


@pytest.mark.slow
@pytest.mark.requirement("R190")
async def test_v2_v17_a_reactive_message_takes_the_way_of_the_messages(managers: Managers) -> None:
    """By Enqueue to a full name: on what waits here, else behind it to the other manager, and never stored as such."""
    async with open_manager(managers.east), aio.connect(managers.east.listen_client) as east:

        async def reactive(name: str) -> EnqueueResponse:
            reaction = Reaction(delete={}, target={"correlation_id": name})
            request = EnqueueRequest(queue=TO, request_id=new_request_id(), messages=[Message()], reaction=reaction)
            return await east.links.own.caller.call(QUEUE_SERVICE + "Enqueue", request, EnqueueResponse)

        await _send(east, b"1", correlation_id="a")
        await _send(east, b"2", correlation_id="b")
        done = await reactive("a")
        assert (done.reacted.applied, done.forwarded, done.reacted.forwarded) == (1, "", "")
        async with open_manager(managers.west), aio.connect(managers.west.listen_client) as west:
            await west.create_queue("orders", OPEN)
            await until(lambda: is_empty(east), "it is there")
            assert await payloads(west) == [b"2"]
            done = await reactive("b")
            assert (done.reacted.outcome, done.forwarded, done.reacted.forwarded) == (Outcome.STORED, XMIT, XMIT)
            assert not done.results
            await until(lambda: is_empty(east), "it is done there")
            assert await payloads(west) == []
