"""An operator's orders to a real pair: what follows from each, what is refused and why, and what outlives a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from chaos.cluster import WITNESS, Cluster
from failover.promotion import unrecorded_epoch
from tandemq.cli.view import DomainView, MemberView
from tandemq.config import Limits
from tandemq.v1 import pair_service_pb2 as pb
from tests.integration.support import (
    Raw,
    gone,
    member_view,
    new_name,
    raw_to,
    refused,
    roles,
    stopped_at_end,
)
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

INVALID, STATE = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
CONTINUE, ASSUME, WAIT = 20, 21, 23


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with stopped_at_end(patient(tmp_path, limits=Limits(park_ms=300))) as cluster:
        await cluster.start()
        yield cluster


async def main_of(cluster: Cluster, name: str) -> tuple[MemberView, DomainView]:
    member = await member_view(cluster, name)
    assert member is not None
    found = member.domain("main")
    assert found is not None, f"{name} does not answer"
    return member, found


async def until_role(cluster: Cluster, name: str, role: str) -> tuple[MemberView, DomainView]:
    async def looks() -> Any:
        member = await member_view(cluster, name)
        found = member.domain("main") if member is not None else None
        return (member, found) if found is not None and found.role == role else None

    return await until(looks, f"{name} is {role}")


async def know_each_other(cluster: Cluster) -> tuple[str, str]:
    """(master, replica), once the replica has read in the register that it is in the in-sync set."""
    master, replica = await roles(cluster)

    async def knows() -> bool:
        _, found = await main_of(cluster, replica)
        return "takes over" in found.if_peer_dies

    await until(knows, f"{replica} knows that it is in sync")
    return master, replica


async def orders_of(member: Raw) -> list[pb.PairEvent]:
    """An operator's orders in the event log."""
    listed = await member.pair.ListEvents(pb.ListEventsRequest(limit=1_000), timeout=OUTER_S)
    return [event for event in listed.events if event.kind == pb.PAIR_EVENT_KIND_OPERATOR]


async def told(member: Raw, count: int) -> list[pb.PairEvent]:
    """The orders, once there are as many: an event is shown as soon as it is in the file, which an answer is not."""

    async def enough() -> list[pb.PairEvent]:
        found = await orders_of(member)
        return found if len(found) >= count else []

    found: list[pb.PairEvent] = await until(enough, f"{count} orders are in the event log")
    assert len(found) == count
    return found


# -- status ------------------------------------------------------------------------------------------------------------


