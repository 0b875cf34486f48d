"""Plays the demo of twins: sends flights, kills, hands over, keeps one twin away, and watches; it judges nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import IO, Any

from chaos.cluster import Cluster
from chaos.twins.account import Fault, Sample, Watched, priority_of
from tandemq import aio
from tandemq.cli.output import say
from tandemq.cli.view import PairView
from tandemq.client.outgoing import Outgoing
from tandemq.twin.digests import shown, state_digest
from tandemq.twin.meeting import logged
from tandemq.twin.snapshots import Snapshots
from tandemq.v1.queue_admin_service_pb2 import LOCKSTEP_SELECTED, REPLICATION_PRODUCER, QueueConfig

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "execution_environment"
NAME, INPUTS, OUTPUTS = "board", "flights", ("departures", "delays", "faults")
EACH = OUTPUTS[0]  # has one for each input
DEADLINE_S, LOOK_S, SYNC_S = 600.0, 0.02, 60.0
BATCH, AHEAD, PACE_S = 50, 3_000, 0.05  # of the sender: so many at once, and between two of them
DIFFERS = 5  # exit code
READER = "demo"  # of the journal, which keeps what was selected until the end


class TwinStory:
    """One run. `watched` is complete when `play` has returned."""

    def __init__(self, directory: Path, flights: Sequence[bytes], *, diverge: bool) -> None:
        self.flights, self.diverge, self.directory = flights, diverge, directory
        self.watched = Watched(inputs=len(flights))
        self._cluster = Cluster(directory / "pair")
        self._twins: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self._began_s = time.monotonic()
        self._stopped = set[str]()  # twins that ended because they differ
        self._sent = self._outputs = 0
        self._moved = asyncio.Event()

    async def play(self) -> None:
        """Raises RuntimeError, TimeoutError, TandemqError."""
        try:
            async with (
                asyncio.timeout(DEADLINE_S),
                self._cluster.running(SYNC_S),
                aio.connect(self._cluster.target, timeout=SYNC_S) as client,
            ):
                await client.create_queue(
                    INPUTS, QueueConfig(replication=REPLICATION_PRODUCER, lockstep=LOCKSTEP_SELECTED)
                )
                await client.register_reader(READER)
                for queue in OUTPUTS:
                    await client.create_queue(queue)
                for member in ("a", "b"):
                    self._start(member)
                self._began_s = time.monotonic()
                await self._through(client)
                await self._read(client)
        finally:
            for twin in self._twins.values():
                twin.kill()
                twin.wait()
            for log in self._logs:
                log.close()

    async def _through(self, client: aio.Client) -> None:
        watching = asyncio.create_task(self._watch(client))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(client))
                if not self.diverge:
                    group.create_task(self._hurt(client))
                group.create_task(self._drained(client))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    # -- twins -------------------------------------------------------------------------------------------------------

    def _start(self, member: str) -> None:
        program = "chaos.twins.differing" if self.diverge and member == "b" else "board"
        log = (self.directory / f"twin-{member}.log").open("ab")
        self._logs.append(log)
        place = ["--side", self._cluster.endpoint(member), "--target", self._cluster.target]
        kept = ["--directory", str(self.directory / f"twin-{member}"), "--mark-every", "100"]
        command = [sys.executable, "-P", "-m", "tandemq", "twin", "run", program, "--name", NAME, "--inputs", INPUTS]
        path = os.pathsep.join([str(ROOT), str(EXAMPLE)])
        self._twins[member] = subprocess.Popen(
            [*command, *place, *kept], env={**os.environ, "PYTHONPATH": path}, stdout=log, stderr=log
        )

    async def _kill_twin(self, member: str) -> None:
        self._twins[member].kill()
        code = await asyncio.to_thread(self._twins[member].wait)
        self.watched.kills += code == -signal.SIGKILL
        self._note("twin killed", member)

    async def _start_again(self, member: str) -> None:
        self._start(member)
        self._note("twin back", member)

    def _note(self, what: str, member: str) -> None:
        self.watched.faults.append(Fault(self._now_s, what, member))
        say(f"{self._now_s:6.1f} s  {what} {member}: {self._sent:,} inputs sent, {self._outputs:,} with outputs")

    @property
    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    # -- the hand ----------------------------------------------------------------------------------------------------

    async def _hurt(self, client: aio.Client) -> None:
        away_from = 0
        acts: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (0.10, lambda: self._kill_twin("b")),
            (0.20, self._kill_master),
            (0.45, lambda: self._start_again("b")),
            (0.55, lambda: self._hand_over(client)),
            (0.65, lambda: self._kill_twin("a")),
            (0.70, lambda: self._start_again("a")),
            (0.80, self._restart_all),
        ]
        for place, (share, act) in enumerate(acts):
            await self._until(lambda share=share: self._outputs >= share * len(self.flights))  # type: ignore[misc]
            if place == 0:
                away_from = self._outputs
            if place == 2:
                self.watched.absent_inputs = self._outputs - away_from
            await act()

    async def _kill_master(self) -> None:
        view = await self._cluster.wait_for(lambda view: view.whole(), "whole before a kill", SYNC_S)
        victim = view.masters()[0]
        self._cluster.kill(victim)
        self.watched.kills += 1
        self._note("master killed", victim)
        await self._cluster.wait_for(lambda view: _serves(view, victim), "taken over", SYNC_S)
        await self._cluster.restart(victim)
        await self._cluster.wait_for(lambda view: view.whole(), "in sync again", SYNC_S)
        self._note("in sync", victim)

    async def _hand_over(self, client: aio.Client) -> None:
        await self._cluster.wait_for(lambda view: view.whole(), "whole before a handoff", SYNC_S)
        done = await client.handoff(reason="demo")
        if not done.done:
            raise RuntimeError(f"no handoff: {', '.join(done.reasons)}")
        self.watched.handoffs += 1
        self._note("handed over", "")

    async def _restart_all(self) -> None:
        for member in ("a", "b"):
            await self._kill_twin(member)
        for member in ("a", "b"):
            self._cluster.kill(member)
            self.watched.kills += 1
        self._note("all killed", "")
        await asyncio.gather(*(self._cluster.restart(member) for member in ("a", "b")))
        await self._cluster.wait_for(lambda view: view.whole(), "in sync again", SYNC_S)
        for member in ("a", "b"):
            await self._start_again(member)

    # -- sending and watching ----------------------------------------------------------------------------------------

    async def _send(self, client: aio.Client) -> None:
        for first in range(0, len(self.flights), BATCH):
            await self._until(lambda: self._sent - self._outputs < AHEAD)
            part = self.flights[first : first + BATCH]
            await client.enqueue(INPUTS, [_sent_as(row) for row in part])
            self._sent += len(part)
            await asyncio.sleep(PACE_S)

    async def _watch(self, client: aio.Client) -> None:
        while True:
            inputs, outputs = await client.get_queue(INPUTS), await client.get_queue(EACH)
            self._outputs = outputs.last_index
            passed = {side.member: side.passed for side in inputs.sides}
            self.watched.samples.append(
                Sample(self._now_s, self._sent, passed.get("a", 0), passed.get("b", 0), self._outputs)
            )
            for member, twin in self._twins.items():
                wanted = (None, -signal.SIGKILL, DIFFERS) if self.diverge else (None, -signal.SIGKILL)
                if twin.poll() not in wanted:
                    raise RuntimeError(f"twin {member} ended with {twin.poll()}; see twin-{member}.log")
                if twin.poll() == DIFFERS and member not in self._stopped:
                    self._stopped.add(member)
                    self._note("stopped by a difference", member)
            self._moved.set()
            await asyncio.sleep(LOOK_S)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            await self._moved.wait()

    async def _drained(self, client: aio.Client) -> None:
        await self._until(lambda: self._outputs >= len(self.flights))
        if self.diverge:
            await self._until(lambda: bool(self._stopped))
            return
        while (await client.get_queue(INPUTS)).length:  # noqa: ASYNC110 - no event comes from another process
            await asyncio.sleep(LOOK_S)
        self._note("drained", "")

    async def _read(self, client: aio.Client) -> None:
        for twin in self._twins.values():
            twin.terminate()
        for twin in self._twins.values():
            await asyncio.to_thread(twin.wait, SYNC_S)
        for member in self._twins:
            found = await asyncio.to_thread(Snapshots(self.directory / f"twin-{member}").newest)
            if found is not None:
                self.watched.digests[member] = shown(state_digest(found.state))
        for queue in OUTPUTS:
            self.watched.outputs[queue] = [message.payload async for message in client.browse(queue)]
        async for page in client.read_journal(
            [INPUTS], kinds=[aio.JournalKind.SELECTED], payloads=False, reader=READER
        ):
            for row in page.rows():
                self.watched.order.extend(range(row.first, row.first + row.messages))
        log = await logged(client, NAME)
        differed = [entry for entry in log if entry["what"] == "differed"]
        self.watched.divergences = len(differed)
        if differed:
            self.watched.differed_behind, self.watched.differed_up_to = differed[0]["equal"], differed[0]["number"]
        self.watched.duplicate_attempts = sum(entry.get("duplicates", 0) for entry in log if entry["what"] == "ended")


def _sent_as(row: bytes) -> Outgoing:
    return Outgoing(row, {"properties": {"kind": "flight"}, "priority": priority_of(row)})


def _serves(view: PairView, victim: str) -> bool:
    with contextlib.suppress(IndexError):
        return view.masters()[0] != victim
    return False
