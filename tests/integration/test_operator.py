"""What an operator of a real pair sees and orders: events and status over kills and restarts, and wrong orders."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from chaos.cluster import Cluster
from tandemq.config import member_ports
from tandemq.v1 import common_pb2
from tandemq.v1 import pair_service_pb2 as pb
from tests.integration.support import gone, http_get, raw_to, refused, roles, stopped_at_end
from tests.support.clusters import patient, quick
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PAUSED_S = 2.5
"""Longer than a stop must be to be told of (failover.detector: PAUSE_MS)."""
VERDICT, TRANSFER = pb.PAIR_EVENT_KIND_VERDICT, pb.PAIR_EVENT_KIND_TRANSFER
ROLE, LINK, AUTHORITY = pb.PAIR_EVENT_KIND_ROLE, pb.PAIR_EVENT_KIND_LINK, pb.PAIR_EVENT_KIND_AUTHORITY


class Watch:
    """A WatchEvents stream that is read all the time."""

    def __init__(self, member: Any, from_number: int = 0) -> None:
        self.events: list[pb.PairEvent] = []
        self.call = member.pair.WatchEvents(pb.WatchEventsRequest(from_number=from_number))
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for response in self.call:
            self.events.append(response.event)

    async def until(self, what: str, **wanted: object) -> pb.PairEvent:
        async def found() -> pb.PairEvent | None:
            for event in self.events:
                if all(getattr(event, name) == value for name, value in wanted.items()):
                    return event
            return None

        return await until(found, f"{what}: {[e.text for e in self.events]}")

    async def close(self) -> None:
        self.call.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def listed(member: Any, **fields: Any) -> list[pb.PairEvent]:
    return list((await member.pair.ListEvents(pb.ListEventsRequest(**fields), timeout=OUTER_S)).events)


async def test_a_watcher_sees_every_change_of_role_and_the_history_outlives_the_process(pair: Cluster) -> None:
    master, replica = await roles(pair)
    async with raw_to(pair.endpoint(master), pair.endpoint(replica)) as [at_master, at_replica]:
        watch = Watch(at_replica, from_number=1)
        await watch.until("follows", domain="main", kind=ROLE, role=common_pb2.ROLE_REPLICA)
        before = await listed(at_master, limit=10_000)
        await gone(pair, master)
        taken = await watch.until("takes over", domain="main", kind=ROLE, role=common_pb2.ROLE_MASTER)
        assert taken.epoch == 2
        assert (taken.facts["from"], taken.facts["to"]) == ("PROBE", "MASTER")
        seen = [event.number for event in watch.events]
        assert seen == list(range(1, len(seen) + 1)), "none is missing, none is twice"
        kinds = [event.kind for event in watch.events]
        assert {ROLE, LINK, AUTHORITY, VERDICT, TRANSFER} == set(kinds)
        verdict = watch.events[kinds.index(VERDICT)]
        assert (verdict.facts["verdict"], verdict.facts["effect"]) == ("ASSUME_MASTERSHIP", "claim")
        lost = [event.text for event in watch.events if event.kind == LINK]
        assert lost[-1] == f"{master} counts as lost: its port refuses connections"
        transfers = [event.text for event in watch.events if event.kind == TRANSFER]
        assert transfers == [f"takes everything from {master}", f"is in step with {master}"]
        metrics = await until(lambda: _counted(pair, replica), "time with one copy is counted")
        for line in (
            'tandemq_transitions_total{domain="main",role="master"} 1.0',
            'tandemq_verdicts_total{effect="claim",verdict="assume_mastership"} 1.0',
            "tandemq_authority_reachable 1.0",
            'tandemq_divergence{domain="main"} 0.0',
            "tandemq_automation_paused 0.0",
            "tandemq_events_lost_total 0.0",
        ):
            assert line in metrics
        await watch.close()

        await pair.restart(master)
        after = await until(lambda: _more(at_master, before), "the old master's history goes on")
        assert after[: len(before)] == before
        assert [event.number for event in after] == list(range(1, len(after) + 1))


async def _counted(pair: Cluster, name: str) -> str:
    _, metrics = await http_get(member_ports(pair.base_port, pair.members.index(name)).http, "/metrics")
    return metrics if 'tandemq_without_redundancy_seconds_total{domain="main"}' in metrics else ""


async def _more(member: Any, before: list[pb.PairEvent]) -> list[pb.PairEvent]:
    try:
        found = await listed(member, limit=10_000)
    except grpc.aio.AioRpcError:
        return []
    return found if len(found) > len(before) and found[-1].role == common_pb2.ROLE_REPLICA else []


async def test_wrong_questions_are_refused_by_name(pair: Cluster) -> None:
    async with raw_to(pair.endpoint("a")) as [member]:
        with refused("BAD_NAME", INVALID, "no domain is called 'nope'", "main"):
            await listed(member, domain="nope")
        with refused("BAD_REQUEST", INVALID, "10000"):
            await listed(member, limit=10_001)
        with refused("BAD_NAME", INVALID, "no domain is called"):
            async for _ in member.pair.WatchEvents(pb.WatchEventsRequest(domain="nope"), timeout=OUTER_S):
                pass
        with refused("BAD_REQUEST", INVALID, "ListEventsRequest"):
            await member.bytes_call("/tandemq.v1.PairService/ListEvents", b"\xff\xff\xff")


async def test_a_manager_without_a_pair_keeps_events_and_refuses_orders(tmp_path: Path) -> None:
    async with stopped_at_end(patient(tmp_path, members=("solo",))) as cluster:
        await cluster.start()
        async with raw_to(cluster.endpoint("solo")) as [member]:
            assert [event.domain for event in await listed(member)] == ["main", "local"]
            status = await member.pair.GetPairStatus(pb.GetPairStatusRequest(), timeout=OUTER_S)
            assert (status.member.authority, status.member.classifier) == ("", "")
            assert [domain.if_peer_dies + domain.advice for domain in status.member.domains] == ["", ""]
            state = grpc.StatusCode.FAILED_PRECONDITION
            with refused("INVALID_STATE", state, "no second member"):
                await member.pair.ForceFailover(pb.ForceFailoverRequest(), timeout=OUTER_S)
            for call, request in (
                ("Decide", pb.DecideRequest(verdict=20, reason="x")),
                ("SetAutomation", pb.SetAutomationRequest(paused=True)),
                ("SetMaintenance", pb.SetMaintenanceRequest(on=True)),
            ):
                with refused("INVALID_STATE", state, "solo belongs to no pair"):
                    await getattr(member.pair, call)(request, timeout=OUTER_S)


@pytest.mark.parametrize("pair", [quick], indirect=True)
async def test_a_member_that_was_frozen_says_so_when_it_wakes(pair: Cluster) -> None:
    master, replica = await roles(pair)
    async with raw_to(pair.endpoint(master), pair.endpoint(replica)) as [frozen, other]:
        frozen_at_s = time.monotonic()
        pair.pause(master)
        watch = Watch(other, from_number=1)
        await watch.until("takes over", domain="main", kind=ROLE, role=common_pb2.ROLE_MASTER)
        await watch.close()

        async def long_enough() -> bool:
            return time.monotonic() - frozen_at_s > PAUSED_S

        await until(long_enough, "a takeover may come before a stop counts as one")
        pair.resume(master)

        async def said() -> list[str]:
            return [event.text for event in await listed(frozen) if event.kind == pb.PAIR_EVENT_KIND_FAULT]

        [text] = await until(said, "the pause is an event")
        assert text.startswith("this process stood still for")
