"""The shipped classifiers decide over a real pair without a third voice: real kills, real cuts, real second paths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import WITNESS, Cluster
from tandemq.cli.view import PairView
from tandemq.config import Failover, member_ports
from tandemq.v1.common_pb2 import DATA_STATE_STALE, ROLE_MASTER
from tandemq.v1.pair_service_pb2 import (
    SAFETY_CLASS_A,
    SAFETY_CLASS_B,
    SAFETY_CLASS_C,
    DecideRequest,
    DomainStatus,
    OutdateRequest,
)
from tests.integration.matrix import ASIDE, CUT_OFF_S, NO_MASTER, becomes, role, status
from tests.integration.support import raw_to, stopped_at_end
from tests.support.clusters import quick
from tests.support.sockets import full_listener, listener
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

BIAS_MS = 400
LIMITS: dict[str, Any] = {"call_ms": 2_000, "attempts": 1, "total_ms": 2_000, "probe_bias_ms": BIAS_MS}


@asynccontextmanager
async def pair(
    folder: Path,
    *,
    witnessed: bool = False,
    base_port: int = 0,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    **failover: Any,
) -> AsyncIterator[Cluster]:
    """Whole, and a is master. The second path to each member is its client port, unless `each` names another."""
    cluster = quick(folder, base_port=base_port, relayed=True, witnessed=witnessed)
    for name, other in (("a", cluster.endpoint("b")), ("b", cluster.endpoint("a"))):
        paths = {"probe_address": other, "outdate_endpoint": other}
        values = {**LIMITS, **paths, **failover, **(each or {}).get(name, {})}
        cluster.settings = {**cluster.settings, name: {"failover": Failover(**values)}}
    async with stopped_at_end(cluster):
        await cluster.start()
        async with raw_to(cluster.endpoint("a")) as [a]:
            await a.create(ASIDE)
            assert (await a.send(ASIDE, b"before")).header.copies == 2
        yield cluster


async def main_of(cluster: Cluster, name: str) -> DomainStatus:
    (main,) = [domain for domain in (await status(cluster, name)).domains if domain.name == "main"]
    return main


async def journalled(cluster: Cluster, name: str, *words: str) -> str:
    """The classifier's journal of a member, once it has these words."""
    path = cluster.data_dir / name / "classifier.jsonl"

    async def has() -> str:
        text = await asyncio.to_thread(path.read_text) if path.exists() else ""
        return text if all(word in text for word in words) else ""

    text: str = await until(has, f"{path.name} of {name} says {words}")
    return text


async def test_alt_path_promotes_the_replica_of_a_dead_master(tmp_path: Path) -> None:
    with listener() as up, listener() as other:
        async with (
            pair(tmp_path, classifier="alt-path", probe_targets=(up, other), accept_unproven=True) as cluster,
            raw_to(cluster.endpoint("b")) as [b],
        ):
            assert (await status(cluster, "b")).safety_class == SAFETY_CLASS_B
            cluster.kill("a")
            await becomes(cluster, "b", "MASTER")
            await journalled(cluster, "b", "ASSUME_MASTERSHIP", "silent on both paths")
            assert (await b.send(ASIDE, b"after")).header.copies == 1
            await cluster.restart("a")
            await cluster.wait_for(PairView.whole, "whole again")
            assert await b.take(ASIDE, 10) == [b"before", b"after"]


@pytest.mark.promise
async def test_alt_path_sees_a_peer_behind_a_cut_link_and_promotes_nobody(tmp_path: Path) -> None:
    with listener() as up, listener() as other:
        async with pair(tmp_path, classifier="alt-path", probe_targets=(up, other), accept_unproven=True) as cluster:
            cluster.network.cut("a", "b")
            for name in cluster.members:
                await journalled(cluster, name, "PEER_ALIVE", "only the link is broken")
                assert await role(cluster, name) in NO_MASTER
            cluster.network.heal()
            await cluster.wait_ready()
            view = await cluster.status()
            assert {domain.epoch for member in view.members for domain in member.domains} <= {1, 2}


