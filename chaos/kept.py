"""One pair that is kept for somebody else: everything that can be asked of it, one method a verb; it reads no input.

A verb's arguments are checked by its struct. What a verb raises, RuntimeError, ValueError, TandemqError, TimeoutError
or a group of these, its caller gets the error; the pair goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec

from chaos.account import Span
from chaos.cluster import CLIENT, WITNESS, Cluster
from chaos.faults import Fault, FaultError, Injector
from chaos.healing import heal, whole_again
from chaos.history import History, Struck
from chaos.kept_verdict import Verdict, judge, judge_carried
from chaos.ports import ports_in_use
from chaos.scenario import ClusterHands
from chaos.workload import Workload
from tandemq import aio
from tandemq.config import NESTED, parse
from tandemq.credentials import names
from tandemq.credentials.chosen import opener_of
from tandemq.credentials.development import prepare
from tandemq.witness.v1 import witness_service_pb2 as witness
from tandemq.witness.v1 import witness_service_pb2_grpc as witness_grpc

ANSWER_S = 5.0
WHOLE_S = 60.0
GONE_S = 10.0
CREDENTIALS, AUTHORITY = "credentials", "authority"  # folders of a pair with certificates
ADMINISTRATOR = "administrator"
PEOPLE = {
    "a": "member/test/a",
    "b": "member/test/b",
    WITNESS: "witness/witness",
    CLIENT: f"principal/{ADMINISTRATOR}",
}
OPERATOR = "chaos"  # whose words the log of deeds holds


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pair that is wanted."""

    data_dir: str
    toxiproxy: str = ""  # the server's program; empty: nothing between the processes
    profile: str = "safe"
    ready_s: float = 20.0
    config: dict[str, dict[str, Any]] = {}  # sections of both members' configuration files
    secure: bool = False  # with certificates, made for this pair alone


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The load that is wanted."""

    queue: str
    take_from: str = ""
    rate: float = 500.0
    producers: int = 2
    batch: int = 5
    lease_s: int = 2
    patience_s: float = 0.5  # of one client more; 0: none
    drain_s: float = 30.0
    timeout_s: float = 60.0


class Kept:
    """The pair while it runs. `start` once, `close` at the end whatever happened; both belong to one event loop."""

    def __init__(self) -> None:
        self._cleanup = AsyncExitStack()
        self._cluster: Cluster | None = None
        self._holds: dict[int, tuple[AsyncExitStack, float]] = {}
        self._may_end: set[str] = set()
        """Members that were frozen, until the pair was seen whole: one that goes on too late ends itself."""
        self._died: list[str] = []
        """Who had ended by itself before everything was healed, and runs again."""
        self._last_hold = 0
        self._log: Path | None = None
        self._anew()

    def _anew(self) -> None:
        """What was seen before is forgotten."""
        self._history = History()
        self._struck: list[Struck] = []
        self._spans: list[Span] = []
        self._began_s = time.monotonic()
        self._workload: Workload | None = None
        self._load = Load(queue="")
        self._working: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            raise FaultError("there is no pair: start one first")
        return self._cluster

    @property
    def injector(self) -> Injector:
        return Injector(self.cluster, ClusterHands(self.cluster), self._history, self._now, self._struck)

    def _now(self) -> float:
        return time.monotonic() - self._began_s

    def _note(self, message: str) -> None:
        """A line among the logs of the processes."""
        if self._log is None:
            return
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": "info", "member": OPERATOR}
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({**line, "message": message}) + "\n")

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self, wanted: Wanted) -> dict[str, Any]:
        """Starts everything; returns when the pair is whole, with where everything is."""
        values = parse(wanted.config, "config of the marker")
        settings = {name: NESTED[name](**value) if name in NESTED else value for name, value in values.items()}
        directory = Path(wanted.data_dir)
        self._log = directory / "logs" / f"{OPERATOR}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        shown = directory / CREDENTIALS
        if wanted.secure:
            await asyncio.to_thread(prepare, shown, directory / AUTHORITY, PEOPLE)
        cluster = Cluster(
            directory,
            pair="test",
            secured=shown if wanted.secure else None,
            operators=[ADMINISTRATOR] if wanted.secure else [],
            profile=wanted.profile,
            settings={"a": settings, "b": settings},
            toxiproxy=Path(wanted.toxiproxy) if wanted.toxiproxy else None,
        )
        self._cleanup.push_async_callback(cluster.stop)
        await cluster.start(wanted.ready_s)
        self._cluster = cluster
        self._note("the pair is whole")
        return {
            "target": cluster.target,
            "endpoints": {name: cluster.endpoint(name) for name in cluster.members},
            "witness": cluster.witness_endpoint,
            "toxiproxy": cluster.toxiproxy_endpoint if cluster.toxiproxy else "",
            "base_port": cluster.base_port,
            "pair": cluster.pair,
            "credentials": cluster.credentials,
        }

    async def principal(self, name: str) -> str:
        """Makes one with a certificate of the pair's authority; the directory of its credentials."""
        if not self.cluster.secured:
            raise FaultError("the pair has no certificates (secure=False), so nobody has a name there")
        if problem := names.problem_of(who := names.principal(name)):
            raise ValueError(problem)
        if not who.startswith("principal/") or name in PEOPLE:
            raise ValueError(f"{name!r}: write the name of a client, and not one of {', '.join(PEOPLE)}")
        folder = Path(self.cluster.data_dir)
        await asyncio.to_thread(prepare, folder / CREDENTIALS, folder / AUTHORITY, {name: who})
        return str(folder / CREDENTIALS / name)

    async def close(self) -> None:
        """Ends the load and every process. May be repeated."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._cleanup.aclose()

    async def stop(self) -> dict[str, Any]:
        """Ends everything in order. Says who had ended by itself before, and which ports are still taken."""
        died = await self.died()
        base_port = self.cluster.base_port
        await self.close()
        return {"died": died, "ports": ports_in_use(base_port)}

    async def died(self) -> list[str]:
        """Who ended though nobody killed it, Toxiproxy too, a sentence each; not a member that ends after a freeze."""
        return [*self._died, *self._just_died(), *filter(None, [self.cluster.network.ended])]

    def _just_died(self) -> list[str]:
        """The processes among them that nobody has started again."""
        children = [child for name, child in self.cluster.children.items() if name not in self._may_end]
        ended = [child for child in children if not child.running and child.ending != "signal 9"]
        return [f"{child.name} ended by itself with {child.ending}; {child.tail()}" for child in ended]

    # -- processes -----------------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """The view of both members, and the processes."""
        children = self.cluster.children.items()
        states = {
            name: {"pid": child.pid, "running": child.running, "paused": child.paused, "ending": child.ending}
            for name, child in children
        }
        view = await self.cluster.status()
        if view.whole():
            self._may_end.clear()
        master = next(iter(view.masters()), "")
        return {"view": msgspec.to_builtins(view), "whole": view.whole(), "master": master, "processes": states}

    async def _named(self, who: str) -> tuple[str, ...]:
        return (WITNESS,) if who == WITNESS else await self.injector.victims(who)

    async def kill(self, who: str) -> list[str]:
        """kill -9; returns when they are gone."""
        names = await self._named(who)
        self._note(f"kill -9 {', '.join(names)}")
        self._may_end -= {*names}
        await asyncio.gather(*(ClusterHands(self.cluster).kill(name) for name in names))
        return list(names)

    async def freeze(self, who: str) -> list[str]:
        """SIGSTOP."""
        names = await self._named(who)
        self._note(f"freeze {', '.join(names)}")
        self._may_end |= {*names} - {WITNESS}
        for name in names:
            self.cluster.pause(name)
        return list(names)

    async def thaw(self, who: str) -> list[str]:
        """SIGCONT."""
        names = await self._named(who)
        self._note(f"thaw {', '.join(names)}")
        for name in names:
            self.cluster.resume(name)
        return list(names)

    async def run(self, who: str) -> list[str]:
        """Starts who is gone; returns when it answers."""
        names = await self._named(who)
        self._note(f"start {', '.join(names)}")
        for name in names:
            await ClusterHands(self.cluster).start(name)
        return list(names)

    async def handoff(self, to: str = "") -> dict[str, Any]:
        """Moves the mastership in order; returns when it moved. A refusal is an error."""
        self._note(f"hand over to {to or 'the other member'}")
        [master] = await self.injector.victims("master")
        shown = self.cluster.credentials or None
        async with aio.connect(self.cluster.endpoint(master), follow_master=False, credentials=shown) as client:
            answer = await client.handoff("main", to=to or self.injector.other(master), reason="test")
        if not answer.done:
            raise FaultError(f"the handoff was refused: {', '.join(answer.reasons)}")
        return {"master": answer.master, "epoch": answer.epoch}

    async def whole(self, within_s: float = WHOLE_S) -> dict[str, Any]:
        """Returns when there are a master and a replica in sync, with the status."""
        await self._whole("whole", within_s)
        return await self.status()

    async def _whole(self, what: str, within_s: float) -> None:
        """Who was frozen and ended itself when it went on is started again."""
        started = await whole_again(self.cluster, ClusterHands(self.cluster), what, within_s, [*self._may_end])
        for name in started:
            self._note(f"{name} ended by itself when it went on: started again")
        self._may_end.clear()

    async def register(self) -> dict[str, Any]:
        """What the witness has recorded."""
        async with opener_of(self.cluster.credentials)(self.cluster.witness_endpoint, ()) as channel:
            stub = witness_grpc.WitnessServiceStub(channel)
            request = witness.GetRegisterRequest(pair=self.cluster.pair, domain="main")
            try:
                found = (await stub.GetRegister(request, timeout=ANSWER_S)).register
            except grpc.aio.AioRpcError as error:
                raise FaultError(f"the witness does not answer: {error.code().name}") from error
        return {"epoch": found.epoch, "holder": found.holder, "in_sync": list(found.in_sync_set)}

    # -- faults --------------------------------------------------------------------------------------------------------

    async def strike(self, faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All of them, each at its time; when it returns all are healed and the pair is whole."""
        wanted = [msgspec.convert(each, Fault) for each in faults]
        self._note(f"strike with {', '.join(f'{each.kind} of {each.on} for {each.for_s:g} s' for each in wanted)}")
        before, from_s = len(self._struck), self._now()
        try:
            await self.injector.round(wanted)
        finally:
            self._spans.append(Span(from_s, self._now()))
            self._may_end.update(*(each.members for each in self._struck[before:] if each.kind == "freeze"))
            self._note("healed")
        self._may_end.clear()  # the pair is whole
        return [{"kind": each.kind, "members": list(each.members)} for each in self._struck[before:]]

    async def hold(self, fault: dict[str, Any]) -> dict[str, Any]:
        """In force when it returns, until `release`."""
        wanted = msgspec.convert(fault, Fault)
        stack = AsyncExitStack()
        from_s = self._now()
        struck = await stack.enter_async_context(self.injector.held(wanted))
        self._note(f"in force: {wanted.kind} of {', '.join(struck.members)}")
        if wanted.kind == "freeze":
            self._may_end |= {*struck.members}
        self._last_hold += 1
        self._holds[self._last_hold] = (stack, from_s)
        return {"hold": self._last_hold, "members": list(struck.members)}

    async def release(self, hold: int, *, whole: bool = True) -> None:
        """Heals one; with the last one, if that is wanted, waits until the pair is whole."""
        await self._release(hold)
        if whole and not self._holds:
            await self._whole("whole again after the faults were healed", WHOLE_S)

    async def _release(self, hold: int) -> None:
        if hold not in self._holds:
            return
        stack, from_s = self._holds.pop(hold)
        try:
            await stack.aclose()
        finally:
            self._spans.append(Span(from_s, self._now()))
            self._note("healed")

    async def heal(self) -> None:
        """Takes back everything that was done, and starts who is gone. Raises FaultError for what is left."""
        left = []
        self._died += self._just_died()
        if not self.cluster.children[WITNESS].running:
            await self.cluster.restart(WITNESS)
        self.cluster.resume(WITNESS)
        for hold in list(self._holds):
            try:
                await self._release(hold)
            except RuntimeError as error:
                left.append(str(error))
        more, is_whole = await heal(self.cluster, ClusterHands(self.cluster), WHOLE_S)
        if is_whole:
            self._may_end.clear()
        if left or more:
            raise FaultError(f"not healed: {'; '.join([*left, *more])}")

    async def clear(self) -> None:
        """Healed, without queues, and nothing is remembered: for the next user of the same pair."""
        if died := await self.died():
            raise FaultError("; ".join(died))
        await self.heal()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        async with aio.connect(self.cluster.target, credentials=self.cluster.credentials or None) as client:
            for queue in await client.list_queues():
                await client.delete_queue(queue.name)
            for grant in (await client.list_rights()).grants if self.cluster.secured else ():
                await client.revoke_right(grant.principal, grant.right, grant.pattern)
        self._anew()

    # -- load ----------------------------------------------------------------------------------------------------------

    async def load(self, load: Load) -> None:
        """Begins; returns when the first messages are acknowledged."""
        if self._working is not None:
            raise FaultError("a load is at work already; there is one for each pair")
        patient_rate = load.rate / load.producers
        self._load = load
        self._workload = Workload(
            self.cluster,
            history=self._history,
            producers=load.producers,
            batch=load.batch,
            interval_s=load.batch / patient_rate,
            lease_s=load.lease_s,
            queue=load.queue,
            take_from=load.take_from,
            drain_s=load.drain_s,
            patience_s=load.patience_s,
            timeout_s=load.timeout_s,
            alone=False,
        )
        self._began_s = self._workload.observer.began_s
        self._struck.clear()  # what was before is not in its history
        self._spans.clear()
        self._working = asyncio.create_task(self._work(self._workload))
        await self.goes_on(1)
        self._note(f"load on {load.queue}: {load.rate:g} messages a second")

    async def _work(self, workload: Workload) -> None:
        async with workload.running():
            await self._over.wait()

    async def goes_on(self, count: int = 50, within_s: float = 20.0) -> int:
        """Returns when so many more messages were acknowledged, with how many were in all."""
        if self._workload is None or self._working is None:
            raise FaultError("no load is at work: start one first")
        more = asyncio.ensure_future(self._workload.goes_on(count, within_s))
        try:
            await asyncio.wait({more, self._working}, return_when=asyncio.FIRST_COMPLETED)
            if not more.done():
                await self._working
                raise FaultError("the load has ended")
            await more
        except TimeoutError as error:
            raise FaultError(f"{count} more messages were not acknowledged within {within_s:g} s") from error
        finally:
            more.cancel()
            await asyncio.gather(more, return_exceptions=True)
        return len(self._history.acked)

    async def judge(self, doubled_max: int | None = 0) -> Verdict:
        """Heals everything, ends the load, drains, and says what it proves."""
        if self._working is None:
            raise FaultError("no load is at work: start one first")
        await self.heal()
        seconds = self._now()
        self._over.set()
        await self._working
        facts = (self._history, self._struck, self._spans)
        rate = self._load.rate
        if self._load.take_from:
            return judge_carried(*facts, sent_per_s=rate, seconds=seconds, doubled_max=doubled_max)
        return judge(*facts, sent_per_s=rate, seconds=seconds)

    async def history(self, path: str) -> None:
        """Writes down what was seen."""
        from chaos.history_file import write_history

        with contextlib.suppress(OSError):
            await asyncio.to_thread(write_history, Path(path), self._history, self._struck)
