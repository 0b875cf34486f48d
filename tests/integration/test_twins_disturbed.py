"""Twins that something disturbs, at a real pair: a third process, questions at the wrong time, a handler that fails in
the middle, a side that was lost. Each is named, and harmless to the other one (K6, K7, K10).
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.config import Limits
from tandemq.errors import AlreadyExists, TandemqError
from tandemq.twin import (
    InputMissing,
    Output,
    StateMissing,
    Twin,
    TwinEnd,
    TwinFault,
    TwinInput,
    TwinOptions,
)
from tandemq.twin.looking import look, order
from tandemq.twin.meeting import Asked, ask
from tandemq.twin.snapshots import Snapshots
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.integration.twin_pairing import PRODUCER, State, differing_at, pairing, summing, sums
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process

pair = module_pair(limits=Limits(side_full_seconds=1))
client = module_client()

ROUNDS_MAX = 20
"""Until a process begins within a second of a record."""


async def noted_at_a(client: aio.Client, inputs: str) -> int:
    """What is settled at the side of member a, as the pair's log says it."""
    return {side.member: side.passed for side in (await client.get_queue(inputs)).sides}["a"]


async def test_k7_a_third_one_is_refused_before_it_disturbs_anybody(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though inputs are settled that it has not seen: it asks nobody for them, and takes no order of the one there."""
    monkeypatch.setattr("tandemq.twin.twin.TAKEN_S", 0.0)
    async with pairing(pair, client, tmp_path) as made:
        a, b = made.twin("a"), made.twin("b")
        run = made.start(a)
        made.start(b)
        await made.send(1, 2)
        await made.settled()
        await ask(client, made.name, "a", Asked("nothing", "", 0, b""))
        with pytest.raises(AlreadyExists, match="TWIN_TAKEN"):
            await made.twin("a", directory=tmp_path / "third", version="3").run()
        seen = await look(client, made.name)
        assert [twin.version for twin in seen.twins] == ["1", "1"], "it has not begun"
        await order(client, made.name, "a", "stop")
        assert await run is TwinEnd.STOPPED


async def test_k7_a_process_of_another_name_is_refused_while_the_first_one_runs(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """Outputs are one by the name of the twins: under two of them each would enter twice."""
    async with pairing(pair, client, tmp_path) as made:
        a, misspelt = made.twin("a"), made.twin("b")
        run = made.start(a)
        await made.send(2, 4)
        await made.reach(2, a)
        await until(lambda: a.counts.sent == 2, "its outputs are there")
        misspelt.name = f"{made.name}x"
        with pytest.raises(TwinFault, match=r"TWIN_MISMATCH.*each output would be sent under both names"):
            await misspelt.run()
        assert await made.sent() == sums(2, 4)
        a.stop()
        await run
        made.start(again := made.twin("b"))
        await made.reach(2, again)
        assert await made.sent() == sums(2, 4)


async def test_k10_two_that_begin_at_once_hear_of_each_other(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that needs a snapshot asks before the other one listens, who forgets what was asked before it began."""
    monkeypatch.setattr("tandemq.twin.twin.ASK_EVERY_S", 0.05)
    async with pairing(pair, client, tmp_path) as made:
        runs = [made.start(twin) for twin in (made.twin("a"), made.twin("b"))]
        await made.send(1, 2, 3)
        await made.settled()
        for member in ("a", "b"):
            await order(client, made.name, member, "stop")
        await asyncio.gather(*runs)
        without = made.twin("a", directory=tmp_path / "empty")
        made.start(without)

        async def has_asked() -> bool:
            return (await client.get_queue(f"SYSTEM.TWIN/{made.name}/b")).length > 0

        await until(has_asked, "it asks nobody yet")
        made.start(made.twin("b"))
        await made.reach(3, without)
        assert without.state == {"sum": 6}


async def test_k10_who_begins_before_the_pair_knows_how_far_its_side_is_asks_at_its_first_input(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """How far a side is becomes a record each second at most. Until then only what the side gives first says it."""

    async with pairing(pair, client, tmp_path) as made:
        a, index = made.twin("a"), 0
        run = made.start(a)
        made.start(made.twin("b"))
        for _ in range(ROUNDS_MAX):
            await made.send(1)
            await made.settled()  # so the next record of it is a second away
            shutil.copytree(a.options.directory, tmp_path / f"a-{index}")
            await made.send(3)
            await made.reach(index + 2, a)
            a.stop()
            assert await run is TwinEnd.STOPPED, "what it has acted on is settled at its side"
            await made.send(5)
            a = made.twin("a", directory=tmp_path / f"a-{index}")  # an older one
            run = made.start(a)
            await made.reach(index + 3, a)
            index += 3
            assert a.state == {"sum": 3 * index}, "it has its twin's state, and nothing is left out"
            if await noted_at_a(client, made.inputs) == index - 2:
                return  # nobody knew at its beginning what it lacks
        pytest.fail("each time the record was there before the process")


async def test_k10_a_question_that_cannot_be_answered_yet_holds_up_no_order(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        run = made.start(a)
        await made.send(1)
        await made.reach(1, a)
        await ask(client, made.name, "a", Asked("snapshot", "b", 1_000, b""))
        await ask(client, made.name, "a", Asked("snapshot", "nowhere", 1, b""))
        await order(client, made.name, "a", "stop")
        assert await run is TwinEnd.STOPPED


async def test_k10_what_is_no_snapshot_stops_who_asked_for_one_and_says_why(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """One that was cut, or of another release; and what somebody else gives is no answer."""
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        run = made.start(a)
        await made.send(1)

        async def is_noted() -> bool:
            return await noted_at_a(client, made.inputs) == 1

        await until(is_noted, "it is settled")
        a.stop()
        await run
        (newest,) = (tmp_path / "a").glob("*.snapshot")
        whole = newest.read_bytes()
        cases = {"its checksum is another one": whole[:-1], "as a snapshot of this version": b"tandemq-twin 9" + whole}
        for number, (why, given) in enumerate(cases.items()):
            without = made.start(made.twin("a", directory=tmp_path / f"empty-{number}"))

            async def has_asked() -> bool:
                return (await client.get_queue(f"SYSTEM.TWIN/{made.name}/b")).length > 0

            await until(has_asked, "it asks its twin")
            await ask(client, made.name, "a", Asked("given", "somebody", 1, b"there is none"))
            await ask(client, made.name, "a", Asked("given", "b", 1, given))
            said = rf"TWIN_STATE_LOST: inputs 1 to 1 .*; the snapshot that the twin at b gave cannot be used: .*{why}"
            with pytest.raises(StateMissing, match=said):
                await without
            await client.purge_queue(f"SYSTEM.TWIN/{made.name}/b")


async def test_k10_a_state_that_is_too_large_for_a_queue_is_copied_by_hand(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandemq.twin.twin.SNAPSHOT_BYTES_MAX", 100)
    async with pairing(pair, client, tmp_path) as made:
        a, b = made.twin("a"), made.twin("b")
        made.start(a)
        run = made.start(b)
        await made.send(1, 2)
        await made.settled()
        b.stop()
        await run
        said = (
            rf"TWIN_STATE_LOST: .*; its state has \d+ bytes, and 100 go .*: copy the newest file of {tmp_path}/a from"
        )
        with pytest.raises(StateMissing, match=said):
            await made.twin("b", directory=tmp_path / "empty").run()
        shutil.copy(max((tmp_path / "a").glob("*.snapshot")), tmp_path / "empty")
        again = made.twin("b", directory=tmp_path / "empty")
        made.start(again)
        await made.send(4)
        await made.reach(3, a, again)
        assert again.state == a.state == {"sum": 7}


async def test_k9_a_process_that_would_compare_at_other_inputs_is_refused(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """Else its first digest of a state is a difference of all outputs, and no handler is to blame."""
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a", mark_every=2)
        run = made.start(a)
        await made.send(1, 3)
        await made.reach(2, a)
        said = r"CONFIG_ERROR: .* its state each 3 inputs, and the twin at a did so each 2 and has not ended in order"
        with pytest.raises(TwinFault, match=said):
            await made.twin("b", mark_every=3).run()
        b = made.twin("b", mark_every=2)
        runs = [run, made.start(b)]
        await made.settled()
        for twin in (a, b):
            twin.stop()
        await asyncio.gather(*runs)
        b = made.twin("b", mark_every=3)  # both have ended in order: nothing is sent again
        run = made.start(b)
        await made.send(5, 7)
        await made.reach(4, b)
        await until(lambda: b.counts.sent, "its first digest of a state")
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert b.counts.divergences == 0
        with pytest.raises(TwinFault, match="each 2 inputs, and the run before this one did so each 3"):
            await made.twin("b", mark_every=2).run()


async def test_k7_an_older_copy_of_the_pair_is_noticed(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    """Its next inputs have numbers that the state has seen: they would be left out without a word."""
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        run = made.start(a)
        await made.send(1)
        await made.reach(1, a)
        a.stop()
        await run
        snapshots = Snapshots(tmp_path / "a")
        newest = snapshots.newest()
        assert newest is not None
        snapshots.write(replace(newest, index=7))
        with pytest.raises(InputMissing, match=r"has seen 7 inputs, and \S+ had 1: an older copy"):
            await made.twin("a").run()


async def test_k7_what_has_come_into_an_older_copy_of_the_pair_is_not_taken_for_what_was_seen(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """It has numbers that the state has seen, and is not settled either: whoever begins with new state gets it."""
    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        run = made.start(a)
        await made.send(1)
        await made.reach(1, a)
        a.stop()
        await run
        await made.send(3, 5, 7)
        snapshots = Snapshots(tmp_path / "a")
        newest = snapshots.newest()
        assert newest is not None
        snapshots.write(replace(newest, index=3))  # of the copy in which another message was the third
        ahead = made.twin("a")
        with pytest.raises(InputMissing, match=rf"TWIN_SKIPPED: input 3 of {made.inputs} is another message than"):
            await ahead.run()
        again = made.twin("a", directory=tmp_path / "mended")
        snapshots = Snapshots(tmp_path / "mended")
        snapshots.directory.mkdir()
        snapshots.write(newest)
        made.start(again)
        await made.reach(4, again)
        assert again.state == {"sum": 16}


async def test_an_input_that_is_missing_stops_the_twin_and_harms_nobody(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """Somebody else took from the side, and rejected one: it is gone there, and at that side alone. The other twin
    goes on, and the outputs of what both have seen are there once.
    """
    async with pairing(pair, client, tmp_path) as made:
        await made.send(1, 2, 3, 4, 6)
        async with (
            aio.connect(pair.endpoint("a"), follow_master=False) as at_a,
            at_a.consumer(made.inputs, credit_messages=5) as stranger,
        ):
            taken = [await anext(stranger) for _ in range(5)]
            taken[2].reject("none of mine")
            await stranger.settled()
        skips = made.twin("a")
        with pytest.raises(InputMissing, match=rf"TWIN_SKIPPED: input 4 of {made.inputs} came behind 2"):
            await skips.run()
        assert skips.state == {"sum": 3}, "what came before it was acted on, and nothing behind it"
        b = made.twin("b")
        made.start(b)
        await made.reach(5, b)
        await until(lambda: list((tmp_path / "b").glob("*.snapshot")), "b has a snapshot")
        assert b.state == {"sum": 16}
        assert await made.sent() == sums(1, 2, 3, 4, 6)
        seen = await look(client, made.name)
        assert [twin.running for twin in seen.twins if twin.member == "b"] == [True]


async def test_outputs_that_fail_while_they_are_made_are_not_left_out(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    def handler(state: State, message: TwinInput) -> Any:
        state["sum"] += int(message.payload)

        def outputs() -> Iterator[Output]:
            yield Output(made.outputs, b"%d" % state["sum"])
            if message.index == 2:
                raise RuntimeError("in the middle")

        return state, outputs()

    async with pairing(pair, client, tmp_path) as made:
        await made.send(1, 2)
        a = made.twin("a", handler, snapshot_s=0.001)
        with pytest.raises(RuntimeError) as caught:
            await a.run()
        assert (a.index, caught.value.__notes__) == (1, [f"at input 2 of {made.inputs}; its twin comes to the same"])
        newest = Snapshots(tmp_path / "a").newest()
        assert newest is None or newest.state == b'{"sum":1}', "the state was half of what the input comes to"


async def test_a_state_that_json_changes_is_refused(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    """Else the one that begins again differs from its twin, and both have the same digest."""

    def handler(state: Any, message: TwinInput) -> Any:
        return {message.index: "seen"}, []

    async with pairing(pair, client, tmp_path) as made:
        await made.send(1)
        with pytest.raises(TwinFault, match="keys that are no texts"):
            await made.twin("a", handler).run()


async def test_an_end_does_not_wait_for_ever_for_outputs(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandemq.twin.twin.ENDED_S", 0.05)
    async with pairing(pair, client, tmp_path) as made:
        await client.update_queue(made.outputs, admin.QueueConfig(max_length=1), ["max_length"])
        a = made.twin("a")
        run = made.start(a)
        await made.send(2)
        await made.reach(1, a)
        await made.send(4)
        await until(lambda: a.counts.units >= 3, "it is sent again and again")
        a.stop()
        assert await run is TwinEnd.STOPPED
        await client.update_queue(made.outputs, admin.QueueConfig(max_length=10), ["max_length"])
        again = made.twin("a")
        made.start(again)

        async def is_sent() -> bool:
            return await made.sent() == sums(2, 4)

        await until(is_sent, "what was not sent comes again")


async def test_k6_a_side_that_lost_its_place_comes_back_with_its_twins_state(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    """docs/TWINS.md: have the side begin anew, start its twin; its directory stays."""
    async with pairing(pair, client, tmp_path) as made:
        await client.update_queue(made.inputs, admin.QueueConfig(max_length=4), ["max_length"])
        a, b = made.twin("a"), made.twin("b")
        runs = [made.start(twin) for twin in (a, b)]
        await made.send(1, 2)
        await made.settled()
        b.stop()
        await runs[1]
        await made.send(3, 4, 5, 6)
        await made.reach(6, a)
        await client.send(made.inputs, b"7", wait=-1)  # until b is given up
        with pytest.raises(TandemqError, match=r"SIDE_LOST: .*tandemq queue restart-side"):
            await made.twin("b").run()
        await client.restart_side(made.inputs, "b")
        again = made.twin("b")
        made.start(again)
        await made.send(8)
        await made.reach(8, a, again)
        assert again.state == a.state == {"sum": 36}
        assert await made.sent() == sums(*range(1, 9))


async def test_doctor_names_twins_that_differ_or_do_not_run(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    def seen(result: Any) -> list[tuple[str, str]]:
        document = json.loads(result.stdout)
        found = [each for each in document["findings"] if each["check"] == "twins" and made.name in each["about"]]
        return [(each["level"], each["what"]) for each in found]

    async def doctor() -> list[tuple[str, str]]:
        words = ("doctor", "--no-classifier", "--target", pair.target, "-o", "json")
        return seen(await asyncio.to_thread(CliRunner().invoke, root, list(words)))

    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        made.start(a)
        await made.send(2)
        await made.reach(1, a)
        (away,) = await doctor()
        assert away[0] == "warn"
        assert "none runs at b" in away[1]
        with pytest.raises(TwinFault, match="DIVERGENCE"):
            await made.start(made.twin("b", differing_at(1)))
        differed, *_ = await doctor()
        assert differed[0] == "fail"
        assert "the twin at b differed up to input 1" in differed[1]


async def test_commands_about_twins_that_are_not_there_say_which_are(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async def twin(*words: str) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, root, ["twin", *words, "--target", pair.target])
        assert result.exit_code == 1, result.output
        return result.stderr

    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a")
        made.start(a)
        await made.send(2)
        await made.reach(1, a)
        for words in (("status", "bord"), ("restart", "bord", "a"), ("stop", "bord", "b")):
            said = await twin(*words)
            assert "error: TWIN_NOT_FOUND" in said
            assert "no twins 'bord' have begun at this pair; those that have: " in said
            assert made.name in said
            assert "next:  see `tandemq twin ls`" in said
            assert "queue create" not in said
        for member in ("b", "c"):
            said = await twin("restart", made.name, member)
            assert f"INVALID_STATE\n  cause: no twin of {made.name} runs at {member}; those that run: a" in said
            assert f"next:  see `tandemq twin status {made.name}`" in said


async def test_a_twin_whose_member_does_not_answer_says_that_it_waits(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A day long, for it may only be down; but its address may be wrong as well."""
    monkeypatch.setattr("tandemq.twin.checks.SILENT_S", 0.01)
    async with pairing(pair, client, tmp_path) as made:
        nobody = f"unix:{tmp_path}/nobody"
        a = made.twin("a", side=nobody)
        run = made.start(a)
        await until(lambda: f"nobody answers at {nobody}" in caplog.text, "it says so")
        a.stop()
        assert await run is TwinEnd.STOPPED


async def test_a_side_and_outputs_at_two_pairs_are_refused(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    """Both have a queue of that name, and members of these: outputs of the one's inputs would enter the other one."""
    async with (
        patient(tmp_path / "other").running() as other,
        aio.connect(other.target) as there,
        pairing(pair, client, tmp_path) as made,
    ):
        for queue in (made.inputs, made.outputs):
            await there.create_queue(queue, PRODUCER if queue == made.inputs else None)
        await made.send(2)
        with pytest.raises(TwinFault, match=rf"CONFIG_ERROR: queue {made.inputs} at \S+ is another one than at "):
            await made.twin("a", target=other.target).run()
        assert (await there.get_queue(made.outputs)).length == 0


@pytest.mark.parametrize("side", ["127.0.0.1:7600,127.0.0.1:7610", "//pair", "127.0.0.1:0", ""])
def test_a_side_that_is_not_one_member_is_refused(side: str, tmp_path: Path) -> None:
    """Of two members it would be whichever answers first, and both twins could meet at one."""
    with pytest.raises(ValueError, match=r"one member, by its host:port|not host:port"):
        TwinOptions("q", side, tmp_path)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_name_that_its_queues_cannot_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without '/'"):
        Twin(name, summing, TwinOptions("q", "127.0.0.1:1", tmp_path), initial=lambda: {"sum": 0})