async def test_alt_path_tells_a_frozen_master_from_a_living_one_by_http_only(tmp_path: Path, base_port: int) -> None:
    with listener() as up, listener() as other:
        ports = {"a": member_ports(base_port, 1).http, "b": member_ports(base_port, 0).http}
        by_http = {name: {"probe_address": f"127.0.0.1:{port}", "probe_http": True} for name, port in ports.items()}
        common = {"classifier": "alt-path", "probe_targets": (up, other), "accept_unproven": True}
        async with pair(tmp_path / "tcp", **common) as cluster:
            cluster.pause("a")
            await journalled(cluster, "b", "PEER_ALIVE")  # its kernel still accepts
            assert await role(cluster, "b") in NO_MASTER
            cluster.resume("a")
            await cluster.wait_ready()
        async with pair(tmp_path / "http", base_port=base_port, each=by_http, **common) as cluster:
            cluster.pause("a")
            await becomes(cluster, "b", "MASTER")
            async with raw_to(*cluster.endpoints) as [a, b]:
                assert (await b.send(ASIDE, b"after")).header.copies == 1
                cluster.resume("a")
                await cluster.wait_for(PairView.whole, "whole again")
                assert await a.take(ASIDE, 10) == [b"before", b"after"]


async def test_alt_path_without_a_network_ends_this_member(tmp_path: Path) -> None:
    with ExitStack() as silent:
        targets = tuple(silent.enter_context(full_listener()) for _ in range(2))
        async with pair(tmp_path, classifier="alt-path", probe_targets=targets, accept_unproven=True) as cluster:
            process = cluster.children["b"].process
            assert process is not None
            cluster.kill("a")

            async def ended() -> bool:
                return process.poll() is not None

            await until(ended, "b ends itself")
            assert process.returncode == 1
            await journalled(cluster, "b", "FAILED_INSTANCE", "this member is cut off")


async def test_blind_probes_promote_nobody(tmp_path: Path) -> None:
    """The peer is dead and its second address has no such name: unknown, not dead."""
    with listener() as up, listener() as other:
        async with pair(
            tmp_path,
            classifier="alt-path",
            probe_targets=(up, other),
            accept_unproven=True,
            probe_address="no-such-host.invalid:7600",
        ) as cluster:
            cluster.kill("a")
            await journalled(cluster, "b", "the peer could not be probed")
            assert await role(cluster, "b") in NO_MASTER


async def test_peer_outdate_lets_the_master_go_on_over_a_cut_link(tmp_path: Path) -> None:
    async with pair(tmp_path, classifier="peer-outdate") as cluster, raw_to(*cluster.endpoints) as [a, b]:
        assert (await status(cluster, "a")).safety_class == SAFETY_CLASS_A
        cluster.network.cut("a", "b")
        await becomes(cluster, "a", "MASTER", epoch=2)
        await journalled(cluster, "a", "CONTINUE_AS_MASTER", "peer_outdated")
        assert (await a.send(ASIDE, b"alone")).header.copies == 1
        assert (await main_of(cluster, "b")).data_state == DATA_STATE_STALE
        cluster.kill("a")  # what b has is outdated now, whatever happens
        await asyncio.sleep(CUT_OFF_S)
        assert await role(cluster, "b") in NO_MASTER
        cluster.network.heal()
        await cluster.restart("a")
        await cluster.wait_for(PairView.whole, "whole again")
        assert await b.take(ASIDE, 10) == [b"before", b"alone"]


async def test_peer_outdate_says_nothing_about_a_dead_master(tmp_path: Path) -> None:
    async with pair(tmp_path, classifier="peer-outdate") as cluster:
        cluster.kill("a")
        await journalled(cluster, "b", "the peer could not be outdated", "UNAVAILABLE")
        assert await role(cluster, "b") in NO_MASTER
        await cluster.restart("a")
        await cluster.wait_for(PairView.whole, "whole again")


async def test_a_master_that_serves_and_a_namesake_of_another_pair_are_not_outdated(tmp_path: Path) -> None:
    async with pair(tmp_path, classifier="peer-outdate") as cluster, raw_to(*cluster.endpoints) as [a, b]:
        for member, words in ((a, "serves main"), (b, "")):
            other = "b" if member is a else "a"
            request = OutdateRequest(domain="main", by_member=other, epoch=99, pair="another")
            answer = await member.pair.Outdate(request, timeout=OUTER_S)
            assert not answer.done
            assert "belongs to pair 'pair', the caller to 'another'" in answer.text
            if words:
                request.pair = "pair"
                answer = await member.pair.Outdate(request, timeout=OUTER_S)
                assert (answer.done, answer.role) == (False, ROLE_MASTER)
                assert words in answer.text
        await cluster.wait_for(PairView.whole, "nothing changed")


