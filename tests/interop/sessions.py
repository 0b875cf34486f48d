"""Runs a client over a script against a pair, and does to the pair what the script asks for: a kill, a handoff.

A client asks with a line `@kill` or `@handoff` and goes on with its script; when the pair is whole again it is told so
with `done`. A fault that did not happen, or that no client felt, is a failure of the run.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from chaos.cluster import Cluster
from tandemq.cli.view import PairView
from tandemq.v1 import pair_service_pb2
from tandemq.v1.pair_service_pb2_grpc import PairServiceStub
from tests.interop.clients import ClientFailed
from tests.interop.front import Front

FOLDER = Path(__file__).resolve().parent
SCRIPT, STREAMS = FOLDER / "session.txt", FOLDER / "streams.txt"
CLIENT_S, HANDOFF_S = 90, 20
SEEN_WRONG, WRONG_SCRIPT = 1, 2  # exit codes
# A line that cannot be carried out, and what every client has to say of it.
WRONG_LINES = (
    ("sned queue=orders count=1", "unknown verb sned"),
    ("send queue=orders", "send needs count="),
    ("send queue=orders count=many", "count=many is not a number"),
    ("send queue=orders count=-1", "count=-1 is not a number"),
    ("send queue=orders count=1 colour=red", "send has no colour="),
    ("send queue=orders queue=calls count=1", "queue= is given twice"),
    ("send queue= count=1", "queue= is not key=value"),
    ("kill master", "master is not key=value"),
    ("create queue=orders type=three_way", "type=three_way is none of queued_ack, two_way"),
)
# Right lines that do not hold, each behind what makes them false: a client that does not notice proves nothing.
FALSE_SCRIPTS = (
    "create queue=orders type=queued_ack\nsend queue=orders count=2\nexpect queue=orders length=3",
    "create queue=orders type=queued_ack\nsend queue=orders count=2\nbrowse queue=orders first=1 count=1",
    "create queue=calls type=two_way\nsend queue=calls count=1\nanswers queue=calls count=2",
)


@dataclass(slots=True)
class Session:
    """What became of one run."""

    kills: int = 0
    handoffs: int = 0
    broken: int = 0  # connections that a fault broke under the client
    seconds: float = 0.0
    steps: int = 0
    sent: int = 0
    taken: int = 0
    repeated: int = 0  # calls and streams


class _Faults:
    def __init__(self, cluster: Cluster, master: str, session: Session, say: Callable[[str], None]) -> None:
        self.cluster, self.master, self.session, self.say = cluster, master, session, say

    async def do(self, ask: str) -> None:
        old, new = self.master, next(name for name in self.cluster.members if name != self.master)
        if ask == "kill":
            self.cluster.kill(old)
            await self.cluster.wait_for(lambda view: view.masters() == [new], f"{new} as master")
            await self.cluster.restart(old)
            self.session.kills += 1
        elif ask == "handoff":
            async with grpc.aio.insecure_channel(self.cluster.endpoint(old)) as channel:
                request = pair_service_pb2.HandoffRequest(reason="interop")
                answer = await PairServiceStub(channel).Handoff(request, timeout=HANDOFF_S)
            if not answer.done:
                raise ClientFailed(f"the handoff was refused: {answer.text}")
            self.session.handoffs += 1
        else:
            raise ClientFailed(f"a client asks for {ask!r}")
        view = await self.cluster.wait_for(PairView.whole, "whole again")
        if view.masters() != [new]:
            raise ClientFailed(f"after {ask} of {old} the masters are {view.masters()}")
        self.master = new
        self.say(f"{ask}: {old} was master, {new} is")


async def run_session(
    cluster: Cluster, command: list[str], say: Callable[[str], None], script: Path = SCRIPT
) -> Session:
    """A whole script. Raises ClientFailed where the client, or the run itself, was not as it has to be."""
    view = await cluster.wait_for(PairView.whole, "a master and a replica in sync")
    [master] = view.masters()
    session, began = Session(), time.monotonic()
    endpoints = {name: cluster.endpoint(name) for name in cluster.members}
    async with Front(endpoints, prefer=master) as front:
        output = await _converse(
            [*command, str(script), front.address, uuid.uuid4().hex[:8]], _Faults(cluster, master, session, say)
        )
        session.broken = front.broken
    session.seconds = time.monotonic() - began
    for word in output[-1].split():
        name, _, value = word.partition("=")
        setattr(session, name, int(value))
    asked = _verbs(script)
    if (session.kills, session.handoffs) != (asked.count("kill"), asked.count("handoff")):
        raise ClientFailed(f"not every fault happened: {session}")
    if not session.broken:
        raise ClientFailed(f"no kill broke the client's connection: {session}")
    if session.sent != session.taken or not session.sent:
        raise ClientFailed(f"sent and taken differ: {session}")
    say(output[-1])
    return session


def _verbs(script: Path) -> list[str]:
    return [line.split()[0] for line in script.read_text(encoding="utf-8").splitlines() if line.strip()]


async def _converse(command: list[str], faults: _Faults | None = None, *, expected: int = 0) -> list[str]:
    """What the client wrote, line by line; what it asks for is done meanwhile."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    assert process.stdin is not None
    assert process.stdout is not None
    output: list[str] = []
    try:
        async with asyncio.timeout(CLIENT_S):
            async for line in process.stdout:
                text = line.decode(errors="replace").rstrip()
                output.append(text)
                if text.startswith("@") and faults is not None:
                    await faults.do(text.removeprefix("@"))
                    process.stdin.write(b"done\n")
            await process.wait()
    except TimeoutError:
        raise ClientFailed("\n".join([f"no end within {CLIENT_S} s", *output])) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process.stdin.close()
    if process.returncode != expected or not output:
        raise ClientFailed("\n".join([f"exit code {process.returncode}", *output]))
    return output


async def run_wrong_lines(command: list[str], folder: Path) -> int:
    """Each wrong line is refused before anything is done, in the same words by all; how many there were."""
    for number, (line, complaint) in enumerate(WRONG_LINES):
        script = folder / f"wrong{number}.txt"
        script.write_text(f"# a comment, and a right line\nhandoff\n{line}\n", encoding="utf-8")
        output = await _converse([*command, str(script), "127.0.0.1:1", "wrong"], expected=WRONG_SCRIPT)
        if output != [f"{script.name}:3: {complaint}"]:
            raise ClientFailed("\n".join([f"of the line {line!r} it says", *output]))
    return len(WRONG_LINES)


async def run_false_scripts(command: list[str], cluster: Cluster, folder: Path) -> int:
    """Each ends with exit code 1 at its last line; how many there were."""
    for number, text in enumerate(FALSE_SCRIPTS):
        script = folder / f"false{number}.txt"
        script.write_text(text, encoding="utf-8")
        arguments = [str(script), cluster.endpoint(cluster.members[0]), uuid.uuid4().hex[:8]]
        output = await _converse([*command, *arguments], expected=SEEN_WRONG)
        lines = text.splitlines()
        if not output[0].startswith(f"{script.name}:{len(lines)}: {lines[-1].split()[0]}: "):
            raise ClientFailed("\n".join([f"of {lines[-1]!r} it says", *output]))
    return len(FALSE_SCRIPTS)
