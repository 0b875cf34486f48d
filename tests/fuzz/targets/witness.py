"""Histories of sets, stale, repeated and forged, through the witness's own service: at most one acting master an epoch.

Two honest members follow the rules with views that may be old; forged requests are whatever a broken or foreign program
could send. An honest member acts once its commit was answered with "done".
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from failover.register import EPOCH_MAX, Register, RegisterState, add_member, check_set, claim, commit
from failover.wire import BadRegisterError, from_message, to_message
from failover.witness import _Servicer
from failover.witness_store import WitnessStore
from tandemq.witness.v1 import witness_service_pb2 as pb
from tests.fuzz.loop import VirtualLoop
from tests.fuzz.source import Source

STEPS_MAX = 60
MEMBERS = ("a", "b")
NAMES = ("a", "b", "c", "", "a/b", "A b")
_SHM = Path("/dev/shm")
_DIRECTORY = Path(tempfile.mkdtemp(prefix="tandemq-fuzz-", dir=_SHM if _SHM.is_dir() else None))
_numbers = itertools.count()
MAP_BYTES = 16 << 20


class AbortedError(Exception):
    """The call was refused with a status."""


class Context:
    """As much of a call as the service asks of it."""

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Any = ()) -> None:
        assert isinstance(code, grpc.StatusCode)
        assert details
        assert code not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), details
        raise AbortedError(details)

    def peer(self) -> str:
        return "test"


class World:
    """A witness, what was seen of its register, and two honest members' memories."""

    def __init__(self, source: Source, store: WitnessStore, pair: str) -> None:
        self.source, self.store, self.pair = source, store, pair
        self.servicer = _Servicer(store, asyncio.Event())
        self.views: dict[str, list[Register]] = {name: [Register()] for name in MEMBERS}
        """What a member has read; it may act on any of it."""
        self.claims: dict[str, Register] = {}
        self.acting: dict[int, str] = {}
        """Epoch: the member whose commit was answered with done."""
        self.forced = 0
        """Highest epoch that an operator's word began: what follows rests on it."""
        self.last = Register()
        self.sent: list[pb.CompareAndSetRequest] = []
        self.nonces = itertools.count(1)

    def nonce(self) -> bytes:
        return next(self.nonces).to_bytes(8, "big")

    # -- steps -----------------------------------------------------------------------------------------------------

    async def step(self) -> None:
        source = self.source
        member = source.pick(MEMBERS)
        kind = source.byte() % 12
        if kind < 2:
            await self.read(member)
        elif kind < 4:
            await self.claim(member)
        elif kind < 6:
            await self.commit(member)
        elif kind == 6:
            await self.add(member)
        elif kind == 7 and self.sent:
            await self.send(source.pick(self.sent), honest="")  # lands late, or twice
        elif kind == 8:
            await self.force()
        elif kind == 9:
            self.restart()
        else:
            await self.forge()
        self.check()

    async def read(self, member: str) -> None:
        reply = await self.servicer.GetRegister(pb.GetRegisterRequest(pair=self.pair, domain="main"), Context())
        self.views[member].append(from_message(reply.register))

    def view(self, member: str) -> Register:
        views = self.views[member]
        return views[-1] if not self.source.rarely() else self.source.pick(views)

    async def claim(self, member: str) -> None:
        """P4 and P5, from what it has read."""
        seen = self.view(member)
        if not (seen.vouches_for_nobody or member in seen.eligible_set):
            return
        keep = frozenset(MEMBERS) if self.source.flag() and seen.eligible_set >= set(MEMBERS) else frozenset({member})
        epoch = seen.epoch + self.source.number(1, 3)
        if epoch > EPOCH_MAX:
            return
        desired = claim(seen, member=member, epoch=epoch, members=keep, nonce=self.nonce())
        if await self.set(member, seen, desired):
            self.claims[member] = desired

    async def commit(self, member: str) -> None:
        """Only an own claim that was answered with done is committed, and it is acted on only when that is (P6)."""
        claimed = self.claims.pop(member, None)
        if claimed is None:
            return
        if await self.set(member, claimed, commit(claimed, nonce=self.nonce())):
            owner = self.acting.setdefault(claimed.epoch, member)
            assert owner == member, f"epoch {claimed.epoch} has two acting masters, {owner} and {member}"

    async def add(self, member: str) -> None:
        seen = self.view(member)
        others = frozenset(MEMBERS) - seen.in_sync_set
        if seen.state is RegisterState.COMMITTED and not seen.is_new and seen.holder == member and others:
            await self.set(member, seen, add_member(seen, member_added=min(others), nonce=self.nonce()))

    async def set(self, member: str, expected: Register, desired: Register) -> bool:
        request = pb.CompareAndSetRequest(
            pair=self.pair,
            domain="main",
            expected=to_message(expected),
            desired=to_message(desired),
            member=member,
        )
        self.sent.append(request)
        if self.source.rarely():
            return False  # the answer is lost, or the call lands later: unknown (P1)
        return await self.send(request, honest=member)

    async def send(self, request: pb.CompareAndSetRequest, *, honest: str) -> bool:
        try:
            reply = await self.servicer.CompareAndSet(request, Context())
        except AbortedError:
            return False
        register = from_message(reply.register)
        assert reply.done or reply.refusal, "refused without a word"
        assert not reply.done or register == from_message(request.desired), "done, with another register"
        if honest:
            self.views[honest].append(register)
        return bool(reply.done)

    async def force(self) -> None:
        source = self.source
        current = self.store.get(self.pair, "main")
        request = pb.ForceRegisterRequest(
            pair=self.pair,
            domain=source.pick(("main", "main", "start/a", "no such")),
            expected_version=source.u64(current.version),
            epoch=source.u64(current.epoch + 1),
            holder=source.pick(NAMES),
            reason=source.pick(("because", "", " ", "x" * 2000)),
        )
        try:
            reply = await self.servicer.ForceRegister(request, Context())
        except AbortedError:
            return
        assert reply.done or reply.refusal
        if reply.done and request.domain == "main":
            self.forced = max(self.forced, request.epoch)
            assert request.epoch > current.epoch

    async def forge(self) -> None:
        """A request that nobody who follows the rules sends; bytes, as they come off the wire."""
        source = self.source
        current = self.store.get(self.pair, "main")
        request = pb.CompareAndSetRequest(
            pair=self.pair if not source.rarely() else source.text()[:50].replace("\udcff", ""),
            domain=source.pick(("main", "main", "start/a", "start/b", "\0")),
            expected=to_message(current) if source.byte() < 160 else self._any_register(current),
            desired=self._any_register(current),
        )
        request.member = request.desired.holder if not source.rarely() else source.pick(NAMES)
        if source.rarely():
            try:
                request = pb.CompareAndSetRequest.FromString(source.mutated(request.SerializeToString()))
            except DecodeError:
                return
        if request.pair != self.pair or request.domain != "main":
            await self.send(request, honest="")
            return
        legal = _is_legal(current, request)
        done = await self.send(request, honest="")
        assert done <= legal, "a set went through that no rule allows"

    def _any_register(self, near: Register) -> pb.Register:
        """What the rules would allow next, with one thing wrong; or nonsense."""
        source = self.source
        register = to_message(source.pick([near, *self._next(near)]))
        field = source.byte() % 8
        if field == 0:
            register.epoch = source.u64(near.epoch)
        elif field == 1:
            register.holder = source.pick(NAMES)
        elif field == 2:
            register.in_sync_set[:] = [source.pick(NAMES) for _ in range(source.number(0, 3))]
        elif field == 3:
            register.committed_set[:] = [source.pick(NAMES) for _ in range(source.number(0, 3))]
        elif field == 4:
            register.version = source.u64(near.version + 1)
        elif field == 5:
            register.state = source.number(0, 3)
        elif field == 6:
            register.nonce = source.blob(66)
        return register

    def _next(self, now: Register) -> list[Register]:
        nonce = self.nonce()
        found = [
            claim(now, member=member, epoch=min(EPOCH_MAX, now.epoch + 1), members=frozenset(members), nonce=nonce)
            for member, members in (("a", "a"), ("b", "b"), ("a", "ab"))
            if now.epoch < EPOCH_MAX
        ]
        if now.state is RegisterState.CLAIMED:
            found.append(commit(now, nonce=nonce))
        elif not now.is_new and (others := frozenset(MEMBERS) - now.in_sync_set):
            found.append(add_member(now, member_added=min(others), nonce=nonce))
        return found

    def restart(self) -> None:
        """The witness reads its disk again; every answer that it gave is on it."""
        before = self.store.get(self.pair, "main")
        self.store.close()
        self.store = WitnessStore(_DIRECTORY / self.pair, map_bytes=MAP_BYTES)
        self.servicer = _Servicer(self.store, asyncio.Event())
        assert self.store.get(self.pair, "main") == before, "a restart changed the register"

    def check(self) -> None:
        current = self.store.get(self.pair, "main")
        assert from_message(to_message(current)) == current
        assert from_message(pb.Register.FromString(to_message(current).SerializeToString())) == current
        if current != self.last:
            assert current.version == self.last.version + 1, "a version was left out or used twice"
            assert current.epoch >= self.last.epoch, "the epoch fell"
            assert current.epoch > self.last.epoch or current.holder == self.last.holder, "one epoch, two holders"
            self.last = current


def _is_legal(current: Register, request: pb.CompareAndSetRequest) -> bool:
    """Said once more, from the messages: whether the register's rules let this set in."""
    try:
        expected, desired = from_message(request.expected), from_message(request.desired)
    except BadRegisterError:
        return False
    return desired == current or (desired.holder == request.member and check_set(current, expected, desired) is None)


def one(data: bytes) -> None:
    pair = f"p{next(_numbers)}"
    with VirtualLoop() as loop:
        store = WitnessStore(_DIRECTORY / pair, map_bytes=MAP_BYTES)
        world = World(Source(data), store, pair)
        try:
            loop.run_until_complete(_history(world))
        finally:
            world.store.close()
            shutil.rmtree(_DIRECTORY / pair, ignore_errors=True)


async def _history(world: World) -> None:
    for _ in range(STEPS_MAX):
        if not world.source.more:
            return
        await world.step()
