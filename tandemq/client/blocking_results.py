"""What calls of the blocking client return that is asked or settled later. It decides nothing."""

from __future__ import annotations

from datetime import timedelta

from tandemq.client import aio
from tandemq.client.completion import Completion
from tandemq.client.delivery import MessageBatch
from tandemq.client.loop_thread import LoopThread
from tandemq.client.waits import Wait


class Handle:
    """One sent message, to ask for later; see aio.Handle."""

    __slots__ = ("_inner", "_thread")

    def __init__(self, thread: LoopThread, inner: aio.Handle) -> None:
        self._thread, self._inner = thread, inner

    @property
    def queue(self) -> str:
        """Where it was sent to."""
        return self._inner.queue

    @property
    def value(self) -> bytes:
        """16 bytes that outlive the client; empty when the message is only ACCEPTED."""
        return self._inner.value

    @property
    def index(self) -> int:
        """Ordering index; 0 when it is not known."""
        return self._inner.index

    @property
    def completion(self) -> Completion:
        """What was known when it was asked last."""
        return self._inner.completion

    def check(self) -> Completion:
        """What is known now."""
        return self._thread.run(self._inner.check())

    def wait(self, timeout: Wait | None = -1) -> Completion:
        """When it has ended, or what is known when the time is over; -1, the default, waits for ever."""
        return self._thread.run(self._inner.wait(timeout))

    def __repr__(self) -> str:
        return repr(self._inner)


class ReceivedBatch(MessageBatch):
    """The answer of one dequeue: messages under one lease. The verbs wait for the answer and raise LeaseLost."""

    __slots__ = ("_inner", "_thread")

    def __init__(self, thread: LoopThread, inner: aio.ReceivedBatch) -> None:
        super().__init__(inner.queue, inner.lease_id, inner.parts)
        self._thread, self._inner = thread, inner

    def ack(self) -> None:
        """Done: remove them."""
        self._thread.run(self._inner.ack())

    def release(self, delay: timedelta | None = None) -> None:
        """Not done: give them to somebody, at their old places, after `delay`."""
        self._thread.run(self._inner.release(delay))

    def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        self._thread.run(self._inner.reject(reason))

    def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        self._thread.run(self._inner.extend(lease))
