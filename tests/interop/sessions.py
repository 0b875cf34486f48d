"""Runs a client over a script against a pair: tells it one step after the other, has what it saw judged (`judge.py`),
and does to the pair what the script asks for, a kill or a handoff, while the client is at the next step.

A fault that did not happen, or that no client felt, is a failure of the run.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster import Cluster, is_stopped
from tandemq.cli.view import PairView
from tandemq.config import member_ports
from tandemq.credentials.chosen import opener_of
from tandemq.v1 import pair_service_pb2
from tandemq.v1.pair_service_pb2_grpc import PairServiceStub
from tests.integration.support import http_get
from tests.interop.clients import ClientFailed
from tests.interop.front import Front
from tests.interop.judge import WORDS, Judge, Wrong
from tests.interop.script import Step, parse, read
from tests.support.until import OUTER_S, until

FOLDER = Path(__file__).resolve().parent
SCRIPT, STREAMS, COPIES = FOLDER / "session.txt", FOLDER / "streams.txt", FOLDER / "copies.txt"
UNITS = FOLDER / "units.txt"
HANDOFF_S = 20
ORDERED = 'tandemq_log_index{domain="main"'
# Right lines that do not hold, each behind what makes them false: a client that tells what it did not see is found out.
FALSE_SCRIPTS = (
    "create queue=orders type=one_way_queued_ack\nsend queue=orders count=2\nexpect queue=orders length=3",
    "create queue=orders type=one_way_queued_ack\nsend queue=orders count=2\nbrowse queue=orders first=1 count=1",
    "create queue=orders type=one_way_queued_ack\nsend queue=orders count=2\nbrowse queue=orders first=1 count=3",
    "create queue=calls type=two_way\nsend queue=calls count=1\nanswers queue=calls count=1",
)


@dataclass(slots=True)
class Session:
    """What became of one run."""

    kills: int = 0
    lost: int = 0  # kills of a replica, each with a message on its way
    handoffs: int = 0
    broken: int = 0  # connections that a fault broke under the client
    seconds: float = 0.0
    steps: int = 0
    sent: int = 0
    taken: int = 0
    repeated: int = 0  # calls and streams


class Client:
    """A client that runs. It has one address, and does what it is told, line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._to, self._from = process, process.stdin, process.stdout
        self.heard = asyncio.Event()  # it has said something since this was cleared

    def tell(self, line: str) -> None:
        self._to.write(f"{line}\n".encode())

    async def answer(self) -> list[str]:
        """What it saw while it did what it was told last. Raises ClientFailed when it ended instead."""
        found, noise, done = await self._lines()
        if not done:
            code = await self._process.wait()
            raise ClientFailed("\n".join([f"exit code {code}", *noise]))
        return found

    async def end(self) -> None:
        """Raises ClientFailed unless it ends well, and has nothing more to say."""
        self._to.close()
        found, noise, done = await self._lines()
        if (code := await self._process.wait()) or found or done:
            raise ClientFailed("\n".join([f"exit code {code} after the last step", *found, *noise]))

    async def _lines(self) -> tuple[list[str], list[str], bool]:
        """What it saw, what else was said, and whether an ok ended that, and not the client."""
        found: list[str] = []
        noise: list[str] = []
        async for line in self._from:
            text = line.decode(errors="replace").rstrip("\r\n")
            self.heard.set()
            if text == "ok":
                return found, noise, True
            (found if text.split(" ")[0] in WORDS else noise).append(text)
        return found, noise, False


