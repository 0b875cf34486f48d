"""The failure matrix, arbiter: the witness is away, wiped, put back from an older copy, or asked by two pairs.

Survivors that wait for an operator's verdict while it is away are in test_orders.py; an etcd is in test_etcd.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import checker, nemesis
from chaos.cluster import WITNESS
from tandemq.cli.view import PairView
from tandemq.config import Failover, Limits
from tests.integration.matrix import ASIDE, AWAY, becomes, pair, refuses, role, status, under_load
from tests.integration.support import configured, raw_to, refused, roles, stopped_at_end
from tests.integration.test_series import hand_over
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process

SHORT = Limits(park_ms=500)


@pytest.mark.promise
async def test_arbiter_dead_pair_up(tmp_path: Path) -> None:
    """Nothing changes; a handoff still works, both ways, and is recorded once there is a register again."""
    async with pair(tmp_path) as cluster, under_load(cluster) as load:
        await nemesis.kill(cluster, WITNESS)
        await load.goes_on()
        for master in ("b", "a"):
            reply = await hand_over(cluster, load, "b" if master == "a" else "a")  # asked of the master: no cooldown
            assert (reply.done, reply.master) == (True, master), reply.text
            await load.goes_on()
            assert await roles(cluster) == (master, "b" if master == "a" else "a")
        cluster.spawn(WITNESS)

        async def recorded() -> bool:
            last = load.history.recorded[-1]
            return last.committed and last.epoch >= 3 and len(last.in_sync) == 2

        await until(recorded, "the epoch that was served unrecorded is in the register")
        await cluster.wait_ready()
        await nemesis.kill(cluster, "a")  # and the register is good for a takeover again
        await load.goes_on()
        assert await role(cluster, "b") == "MASTER"
        await cluster.restart("a")


@pytest.mark.promise
async def test_a_wiped_arbiter_under_a_pair_that_is_up(tmp_path: Path) -> None:
    """Both members are connected and agree: the register is written again, at a higher epoch, and nothing is lost."""
    async with pair(tmp_path) as cluster, under_load(cluster) as load:
        await nemesis.kill(cluster, WITNESS)
        nemesis.wipe(cluster, WITNESS)
        seen = len(load.history.recorded)
        cluster.spawn(WITNESS)
        await cluster.wait_answers(WITNESS)

        async def recorded() -> bool:
            last = load.history.recorded[seen:][-1:]
            return bool(last) and last[0].committed and len(last[0].in_sync) == 2

        await until(recorded, "the register is written again")
        await load.goes_on()
        master, replica = await roles(cluster)
        await nemesis.kill(cluster, master)
        await load.goes_on()
        assert await role(cluster, replica) == "MASTER"
        await cluster.restart(master)


@pytest.mark.parametrize("survivor", ["a", "b"])
async def test_a_wiped_arbiter_and_one_member_says_nothing_about_who_may_serve(tmp_path: Path, survivor: str) -> None:
    """An empty register does not tell that the other one did not go on: the survivor waits for it, whoever it is."""
    other = "b" if survivor == "a" else "a"
    async with pair(tmp_path, limits=SHORT) as cluster, raw_to(*cluster.endpoints) as members:
        await members[0].send(ASIDE, b"both")
        await nemesis.kill(cluster, WITNESS, other)
        nemesis.wipe(cluster, WITNESS)
        cluster.spawn(WITNESS)
        await cluster.wait_answers(WITNESS)
        await becomes(cluster, survivor, "PROBE")  # a suspended master may have ordered it, and could not say
        await refuses(cluster, survivor)
        assert (await status(cluster, survivor)).domains[0].advice
        cluster.spawn(other)
        await cluster.wait_for(PairView.equal, "whole and equal")
        assert await members[0].take(ASIDE, 10) == [b"both"]


@pytest.mark.promise
async def test_an_arbiter_put_back_from_an_older_copy_under_a_pair_that_is_up(tmp_path: Path) -> None:
    """What it says is older than what both members have: they go on above it, and nobody takes back what was stored."""
    # The register goes back under what was acknowledged: that is the case, and the one check that asks it is left out.
    async with pair(tmp_path / "pair") as cluster, under_load(cluster, checker.one_copy_is_recorded_first) as load:
        await nemesis.kill(cluster, WITNESS)
        nemesis.copy(cluster, WITNESS, tmp_path / "copy")
        cluster.spawn(WITNESS)
        await nemesis.kill(cluster, "a")
        await load.goes_on()
        await cluster.restart("a")
        await cluster.wait_ready()
        await nemesis.kill(cluster, WITNESS)
        nemesis.put_back(cluster, WITNESS, tmp_path / "copy")
        seen = len(load.history.recorded)
        cluster.spawn(WITNESS)
        await load.goes_on()

        async def above() -> bool:
            last = load.history.recorded[seen:][-1:]
            return bool(last) and last[0].committed and last[0].epoch >= 2 and len(last[0].in_sync) == 2

        await until(above, "the register is at or above what the members have")
        await cluster.wait_ready()


@pytest.mark.promise
async def test_an_arbiter_that_is_asked_by_two_pairs_of_one_name(tmp_path: Path) -> None:
    """The second pair finds the register taken by members whose data it does not have: it never serves, and says so."""
    async with pair(tmp_path / "first") as cluster, under_load(cluster) as load:
        there = {"witness": cluster.witness_endpoint}
        second = configured(tmp_path / "second", settings={"a": there, "b": there}, limits=SHORT)
        async with stopped_at_end(second):
            for name in second.members:
                second.spawn(name)
                await second.wait_answers(name)
            await load.goes_on()
            for name in second.members:
                await becomes(second, name, "PROBE")
                async with raw_to(second.endpoint(name)) as [member]:
                    with refused("NO_MASTER", AWAY):
                        await member.create("q")
                assert (await status(second, name)).domains[0].advice
            await load.goes_on()
        assert await roles(cluster) == ("a", "b"), "the first pair has not noticed"
        await nemesis.kill(cluster, "a")
        await load.goes_on()
        await cluster.restart("a")


@pytest.mark.promise
@pytest.mark.parametrize("victim", ["a", "b"])
async def test_a_slow_classifier_that_is_only_observed_costs_the_data_path_nothing(tmp_path: Path, victim: str) -> None:
    """Its call ends when it is told to; the takeover and a hundred acknowledgements come before that."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    begun.touch()
    script = f"echo >> {begun}; until [ -e {go} ]; do sleep 0.05; done; exit 20"
    slow = Failover(
        classifier="command", mode="observe", command=("/bin/sh", "-c", script), call_ms=80_000, total_ms=80_000
    )
    async with patient(tmp_path / "pair", failover=slow).running() as cluster, under_load(cluster) as load:
        survivor = "b" if victim == "a" else "a"
        before = begun.stat().st_size  # calls of members that were alone at their start
        await nemesis.kill(cluster, victim)

        async def calls() -> bool:
            return begun.stat().st_size > before

        await until(calls, "the call has begun")
        await load.goes_on()
        await load.goes_on()
        journal = nemesis.directory(cluster, survivor) / "classifier.jsonl"

        async def called() -> bool:
            return journal.exists() and '"effect":"observed"' in journal.read_text()

        assert not await called(), "the call is under way"
        go.touch()
        await until(called, "the call is in the journal")
        await cluster.restart(victim)
