"""Counts calls, streams and batches of clients against their quotas, at the member that the client calls.

Only where `security.quotas` has entries: nobody else is counted. What the other member carries was counted there.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from replica.node.quotas import Spent
from replica.services.forward import came_over_a_hop
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from replica.core.state.outcomes import Failed
    from replica.node.access import Access
    from replica.node.quotas import Account, Quotas

SENT = MappingProxyType(
    {
        "QueueService/Enqueue": ("messages",),
        "TransactionService/Transact": ("puts", "messages"),
        "TransactionService/TransactMany": ("units", "puts", "messages"),
        "TransactionService/Commit": ("puts", "messages"),
    }
)
"""Where the messages of a request stand. Batches of Produce are counted one by one, staged ones by their bytes."""

HELD_BYTES_MAX = 4 << 10
"""A larger request is refused at once: what waits for its refusal takes memory."""


class Quoted:
    """Of one manager."""

    def __init__(self, access: Access, quotas: Quotas) -> None:
        self.access, self.quotas = access, quotas

    def account_of(self, who: str, context: Any) -> Account | None:
        """Of whoever makes a call; None: he is not counted."""
        if not who or self.access.stands_above(who) or came_over_a_hop(context):
            return None
        return self.quotas.account(who, monotonic_ms())

    async def problem_of(self, who: str, context: Any, size: int) -> Failed | None:
        """Why a call of his is not taken; one that is, is counted with its bytes. Who is refused faster than anybody is
        that waits as it is asked to hears of it later, and is looked at once more then: it may be taken after all.
        """
        account = self.account_of(who, context)
        if account is None:
            return None
        now_ms = monotonic_ms()
        if (problem := self.quotas.problem_of_connection(account, str(context.peer()), now_ms)) is not None:
            return problem
        if size <= HELD_BYTES_MAX and account.owed(now_ms)[1] and (wait_ms := account.refusals.wait_ms(now_ms)):
            await asyncio.sleep(wait_ms / 1_000)
            now_ms = monotonic_ms()
        problem = self.quotas.problem_of_call(account, now_ms)
        if problem is None:
            account.spend(Spent(bytes=size, calls=1), now_ms)
        return problem

    def sent(self, who: str, context: Any, path: str, request: Any) -> None:
        """A call of his that was let in brings these messages. `request`: parsed as far as it has been looked at."""
        if (fields := SENT.get(path)) is not None and (account := self.account_of(who, context)) is not None:
            account.spend(Spent(messages=_count(request, *fields)), monotonic_ms())

    async def batch(self, context: Any, messages: int, size: int) -> None:
        """Of a stream: returns when it may be taken; until then the stream is not read, and HTTP/2 stops its client."""
        account = self.account_of(self.access.caller(context), context)
        if account is None:
            return
        kind, wait_ms = account.owed(monotonic_ms())
        self.quotas.paced[kind] += bool(wait_ms)
        while wait_ms:
            await asyncio.sleep(wait_ms / 1_000)
            _, wait_ms = account.owed(monotonic_ms())
        account.spend(Spent(messages, size), monotonic_ms())

    @contextmanager
    def stream(self, context: Any) -> Iterator[Failed | None]:
        """Why no further stream is opened; else it is counted for as long as the block takes."""
        account = self.account_of(self.access.caller(context), context)
        if account is None:
            yield None
            return
        peer = str(context.peer())
        problem = self.quotas.problem_of_connection(account, peer, monotonic_ms())
        problem = problem or self.quotas.problem_of_stream(account)
        if problem is not None:
            yield problem
            return
        account.streams += 1
        account.connections.begin(peer)
        try:
            yield None
        finally:
            account.streams -= 1
            account.connections.end(peer, monotonic_ms())

    def problem_of_unit(self, who: str, units: Callable[[], Iterable[str]]) -> Failed | None:
        """Why this principal begins no further unit of work here. `units`: whose those are that are open."""
        account = None if self.access.stands_above(who) else self.quotas.account(who, monotonic_ms())
        if account is None or not account.quota.units:
            return None
        return self.quotas.problem_of_unit(account, sum(each == who for each in units()))


def _count(found: Any, field: str, *inner: str) -> int:
    entries = getattr(found, field)
    return sum(_count(each, *inner) for each in entries) if inner else len(entries)