async def test_combine_does_not_count_a_blind_member_as_a_no(tmp_path: Path) -> None:
    """Any: the one that needs the peer sees nothing, the other one has seen enough, and the class is the lower one."""
    with listener() as up, listener() as other:
        async with pair(
            tmp_path,
            classifier="combine",
            members=("alt-path", "peer-outdate"),
            rule="any",
            probe_targets=(up, other),
            accept_unproven=True,
        ) as cluster:
            assert (await status(cluster, "b")).safety_class == SAFETY_CLASS_B
            cluster.kill("a")
            await becomes(cluster, "b", "MASTER")  # one is blind, the other has seen enough
            await journalled(cluster, "b", "alt-path: ASSUME_MASTERSHIP", "peer-outdate: unknown")
            await cluster.restart("a")
            await cluster.wait_for(PairView.whole, "whole again")


async def test_combine_lets_proof_stand_beside_a_peer_that_is_seen_alive(tmp_path: Path) -> None:
    with listener() as up, listener() as other:
        async with pair(
            tmp_path,
            classifier="combine",
            members=("alt-path", "peer-outdate"),
            rule="all",
            probe_targets=(up, other),
        ) as cluster:
            assert (await status(cluster, "b")).safety_class == SAFETY_CLASS_A
            cluster.network.cut("a", "b")
            await becomes(cluster, "a", "MASTER", epoch=2)
            await journalled(cluster, "a", "PEER_ALIVE", "peer_outdated")
            assert await role(cluster, "b") in NO_MASTER
            cluster.network.heal()
            await cluster.wait_for(PairView.whole, "whole again")


async def test_proof_lets_a_master_go_on_while_the_witness_is_away(tmp_path: Path) -> None:
    """pair-protocol.md 4.11: arbiter dead and the link cut. The epoch is recorded as soon as the witness is back."""
    async with (
        pair(tmp_path, classifier="peer-outdate", witnessed=True) as cluster,
        raw_to(cluster.endpoint("a")) as [a],
    ):
        cluster.kill(WITNESS)
        cluster.network.cut("a", "b")
        await becomes(cluster, "a", "MASTER")
        reply = await a.send(ASIDE, b"alone")
        assert reply.header.copies == 1
        assert (await main_of(cluster, "a")).unrecorded
        assert (await main_of(cluster, "b")).data_state == DATA_STATE_STALE
        await cluster.restart(WITNESS)

        async def recorded() -> bool:
            main = await main_of(cluster, "a")
            return main.role == ROLE_MASTER and not main.unrecorded

        await until(recorded, "the epoch is recorded")
        cluster.network.heal()
        await cluster.wait_for(PairView.whole, "whole again")
        assert await a.take(ASIDE, 10) == [b"before", b"alone"]


async def test_operator_is_called_with_the_words_to_type_and_his_verdict_is_obeyed(tmp_path: Path) -> None:
    async with pair(tmp_path, classifier="operator") as cluster, raw_to(cluster.endpoint("b")) as [b]:
        assert (await status(cluster, "b")).safety_class == SAFETY_CLASS_C
        cluster.kill("a")
        log = cluster.children["b"].log

        async def alerted() -> str:
            lines = (await asyncio.to_thread(log.read_text)).splitlines()
            return next((line for line in lines if "tandemq pair decide assume --event" in line), "")

        line = await until(alerted, "the alert")
        assert "Make sure that a is down and stays down" in line
        assert await role(cluster, "b") in NO_MASTER
        event_id = line.partition("--event ")[2].split()[0]
        request = DecideRequest(event_id=event_id, verdict=21, reason="its host is switched off")
        answer = await b.pair.Decide(request, timeout=OUTER_S)
        assert answer.done, answer.text
        await becomes(cluster, "b", "MASTER")
        assert (await b.send(ASIDE, b"after")).header.copies == 1
