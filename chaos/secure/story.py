"""Plays the demo of rights: asks, exchanges, revokes, kills, hands over, and lets impostors try; it judges nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from chaos.cluster import CLIENT, WITNESS, Child, Cluster
from chaos.secure import exchanges
from chaos.secure.account import Happened, Revoked, Seen
from chaos.secure.asking import Doors, ask_all, questions
from chaos.secure.impostors import Attempt, Port, attempts, prepare_impostors
from chaos.secure.issuer import bearer_ports, believe, issuer, show, taking_tokens
from chaos.secure.load import Load, loading, missing
from chaos.secure.rights import BY_TOKEN, EXISTING, GRANTS, OPS, PRINCIPALS
from chaos.starved import Withholding
from tandemq import aio
from tandemq.cli.output import say
from tandemq.cli.view import PairView
from tandemq.config import member_ports, to_toml
from tandemq.config_security import Security
from tandemq.config_tokens import Tokens
from tandemq.credentials.authority import create, issue
from tandemq.credentials.development import prepare
from tandemq.credentials.names import member
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1 import queue_service_pb2_grpc as pb_grpc

PAIR, LOAD = "pair", "orders/load"
SYNC_S, DEADLINE_S, LOOK_S, STREAM_S = 60.0, 600.0, 0.05, 30.0
PEOPLE = {
    "a": member(PAIR, "a"),
    "b": member(PAIR, "b"),
    WITNESS: "witness/witness",
    CLIENT: f"principal/{OPS}",
    **{name: f"principal/{name}" for name in PRINCIPALS if name not in BY_TOKEN},
}
PLACES = 6
"""At which the table is asked: both members; after a kill the survivor and who came back; after a handoff both."""
REFUSED = "no connection to"
"""What a member writes that does not get to the other one."""
REVOCATIONS = 3
"""At each member."""


class SecureStory:
    """One run. `seen` is complete when `play` has returned."""

    def __init__(self, directory: Path, queues: Collection[str], *, hole: bool) -> None:
        self.seen = Seen()
        self._directory, self._queues = directory, queues
        self._credentials, self._authority = directory / "credentials", directory / "authority"
        create(self._authority)
        prepare(self._credentials, self._authority, PEOPLE)
        self._impostors = prepare_impostors(self._credentials, self._authority, PAIR)
        self._cluster = Cluster(directory / "pair", pair=PAIR, secured=self._credentials, operators=[OPS])
        if hole:
            for name in self._cluster.members:
                words = self._cluster.children[name].arguments
                words[:1] = ["chaos.secure.hole"]
        of = issuer(directory)
        for name in BY_TOKEN:
            show(self._credentials / name, self._authority, of.token(name))
        bearers = bearer_ports(self._cluster)
        self._cluster.settings = taking_tokens(of, bearers)
        self._doors = Doors(
            self._credentials, {self._cluster.endpoint(name): endpoint for name, endpoint in bearers.items()}
        )
        self._began_s = time.monotonic()

    async def play(self) -> None:
        """Raises RuntimeError, TimeoutError, TandemqError, in groups."""
        try:
            async with asyncio.timeout(DEADLINE_S), self._cluster.running(SYNC_S), self._ops() as ops:
                for queue in (*EXISTING, LOAD):
                    await ops.create_queue(queue)
                for grant in GRANTS:
                    await ops.grant_right(grant.principal, grant.verb.value, grant.pattern)
                async with loading(self._cluster.target, self._credentials / "billing", LOAD) as load:
                    await self._through(ops, load)
                await self._cluster.wait_for(PairView.equal, "equal at both members", SYNC_S)
                self.seen.sent, self.seen.acknowledged = load.sent, load.acknowledged
                self.seen.longest_s = load.longest_s
                self.seen.lost, self.seen.duplicates = await missing(ops, load)
        finally:
            await self._doors.close()

    async def _through(self, ops: aio.Client, load: Load) -> None:
        master, replica = await self._roles()
        await self._ask("master", master)
        await self._ask("replica", replica)
        await self._let_try()
        for name in (master, replica):
            for _ in range(REVOCATIONS):
                await self._revoke(ops, name)
        await self._exchange(load)
        await self._kill(master, replica)
        await load.goes_on()
        await self._hand_over(ops, master)
        await load.goes_on()

    def _ops(self) -> aio.Client:
        return aio.connect(self._cluster.target, credentials=self._credentials / OPS, timeout=SYNC_S)

    def _note(self, what: str) -> None:
        at_s = time.monotonic() - self._began_s
        self.seen.happened.append(Happened(at_s, what))
        say(f"{at_s:6.1f} s  {what}")

    async def _roles(self) -> tuple[str, str]:
        view = await self._cluster.wait_for(PairView.whole, "whole", SYNC_S)
        (master,) = view.masters()
        return master, next(name for name in self._cluster.members if name != master)

    def _ports(self) -> list[Port]:
        found = [Port(f"client port of {name}", self._cluster.endpoint(name)) for name in self._cluster.members]
        for place, name in enumerate(self._cluster.members):
            number = member_ports(self._cluster.base_port, place).peer
            found.append(Port(f"peer port of {name}", f"{self._cluster.host}:{number}", name))
        return [*found, Port("witness", self._cluster.witness_endpoint)]

    # -- who may what ------------------------------------------------------------------------------------------------

    async def _ask(self, place: str, name: str) -> None:
        before = len(self.seen.cells)
        asked = list(questions(PRINCIPALS, self._queues))
        await ask_all(self._doors, place, self._cluster.endpoint(name), asked, self.seen.cells.append)
        self._note(f"{len(self.seen.cells) - before:,} cells asked at {name}: {place}")

    async def _let_try(self) -> None:
        found = await attempts(self._ports(), self._credentials, self._impostors, PAIR)
        self.seen.attempts += found
        self._note(f"{sum(each.refused for each in found)} of {len(found)} impostors refused")

    async def _revoke(self, ops: aio.Client, name: str) -> None:
        """A stream of shop's, at that member, until its right is gone; it gets it back."""
        stub = pb_grpc.QueueServiceStub(self._doors.channel("shop", self._cluster.endpoint(name)))
        stream = stub.Consume(timeout=STREAM_S)
        await stream.write(pb.ConsumeRequest(open=pb.ConsumeOpen(queue="orders/eu", client_id=os.urandom(16))))
        await stream.read()
        withholding = Withholding()
        ended = asyncio.create_task(stream.code())
        await ops.revoke_right("shop", "consume", "orders/eu")
        answered_s = time.monotonic()
        while not ended.done() and time.monotonic() - answered_s < STREAM_S:
            await asyncio.wait([ended], timeout=LOOK_S)
        took_s = time.monotonic() - answered_s
        waited_ms = 1_000 * withholding.so_far_s()
        self.seen.revoked.append(Revoked(name, 1_000 * took_s, waited_ms))
        stream.cancel()
        await ops.grant_right("shop", "consume", "orders/eu")
        self._note(f"a revoked right has ended a stream at {name}")

    # -- certificates ------------------------------------------------------------------------------------------------

    async def _exchange(self, load: Load) -> None:
        ports = self._ports()
        old = self._directory / "before"
        for name in (CLIENT, "a"):
            _copied(self._credentials / name, old / name)
        await exchanges.exchange(self._credentials, self._authority, PEOPLE, ports)
        self.seen.rotations.append("everybody has a new certificate")
        self._note(self.seen.rotations[-1])
        await load.goes_on()
        for what in await exchanges.exchange_authority(self._credentials, self._authority, PEOPLE, ports):
            self.seen.rotations.append(what)
            self._note(what)
            await load.goes_on()
        for name in BY_TOKEN:
            believe(self._credentials / name, self._authority)
        for port in ports:
            shut = await exchanges.serial(port, old / CLIENT) is None
            said = "in the handshake" if shut else "let in"
            self.seen.attempts.append(Attempt("of the authority that was exchanged", port.name, shut, said))
        await self._doors.close()

    # -- faults ------------------------------------------------------------------------------------------------------

    async def _kill(self, master: str, survivor: str) -> None:
        self._cluster.kill(master, signal.SIGKILL)
        self._note(f"master {master} killed")
        await self._cluster.wait_for(lambda view: view.masters() == [survivor], "taken over", SYNC_S)
        for who, credentials in (("", ""), ("of another authority", self._stranger(master))):
            await self._take_the_place(master, survivor, who, credentials)
        await self._ask("after a kill, the survivor", survivor)
        await self._cluster.restart(master)
        await self._cluster.wait_for(PairView.whole, "in sync again", SYNC_S)
        await self._ask("after a kill, who came back", master)

    def _stranger(self, name: str) -> str:
        """The name of the member that is down, by an authority of its own."""
        made = self._directory / f"stranger-{name}"
        issue(create(self._directory / f"authority-of-{name}").parent, PEOPLE[name], made)
        return str(made)

    async def _take_the_place(self, name: str, survivor: str, who: str, credentials: str) -> None:
        """A process with all that the member's configuration says, an empty directory and these credentials."""
        directory = self._directory / f"impostor {who}".strip()
        directory.mkdir()
        config = msgspec.structs.replace(
            self._cluster.config(name),
            data_dir=str(directory / "data"),
            security=Security(credentials=credentials, administrators=(OPS,)),
            listen_bearer="",  # it is not allowed without credentials
            tokens=Tokens(),
        )
        file = directory / "impostor.toml"
        file.write_text(to_toml(config), encoding="utf-8")
        child = Child("impostor", ["tandemq", "serve", "--config", str(file)], directory / "log")
        logs = [directory / "log", self._cluster.children[survivor].log]
        before = [_size(log) for log in logs]
        child.spawn(None)
        try:
            await self._tried(logs, before)
            view = await self._cluster.status()
            parts = [each.domain("main") for each in view.members if each.name == survivor]
            alone = [part for part in parts if part is not None and part.in_sync_set == (survivor,)]
            connected = any(each.peer_connected for each in view.members if each.name == survivor)
            said = "never part of the pair" if alone and not connected else "part of the pair"
            self.seen.attempts.append(
                Attempt(f"a member {who or 'without a certificate'}", name, said.startswith("never"), said)
            )
            self._note(f"a process in the place of {name}, {who or 'without a certificate'}: {said}")
        finally:
            child.signal(signal.SIGKILL)
            assert child.process is not None, "it was spawned"
            await asyncio.to_thread(child.process.wait)
            if child.process.stdin is not None:
                child.process.stdin.close()

    async def _tried(self, logs: Sequence[Path], before: Sequence[int]) -> None:
        """Either side has said that it has no connection to the other. Raises TimeoutError."""
        async with asyncio.timeout(SYNC_S):
            places = list(zip(logs, before, strict=True))
            while not any(_since(log, size, REFUSED) for log, size in places):  # noqa: ASYNC110 - another process
                await asyncio.sleep(LOOK_S)

    async def _hand_over(self, ops: aio.Client, to: str) -> None:
        done = await ops.handoff(to=to, reason="demo")
        if not done.done:
            raise RuntimeError(f"no handoff: {', '.join(done.reasons)}")
        self._note(f"handed over to {to}")
        master, replica = await self._roles()
        await self._ask("after a handoff, the master", master)
        await self._ask("after a handoff, the replica", replica)


def _copied(source: Path, to: Path) -> None:
    to.mkdir(parents=True, mode=0o700)
    for file in source.iterdir():
        made = to / file.name
        made.write_bytes(file.read_bytes())
        made.chmod(0o600)


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _since(log: Path, size: int, text: str) -> bool:
    return log.exists() and text.encode() in log.read_bytes()[size:]