@asynccontextmanager
async def running(command: list[str], address: str, credentials: str = "") -> AsyncIterator[Client]:
    """`credentials`: a directory; empty: the pair is plain."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, address, *filter(None, [credentials]), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(OUTER_S):
            yield Client(process)
    except TimeoutError:
        raise ClientFailed(f"no end within {OUTER_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@dataclass(slots=True)
class _Faults:
    """Done one at a time, each while the client goes on with its script."""

    cluster: Cluster
    master: str
    session: Session
    say: Callable[[str], None]
    under_way: list[asyncio.Task[None]] = field(default_factory=list)
    lost: str = ""  # a replica that was killed, until the pair is to be whole again

    def strike(self, verb: str, in_the_middle: asyncio.Event) -> None:
        """As soon as the client has seen something of its next step, and before it has seen the rest."""
        self.under_way.append(asyncio.create_task(self._do(verb, in_the_middle)))

    async def over(self) -> None:
        """Returns when the pair is whole again."""
        for task in self.under_way:
            await task
        self.under_way.clear()
        if self.lost:
            await self.cluster.restart(self.lost)
            await self.cluster.wait_for(PairView.whole, "whole again")
            self.lost = ""

    async def lose(self) -> None:
        """The replica hears nothing from here on, and dies as soon as the master has ordered something without it."""
        self.lost = next(name for name in self.cluster.members if name != self.master)
        child = self.cluster.children[self.lost]
        self.cluster.pause(self.lost)
        await until(lambda: child.pid is None or is_stopped(child.pid), f"{self.lost} has stopped")
        self.under_way.append(asyncio.create_task(self._kill_replica(await self._ordered())))

    async def _kill_replica(self, before: str) -> None:

        async def has_ordered() -> bool:
            return await self._ordered() != before

        await until(has_ordered, "the master orders something")
        self.cluster.kill(self.lost)
        self.session.lost += 1
        self.say(f"lose: {self.lost} is lost, with a message on its way to it")

    async def _ordered(self) -> str:
        """The master's last log index; its status would wait for the frozen member's part."""
        ordinal = list(self.cluster.members).index(self.master)
        _, metrics = await http_get(member_ports(self.cluster.base_port, ordinal).http, "/metrics")
        return next(line for line in metrics.splitlines() if line.startswith(ORDERED))

    async def given_up(self) -> None:
        """Nothing more is done to the pair: for a run that went wrong."""
        for task in self.under_way:
            task.cancel()
        await asyncio.gather(*self.under_way, return_exceptions=True)

    async def _do(self, verb: str, in_the_middle: asyncio.Event) -> None:
        await in_the_middle.wait()
        old, new = self.master, next(name for name in self.cluster.members if name != self.master)
        if verb == "kill":
            self.cluster.kill(old)
            await self.cluster.wait_for(lambda view: view.masters() == [new], f"{new} as master")
            await self.cluster.restart(old)
            self.session.kills += 1
        else:
            async with opener_of(self.cluster.credentials)(self.cluster.endpoint(old), ()) as channel:
                request = pair_service_pb2.HandoffRequest(reason="interop")
                answer = await PairServiceStub(channel).Handoff(request, timeout=HANDOFF_S)
            if not answer.done:
                raise ClientFailed(f"the handoff was refused: {answer.text}")
            self.session.handoffs += 1
        view = await self.cluster.wait_for(PairView.whole, "whole again")
        if view.masters() != [new]:
            raise ClientFailed(f"after {verb} of {old} the masters are {view.masters()}")
        self.master = new
        self.say(f"{verb}: {old} was master, {new} is")


async def run_session(
    cluster: Cluster,
    command: list[str],
    say: Callable[[str], None],
    script: Path = SCRIPT,
    credentials: str = "",
    at: Mapping[str, str] | None = None,
) -> Session:
    """A whole script, by whoever has these. `at`: where the members take him; None: at their client ports. Raises
    ClientFailed where something was not as it has to be.
    """
    view = await cluster.wait_for(PairView.whole, "a master and a replica in sync")
    [master] = view.masters()
    session, began, steps = Session(), time.monotonic(), read(script)
    endpoints = dict(at or {name: cluster.endpoint(name) for name in cluster.members})
    faults = _Faults(cluster, master, session, say)
    try:
        async with Front(endpoints, prefer=master) as front, running(command, front.address, credentials) as client:
            await _do(client, steps, session, faults)
            await client.end()
            session.broken = front.broken
    finally:
        await faults.given_up()
    session.steps, session.seconds = len(steps), time.monotonic() - began
    verbs = [step.verb for step in steps]
    if [session.kills, session.handoffs, session.lost] != [verbs.count(each) for each in ("kill", "handoff", "lose")]:
        raise ClientFailed(f"not every fault happened: {session}")
    if not session.broken and session.kills:
        raise ClientFailed(f"no kill broke the client's connection: {session}")
    if session.sent != session.taken or not session.sent:
        raise ClientFailed(f"sent and taken differ: {session}")
    return session


async def _do(client: Client, steps: list[Step], session: Session, faults: _Faults | None = None) -> None:
    judge = Judge(uuid.uuid4().hex[:8])
    for step in steps:
        if step.verb in ("kill", "handoff"):
            assert faults is not None
            client.heard.clear()
            faults.strike(step.verb, client.heard)
        elif step.verb == "lose":
            assert faults is not None
            await faults.lose()
        elif step.verb == "await":
            assert faults is not None
            await faults.over()
        else:
            try:
                client.tell(_told(judge, step))
                found = await client.answer()
                session.repeated += sum(line.startswith("repeated ") for line in found)
                judge.judge(step, [line for line in found if not line.startswith("repeated ")])
            except (ClientFailed, Wrong) as failed:
                raise type(failed)(f"{step.at}: {step.verb}: {failed}") from None
    session.sent, session.taken = judge.sent, judge.taken


def _told(judge: Judge, step: Step) -> str:
    if step.verb == "decode":
        message = step.values["message"]
        return f"decode {message} {FOLDER / 'golden' / f'{message}.binpb'}"
    return judge.told(step)


async def run_false_scripts(command: list[str], address: str) -> int:
    """Each ends at its last line, which does not hold; how many there were."""
    for number, text in enumerate(FALSE_SCRIPTS):
        steps = parse(text, f"false{number}.txt")
        try:
            async with running(command, address) as client:
                await _do(client, steps, Session())
        except Wrong as wrong:
            if not str(wrong).startswith(f"{steps[-1].at}: "):
                raise
        else:
            raise ClientFailed(f"this was not noticed: {text}")
    return len(FALSE_SCRIPTS)