async def test_status_tells_the_truth_over_a_handoff_and_a_kill(pair: Cluster) -> None:
    master, replica = await know_each_other(pair)
    member, found = await main_of(pair, master)
    assert (member.authority, member.classifier, member.classifier_mode) == ("witness", "witness", "enforce")
    assert (member.safety_class, member.automation_paused, member.maintenance) == ("A", False, False)
    assert found.if_peer_dies.startswith(f"{master} goes on alone with one copy")
    assert (found.advice, found.unrecorded, member.waiting_event_id) == ("", False, "")
    async with raw_to(pair.endpoint(master), pair.endpoint(replica)) as [at_master, at_replica]:
        await at_master.create(name := new_name())
        answer = await at_replica.pair.Handoff(pb.HandoffRequest(reason="test"), timeout=OUTER_S)
        assert (answer.done, answer.master) == (True, replica)
        master, replica, at_master, at_replica = replica, master, at_replica, at_master

        await gone(pair, replica)
        member, found = await until_role(pair, master, "MASTER")
        await at_master.send(name, b"x")

        async def alone() -> bool:
            _, now = await main_of(pair, master)
            return now.if_peer_dies == f"nothing changes: {master} serves alone already, with one copy"

        await until(alone, "the master serves alone")
        await at_master.send(name, b"y" * 1_000)
        _, found = await main_of(pair, master)
        assert found.peer_backlog >= 2
        assert found.peer_backlog_bytes > 1_000
        assert found.solo_since > 0

        async def ages() -> bool:
            _, now = await main_of(pair, master)
            return now.peer_lag_ms > found.peer_lag_ms

        await until(ages, "what the peer lacks grows old")
        await pair.restart(replica)
        await roles(pair)

        async def caught_up() -> bool:
            _, now = await main_of(pair, master)
            return (now.peer_backlog, now.peer_backlog_bytes, now.peer_lag_ms, now.solo_since) == (0, 0, 0, 0)

        await until(caught_up, "nothing is owed any more")


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", ["master", "replica"])
async def test_without_the_witness_a_kill_suspends_the_survivor_and_a_verdict_frees_it(
    pair: Cluster, dies: str
) -> None:
    master, replica = await know_each_other(pair)
    victim, survivor = (master, replica) if dies == "master" else (replica, master)
    role, verdict, word = (
        ("PROBE", ASSUME, "assume") if dies == "master" else ("MASTER_SUSPENDED", CONTINUE, "continue")
    )
    async with raw_to(pair.endpoint(survivor)) as [member]:
        await member.create(name := new_name())
        await gone(pair, WITNESS)

        async def forecast() -> bool:
            _, found = await main_of(pair, survivor)
            return f"`tandemq pair decide {word}`" in found.if_peer_dies

        await until(forecast, "the status says that an operator will be needed")
        await member.send(name, b"two copies still")
        await gone(pair, victim)

        async def waits() -> Any:
            view, found = await main_of(pair, survivor)
            return (view, found) if found.role == role and view.waiting_event_id else None

        view, found = await until(waits, f"{survivor} waits as {role}")
        assert found.advice == (
            f"{victim} is lost and the witness cannot be reached: bring {victim} back, or make sure that "
            f"{victim} is down and has not served alone since the link broke and run `tandemq pair decide {word}`"
        )
        waiting = asyncio.create_task(member.send(name, b"nobody takes it"))
        if dies == "master":
            with refused("NO_MASTER", grpc.StatusCode.UNAVAILABLE):
                await waiting

        old = pb.DecideRequest(verdict=verdict, event_id="b.1.0", reason="of yesterday")
        answer = await member.pair.Decide(old, timeout=OUTER_S)
        assert not answer.done
        assert f"event b.1.0 is over; what waits now is {view.waiting_event_id}" in answer.text
        answer = await member.pair.Decide(
            pb.DecideRequest(verdict=CONTINUE + ASSUME - verdict, reason="mixed up"), timeout=OUTER_S
        )
        assert not answer.done, "the other role's verdict does not fit"
        answer = await member.pair.Decide(
            pb.DecideRequest(verdict=verdict, event_id=view.waiting_event_id, reason="it burns"), timeout=OUTER_S
        )
        assert (answer.done, answer.event_id) == (True, view.waiting_event_id)
        epoch = unrecorded_epoch(2, survivor, victim)
        assert answer.text == f"{survivor} serves main in epoch {epoch}, alone"
        await member.send(name, b"served by an operator's word")
        if dies == "replica":
            assert (await waiting).header.copies == 1, "what it had ordered is answered once it may go on alone"
        _, found = await main_of(pair, survivor)
        assert (found.role, found.unrecorded) == ("MASTER", True)
        orders = await told(member, 3)
        assert [event.facts["reason"] for event in orders] == ["of yesterday", "mixed up", "it burns"]
        assert all("ipv4:127.0.0.1" in event.facts["by"] for event in orders)

        await pair.restart(WITNESS)

        async def recorded() -> bool:
            _, now = await main_of(pair, survivor)
            return now.role == "MASTER" and not now.unrecorded

        await until(recorded, "the epoch is in the register")
        await pair.restart(victim)
        assert await roles(pair) == (survivor, victim)


async def test_a_verdict_that_nobody_waits_for_is_refused(pair: Cluster) -> None:
    await roles(pair)
    async with raw_to(pair.endpoint("a")) as [member]:
        answer = await member.pair.Decide(pb.DecideRequest(verdict=CONTINUE, reason="too early"), timeout=OUTER_S)
        assert not answer.done
        assert "nothing waits for a verdict here" in answer.text
        assert [event.facts["order"] for event in await told(member, 1)] == ["decide CONTINUE_AS_MASTER"]


# -- automation and maintenance ----------------------------------------------------------------------------------------


async def test_while_automation_is_paused_nobody_takes_over_and_resuming_lets_it(pair: Cluster) -> None:
    master, replica = await know_each_other(pair)
    async with raw_to(pair.endpoint(replica)) as [member]:
        request = pb.SetAutomationRequest(paused=True, reason="network work")
        assert (await member.pair.SetAutomation(request, timeout=OUTER_S)).paused
        await gone(pair, replica)
        await pair.restart(replica)
        await says_that_it_is_paused(pair, replica)
        await gone(pair, master)

        async def waits() -> bool:
            view, found = await main_of(pair, replica)
            return bool(view.waiting_event_id) and "run `tandemq pair resume`" in found.advice

        await until(waits, "paused over a restart, and it says so")
        request = pb.SetAutomationRequest(paused=False)
        assert not (await member.pair.SetAutomation(request, timeout=OUTER_S)).paused
        await until_role(pair, replica, "MASTER")


async def says_that_it_is_paused(pair: Cluster, name: str) -> None:
    """The replica is in sync again and says that it would wait."""

    async def says() -> bool:
        view, found = await main_of(pair, name)
        paused = view.automation_paused and "automation is paused here" in found.if_peer_dies
        return paused and found.role == "REPLICA" and found.data_state == "IN_SYNC"

    await until(says, f"{name} is replica and paused")


