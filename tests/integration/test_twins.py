"""Two processes that do the same, over a real pair: each output once, one state, and what differs is seen (K7-K10)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import Limits
from tandemq.errors import AlreadyExists, NotFound
from tandemq.twin import (
    OnDivergence,
    Output,
    OutputsMissing,
    OutputsOfOthers,
    StateInUse,
    StateMissing,
    TwinEnd,
    TwinFault,
    TwinsDiffer,
    TwinVersion,
)
from tandemq.twin.digests import Compared
from tandemq.twin.looking import look, names, order
from tandemq.twin.meeting import Asked, ask, marks
from tandemq.twin.outputs import Outputs
from tandemq.twin.snapshots import Snapshots, TwinSnapshot
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1.pair_service_pb2 import ListEventsRequest, PairEvent, PairEventKind
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name, raw_to
from tests.integration.twin_pairing import PRODUCER, differing_at, pairing, sums
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pair = module_pair(limits=Limits(side_full_seconds=1))
client = module_client()


async def events_of(pair: Cluster, name: str) -> list[PairEvent]:
    """Of both members, about these twins."""
    said: list[PairEvent] = []
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        for member in members:
            found = await member.pair.ListEvents(ListEventsRequest(limit=1_000), timeout=OUTER_S)
            said += [event for event in found.events if name in event.text]
    return said


# -- K8: outputs once -------------------------------------------------------------------------------------------------


def unequal(found: list[Compared]) -> Any:
    return found.append


async def test_k8_outputs_that_two_cut_at_other_places_enter_once(client: aio.Client) -> None:
    queue, writer, found = new_name(), new_name(), list[Compared]()
    await client.create_queue(queue)
    twins = [Outputs(client, writer, "q", unequal(found)) for _ in range(2)]
    for twin in twins:
        await twin.begin(0, 0, 0)
    running = [asyncio.create_task(twin.run()) for twin in twins]
    for index in range(1, 101):
        for twin, pace in zip(twins, (3, 7), strict=True):
            twin.add(index, [Output(queue, b"%d" % index)])
            if index % pace == 0:
                await twin.done(index)
    await asyncio.gather(*(twin.done(100) for twin in twins))
    for task in running:
        task.cancel()
    assert [message.payload async for message in client.browse(queue)] == [b"%d" % index for index in range(1, 101)]
    assert found == []
    assert twins[0].chain == twins[1].chain
    assert sum(twin.counts.sent for twin in twins) == 100
    assert sum(twin.counts.duplicates for twin in twins) > 0, "both did send"


async def test_k8_outputs_for_which_a_queue_has_no_room_at_once_enter_in_parts(client: aio.Client) -> None:
    """Behind a long absence one unit would be longer than the queue ever is."""
    queue, found, taken = new_name(), list[Compared](), list[bytes]()
    await client.create_queue(queue, admin.QueueConfig(max_length=3))
    twin = Outputs(client, new_name(), "q", unequal(found))
    await twin.begin(0, 0, 0)
    for index in range(1, 21):
        twin.add(index, [Output(queue, b"%d" % index)])
    running = asyncio.create_task(twin.run())
    await until(lambda: twin.last > 0, "some have room")
    async with client.consumer(queue) as consumer:
        async for delivery in consumer:
            taken.append(delivery.payload)
            delivery.ack()
            if len(taken) == 20:
                break
    await twin.done(20)
    running.cancel()
    assert (taken, found) == ([b"%d" % index for index in range(1, 21)], [])


async def test_k8_a_difference_is_found_by_the_same_number_and_by_a_gap(client: aio.Client) -> None:
    queue, same, gap = new_name(), new_name(), new_name()
    await client.create_queue(queue)
    for writer in (same, gap):
        found = list[Compared]()
        first, second = Outputs(client, writer, "q", unequal(found)), Outputs(client, writer, "q", unequal(found))
        for each in (first, second):
            await each.begin(0, 0, 0)
        running = [asyncio.create_task(first.run())]
        first.add(1, [Output(queue, b"1")])
        first.add(2, [Output(queue, b"2")])
        await first.done(2)
        second.add(1, [Output(queue, b"other")])
        second.add(2, [Output(queue, b"2")])
        if writer == gap:
            second.add(3, [Output(queue, b"3")])
        own = second.chain
        running.append(asyncio.create_task(second.run()))
        await second.done(2)
        for task in running:
            task.cancel()
        assert len(found) == 1, "once"
        assert (found[0].number, found[0].other) == (2, first.chain)
        assert found[0].own != first.chain
        assert (found[0].own == own) == (writer == same)


async def test_k8_who_was_away_sends_nothing_again_and_compares(client: aio.Client) -> None:
    """Example 11: all that it makes is known, for as long as the name is."""
    queue, writer, found = new_name(), new_name(), list[Compared]()
    await client.create_queue(queue)
    first = Outputs(client, writer, "q", unequal(found))
    await first.begin(0, 0, 0)
    task = asyncio.create_task(first.run())
    for index in range(1, 40):
        first.add(index, [Output(queue, b"%d" % index)])
        await first.done(index)
    task.cancel()
    back, other = Outputs(client, writer, "q", unequal(found)), Outputs(client, writer, "q", unequal(found))
    await back.begin(0, 0, 0)
    await other.begin(0, 0, 0)
    for index in range(1, 40):
        back.add(index, [Output(queue, b"%d" % index)])
    assert (back.counts.skipped, back.counts.compared, back.chain, found) == (39, 39, first.chain, [])
    assert (await client.get_queue(queue)).length == 39
    for index in range(1, 40):
        if index != 20:  # it makes nothing of one input
            other.add(index, [Output(queue, b"%d" % index)])
    assert [(each.number, each.equal) for each in found] == [(20, 19)]
    await client.release_writer(writer)
    with pytest.raises(OutputsMissing, match=r"knows outputs of .* up to input 0, and this process those up to 39"):
        await Outputs(client, writer, "q", unequal(found)).begin(39, first.chain, 39)


async def test_k8_who_hears_that_its_twin_is_further_compares_once_it_gets_there(client: aio.Client) -> None:
    """It sends nothing more up to there, so no later answer would say that it differs."""
    queue, writer, found = new_name(), new_name(), list[Compared]()
    await client.create_queue(queue)
    first, second = (Outputs(client, writer, "q", unequal(found)) for _ in range(2))
    for each in (first, second):
        await each.begin(0, 0, 0)
    running = [asyncio.create_task(each.run()) for each in (first, second)]
    for index in range(1, 4):
        first.add(index, [Output(queue, b"%d" % index)])
    await first.done(3)
    second.add(1, [Output(queue, b"1")])
    await second.done(1)
    assert (second.last, found) == (3, [])
    second.add(2, [Output(queue, b"2")])
    second.add(3, [Output(queue, b"other")])
    assert found == [Compared(3, second.chain, first.chain, 0)]
    # And the pair may forget the name while both are at work.
    await client.release_writer(writer)
    first.add(4, [Output(queue, b"4")])
    with pytest.raises(OutputsMissing, match=r"knows outputs of .* up to input 0, and this process those up to 3"):
        await running[0]
    running[1].cancel()


async def test_k8_outputs_of_an_input_that_has_none_here_are_a_difference(client: aio.Client) -> None:
    queue, writer, found = new_name(), new_name(), list[Compared]()
    await client.create_queue(queue)
    first, second = (Outputs(client, writer, "q", unequal(found)) for _ in range(2))
    for each in (first, second):
        await each.begin(0, 0, 0)
    running = [asyncio.create_task(each.run()) for each in (first, second)]
    for each in (first, second):
        each.add(1, [Output(queue, b"1")])
        await each.done(1)
    both = second.chain
    first.add(2, [Output(queue, b"2")])
    await first.done(2)
    second.add(3, [Output(queue, b"3")])
    await second.done(3)
    assert found == [Compared(2, both, first.chain, 1)], "as of what this one had made up to there"
    for task in running:
        task.cancel()


# -- whole twins ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R137")
async def test_twins_end_in_one_state_and_send_once(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    async with pairing(pair, client, tmp_path) as made:
        a, b = made.twin("a"), made.twin("b")
        runs = [made.start(twin) for twin in (a, b)]
        numbers = list(range(1, 301))
        for start in range(0, 300, 20):
            await made.send(*numbers[start : start + 20])
        await made.reach(300, a, b)
        await made.settled()
        assert a.state == b.state == {"sum": sum(numbers)}
        assert await made.sent() == sums(*numbers)
        assert a.counts.divergences == b.counts.divergences == 0
        seen = await look(client, made.name)
        assert (seen.inputs, seen.sent, seen.mark, seen.differences) == (made.inputs, 300, 300, [])
        assert [(twin.member, twin.running, twin.version) for twin in seen.twins] == [
            ("a", True, "1"),
            ("b", True, "1"),
        ]
        assert made.name in await names(client)
        for queue, kept in ((f"SYSTEM.TWIN/{made.name}", 1_024), (f"SYSTEM.TWIN/{made.name}/log", 200)):
            config = (await client.get_queue(queue)).config
            assert (config.max_length, config.overflow) == (kept, admin.OVERFLOW_DROP_HEAD), "for ever, and bounded"
        await order(client, made.name, "b", "stop")
        await ask(client, made.name, "a", Asked("restart", "", 0, b""))
        assert [await run for run in runs] == [TwinEnd.RESTART, TwinEnd.STOPPED]
        # From its snapshot, with nothing left to replay.
        again = made.twin("a")
        made.start(again)
        await made.send(400)
        await made.reach(301, again)
        assert again.state == {"sum": sum(numbers) + 400}
        with pytest.raises(TwinFault, match="those that run: a"):
            await order(client, made.name, "b", "stop")


@pytest.mark.requirement("R139")
async def test_k10_who_dies_replays_what_is_behind_its_snapshot(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        lazy = made.twin("a", snapshot_s=3600.0)
        run = made.start(lazy)
        await made.send(*range(1, 51))
        await made.reach(50, lazy)
        run.cancel()  # as kill -9: nothing was saved
        await asyncio.gather(run, return_exceptions=True)
        assert not list((tmp_path / "a").glob("*.snapshot"))
        again, b = made.twin("a"), made.twin("b")
        made.start(again)
        await made.reach(50, again)
        assert (again.state, again.counts.sent) == ({"sum": sum(range(1, 51))}, 0), "all of it was there"
        made.start(b)
        await made.reach(50, b)
        await made.settled()
        assert await made.sent() == sums(*range(1, 51))


async def test_k10_no_input_is_settled_that_the_snapshot_on_the_disk_has_not_seen(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes while one is written is in the next one: else a kill in between loses it."""
    write, begun, go = Snapshots.write, list[int](), threading.Semaphore(0)

    def held_up(snapshots: Snapshots, snapshot: TwinSnapshot) -> None:
        begun.append(snapshot.index)
        go.acquire()
        write(snapshots, snapshot)

    monkeypatch.setattr(Snapshots, "write", held_up)
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        made.start(a)
        try:
            await made.send(1)
            await until(lambda: begun == [1], "the first snapshot is under way")
            await made.send(3, 5)
            await made.reach(3, a)
            go.release()
            await until(lambda: begun == [1, 3], "the next one is")

            async def passed() -> int:
                return {side.member: side.passed for side in (await client.get_queue(made.inputs)).sides}["a"]

            async def is_settled() -> bool:
                return await passed() > 0

            await until(is_settled, "what the first one has seen is settled")
            assert await passed() == 1
        finally:
            go.release(100)


