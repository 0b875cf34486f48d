"""Plays one round: a whole pair under load, everything killed, one copy hurt, both started again, and what is left.

It judges by what users see: what a producer was answered against what the queue holds, the files of the hurt copy
before and after, and what the members say of what they cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio

from chaos.cluster import POLL_S, WITNESS, Cluster, ClusterError, describe
from chaos.lying.copies import copy_files, messages_in, tokens_in
from chaos.lying.kinds import HOLDER, HURT_FIRST, Plan
from chaos.lying.kinds import WITNESS as THE_WITNESS
from chaos.lying.load import BUSY_PRODUCERS, QUEUE, Load, compare
from chaos.lying.pages import DATA_FILE, NothingToHurtError, transaction
from tandemq import aio
from tandemq.cli.view import CHANNEL_OPTIONS, PairView
from tandemq.errors import TandemqError
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import pair_service_pb2_grpc

WARM_BATCHES = 4
WHOLE_S = 60.0
CALL_S = 10.0
TOKENS_SHOWN = 3


@dataclass(slots=True)
class Outcome:
    """What one round came to."""

    plan: Plan
    acknowledged: int = 0
    hurt: bool = False
    """At least one acknowledged message is gone from the hurt copy, or the copy cannot be opened; of a witness: its
    register is an older one."""
    gone_there: int = 0
    """Acknowledged messages that the hurt copy lost."""
    refused: bool = False
    """The hurt process did not start: the damage was noticed, and its directory was set aside."""
    lost: int = 0
    doubled: int = 0
    out_of_order: int = 0
    salvaged: int = 0
    called_unacknowledged: int = 0
    noticed: bool = False
    """Of one that started alone: it refused, or it says that its last writes are in doubt."""
    stuck: str = ""
    """The pair did not come together again."""
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        return bool(self.lost or self.doubled or self.out_of_order or self.called_unacknowledged or self.stuck)


async def play(plan: Plan) -> Outcome:
    """One round on a pair of its own, which is gone afterwards. Raises ClusterError when there was no pair to hurt."""
    began, outcome = time.monotonic(), Outcome(plan)
    with tempfile.TemporaryDirectory(prefix="tandemq-lying-") as scratch:
        cluster = Cluster(Path(scratch) / "pair")
        async with cluster.running(WHOLE_S):
            await _Round(plan, cluster, Path(scratch) / "copy", outcome).play()
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


class _Round:
    def __init__(self, plan: Plan, cluster: Cluster, copy: Path, outcome: Outcome) -> None:
        self.plan, self.cluster, self.copy, self.outcome = plan, cluster, copy, outcome
        self.load = Load(plan.damage.load)
        self.victim = ""
        self.other = ""

    @property
    def directory(self) -> Path:
        data = self.cluster.data_dir
        return data / WITNESS / "registers" if self.victim == WITNESS else data / self.victim

    async def play(self) -> None:
        async with self._client() as client:
            await client.create_queue(QUEUE)
            if self.plan.victim == THE_WITNESS:
                await self._move(client)
            await self._choose()
            await self._load_and_kill(client)
        self._hurt()
        if self.plan.alone:
            await self._start_alone()
        else:
            await self._start_both()

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[aio.Client]:
        async with aio.connect(self.cluster.target, timeout=WHOLE_S, attempt_timeout=2.0) as client:
            yield client

    async def _choose(self) -> None:
        view = await self.cluster.wait_ready(WHOLE_S)
        (master,) = view.masters()
        (replica,) = [name for name in self.cluster.members if name != master]
        self.victim, self.other = (master, replica) if self.plan.victim == HOLDER else (replica, master)
        if self.plan.victim == THE_WITNESS:
            self.victim, self.other = WITNESS, master

    async def _move(self, client: aio.Client) -> None:
        """The other member takes over and serves alone for a while, so that the register has something to lose."""
        (master,) = (await self.cluster.wait_ready(WHOLE_S)).masters()
        copied = self.plan.writes == 1
        if not copied:
            self._copy(WITNESS, self.cluster.data_dir / WITNESS / "registers")
        self._kill(master)
        async with self.load.running(client, 1):
            await self.load.after(WARM_BATCHES)
            if copied:
                self._copy(WITNESS, self.cluster.data_dir / WITNESS / "registers")
            await self.cluster.restart(master)
        await self.cluster.wait_ready(WHOLE_S)

    def _copy(self, name: str, directory: Path) -> None:
        self.cluster.kill(name, signal.SIGSTOP)
        try:
            copy_files(directory, self.copy)
        finally:
            self.cluster.kill(name, signal.SIGCONT)

    async def _load_and_kill(self, client: aio.Client) -> None:
        async with self.load.running(client, BUSY_PRODUCERS if self.plan.busy else 1):
            await self.load.after(WARM_BATCHES, act=self._copy_member)
            await self.load.after(self.plan.writes, act=self._signal_all)
        for name in self.cluster.children:
            self._kill(name)

    def _copy_member(self) -> None:
        if self.victim != WITNESS:
            self._copy(self.victim, self.directory)

    def _signal_all(self) -> None:
        for name in (self.victim, self.other, *self.cluster.children):
            self.cluster.kill(name)

    def _kill(self, name: str) -> None:
        self.cluster.kill(name)
        process = self.cluster.children[name].process
        assert process is not None
        process.wait(10)
        if process.stdin is not None:
            process.stdin.close()

    def _hurt(self) -> None:
        outcome = self.outcome
        outcome.acknowledged = len(self.load.acknowledged)
        witness = self.victim == WITNESS
        before = transaction(self.directory / DATA_FILE) if witness else messages_in(self.directory)
        try:
            self.plan.damage.hurt(self.directory, self.copy, self.plan.writes)
        except NothingToHurtError as error:
            outcome.examples.append(f"nothing to hurt: {error}")
        if witness:
            assert isinstance(before, int)
            outcome.hurt = transaction(self.directory / DATA_FILE) < before
            return
        after = messages_in(self.directory)
        assert isinstance(before, set), "a member that was killed alone left a copy that cannot be opened"
        gone = (before - (after or set())) & self.load.acknowledged.keys()
        outcome.gone_there = len(gone)
        outcome.hurt = bool(gone)

    # -- after the fault -------------------------------------------------------------------------------------------

    async def _start_both(self) -> None:
        """The witness comes last: a member that finds nobody at its peer's port goes on alone at once, and how fast a
        process comes up must not be what decides a round in which both are present.
        """
        names = [name for name in self.cluster.members if name != self.victim]
        if self.victim != WITNESS:
            names.insert(0 if self.plan.order == HURT_FIRST else 1, self.victim)
        elif self.plan.order == HURT_FIRST:
            names.reverse()
        for name in names:
            self.cluster.spawn(name)
            await self._answers_or_ends(name)
        try:
            await self._meet()
            self.cluster.spawn(WITNESS)
            await self._answers_or_ends(WITNESS)
            if not self.cluster.children[WITNESS].running:
                self._start_without_its_directory(WITNESS)
            await self.cluster.wait_for(PairView.whole, "whole after the fault", WHOLE_S)
        except ClusterError as error:
            self.outcome.stuck = str(error).splitlines()[0]
            return
        async with self._client() as client:
            there = [bytes(message.payload) async for message in client.browse(QUEUE)]
            self._judge(there)
            async with client.producer(QUEUE) as producer:
                await producer.send(b"goes on")
        for name in self.cluster.members:
            await self._judge_salvage(name)

    async def _answers_or_ends(self, name: str) -> None:
        try:
            await self.cluster.wait_answers(name, WHOLE_S)
        except ClusterError:
            if self.cluster.children[name].running:
                raise

    async def _meet(self) -> None:
        """Both are up and see each other. A hurt process that refuses to start is started without its directory, as its
        message says.
        """
        if not await self._see_each_other():
            self._kill(self.victim)
            self._start_without_its_directory(self.victim)
            if not await self._see_each_other():
                raise ClusterError(f"{self.victim} does not start without its directory, too")

    def _start_without_its_directory(self, name: str) -> None:
        self.outcome.refused = True
        data = self.cluster.data_dir / name
        data.rename(data.with_name(f"{name}.aside"))
        self.cluster.spawn(name)

    async def _see_each_other(self) -> bool:
        """False: the hurt member has ended. Raises ClusterError when they do not find each other in time."""
        deadline = time.monotonic() + WHOLE_S
        while self.victim == WITNESS or self.cluster.children[self.victim].running:
            view = await self.cluster.status()
            if len(view.members) == len(self.cluster.members) and all(each.peer_connected for each in view.members):
                return True
            if time.monotonic() > deadline:
                raise ClusterError(f"the members do not see each other; seen: {describe(view)}")
            await asyncio.sleep(POLL_S)
        return False

    def _judge(self, there: list[bytes]) -> None:
        found = compare(self.load.acknowledged, there)
        self.outcome.lost = len(found.lost)
        self.outcome.doubled = len(found.doubled)
        self.outcome.out_of_order = found.out_of_order
        for name in found.lost[:TOKENS_SHOWN]:
            self.outcome.examples.append(f"lost: {name.decode()} of index {self.load.acknowledged[name]}")

    async def _judge_salvage(self, name: str) -> None:
        async with grpc.aio.insecure_channel(self.cluster.endpoint(name), options=CHANNEL_OPTIONS) as channel:
            stub = pair_service_pb2_grpc.PairServiceStub(channel)
            answer = await stub.ListSalvage(pb.ListSalvageRequest(), timeout=CALL_S)
            for file in answer.files:
                async for operation in stub.ReadSalvage(pb.ReadSalvageRequest(name=file.name), timeout=CALL_S):
                    held = tokens_in(operation.SerializeToString())
                    acknowledged = [each for each in held if each in self.load.acknowledged]
                    self.outcome.salvaged += len(acknowledged)
                    if operation.certainty in (pb.ACKNOWLEDGEMENT_NONE, pb.ACKNOWLEDGEMENT_UNSPECIFIED):
                        self.outcome.called_unacknowledged += len(acknowledged)

    async def _start_alone(self) -> None:
        """The peer stays away: whatever it serves without its last messages, did it say that they may be missing?"""
        self.cluster.spawn(WITNESS)
        self.cluster.spawn(self.victim)
        await self._answers_or_ends(self.victim)
        if not self.cluster.children[self.victim].running:
            self.outcome.refused = self.outcome.noticed = True
            return
        try:
            view = await self.cluster.wait_for(lambda view: bool(view.masters()), "serving alone", WHOLE_S)
        except ClusterError as error:
            self.outcome.stuck = str(error).splitlines()[0]
            return
        async with self._client() as client:
            with contextlib.suppress(TandemqError):
                there = [bytes(message.payload) async for message in client.browse(QUEUE)]
                self.outcome.lost = len(compare(self.load.acknowledged, there).lost)
        self.outcome.noticed = any(member.doubts for member in view.members)
