"""Producer macro queues with members at another manager (M4): what is dealt there is there, once. Two real pairs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tandemq
from tandemq import aio
from tandemq.cli import root
from tandemq.cli.failure import Failure
from tandemq.cli.macro import unmake
from tandemq.client.macros import FarState, MacroPolicy, Relationship
from tandemq.errors import NotFound, ResourceExhausted, TandemqError, error_of
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tests.integration.support import new_name, payloads, roles, stopped_at_end
from tests.integration.two_pairs import Pairs, client_of, is_empty, made, there, two_pairs
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


def way(queue: str) -> str:
    return f"SYSTEM.XMIT/west/{queue}"


async def macro_of(east: aio.Client, west: aio.Client, policy: MacroPolicy, **priorities: int) -> tuple[str, str, str]:
    """A macro queue that is sent to, its member here and its member there."""
    macro, own, far = new_name("macro"), new_name("own"), new_name("far")
    await west.create_queue(far)
    await east.create_queue(own)
    await east.create_macro(macro, relationship=Relationship.PRODUCER, policy=policy)
    await east.add_macro_member(macro, own, priority=priorities.get("here", 0))
    await east.add_macro_member(macro, f"//west/{far}", priority=priorities.get("there", 0))
    return macro, own, far


async def test_a_batch_is_dealt_here_and_there_by_one_record(east: aio.Client, west: aio.Client) -> None:
    macro, own, far = await macro_of(east, west, MacroPolicy.ROUND_ROBIN)
    shown = (await east.get_macro(macro)).members
    assert [(each.queue, each.target) for each in shown] == [(own, ""), (way(far), f"//west/{far}")]
    message = tandemq.Outgoing(b"1", {"priority": 7, "properties": {"k": 1}, "dedup_id": "d"})
    receipts = await east.enqueue(macro, [b"0", message, b"2", b"3"])
    assert len(receipts) == 4
    assert await payloads(east, own) == [b"0", b"2"]
    got = await there(west, far, 2)
    assert [each.payload for each in got] == [b"1", b"3"]
    properties = dict(got[0].properties)
    assert properties == {"k": 1, "tq_hops": 1, "tq_source_id": receipts[1].id, "tq_source": "east/main"}
    await until(lambda: is_empty(east, way(far)), "everything is acknowledged")
    await east.enqueue(macro, [message])
    await until(lambda: is_empty(east, way(far)), "everything is acknowledged")
    assert len(await payloads(west, far)) == 2, "its dedup id is known where it went first"
    assert await payloads(east, own) == [b"0", b"2"], "and nowhere else, though it was that one's turn"


@pytest.mark.requirement("R071", "R072")
async def test_once_and_in_order_over_both_pairs_failovers(tmp_path: Path) -> None:
    """Masters of both pairs are killed in turn under a producer: each group is in one queue, once and in order."""
    here, away = made(tmp_path)
    await asyncio.gather(here.start(), away.start())
    async with stopped_at_end(here), stopped_at_end(away):
        near, far = aio.connect(here.target, timeout=OUTER_S), aio.connect(away.target, timeout=OUTER_S)
        async with near, far:
            macro, own, remote = await macro_of(near, far, MacroPolicy.BY_GROUP)
            async with near.producer(macro) as producer:
                for number in range(160):
                    sent = producer.send(b"%d" % number, group_id=f"g{number % 8}")
                    if number % 40 == 20:
                        cluster = (here, away)[number // 40 % 2]
                        (master, *_) = await roles(cluster)
                        cluster.kill(master)
                        await cluster.restart(master)
                    await sent
            await until(lambda: is_empty(near, way(remote)), "everything is there")
            both = await payloads(near, own), await payloads(far, remote)
            assert all(both), "groups are on both sides"
            assert sorted(int(each) for side in both for each in side) == list(range(160))
            for side in both:
                for group in range(8):
                    numbers = [int(each) for each in side if int(each) % 8 == group]
                    assert numbers in ([], list(range(group, 160, 8)))


async def test_a_member_that_is_not_reached_is_passed_over_and_comes_back(east: aio.Client, west: aio.Client) -> None:
    """Where a proxy leads to the same queue, what that knows counts, and is shown."""
    macro, own, far = new_name("macro"), new_name("own"), new_name("far")
    await east.create_queue(own)
    await east.create_macro(macro, relationship=Relationship.PRODUCER, policy=MacroPolicy.FIRST_AVAILABLE)
    await east.add_macro_member(macro, f"//west/{far}", priority=9)
    await east.add_macro_member(macro, own)
    await east.create_proxy(f"{far}.proxy", f"//west/{far}")

    async def stands(state: FarState) -> bool:
        (shown, _) = (await east.get_macro(macro)).members
        return shown.far is not None and shown.far.state is state

    await until(lambda: stands(FarState.AWAY), "the proxy has not found the queue")
    await east.enqueue(macro, [b"here"])
    assert await payloads(east, own) == [b"here"]
    await west.create_queue(far)
    await until(lambda: stands(FarState.HEARD), "the proxy has found it")
    await east.enqueue(macro, [b"there"])
    assert [each.payload for each in await there(west, far, 1)] == [b"there"]


async def test_copies_enter_all_or_none_and_what_is_refused_names_the_member(
    east: aio.Client, west: aio.Client
) -> None:
    macro, own, far = await macro_of(east, west, MacroPolicy.DUPLICATE)
    await east.update_queue(own, QueueConfig(max_length=2), ["max_length"])
    await east.enqueue(macro, [b"0", b"1"])
    with pytest.raises(ResourceExhausted, match="QUEUE_FULL"):
        await east.enqueue(macro, [b"2"])
    assert [each.payload for each in await there(west, far, 2)] == [b"0", b"1"]
    await until(lambda: is_empty(east, way(far)), "everything is acknowledged")
    assert len(await payloads(west, far)) == 2, "what one refused has entered none"
    for name, text in (
        ("//nobody/q", r"MANAGER_NOT_FOUND.*//nobody/q"),
        (f"//east/{own}", rf"CONFIG_ERROR.*is queue {own} of this manager"),
        ("//west/SYSTEM.DEAD", "BAD_NAME.*//west/SYSTEM.DEAD"),
        ("//west", "BAD_NAME.*//west"),
        (f"//west/{far}", "CONFIG_ERROR.*is a member of macro queue .* already"),
    ):
        with pytest.raises(TandemqError, match=text) as caught:
            await east.add_macro_member(macro, name)
        assert caught.value.metadata["member"] == name
    await east.remove_macro_member(macro, f"//west/{far}")
    await east.delete_queue(way(far))
    two_way = new_name("two-way")
    await east.create_queue(two_way, QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY))
    await east.remove_macro_member(macro, own)
    await east.add_macro_member(macro, two_way)
    for more, text in (
        ({"expected_version": 1}, "VERSION_MISMATCH"),
        ({"priority": 12}, "CONFIG_ERROR.*0 to 9"),
        ({}, f"CONFIG_MISMATCH.*{way(far)}.*TWO_WAY"),
    ):
        with pytest.raises(TandemqError, match=text):
            await east.add_macro_member(macro, f"//west/{far}", **more)
        with pytest.raises(NotFound):  # nothing was made for what is not added
            await east.get_queue(way(far))


async def test_a_macro_queue_that_cannot_be_taken_back_is_named(east: aio.Client) -> None:
    """A member is refused, and somebody else has changed it meanwhile, or what was in doubt was done."""
    name, own = new_name("macro"), new_name("own")
    await east.create_queue(own)
    mine = await east.create_macro(name)
    await east.add_macro_member(name, own)
    with pytest.raises(Failure, match=f"nobody has it; macro queue {name} was made and is still there") as caught:
        await unmake(east, mine, error_of("QUEUE_NOT_FOUND", "nobody has it"))
    assert (caught.value.reason, name in caught.value.next_step) == ("QUEUE_NOT_FOUND", True)
    await unmake(east, await east.get_macro(name), error_of("QUEUE_NOT_FOUND", "nobody has it"))
    with pytest.raises(NotFound):
        await east.get_macro(name)


async def test_the_command_makes_one_with_its_members_or_none(pairs: Pairs, east: aio.Client, west: aio.Client) -> None:
    name, own, far = new_name("macro"), new_name("own"), new_name("far")
    await east.create_queue(own)
    await west.create_queue(far)

    async def run(*members: str) -> Result:
        words = [word for each in members for word in ("--member", each)]
        place = ["--target", pairs.east.target]
        return await asyncio.to_thread(
            CliRunner().invoke, root, ["macro", "create", name, "--producer", *words, *place]
        )

    done = await run(f"{own}=3", "nowhere")
    assert done.exit_code != 0
    assert "there is no queue 'nowhere'" in done.output
    with pytest.raises(NotFound):
        await east.get_macro(name)
    assert (await run(f"{own}=12")).exit_code == 2
    done = await run(f"{own}=3", f"//west/{far}")
    assert done.exit_code == 0, done.output
    shown = (await east.get_macro(name)).members
    assert [(each.queue, each.priority) for each in shown] == [(own, 3), (way(far), 0)]
