"""Asks a connected peer, before a claim, for the volatile bodies that a restart has lost here; never decides what is
lost.

A body is taken by what it is: this log's record says its length and CRC, whoever sends it. So it makes no difference
which epoch either side is in, and an answer that comes late or twice does no harm. Nothing waits for ever: each answer
settles at least one body, nothing new is ordered meanwhile, and an answer that does not come is given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import Role
from replica.machine.plan.time import plan_volatile_lost
from tandemq.peer.v1.peer_service_pb2 import FetchBody, VolatileBodies

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.state.shared import Shared

ANSWER_MS = 2_000
"""For each answer; a peer of an earlier version never gives one."""
ASKED_MAX = 1_000
ANSWER_BYTES_MAX = 2 << 20
"""Of bodies in one frame; one alone may be longer."""


class Recall:
    """What one domain at one member still wants of its peer; begins anew with each connection."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.asked: set[int] = set()
        """Log indexes that an answer is awaited of."""
        self.given_up: set[int] = set()
        """The peer does not hold them, or did not answer."""
        self.silent = False
        """The peer has not answered in time, once."""
        self.since_ms: int | None = None
        """The last question, or the last answer to it."""

    def reset(self) -> None:
        """The connection is new, or over."""
        self.asked.clear()
        self.given_up.clear()
        self.silent = False
        self.since_ms = None

    def is_done(self, now_ms: int) -> bool:
        """Whether a claim has nothing more to wait for. Asks, where there is something to ask."""
        if not self.asked:
            self._ask()
            self.since_ms = None
        if self.since_ms is None:
            self.since_ms = now_ms
        elif now_ms - self.since_ms >= ANSWER_MS:
            self.given_up.update(self._missing())
            self.asked.clear()
            self.silent = True
        return not self.asked

    def after_rebuild(self) -> None:
        """A master frees a body when it orders that its messages are settled; that record was cut, and they live again:
        with the body that the log has in memory, or without one.
        """
        shared = self.shared
        for log_index in self._live():
            if not shared.volatile.has(log_index) or log_index in shared.volatile.bodies:
                continue
            if not shared.log.is_volatile(log_index):
                continue  # its body is on disk
            entry = shared.log.get(log_index)
            if entry is not None and len(entry.record) > entry.head_len:
                shared.volatile.keep(log_index, entry.record[entry.head_len :])
            else:
                shared.volatile.miss((log_index,))

    def _live(self) -> list[int]:
        """Log indexes of records with live volatile messages."""
        found = set[int]()

        def note(log_index: int) -> bool:
            found.add(log_index)
            return True

        assert self.shared.machine is not None
        plan_volatile_lost(self.shared.machine.state, 0, note)
        return sorted(found)

    def _missing(self) -> list[int]:
        """Log indexes of live volatile messages whose bodies are not here, and may be there."""
        return [index for index in self._live() if not self.shared.volatile.has(index) and index not in self.given_up]

    def _ask(self) -> None:
        wanted = self._missing()[:ASKED_MAX]
        if wanted:
            self.asked.update(wanted)
            self.shared.outbox.send(fetch_body=FetchBody(indexes=wanted))

    def on_answer(self, answer: VolatileBodies) -> None:
        """The peer's bodies, or that it does not hold them."""
        shared = self.shared
        if shared.role is not Role.PROBE or shared.machine is None:
            self.asked.clear()  # it has found its master, who sends it everything
            return
        settled = False
        for each in answer.bodies:
            if each.index not in self.asked:
                continue
            settled = True
            self.asked.discard(each.index)
            if each.held and shared.log.is_body_of(each.index, each.body):
                shared.volatile.keep(each.index, each.body)
            else:
                self.given_up.add(each.index)
        if settled:
            self.since_ms = None
            self.asked.clear()
            self._ask()


def answer_recall(shared: Shared, indexes: Iterable[int]) -> None:
    """Say which of these are here, with the bodies that are on no disk: the first that fit, at least one."""
    answer, size = VolatileBodies(), 0
    for log_index in indexes:
        body = shared.volatile.bodies.get(log_index, b"")
        size += len(body)
        if answer.bodies and (size > ANSWER_BYTES_MAX or len(answer.bodies) == ASKED_MAX):
            break
        answer.bodies.add(index=log_index, body=body, held=shared.volatile.has(log_index))
    shared.outbox.send(volatile_bodies=answer)
