"""A handoff between real processes: the scripted sequences, an orderly stop, a witness that is away, bad requests."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from chaos.cluster import WITNESS, Cluster
from tandemq.cli.view import PairView
from tandemq.config import Failover
from tandemq.v1 import pair_service_pb2 as pb
from tests.integration.support import Raw, gone, is_alone, raw_to, refused, roles
from tests.support import script
from tests.support.clusters import patient
from tests.support.grammar import command
from tests.support.starvation import Soon
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

PARK_S = 4.0  # less than a member parks a call that has no deadline of its own
COOLDOWN_MS = 60_000  # so that "a moment ago" does not depend on how fast this machine is


@asynccontextmanager
async def pair_in(data_dir: Path) -> AsyncIterator[tuple[Cluster, dict[str, Raw]]]:
    cluster = patient(data_dir, failover=Failover(cooldown_ms=COOLDOWN_MS))
    async with cluster.running(), raw_to(*cluster.endpoints) as members:
        yield cluster, dict(zip(cluster.members, members, strict=True))


async def hand_over(member: Raw, *, to: str = "", dry_run: bool = False) -> pb.HandoffResponse:
    request = pb.HandoffRequest(to=to, dry_run=dry_run, reason="a test")
    return await member.pair.Handoff(request, timeout=OUTER_S)


class RealProcesses:
    """The commands of tests/scripts/handoff over a cluster whose domain is mastered by a at the start."""

    def __init__(self, cluster: Cluster, members: dict[str, Raw]) -> None:
        self.cluster, self.members = cluster, members

    def end_of_step(self) -> list[str]:
        return []

    @command("given a pair")
    def given_a_pair(self) -> list[str]:
        """It runs already."""
        return []

    @command("send OP to MEMBER and wait")
    async def send(self, payload: str, member: str) -> list[str]:
        done = await self.members[member].send("q", payload.encode())
        return [f"index {done.results[0].index} epoch {done.header.epoch} copies {done.header.copies}"]

    @command("handoff at MEMBER and wait")
    async def handoff(self, member: str) -> list[str]:
        return self._told(await hand_over(self.members[member]))

    @command("dry handoff at MEMBER and wait")
    async def dry_handoff(self, member: str) -> list[str]:
        return self._told(await hand_over(self.members[member], dry_run=True))

    @command("handoff at MEMBER to MEMBER and wait")
    async def handoff_to(self, member: str, to: str) -> list[str]:
        return self._told(await hand_over(self.members[member], to=to))

    def _told(self, reply: pb.HandoffResponse) -> list[str]:
        return [f"{_outcome(reply)}: {reply.master} is master in epoch {reply.epoch}"]

    @command("handoff at both and wait")
    async def _both(self) -> list[str]:
        """The replica is frozen until the master's offer is under way, and has both to read when it wakes up."""
        master, replica = await roles(self.cluster)
        self.cluster.pause(replica)
        offered = asyncio.create_task(hand_over(self.members[master]))
        await until(lambda: self._is_proposing(master), "the offer is under way")
        asked = asyncio.create_task(hand_over(self.members[replica], to=replica))
        await asyncio.sleep(0)
        self.cluster.resume(replica)
        first, second = await offered, await asked
        # Which of the two it reads first is the kernel's choice: a request that crosses, or a second caller. A replica
        # that was frozen for long may say besides that it is not in step yet.
        crossed = second.reasons[:1] in (["COLLISION"], ["BUSY"]) and not second.done
        return [
            f"{master} {_outcome(first)}: {first.master} is master in epoch {first.epoch}",
            f"{replica} {'refused COLLISION' if crossed else _outcome(second)}",
        ]

    async def _is_proposing(self, name: str) -> bool:
        status = (await self.members[name].pair.GetPairStatus(pb.GetPairStatusRequest(), timeout=OUTER_S)).member
        return any(domain.handoff == "PROPOSED" for domain in status.domains)

    @command("state")
    async def state(self) -> list[str]:
        view = await self.cluster.wait_for(PairView.whole, "a master and a replica in sync")
        domains = {m.name: next(d for d in m.domains if d.name == "main") for m in view.members}
        return [f"{name} {d.role} {d.data_state} epoch {d.epoch}" for name, d in sorted(domains.items())]

    @command("contents")
    async def contents(self) -> list[str]:
        got = await self.members["a"].receive("q", 100)
        return [" ".join(message.message.payload.decode() for message in got.messages)]


def _outcome(reply: pb.HandoffResponse) -> str:
    return "done" if reply.done else f"refused {','.join(reply.reasons)}"


SCRIPTS = {path.stem: script.load(path) for path in script.scripts("handoff")}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_script(name: str, tmp_path: Path) -> None:
    async with pair_in(tmp_path) as (cluster, members):
        await members["a"].create("q")
        printed = await script.play(SCRIPTS[name], RealProcesses(cluster, members))
    script.compare(SCRIPTS[name], printed)


