"""Keeps the register at the members themselves, for a pair without a third voice; it never makes a lone claim safe.

Each member holds a copy of its own and takes over the peer's when that one is further (HELLO carries it). A claim made
while both are connected is therefore as safe as the promotion table; a claim made alone is let through here, because
the caller makes it only on a verdict that `failover.gate` accepted: the verdict is the second signature, and a wrong
one ends in DIVERGED, never in silence (docs/decisions/0005).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from google.protobuf.message import DecodeError

from failover.authority import CasDone, CasOutcome, CasRefused, CasUnknown
from failover.register import Register, check_force, check_form, check_set, forced
from failover.wire import BadRegisterError, from_message, to_message
from tandemq.witness.v1 import witness_service_pb2 as pb


class Kept(NamedTuple):
    """Where the copies are kept, and who is notified of them."""

    read: Callable[[str], bytes | None]
    write: Callable[[str, bytes], Awaitable[None]]
    """Returns when it is durable."""
    on_change: Callable[[str, bytes], None]
    """Called with (domain, register as bytes) after each change, so that the peer hears of it."""


@dataclass(slots=True)
class LocalAuthority:
    """This member's copy of the pair's registers; `attach` it to a store before use."""

    member: str
    connected: bool = True
    _kept: Kept | None = None
    _registers: dict[str, Register] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self, kept: Kept) -> None:
        """To the member's store, which is opened after this is made."""
        self._kept = kept

    @property
    def kept(self) -> Kept:
        assert self._kept is not None, "attach comes first"
        return self._kept

    def now(self, domain: str) -> Register:
        """The copy here."""
        known = self._registers.get(domain)
        if known is None:
            stored = self.kept.read(_key(domain))
            known = Register() if stored is None else from_message(pb.Register.FromString(stored))
            self._registers[domain] = known
        return known

    async def get(self, domain: str) -> Register:
        """See Authority."""
        return self.now(domain)

    async def compare_and_set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """See Authority."""
        if (why := check_form(expected) or check_form(desired)) is not None:
            return CasUnknown(why)
        current = self.now(domain)
        if current == desired and not desired.is_new:
            return CasDone(current)
        if (why := check_set(current, expected, desired)) is not None:
            return CasRefused(current, why)
        await self._keep(domain, desired)
        return CasDone(desired)

    async def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """See Authority."""
        current = self.now(domain)
        if (why := check_force(current, expected_version, epoch, holder, reason, frozenset())) is not None:
            return CasRefused(current, why)
        # Without a random source, and as short as a nonce has to be, whatever the member is called.
        nonce = sha256(f"{self.member}/forced/{epoch}".encode()).digest()
        desired = forced(current, epoch=epoch, holder=holder, nonce=nonce)
        await self._keep(domain, desired)
        return CasDone(desired)

    def adopt(self, domain: str, offered: bytes) -> Awaitable[None] | None:
        """What the peer's HELLO says. Returns the write to be awaited when it is further than the copy here.

        In force at once: should this process end before it is durable, it is as if the peer had not been heard.
        Raises BadRegisterError.
        """
        try:
            register = from_message(pb.Register.FromString(offered))
        except DecodeError as error:
            raise BadRegisterError(str(error)) from None
        if (why := check_form(register)) is not None:
            raise BadRegisterError(why)
        current = self.now(domain)
        if (register.epoch, register.version) <= (current.epoch, current.version):
            return None
        return self._keep(domain, register)

    def _keep(self, domain: str, register: Register) -> Awaitable[None]:
        self._registers[domain] = register
        return self._store(domain, to_message(register).SerializeToString())

    async def _store(self, domain: str, data: bytes) -> None:
        kept = self.kept
        await kept.write(_key(domain), data)
        kept.on_change(domain, data)
        self._changed.set()
        self._changed = asyncio.Event()

    def as_bytes(self, domain: str) -> bytes:
        """The copy here as HELLO carries it."""
        return to_message(self.now(domain)).SerializeToString()

    async def watch(self, domain: str) -> AsyncIterator[Register]:
        """See Authority."""
        seen: Register | None = None
        while True:
            changed, current = self._changed, self.now(domain)
            if current != seen:
                seen = current
                yield current
            else:
                await changed.wait()

    async def close(self) -> None:
        """See Authority."""


def _key(domain: str) -> str:
    return f"register/{domain}"
