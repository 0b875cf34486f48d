"""Who waits at the master to hear how messages end. Server state, never replicated; ends themselves are records.

What is reported is committed first: it is looked up in the queues' state, which the master has ahead of the commit, and
leaves when all that was ordered by then is on every copy. So an answer is never taken back, and no member reports less
than another has. A replica asks the master: its own state is true but may be older than what was reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replica.core.state.outcomes import Failed, Moved, ProgressDone
from replica.machine import HANDLE_BYTES, Refused
from replica.machine.state.handles import queue_asked
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.ordering.orders import Orders
    from replica.core.state.calls import Waiter
    from replica.core.state.shared import Shared
    from replica.machine import MessageProgress

ASKED_MAX = 1_000_000
"""Handles that are waited for at one time; the next one is refused TOO_MANY_WAITERS."""


@dataclass(slots=True, eq=False)
class Ask:
    """Somebody who wants to know how messages of one queue ended."""

    waiter: Waiter
    queue: str
    handles: Sequence[bytes] = ()
    waits: bool = False
    """Until all have ended; else what is known now."""
    each: bool = False
    """Told of each message when it ends, again and again; else of all at once."""
    queue_id: int = 0
    pending: dict[int, bytes] = field(default_factory=dict)
    """Handles by index, of what has not ended."""


class Completing:
    """Those who wait in one domain."""

    def __init__(self, shared: Shared, orders: Orders) -> None:
        self.shared = shared
        self.orders = orders
        self.asked: dict[int, dict[int, list[Ask]]] = {}
        """By queue and index."""
        self.count = 0
        """Handles that are waited for."""

    def ask(self, ask: Ask) -> None:
        """Answered when all is known that is asked for; at once with what there is, if it does not wait."""
        self.more(ask, ask.handles)

    def _ask(self, ask: Ask, handles: Sequence[bytes]) -> None:
        machine = self.orders.machine
        queue_id = queue_asked(machine.state, ask.queue, handles)
        if ask.queue_id not in (0, queue_id) and ask.pending:
            text = f"messages of another member of {ask.queue} are waited for by this watch: open one for each member"
            raise Refused(Reason.REASON_BAD_REQUEST, text, {"queue": ask.queue})
        progress = machine.progress(queue_id, handles)
        pending = [handle for handle, each in zip(handles, progress, strict=True) if _is_open(each)]
        if ask.waits and pending and self.count + len(pending) > ASKED_MAX:
            text = f"{self.count} messages are waited for already, {ASKED_MAX} may be; ask again later"
            raise Refused(Reason.REASON_TOO_MANY_WAITERS, text, {}, 1_000)
        ask.queue_id = queue_id
        if ask.waits:
            self._enter(ask, pending)
        if ask.each:
            ended = [handle for handle, each in zip(handles, progress, strict=True) if not _is_open(each)]
            if ended:
                self._report(ask, ended)
        elif not ask.pending:
            self._report(ask, handles)

    def _enter(self, ask: Ask, handles: Sequence[bytes]) -> None:
        asked = self.asked.setdefault(ask.queue_id, {})
        if handles and not asked:
            self.orders.machine.listen(ask.queue_id, wanted=True)
        for handle in handles:
            index = int.from_bytes(handle[HANDLE_BYTES // 2 :], "big")
            if index not in ask.pending:
                ask.pending[index] = handle
                asked.setdefault(index, []).append(ask)
                self.count += 1
        if not asked:
            del self.asked[ask.queue_id]

    def more(self, ask: Ask, handles: Sequence[bytes]) -> None:
        """A watch wants to hear of more."""
        try:
            self._ask(ask, handles)
        except Refused as refused:
            self.orders.reply(
                ask.waiter, Failed(refused.reason, refused.message, dict(refused.metadata), refused.retry_after_ms)
            )

    def leave(self, ask: Ask) -> None:
        """Whoever asked has gone, or has waited for long enough."""
        asked = self.asked.get(ask.queue_id)
        if asked is None:
            return
        for index in ask.pending:
            others = asked[index]
            others.remove(ask)
            self.count -= 1
            if not others:
                del asked[index]
        ask.pending.clear()
        if not asked:
            self._close(ask.queue_id)

    def _close(self, queue_id: int) -> None:
        del self.asked[queue_id]
        self.orders.machine.listen(queue_id, wanted=False)

    def on_applied(self, queue_ids: Sequence[int]) -> None:
        """A record was ordered: messages of these queues may have ended by it. Only called while somebody waits."""
        for queue_id in queue_ids:
            asked = self.asked.get(queue_id)
            if asked is not None:
                self._on_ended(queue_id, asked)

    def _on_ended(self, queue_id: int, asked: dict[int, list[Ask]]) -> None:
        heard = self.orders.machine.heard(queue_id)
        if heard is None:
            del self.asked[queue_id]
            for ask in {id(ask): ask for asks in asked.values() for ask in asks}.values():
                self._drop(ask)
            return
        found: dict[int, list[int]] = {}
        asks: dict[int, Ask] = {}
        for start, end in heard:
            within = range(start, end) if end - start <= len(asked) else [i for i in asked if start <= i < end]
            for index in within:
                for ask in asked.pop(index, ()):
                    asks[id(ask)] = ask
                    found.setdefault(id(ask), []).append(index)
                    self.count -= 1
        for key, indexes in found.items():
            ask = asks[key]
            ended = [ask.pending.pop(index) for index in indexes]
            if ask.each:
                self._report(ask, ended)
            elif not ask.pending:
                self._report(ask, ask.handles)
        if not asked:
            self._close(queue_id)

    def _drop(self, ask: Ask) -> None:
        """Its queue is gone."""
        self.count -= len(ask.pending)
        ask.pending.clear()
        text = f"queue {ask.queue} was deleted, and what is known of its messages with it"
        failed = Failed(Reason.REASON_QUEUE_NOT_FOUND, text, {})
        self.orders.when_committed(
            self.shared.log.last_index, lambda: self.orders.reply(ask.waiter, failed), lambda: self._move(ask)
        )

    def _report(self, ask: Ask, handles: Sequence[bytes]) -> None:
        """What is known of these now, once it is committed."""
        done = ProgressDone(handles, self.orders.machine.progress(ask.queue_id, handles))
        self.orders.when_committed(
            self.shared.log.last_index, lambda: self.orders.reply(ask.waiter, done), lambda: self._move(ask)
        )

    def _move(self, ask: Ask) -> None:
        self.orders.reply(ask.waiter, Moved("the master is the other member; ask it"))

    def on_following(self) -> None:
        """Another member is master: send everybody there. Each knows its handles and asks again."""
        asked, self.asked = self.asked, {}
        self.count = 0
        if (machine := self.shared.machine) is not None:  # else what is rebuilt listens to nothing
            for queue_id in asked:
                machine.listen(queue_id, wanted=False)
        for ask in {id(ask): ask for indexes in asked.values() for asks in indexes.values() for ask in asks}.values():
            ask.pending.clear()
            self._move(ask)


def _is_open(progress: MessageProgress) -> bool:
    return progress.known and not progress.completed
