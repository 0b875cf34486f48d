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


def keep_register(node: Node, authority: LocalAuthority, say_hello: Callable[[], None]) -> None:
    """Store it with the domains' facts, say it in every HELLO, take over the peer's when that is further."""
    by_name = {domain.shared.name: domain for domain in node.paired()}

    def read(key: str) -> bytes | None:
        stored = node.store.get_meta(key)
        return unseal(stored, f"{key} of this member") if stored is not None else None

    async def write(key: str, data: bytes) -> None:
        await node.write(lambda batch: batch.meta.__setitem__(key, seal(data)))

    def on_change(name: str, register: bytes) -> None:
        if name in by_name:
            by_name[name].shared.set_register(register)
            say_hello()

    def on_hello(domain: Domain, hello: DomainHello) -> None:
        if not hello.register:
            return
        try:
            adopting = authority.adopt(domain.shared.name, hello.register)
        except BadRegisterError as error:
            log.warning(
                "domain %s: the peer's register is not taken: %s", domain.shared.name, error, extra=domain.shared.tags
            )
            return
        if adopting is not None:
            node.spawn(_wait(adopting))

    authority.attach(Kept(read, write, on_change))
    node.on_peer_hello = on_hello
    for name, domain in by_name.items():
        domain.shared.set_register(authority.as_bytes(name))


async def _wait(adopting: Awaitable[None]) -> None:
    await adopting