async def test_maintenance_hands_over_outlives_a_restart_and_is_taken_back(pair: Cluster) -> None:
    master, replica = await know_each_other(pair)
    async with raw_to(pair.endpoint(master), pair.endpoint(replica)) as [member, other]:
        await member.create(name := new_name())
        await member.send(name, b"before")
        order = pb.SetMaintenanceRequest(on=True, reason="new disk")
        answer = await member.pair.SetMaintenance(order, timeout=OUTER_S)
        assert (answer.on, answer.text) == (
            True,
            f"{master} takes part in nothing until `tandemq pair maintenance off`",
        )
        again = await member.pair.SetMaintenance(order, timeout=OUTER_S)
        assert (again.on, again.text) == (True, f"{master} is in maintenance already")
        view, found = await main_of(pair, master)
        assert (view.maintenance, found.role) == (True, "MAINTENANCE")
        await until_role(pair, replica, "MASTER")
        await other.send(name, b"without it")
        listed = await other.pair.ListEvents(pb.ListEventsRequest(limit=1_000), timeout=OUTER_S)
        said = [event.text for event in listed.events if event.kind == pb.PAIR_EVENT_KIND_LINK]
        assert said[-1] == f"{master} counts as lost: an operator took it out", "nobody waits for one that said goodbye"

        await gone(pair, master)
        await pair.restart(master)
        view, found = await main_of(pair, master)
        assert (view.maintenance, found.role, found.link_state) == (True, "MAINTENANCE", "DOWN")
        with refused("INVALID_STATE", STATE, "is in maintenance", "maintenance off"):
            await member.pair.Decide(pb.DecideRequest(verdict=ASSUME, reason="x"), timeout=OUTER_S)
        forced = pb.ForceFailoverRequest(confirmed=True, accept_loss_after=found.log_index, reason="x")
        answer = await member.pair.ForceFailover(forced, timeout=OUTER_S)
        assert not answer.done
        assert "is in maintenance" in answer.text

        answer = await member.pair.SetMaintenance(pb.SetMaintenanceRequest(on=False), timeout=OUTER_S)
        assert (answer.on, answer.text) == (False, f"{master} takes part again")
        assert await roles(pair) == (replica, master)
        assert await other.take(name, 2) == [b"before", b"without it"]


@pytest.mark.parametrize("leaves", ["master", "replica"])
async def test_maintenance_that_would_end_the_service_needs_a_word_for_it(pair: Cluster, leaves: str) -> None:
    master, replica = await know_each_other(pair)
    name, other = (master, replica) if leaves == "master" else (replica, master)
    await gone(pair, WITNESS)

    async def unreachable() -> bool:
        _, found = await main_of(pair, name)
        return "the witness cannot be reached" in found.if_peer_dies

    await until(unreachable, "the witness is missed")
    async with raw_to(pair.endpoint(name)) as [member]:
        answer = await member.pair.SetMaintenance(pb.SetMaintenanceRequest(on=True), timeout=OUTER_S)
        assert not answer.on
        why = f"{other} would serve nobody without {name}, because the witness cannot be reached"
        assert answer.text == f"nothing was changed: {why}; mend that first, or stop the service knowingly with --yes"
        await until_role(pair, master, "MASTER")
        order = pb.SetMaintenanceRequest(on=True, confirmed=True)
        assert (await member.pair.SetMaintenance(order, timeout=OUTER_S)).on
        await until_role(pair, name, "MAINTENANCE")


async def test_the_only_one_that_serves_cannot_leave(pair: Cluster) -> None:
    master, replica = await roles(pair)
    await gone(pair, replica)

    async def goes_alone() -> bool:
        _, found = await main_of(pair, master)
        return found.role == "MASTER" and tuple(found.in_sync_set) == (master,)

    await until(goes_alone, f"{master} goes on alone")
    async with raw_to(pair.endpoint(master)) as [member]:
        answer = await member.pair.SetMaintenance(pb.SetMaintenanceRequest(on=True), timeout=OUTER_S)
        assert not answer.on
        assert "main is served here and cannot be handed over" in answer.text
        await until_role(pair, master, "MASTER")


async def test_who_may_be_the_only_one_to_serve_cannot_leave_before_that_is_decided(pair: Cluster) -> None:
    """The master that has lost its replica serves again when the register has said so; it was taken out meanwhile."""
    master, replica = await roles(pair)
    pair.pause(WITNESS)
    try:
        await gone(pair, replica)
        async with raw_to(pair.endpoint(master)) as [member]:
            await until_role(pair, master, "MASTER_SUSPENDED")
            answer = await member.pair.SetMaintenance(pb.SetMaintenanceRequest(on=True), timeout=OUTER_S)
            assert (answer.on, answer.text.partition(":")[0]) == (False, "nothing was changed")
            assert f"who serves main is being decided at {master} (MASTER_SUSPENDED)" in answer.text
    finally:
        pair.resume(WITNESS)
    await until_role(pair, master, "MASTER")