async def test_single_calls_and_consumers_notice_nothing(tmp_path: Path) -> None:
    """Ruling 10: whoever is attached to either member goes on, during handoff after handoff, without an error of ours.

    A call that one member has sent on to the other is answered although that one stops being master meanwhile.
    """
    async with pair_in(tmp_path) as (cluster, members):
        await members["a"].create("q")
        moving = True
        sent: list[bytes] = []
        taken: list[bytes] = []

        async def send_at(name: str) -> None:
            number = 0
            while moving:
                payload = f"{name}/{number}".encode()
                reply = await members[name].send("q", payload, min_copies=2)
                assert reply.header.copies == 2
                sent.append(payload)
                number += 1

        async def take_at(name: str) -> None:
            while moving or len(taken) < len(sent):
                taken.extend(await members[name].take("q", 10))

        async with asyncio.TaskGroup() as clients:
            for name in members:
                clients.create_task(send_at(name))
            clients.create_task(take_at("b"))
            for number in range(6):
                # Who was master is a replica a moment after the answer; until then NOT_IN_SYNC is the right one.
                await cluster.wait_for(PairView.whole, "both are whole")
                reply = await hand_over(members["ab"[number % 2]])
                assert reply.done, reply
            moving = False
        assert sorted(taken) == sorted(sent)


@pytest.mark.clock
async def test_a_receive_that_waits_follows_the_mastership(tmp_path: Path) -> None:
    """Sent on to the master, which then is none: it is given back at once, not when its time there is over."""
    async with pair_in(tmp_path) as (_, members):
        await members["a"].create("q")
        await members["a"].create("other")
        waiting = asyncio.create_task(members["b"].receive("q", wait={"seconds": 9}))
        for payload in (b"1", b"2", b"3"):  # sent on after it, over the same channel
            await members["a"].send("other", payload)
            assert await members["b"].take("other") == [payload]
        assert (await hand_over(members["a"])).done
        with Soon("the message", PARK_S):
            await members["a"].send("q", b"one")
            got = await waiting
        assert [message.message.payload for message in got.messages] == [b"one"]


@pytest.mark.requirement("R132")
async def test_an_orderly_stop_hands_over_first(tmp_path: Path) -> None:
    """R132: no verdict is needed, and what is sent meanwhile at the other member is answered."""
    async with pair_in(tmp_path) as (cluster, members):
        await members["a"].create("q")
        await members["a"].send("q", b"one")
        cluster.kill("a", signal.SIGTERM)
        await members["b"].send("q", b"two")
        process = cluster.children["a"].process
        assert process is not None
        assert await asyncio.to_thread(process.wait, 10) == 0
        log = cluster.children["a"].log.read_text()
        assert "the new master's first SYNC is DONE" in log
        assert await members["b"].take("q", 2) == [b"one", b"two"]
        await cluster.restart("a")
        assert await roles(cluster) == ("b", "a")


async def test_a_handoff_needs_no_witness_and_is_recorded_later(tmp_path: Path) -> None:
    """P18; ruling 8."""
    async with pair_in(tmp_path) as (cluster, members):
        await members["a"].create("q")
        await gone(cluster, WITNESS)
        reply = await hand_over(members["a"])
        assert (reply.done, reply.master, list(reply.reasons)) == (True, "b", [])
        assert (await members["a"].send("q", b"one")).header.copies == 2
        assert await unrecorded(members["b"])
        await cluster.restart(WITNESS)

        async def recorded() -> bool:
            return not await unrecorded(members["b"])

        await until(recorded, "the epoch is in the register")
        assert await roles(cluster) == ("b", "a")
        assert await members["a"].take("q") == [b"one"]


async def unrecorded(member: Raw) -> bool:
    status = (await member.pair.GetPairStatus(pb.GetPairStatusRequest(), timeout=OUTER_S)).member
    return next(domain for domain in status.domains if domain.name == "main").unrecorded


async def test_bad_requests_are_named(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as (_, members):
        handoff = members["a"].pair.Handoff
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "'c'", "a and b"):
            await handoff(pb.HandoffRequest(to="c"), timeout=OUTER_S)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "'nope'", "main"):
            await handoff(pb.HandoffRequest(domain="nope"), timeout=OUTER_S)
        with refused("INVALID_STATE", grpc.StatusCode.FAILED_PRECONDITION, "local"):
            await handoff(pb.HandoffRequest(domain="local"), timeout=OUTER_S)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "hold", "60000"):
            await handoff(pb.HandoffRequest(hold={"seconds": 3600}), timeout=OUTER_S)


async def test_without_a_peer_nothing_changes(tmp_path: Path) -> None:
    """Every reason at once, and the master goes on alone."""
    async with pair_in(tmp_path) as (cluster, members):
        await gone(cluster, "b")
        await cluster.wait_for(lambda view: is_alone(view, "a"), "a serves alone")
        reply = await hand_over(members["a"])
        assert not reply.done
        assert {"NOT_CONNECTED", "NOT_IN_SYNC"} <= set(reply.reasons)
        assert "nothing was changed" in reply.text
