"""Macro queues with members at another manager (M7): a consumer gets messages of both by one policy. Two real pairs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.client.delivery import ReceivedMessage
from tandemq.client.macros import FarMember, FarState, MacroPolicy
from tandemq.errors import InvalidRequest, NotFound, Refused
from tests.integration.support import gone, new_name, payloads, roles, stopped_at_end
from tests.integration.two_pairs import Pairs, client_of, made, two_pairs
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


async def macro_of(
    east: aio.Client, west: aio.Client, policy: MacroPolicy = MacroPolicy.PRIORITIZED, here: int = 5, there: int = 9
) -> tuple[str, str, str]:
    """A macro queue, its member here and its member there, with these member priorities."""
    macro, own, far = new_name("macro"), new_name("own"), new_name("far")
    await west.create_queue(far)
    await east.create_queue(own)
    await east.create_proxy(f"{far}.proxy", f"//west/{far}")
    await east.create_macro(macro, policy=policy)
    await east.add_macro_member(macro, own, priority=here)
    await east.add_macro_member(macro, f"//west/{far}", priority=there)
    return macro, own, far


async def far_of(client: aio.Client, macro: str) -> FarMember:
    (far,) = [each.far for each in (await client.get_macro(macro)).members if each.target]
    assert far is not None
    return far


async def given_there(client: aio.Client, macro: str, own: str) -> aio.ReceivedBatch:
    """What comes first, unless the member there is late on a machine that has much to do: it holds nobody back then."""
    found: list[aio.ReceivedBatch] = []

    async def is_given() -> bool:
        got = await client.dequeue(macro)
        if got.queue == own:
            await got.release()
        elif got:  # else it was late, and a call that does not wait says that there is nothing
            found.append(got)
        return bool(found)

    await until(is_given, "the member there gives its head")
    return found[0]


async def test_one_call_gets_what_is_here_or_there_by_the_policy(east: aio.Client, west: aio.Client) -> None:
    """Example 13: the member there comes first, and a call that does not wait finds its head."""
    macro, own, far = await macro_of(east, west)
    await east.enqueue(own, [b"here"])
    await west.enqueue(far, [b"there 0", b"there 1"])
    got = await given_there(east, macro, own)
    assert (got.payloads, got.queue) == ([b"there 0"], f"{far}.proxy")
    await got.ack()
    got = await given_there(east, macro, own)
    assert got.payloads == [b"there 1"]
    await got.release()
    got = await given_there(east, macro, own)
    assert (got.payloads, got[0].delivery_count) == ([b"there 1"], 1)
    await got.ack()
    got = await east.dequeue(macro)
    assert (got.payloads, got.queue) == ([b"here"], own)
    await got.ack()
    assert await payloads(west, far) == []
    waiting = asyncio.create_task(east.dequeue(macro, wait=OUTER_S))
    await west.enqueue(far, [b"late"])
    got = await waiting
    assert got.payloads == [b"late"]
    await got.reject("not this one")
    assert (await west.get_queue(far)).rejected_total == 1


async def test_a_stream_gets_both_and_settles_each_where_it_is(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    macro, own, far = await macro_of(east, west)
    for endpoint in pairs.east.endpoints:
        await east.enqueue(own, [b"here %d" % each for each in range(50)])
        await west.enqueue(far, [b"there %d" % each for each in range(50)])
        got = set()
        async with (
            aio.connect(endpoint, follow_master=False) as one,
            one.consumer(macro, credit_messages=20) as consumer,
        ):
            for _ in range(100):
                delivery = await anext(consumer)
                got.add((delivery.queue, delivery.payload))
                delivery.ack()
            await consumer.settled()
            assert consumer.lost == 0
        assert len(got) == 100
        assert {queue for queue, _ in got} == {own, f"{far}.proxy"}
        assert (await west.get_queue(far)).length == 0
        assert (await east.get_queue(own)).length == 0
    shown = await far_of(east, macro)
    assert shown.delivered == 100


async def test_a_message_reads_as_where_it_came_from(east: aio.Client, west: aio.Client) -> None:
    """Its id, index, time and attributes are those of the other manager, over a stream and by a call, part by part."""
    macro, own, far = await macro_of(east, west)
    for number in range(4):
        for kind in ("a", "b"):
            await west.send(far, f"{number} {kind}".encode(), priority=number % 2 + 4, properties={"n": number})
    browsed = {row.payload: row for row in [row async for row in west.browse(far)]}
    got: list[ReceivedMessage] = list(await given_there(east, macro, own))
    async with east.consumer(macro, credit_messages=3) as consumer:
        for _ in range(7):
            got.append(delivery := await anext(consumer))
            delivery.ack()
        await consumer.settled()
    assert sorted(row.payload for row in got) == sorted(browsed)
    for row in got:
        other = browsed[row.payload]
        assert (row.id, row.index, row.enqueue_time) == (other.id, other.index, other.enqueue_time)
        assert (row.attributes, row.delivery_count) == (other.attributes, 1)
    assert [row.attributes["priority"] for row in got] == [5] * 4 + [4] * 4


async def test_the_command_shows_how_a_member_elsewhere_stands(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    macro, own, far = await macro_of(east, west)
    await west.enqueue(far, [b"1"])
    got = await given_there(east, macro, own)

    def info() -> list[dict[str, object]]:
        result = CliRunner().invoke(root, ["macro", "info", macro, "--target", pairs.east.target, "-o", "json"])
        assert result.exit_code == 0, result.output
        rows: list[dict[str, object]] = json.loads(result.output)["members"]
        return rows

    _, row = await asyncio.to_thread(info)
    assert (row["queue"], row["target"], row["delivered"]) == (f"{far}.proxy", f"//west/{far}", 1)
    assert row["state"] in ("HEARD", "IDLE", "ASKED")
    await got.ack()


async def test_heads_that_nobody_takes_go_back_unharmed(east: aio.Client, west: aio.Client) -> None:
    """What the policy puts behind is looked at and released: its delivery count is as it was."""
    macro, own, far = await macro_of(east, west, MacroPolicy.CHRONOLOGICAL)
    await east.enqueue(own, [b"older"])
    await west.enqueue(far, [b"newer"])
    got = await east.dequeue(macro)
    assert got.payloads == [b"older"]
    await got.ack()

    async def released() -> bool:
        return (await west.get_queue(far)).leased == 0

    await until(released, "the head is back")
    got = await west.dequeue(far)
    assert (got.payloads, got[0].delivery_count) == ([b"newer"], 1)


@pytest.mark.requirement("R076")
async def test_a_member_that_is_removed_gives_back_what_it_held_and_its_proxy_stays(
    east: aio.Client, west: aio.Client
) -> None:
    """What was delivered before is settled there still."""
    macro, own, far = await macro_of(east, west)
    await west.enqueue(far, [b"0", b"1", b"2"])
    got = await given_there(east, macro, own)
    assert got.payloads == [b"0"]
    await east.remove_macro_member(macro, f"//west/{far}")
    assert [each.queue for each in (await east.get_macro(macro)).members] == [own]
    await got.ack()

    async def given_back() -> bool:
        shown = await west.get_queue(far)
        return (shown.length, shown.leased) == (2, 0)

    await until(given_back, "nothing is held there any more")
    assert (await east.dequeue(macro)).payloads == []
    assert (await east.dequeue(f"{far}.proxy", 2)).payloads == [b"1", b"2"]


@pytest.mark.requirement("R071", "R072", "R094")
async def test_once_over_both_pairs_failovers(tmp_path: Path) -> None:
    """Masters of both pairs are killed in turn under a consumer: each message of both members is there, and nothing
    that was settled comes again; then the other pair is away, the member here goes on, and the other one comes back.
    """
    here, there = made(tmp_path)
    await asyncio.gather(here.start(), there.start())
    async with stopped_at_end(here), stopped_at_end(there):
        near, far = aio.connect(here.target, timeout=OUTER_S), aio.connect(there.target, timeout=OUTER_S)
        async with near, far:
            macro, own, remote = await macro_of(near, far, MacroPolicy.ROUND_ROBIN)
            wanted = {b"%s %d" % (kind, number) for kind in (b"here", b"there") for number in range(40)}
            await near.enqueue(own, sorted(each for each in wanted if each.startswith(b"here")))
            await far.enqueue(remote, sorted(each for each in wanted if each.startswith(b"there")))
            settled: list[bytes] = []
            while len(settled) < len(wanted):
                cluster = (here, there)[len(settled) // 10 % 2]
                master = (await roles(cluster))[0] if len(settled) % 10 == 5 else ""
                got = await near.dequeue(macro, wait=OUTER_S)
                ended = asyncio.create_task(got.ack())
                if master:
                    cluster.kill(master)
                await ended
                settled += got.payloads
                if master:
                    await cluster.restart(master)
            assert sorted(settled) == sorted(wanted)
            await _beside_an_absent_one(near, far, macro, own, remote, there)


async def _beside_an_absent_one(
    near: aio.Client, far: aio.Client, macro: str, own: str, remote: str, there: Cluster
) -> None:
    await near.enqueue(own, [b"beside"])
    await gone(there, "a", "b")
    got = await near.dequeue(macro, wait=OUTER_S)
    assert got.payloads == [b"beside"]
    await got.ack()

    async def is_away() -> bool:
        shown = await far_of(near, macro)
        return shown.state is FarState.AWAY and shown.why != ""

    await until(is_away, "the member there is shown as away")
    for name in ("a", "b"):
        there.spawn(name)
    await there.wait_ready()
    await far.enqueue(remote, [b"back"])
    assert (await near.dequeue(macro, wait=OUTER_S)).payloads == [b"back"]


async def test_what_is_not_built_is_refused_by_name(east: aio.Client, west: aio.Client) -> None:
    macro, _, far = await macro_of(east, west)
    with pytest.raises(InvalidRequest, match=r"BAD_REQUEST.*//west/.*LEASE"):
        await east.dequeue(macro, mode="immediate")
    with pytest.raises(NotFound, match=r"QUEUE_NOT_FOUND.*tandemq proxy create"):
        await east.add_macro_member(macro, "//west/nobody")
    with pytest.raises(Refused, match=r"CONFIG_ERROR.*a member of macro queue .* already"):
        await east.add_macro_member(macro, f"{far}.proxy")
