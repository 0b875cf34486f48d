"""Keeps the pair's own register in this member's store and in what it tells the peer; decides nothing.

Used where no third voice keeps it (`failover.local_authority`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from failover.local_authority import Kept
from failover.wire import BadRegisterError
from storage.seal import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from failover.local_authority import LocalAuthority
    from replica.core.domain import Domain
    from replica.node.loop import Node
    from tandemq.peer.v1.peer_service_pb2 import DomainHello

log = logging.getLogger("tandemq.register")


class KeptRegister:
    """Stored with the domains' facts, said in every HELLO; the peer's is taken over when that is further."""

    def __init__(self, node: Node, authority: LocalAuthority, say_hello: Callable[[], None]) -> None:
        self._node, self._authority, self._say_hello = node, authority, say_hello
        self._by_name = {domain.shared.name: domain for domain in node.paired()}
        authority.attach(Kept(self._read, self._write, self._on_change))
        for name, domain in self._by_name.items():
            domain.shared.set_register(authority.as_bytes(name))

    def _read(self, key: str) -> bytes | None:
        stored = self._node.store.get_meta(key)
        return unseal(stored, f"{key} of this member") if stored is not None else None

    async def _write(self, key: str, data: bytes) -> None:
        await self._node.write(lambda batch: batch.meta.__setitem__(key, seal(data)))

    def _on_change(self, name: str, register: bytes) -> None:
        if name in self._by_name:
            self._by_name[name].shared.set_register(register)
            self._say_hello()

    def on_hello(self, domain: Domain, hello: DomainHello) -> None:
        """The peer's HELLO of a domain."""
        if not hello.register:
            return
        try:
            adopting = self._authority.adopt(domain.shared.name, hello.register)
        except BadRegisterError as error:
            log.warning(
                "domain %s: the peer's register is not taken: %s", domain.shared.name, error, extra=domain.shared.tags
            )
            return
        if adopting is not None:
            self._node.spawn(_wait(adopting))


async def _wait(adopting: Awaitable[None]) -> None:
    await adopting
