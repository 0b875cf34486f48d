"""Carries a unit of work over to threads; see tandemq.client.open_units. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self, Unpack

from tandemq.client import open_units
from tandemq.client.delivery import MessageBatch
from tandemq.client.filtering import Where
from tandemq.client.loop_thread import LoopThread
from tandemq.client.outgoing import Attributes, Outgoing
from tandemq.client.reactions import Cancel, Change, Exceptions, MoveTo, Reacted
from tandemq.client.receipts import Receipts
from tandemq.client.settling import Act, Range
from tandemq.client.waits import Wait


class Unit:
    """One unit of work, blocking: `with` commits at the normal end and rolls back at an exception; see aio.Unit."""

    def __init__(self, thread: LoopThread, inner: open_units.Unit) -> None:
        self._thread, self._inner = thread, inner

    @property
    def id(self) -> bytes:
        """16 bytes; empty before the first call."""
        return self._inner.id

    @property
    def is_undone(self) -> bool:
        """Nothing of it happened, as far as it has said: work that ended with UnitAborted may be run again."""
        return self._inner.is_undone

    @property
    def receipts(self) -> dict[str, Receipts]:
        """Of what was sent, by queue; empty before the commit."""
        return self._inner.receipts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.run(self._inner.__aexit__(kind, error, trace))

    def dequeue(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        max_bytes: int = 0,
        wait: Wait | None = None,
        where: str | Where | None = None,
    ) -> MessageBatch:
        """Receives messages, and locks them until the unit ends: its commit acknowledges them."""
        return self._thread.run(
            self._inner.dequeue(queue, max_messages, max_bytes=max_bytes, wait=wait, where=where)
        )  # fmt: skip

    def enqueue(self, queue: str, messages: Iterable[bytes | Outgoing]) -> None:
        """Adds messages, which nobody sees before the commit."""
        self._thread.run(self._inner.enqueue(queue, messages))

    def settle(self, queue: str, settlements: Sequence[tuple[Act, Sequence[Range]]]) -> None:
        """Settles at the commit what a lease holds, outside of the unit or in it."""
        self._thread.run(self._inner.settle(queue, settlements))

    def reply(self, queue: str, lease_id: int, index: int, payload: bytes, **attributes: Unpack[Attributes]) -> None:
        """TWO_WAY: answers at the commit a request that a lease holds; nobody sees the answer before."""
        self._thread.run(self._inner.reply(queue, lease_id, index, payload, **attributes))

    def ack(self, batch: MessageBatch) -> None:
        """Acknowledges at the commit what was taken outside of the unit."""
        self._thread.run(self._inner.ack(batch))

    def release(self, batch: MessageBatch, delay: timedelta | None = None) -> None:
        """Gives back at the commit what was taken."""
        self._thread.run(self._inner.release(batch, delay))

    def reject(self, batch: MessageBatch, reason: str = "") -> None:
        """At the commit: to the dead-letter queue, or removed if there is none."""
        self._thread.run(self._inner.reject(batch, reason))

    def react(
        self,
        queue: str,
        where: str | Where,
        action: Cancel | MoveTo | Change,
        *,
        everything: bool = False,
        sticky: timedelta | None = None,
        report_to: str = "",
        correlation_id: str = "",
        exceptions: Exceptions = Exceptions.NONE,
        timeout: float = 0.0,
    ) -> Reacted:
        """Cancels, moves or changes at the commit what fits now and nobody has, and locks it. See aio.Unit.react."""
        return self._thread.run(
            self._inner.react(
                queue,
                where,
                action,
                everything=everything,
                sticky=sticky,
                report_to=report_to,
                correlation_id=correlation_id,
                exceptions=exceptions,
                timeout=timeout,
            )
        )

    def commit(self) -> dict[str, Receipts]:
        """Does all of it; the receipts of what was sent, by queue. See aio.Unit.commit."""
        return self._thread.run(self._inner.commit())

    def rollback(self) -> int:
        """Gives back what it took, to the old places, and forgets the rest; how many messages went back."""
        return self._thread.run(self._inner.rollback())