async def test_k10_who_lost_its_state_takes_its_twins(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    async with pairing(pair, client, tmp_path) as made:
        a, b = made.twin("a"), made.twin("b")
        run = made.start(a)
        made.start(b)
        await made.send(*range(1, 31))
        await made.reach(30, a, b)
        await made.settled()
        a.stop()
        await run
        for path in (tmp_path / "a").glob("*.snapshot"):
            path.write_bytes(path.read_bytes()[:-1])  # cut in the middle: refused
        again = made.twin("a")
        made.start(again)
        await made.send(31, 32)
        await made.reach(32, again, b)
        assert again.state == b.state == {"sum": sum(range(1, 33))}
        assert await made.sent() == sums(*range(1, 33))
        # And with nobody to ask it stops.
        for run in made.runs:
            run.cancel()
        await asyncio.gather(*made.runs, return_exceptions=True)
        alone = made.twin("b", directory=tmp_path / "empty", state_wait_s=0.05)
        with pytest.raises(StateMissing, match=r"TWIN_STATE_LOST: inputs 1 to 3[02] of .*Start the other one"):
            await alone.run()


async def test_k9_a_difference_stops_the_one_that_comes_second(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        a, b = made.twin("a"), made.twin("b", differing_at(7))  # odd: the state differs, and no output yet
        made.start(a)
        await made.send(*([1] * 10))
        await made.reach(10, a)
        text = (
            r"DIVERGENCE: .*up to input 10 .*; up to where they are the same is not known; "
            r".*differ behind input 10: \w{16} here"
        )
        with pytest.raises(TwinsDiffer, match=text):
            await made.start(b)
        seen = await look(client, made.name)
        (difference,) = seen.differences
        assert (difference["member"], difference["number"]) == ("b", 10)
        assert difference["other"] == seen.digest
        assert len(await marks(client, made.name)) == 1, "what was reported to the pair is nothing new"
        (event,) = await events_of(pair, made.name)
        assert event.kind == PairEventKind.PAIR_EVENT_KIND_DIVERGENCE
        assert all(str(difference[what]) in event.text for what in ("number", "own", "other"))
        await made.send(2)
        await made.reach(11, a)
        assert a.state == {"sum": 12}


async def test_k9_it_says_up_to_which_input_the_two_are_the_same(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """What a process was first with counts, and what was compared is equal: the first difference is behind both."""
    async with pairing(pair, client, tmp_path) as made:
        a, b = made.twin("a"), made.twin("b", differing_at(4))
        runs = [made.start(twin) for twin in (a, b)]
        await made.send(2, 2, 2)
        await made.reach(3, a, b)
        await made.settled()
        await made.send(2)
        await asyncio.wait(runs, return_when=asyncio.FIRST_COMPLETED)
        seen = await look(client, made.name)
        (difference,) = seen.differences
        assert (difference["equal"], difference["number"]) == (3, 4), "whichever of them came second"
        (error,) = [run.exception() for run in runs if run.done()]
        assert isinstance(error, TwinsDiffer)
        assert (error.equal, error.number, error.metadata["equal"]) == (3, 4, "3")
        assert "; up to input 3 they are the same; see docs/TWINS.md" in str(error)


async def test_k9_who_stops_sends_nothing_behind_the_difference(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """Else it would be first with what comes next, and the other one the second: both would stop."""
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        run = made.start(a)
        await made.send(*([2] * 10))
        await made.reach(10, a)
        a.stop()
        await run
        await made.send(*([2] * 20))
        with pytest.raises(TwinsDiffer, match="DIVERGENCE"):
            await made.twin("b", differing_at(7)).run()
        state = await client.writer_state(made.name)
        assert state is not None
        assert state.batch == 10
        again = made.twin("a")
        made.start(again)
        await made.reach(30, again)
        assert again.state == {"sum": 60}
        await until(lambda: again.counts.sent, "it sends what follows")
        assert again.counts.divergences == 0


@pytest.mark.parametrize(
    ("policy", "keep", "a_goes_on", "b_goes_on"),
    [
        (OnDivergence.LOG, "", True, True),
        (OnDivergence.STOP_BOTH, "", False, False),
        (OnDivergence.KEEP, "a", True, False),
        (OnDivergence.KEEP, "b", False, True),
    ],
)
async def test_k9_who_goes_on_is_a_policy(
    pair: Cluster,
    client: aio.Client,
    tmp_path: Path,
    policy: OnDivergence,
    keep: str,
    *,
    a_goes_on: bool,
    b_goes_on: bool,
) -> None:  # fmt: skip
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a", on_divergence=policy, keep=keep)
        b = made.twin("b", differing_at(2), on_divergence=policy, keep=keep)
        runs = [made.start(a)]
        await made.send(1, 2, 3, 4)
        await made.reach(4, a)

        async def is_sent() -> bool:
            return len(await made.sent()) == 2

        await until(is_sent, "a was first")
        runs.append(made.start(b))
        await until(lambda: b.counts.divergences > 0, "it differs")
        expected = [a_goes_on, b_goes_on]
        await until(lambda: [not run.done() for run in runs] == expected, "who is to stop has stopped")
        await made.send(6)
        for twin, goes_on in zip((a, b), expected, strict=True):
            if goes_on:
                await made.reach(5, twin)
        assert (await made.sent())[:2] == sums(1, 2, 3, 4), "what entered first counts"


async def test_k7_another_version_is_refused_unless_it_is_allowed(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        run = made.start(a)
        await made.send(1)
        await made.reach(1, a)
        with pytest.raises(TwinVersion, match=r"this process is version '2', and the twin at a is of '1'; allow it"):
            await made.twin("b", version="2").run()
        b = made.twin("b", version="2", allow=("1",))
        made.start(b)
        await made.reach(1, b)
        await made.settled()
        a.stop()
        await run
        with pytest.raises(TwinVersion, match=r"and the twin at b is of '2'"):
            await made.twin("a").run()
        with pytest.raises(TwinVersion, match=r"and the snapshot of input 1 is of '1'"):
            await made.twin("a", version="2").run()


async def test_k7_a_third_one_and_both_at_one_member_are_refused(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandemq.twin.twin.TAKEN_S", 0.05)
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a", snapshot_s=3600.0)  # nothing is settled: a third one with an empty directory lacks no state
        made.start(a)
        await made.send(1)
        await made.reach(1, a)
        with pytest.raises(AlreadyExists, match="TWIN_TAKEN"):
            await made.twin("a", directory=tmp_path / "other").run()
        with pytest.raises(StateInUse, match="give each twin a directory of its own"):
            await made.twin("b", directory=tmp_path / "a").run()
        await made.send(2)
        await made.reach(2, a)


async def test_what_cannot_work_is_said_at_the_beginning(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    async with pairing(pair, client, tmp_path) as made:
        with pytest.raises(TwinFault, match="create it with replication PRODUCER"):
            await made.twin("a", inputs=made.outputs).run()
        with pytest.raises(NotFound):
            await made.twin("a", inputs="nowhere").run()
        with pytest.raises(TwinFault, match="'c' is to be kept"):
            await made.twin("a", on_divergence=OnDivergence.KEEP, keep="c").run()
        with pytest.raises(ValueError, match="KEEP needs a member"):
            made.options("a", on_divergence=OnDivergence.KEEP)
        with pytest.raises(TwinFault, match="no twins 'nobody' have begun"):
            await look(client, "nobody")


async def test_a_handler_that_fails_stops_at_its_input_and_settles_nothing_of_it(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        await client.enqueue(made.inputs, [b"1", b"no number", b"3"])
        with pytest.raises(ValueError, match="invalid literal") as caught:
            await made.twin("a").run()
        assert caught.value.__notes__ == [f"at input 2 of {made.inputs}; its twin comes to the same"]
        await client.delete_queue(made.inputs)  # and of another queue of that name nothing is known
        await client.create_queue(made.inputs, PRODUCER)
        await made.send(2)
        a = made.twin("a")
        made.start(a)
        await made.reach(1, a)


async def test_outputs_of_another_queue_of_that_name_are_not_taken_for_these(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """Its inputs would be numbered from 1 again, and all its outputs would be duplicates."""
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        run = made.start(a)
        await made.send(2)

        async def is_sent() -> bool:
            return len(await made.sent()) == 1

        await until(is_sent, "its output")
        a.stop()
        await run
        await client.delete_queue(made.inputs)
        await client.create_queue(made.inputs, PRODUCER)
        with pytest.raises(StateMissing, match="give them another directory"):
            await made.twin("a").run()
        await made.send(2)
        with pytest.raises(OutputsOfOthers, match="WRITER_TAKEN"):
            await made.twin("a", directory=tmp_path / "new").run()


async def test_a_full_queue_of_outputs_holds_inputs_back_and_loses_nothing(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        await client.update_queue(made.outputs, admin.QueueConfig(max_length=1), ["max_length"])
        a = made.twin("a")
        made.start(a)
        await made.send(2)
        await made.reach(1, a)
        await made.send(4)
        await until(lambda: a.counts.units >= 3, "it is sent again and again")
        assert await made.sent() == sums(2)
        await client.update_queue(made.outputs, admin.QueueConfig(max_length=10), ["max_length"])

        async def is_sent() -> bool:
            return await made.sent() == sums(2, 4)

        await until(is_sent, "there is room")
