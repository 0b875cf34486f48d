"""Asks whoever keeps the register and reports what is known of the answer; it never retries a set and never decides.

P1: a set ends in one of three ways. Done and refused are facts. Everything else, a timeout, a reset, any gRPC error, is
*unknown*: the set may still land, after any time, even after the caller restarted. Nothing here turns unknown into
refused.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import grpc
import grpc.aio

from failover.register import STARTS, Register, SetOutcome, check_force, check_form, check_set, forced
from failover.wire import CLIENT_OPTIONS, BadRegisterError, from_message, to_message
from tandemq.channels import Kept, Open, expecting, open_channel
from tandemq.credentials.names import WITNESS_DEFAULT, dns
from tandemq.witness.v1 import witness_service_pb2 as pb
from tandemq.witness.v1 import witness_service_pb2_grpc as pb_grpc

WATCH_RETRY_S, WATCH_RETRY_S_MAX = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The register could not be read."""

    why: str


@dataclass(frozen=True, slots=True)
class CasDone:
    """The desired register is in force, durably."""

    register: Register


@dataclass(frozen=True, slots=True)
class CasRefused:
    """The set was not made and will not be. `register` is the one in force."""

    register: Register
    why: str


@dataclass(frozen=True, slots=True)
class CasUnknown:
    """The set may have been made, or may still be. Read the register again (P1)."""

    why: str


CasOutcome: TypeAlias = CasDone | CasRefused | CasUnknown


def outcome_of(result: object) -> tuple[SetOutcome, Register | None]:
    """The same as a core names it, with the register where the answer has it."""
    if isinstance(result, CasDone):
        return SetOutcome.DONE, result.register
    if isinstance(result, CasRefused):
        return SetOutcome.REFUSED, result.register
    return SetOutcome.UNKNOWN, None


class Authority(Protocol):
    """Keeps one register for each domain of one pair. Safe for concurrent calls on one loop."""

    @property
    def connected(self) -> bool:
        """Whether the last thing heard from it was an answer; for status and metrics, never for a decision."""
        ...

    async def get(self, domain: str) -> Register | Unreachable:
        """The register now; a new one when never set. Returns within the timeout, never raises for the network."""
        ...

    async def compare_and_set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """Makes `desired` the register if it is exactly `expected`. One attempt; the caller decides what is next."""
        ...

    async def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """An operator's word: `holder` alone may claim next, above `epoch`, whatever the register said before.

        Refused unless the register is at `expected_version` and `epoch` is higher than its own. One attempt.
        """
        ...

    def watch(self, domain: str) -> AsyncIterator[Register]:
        """The register now, at each change, and once more after each reconnection; quick changes may be skipped.

        Endless: while the authority is away it waits and reconnects. End it by closing the iterator.
        """
        ...

    async def close(self) -> None:
        """Frees the connection. Calls and watches must have ended."""
        ...


_Reply: TypeAlias = (
    pb.GetRegisterResponse | pb.CompareAndSetResponse | pb.ForceRegisterResponse | pb.WatchRegisterResponse
)


class WitnessAuthority:
    """The witness service. One channel for all domains; opens it on the first call."""

    def __init__(
        self,
        target: str,
        pair: str,
        member: str,
        timeout_s: float = 1.0,
        opener: Open = open_channel,
        name: str = WITNESS_DEFAULT,
    ) -> None:
        """name: of the witness, in its certificate, where connections are not plain."""
        self.target, self.pair, self.member, self.timeout_s = target, pair, member, timeout_s
        self._channel = Kept(target, (*CLIENT_OPTIONS, *expecting(dns(f"witness/{name}"))), opener)
        self._connected = False

    @property
    def connected(self) -> bool:
        """See Authority."""
        return self._connected

    async def get(self, domain: str) -> Register | Unreachable:
        """See Authority."""
        request = pb.GetRegisterRequest(pair=self.pair, domain=domain)
        try:
            reply = await self._stub().GetRegister(request, timeout=self.timeout_s)
            register = self._register_of(reply)
        except grpc.aio.AioRpcError as error:
            self._connected = False
            return Unreachable(_error_text(self.target, error))
        except BadRegisterError as error:
            return Unreachable(f"witness {self.target} sent no register: {error}")
        self._connected = True
        return register

    async def compare_and_set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """See Authority."""
        request = pb.CompareAndSetRequest(
            pair=self.pair,
            domain=domain,
            expected=to_message(expected),
            desired=to_message(desired),
            member=self.member,
        )
        try:
            reply = await self._stub().CompareAndSet(request, timeout=self.timeout_s)
            register = self._register_of(reply)
        except grpc.aio.AioRpcError as error:
            # P1: even INVALID_ARGUMENT. Only the witness's answer is a fact; an error may come from anything between.
            self._connected = False
            return CasUnknown(_error_text(self.target, error))
        except BadRegisterError as error:
            return CasUnknown(f"witness {self.target} sent no register: {error}")
        self._connected = True
        if not reply.done:
            return CasRefused(register, reply.refusal)
        if register != desired:
            return CasUnknown(
                f"witness {self.target} answered done with another register"
            )  # a claim must not rest on it
        return CasDone(register)

    async def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """See Authority."""
        request = pb.ForceRegisterRequest(
            pair=self.pair, domain=domain, expected_version=expected_version, epoch=epoch, holder=holder, reason=reason
        )
        try:
            reply = await self._stub().ForceRegister(request, timeout=self.timeout_s)
            register = self._register_of(reply)
        except grpc.aio.AioRpcError as error:
            self._connected = False
            return CasUnknown(_error_text(self.target, error))
        except BadRegisterError as error:
            return CasUnknown(f"witness {self.target} sent no register: {error}")
        self._connected = True
        return CasDone(register) if reply.done else CasRefused(register, reply.refusal)

    async def watch(self, domain: str) -> AsyncIterator[Register]:
        """See Authority."""
        request = pb.WatchRegisterRequest(pair=self.pair, domain=domain)
        delay_s = WATCH_RETRY_S
        while True:
            call = self._stub().WatchRegister(request)
            try:
                async for reply in call:
                    register = self._register_of(reply)
                    self._connected, delay_s = True, WATCH_RETRY_S
                    yield register
            except (grpc.aio.AioRpcError, BadRegisterError):
                pass  # an outage is visible in `connected`; what it means is for the caller's own reads to find out
            finally:
                call.cancel()
            self._connected = False
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, WATCH_RETRY_S_MAX)

    async def close(self) -> None:
        """See Authority."""
        await self._channel.close()
        self._connected = False

    def _register_of(self, reply: _Reply | None) -> Register:
        """Raises BadRegisterError, also for what nobody can read: gRPC gives None for it."""
        if reply is None:
            self._connected = False
            raise BadRegisterError("nobody can read its answer")
        return from_message(reply.register)

    def _stub(self) -> pb_grpc.WitnessServiceAsyncStub:
        return pb_grpc.WitnessServiceStub(self._channel.get())