# -- the last resort ---------------------------------------------------------------------------------------------------


@pytest.mark.promise
async def test_a_forced_failover_states_the_gap_and_wants_it_accepted(pair: Cluster) -> None:
    master, replica = await know_each_other(pair)
    async with raw_to(pair.endpoint(master), pair.endpoint(replica)) as [first, second]:
        await first.create(name := new_name())
        await gone(pair, replica)
        await first.send(name, b"only at the master")
        await gone(pair, master)
        await pair.restart(replica)

        async def stands_back() -> Any:
            _, found = await main_of(pair, replica)
            return found if "tandemq pair failover --force" in found.advice else None

        found = await until(stands_back, "the outdated copy says that it may lack operations")
        call = second.pair.ForceFailover
        asked = await call(pb.ForceFailoverRequest(reason="look first"), timeout=OUTER_S)
        assert (asked.done, asked.last_index) == (False, found.log_index)
        assert f"accept the loss after {found.log_index}" in asked.text
        wrong = pb.ForceFailoverRequest(accept_loss_after=found.log_index - 1, confirmed=True, reason="guessed")
        answer = await call(wrong, timeout=OUTER_S)
        assert not answer.done
        assert f"holds everything up to {found.log_index}" in answer.text
        right = pb.ForceFailoverRequest(accept_loss_after=found.log_index, confirmed=True, reason="a burnt down")
        answer = await call(right, timeout=OUTER_S)
        assert answer.done, answer.text
        assert answer.epoch >= 3
        await second.send(name, b"served")
        for once_more in (right, pb.ForceFailoverRequest()):
            again = await call(once_more, timeout=OUTER_S)
            assert not again.done
            assert "is master of main already" in again.text


# -- malformed ---------------------------------------------------------------------------------------------------------


LONG = "x" * 501


@pytest.mark.parametrize(
    ("call", "request_", "reason", "words"),
    [
        ("ForceFailover", pb.ForceFailoverRequest(domain="nope"), "BAD_NAME", "no domain is called 'nope'"),
        ("ForceFailover", pb.ForceFailoverRequest(confirmed=True), "BAD_REQUEST", "needs a reason"),
        ("ForceFailover", pb.ForceFailoverRequest(reason=LONG), "BAD_REQUEST", "at most 500"),
        ("ForceFailover", pb.ForceFailoverRequest(domain="local", reason="x"), "INVALID_STATE", "no second member"),
        ("Decide", pb.DecideRequest(verdict=20), "BAD_REQUEST", "needs a reason"),
        ("Decide", pb.DecideRequest(verdict=20, reason="  "), "BAD_REQUEST", "needs a reason"),
        ("Decide", pb.DecideRequest(verdict=0, reason="x"), "BAD_REQUEST", "verdict 0 is unknown; there are 20"),
        ("Decide", pb.DecideRequest(verdict=19, reason="x"), "BAD_REQUEST", "verdict 19 is unknown"),
        ("Decide", pb.DecideRequest(verdict=20, reason="x", domain="local"), "INVALID_STATE", "no second member"),
        ("Decide", pb.DecideRequest(verdict=20, reason="x", domain="no"), "BAD_NAME", "no domain is called 'no'"),
        ("SetAutomation", pb.SetAutomationRequest(reason=LONG), "BAD_REQUEST", "at most 500"),
        ("SetMaintenance", pb.SetMaintenanceRequest(reason=LONG), "BAD_REQUEST", "at most 500"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_malformed_order_is_refused_by_name_and_written_down(
    shared_pair: Cluster, call: str, request_: Any, reason: str, words: str
) -> None:
    async with raw_to(shared_pair.endpoint("a")) as [member]:
        before = len(await orders_of(member))
        code = STATE if reason == "INVALID_STATE" else INVALID
        with refused(reason, code, words):
            await getattr(member.pair, call)(request_, timeout=OUTER_S)
        orders = await told(member, before + 1)
        assert orders[-1].facts["outcome"].startswith("refused: ")
        with refused("BAD_REQUEST", INVALID, f"{call}Request"):
            await member.bytes_call(f"/tandemq.v1.PairService/{call}", b"\xff\xff\xff")


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One pair for orders that change nothing."""
    cluster = patient(tmp_path_factory.mktemp("orders"))
    asyncio.run(cluster.start())
    yield cluster
    asyncio.run(cluster.stop())
