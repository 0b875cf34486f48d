"""Batches for queues of type ONE_WAY: answered from this member's memory, and seen to afterwards. Orders nothing.

What is refused at once is answered to the caller; what is refused later (a full queue, no master for too long) is
counted, and reported as an event, at most one for each queue and reason in `REPORT_S`. What is accepted and not
answered is bounded: beyond it a caller waits until his own messages are stored, and is held up by as much as the pair
is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from replica.core.state.effects import Note
from replica.core.state.outcomes import EnqueueDone
from replica.services.answers import entry_error
from tandemq.v1.common_pb2 import COMPLETION_ACCEPTED, Reason
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_ONE_WAY
from tandemq.v1.queue_service_pb2 import EnqueueResult

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed
    from replica.machine import Columns
    from replica.node.members import Members

OPEN_MAX = 1_000
OPEN_BYTES_MAX = 64 << 20
REPORT_S = 10.0


class OneWay:
    """What this member has accepted and not stored yet."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.open = 0
        self.open_bytes = 0
        self.unreported: Counter[tuple[str, str]] = Counter()
        """Refused since the last report, by queue and reason."""
        self.timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    def takes(self, domain: Domain, queue: str) -> bool:
        """Whether it is a queue of this type, as far as this member knows."""
        machine = domain.shared.machine
        queue_id = machine.queue_id(queue) if machine is not None else None
        return (
            machine is not None
            and queue_id is not None
            and machine.queue(queue_id).config.queue_type == QUEUE_TYPE_ONE_WAY
        )

    def results(self, domain: Domain, queue: str, columns: Columns) -> list[EnqueueResult]:
        """What can be said of a batch without the master."""
        machine = domain.shared.machine
        queue_id = machine.queue_id(queue) if machine is not None else None
        assert machine is not None
        assert queue_id is not None
        size_max = machine.queue(queue_id).config.max_message_bytes
        too_large = EnqueueResult(error=entry_error(Reason.REASON_MESSAGE_TOO_LARGE, queue))
        accepted = EnqueueResult(completion=COMPLETION_ACCEPTED, completed=True)
        return [too_large if size > size_max else accepted for size in columns.sizes]

    async def send(
        self, domain: Domain, queue: str, refused: int, size: int, work: Awaitable[EnqueueDone | Failed]
    ) -> Failed | None:
        """Begin the work of ordering a batch. Failed: it was refused at once. `refused`: entries that are refused
        in the caller's answer.
        """
        task = asyncio.ensure_future(work)
        waits = self.open >= OPEN_MAX or self.open_bytes >= OPEN_BYTES_MAX
        self.open += 1
        self.open_bytes += size
        task.add_done_callback(lambda _task: self._free(size))
        if waits:
            await asyncio.shield(task)
        else:
            await asyncio.sleep(0)  # it runs up to where it waits for the commit, or for the master
        if task.done():
            result = task.result()
            if not isinstance(result, EnqueueDone):
                return result
        self.members.node.spawn(self._see_to(domain, queue, refused, task))
        return None

    def _free(self, size: int) -> None:
        self.open -= 1
        self.open_bytes -= size

    async def _see_to(
        self, domain: Domain, queue: str, refused: int, task: asyncio.Future[EnqueueDone | Failed]
    ) -> None:
        result = await task
        if not isinstance(result, EnqueueDone):
            self._refused(domain, queue, Reason.Name(result.reason), 1)
            return
        reasons = Counter(Reason.Name(reason) for _, reason in result.refusals)
        reasons[Reason.Name(Reason.REASON_MESSAGE_TOO_LARGE)] -= refused
        for reason, count in reasons.items():
            if count > 0:
                self._refused(domain, queue, reason, count)

    def _refused(self, domain: Domain, queue: str, reason: str, count: int) -> None:
        self.members.refused_later[queue] += count
        key = queue, reason
        self.unreported[key] += count
        if key not in self.timers:
            self._report(domain, key)

    def _report(self, domain: Domain, key: tuple[str, str]) -> None:
        count = self.unreported.pop(key, 0)
        if not count:
            self.timers.pop(key, None)
            return
        queue, reason = key
        name = reason.removeprefix("REASON_")
        text = f"refused {count} message(s) or call(s) for queue {queue} after accepting them: {name}"
        facts = {"queue": queue, "reason": name, "count": str(count)}
        domain.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))
        self.members.node.dispatch(domain)
        loop = asyncio.get_running_loop()
        self.timers[key] = loop.call_later(REPORT_S, self._report, domain, key)