class MemoryRegisters:
    """What a witness keeps, without disk or network: shared by the MemoryAuthority of each member."""

    def __init__(self, new_nonce: Callable[[], bytes] = lambda: os.urandom(16)) -> None:
        self._registers: dict[str, Register] = {}
        self._new_nonce = new_nonce
        self.watches: dict[asyncio.Event, None] = {}
        """In the order in which they began: a set of events would wake them in another order in each process."""

    def get(self, domain: str) -> Register:
        """The register now."""
        return self._registers.get(domain, Register())

    def set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """The same answer as a witness would give."""
        if (why := check_form(expected) or check_form(desired)) is not None:
            return CasUnknown(why)
        current = self.get(domain)
        if current == desired and not desired.is_new:
            return CasDone(current)  # a repetition: the nonce says that it is the same attempt
        if (why := check_set(current, expected, desired)) is not None:
            return CasRefused(current, why)
        self._registers[domain] = desired
        self.wake()
        return CasDone(desired)

    def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """The same answer as a witness would give."""
        current = self.get(domain)
        started = frozenset(name.removeprefix(STARTS) for name in self._registers if name.startswith(STARTS))
        if (why := check_force(current, expected_version, epoch, holder, reason, started)) is not None:
            return CasRefused(current, why)
        desired = forced(current, epoch=epoch, holder=holder, nonce=self._new_nonce())
        self._registers[domain] = desired
        self.wake()
        return CasDone(desired)

    def wake(self) -> None:
        """Lets every watch look again."""
        for changed in self.watches:
            changed.set()


class MemoryAuthority:
    """The shipped double of WitnessAuthority: same contract, with knobs for what a network does to a caller.

    `unreachable`: reads fail, sets are unknown and do not land. `refuse_once`: the next set is refused with this text.
    `lose_next`: the next set is unknown to its caller and kept in `late`, to land with `land_late`, or never.
    """

    def __init__(self, registers: MemoryRegisters | None = None, member: str = "") -> None:
        self.registers = registers if registers is not None else MemoryRegisters()
        self.member = member
        self.refuse_once: str | None = None
        self.lose_next = False
        self.late: list[tuple[str, Register, Register]] = []
        self._unreachable = False
        self._outage_count = 0

    @property
    def connected(self) -> bool:
        """See Authority."""
        return not self._unreachable

    @property
    def unreachable(self) -> bool:
        """Whether calls of this member fail. When they no longer do, its watches get the register again."""
        return self._unreachable

    @unreachable.setter
    def unreachable(self, unreachable: bool) -> None:
        self._unreachable = unreachable
        self._outage_count += unreachable
        self.registers.wake()

    async def get(self, domain: str) -> Register | Unreachable:
        """See Authority."""
        return Unreachable("made unreachable") if self._unreachable else self.registers.get(domain)

    async def compare_and_set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """See Authority."""
        if self._unreachable:
            return CasUnknown("made unreachable")
        if self.refuse_once is not None:
            why, self.refuse_once = self.refuse_once, None
            return CasRefused(self.registers.get(domain), why)
        if self.lose_next:
            self.lose_next = False
            self.late.append((domain, expected, desired))
            return CasUnknown("made late")
        return self.registers.set(domain, expected, desired)

    async def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """See Authority."""
        if self._unreachable:
            return CasUnknown("made unreachable")
        return self.registers.force(domain, expected_version, epoch, holder, reason)

    def land_late(self) -> list[CasOutcome]:
        """Lets every lost set arrive, oldest first; what the registers answered to nobody."""
        late, self.late = self.late, []
        return [self.registers.set(*each) for each in late]

    async def watch(self, domain: str) -> AsyncIterator[Register]:
        """See Authority."""
        changed = asyncio.Event()
        self.registers.watches[changed] = None
        seen: tuple[int, Register] | None = None
        try:
            while True:
                changed.clear()
                current = (self._outage_count, self.registers.get(domain))
                if self._unreachable or current == seen:
                    await changed.wait()
                else:
                    seen = current
                    yield current[1]
        finally:
            self.registers.watches.pop(changed, None)

    async def close(self) -> None:
        """See Authority."""


def _error_text(target: str, error: grpc.aio.AioRpcError) -> str:
    return f"witness {target}: {error.code().name} {error.details() or ''}".rstrip()
