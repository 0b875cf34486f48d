"""Decides whether messages of a sweep that names no goal may go back to where they came from, by the rights of whoever
has them moved. Orders nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine.state.rights import PRODUCE
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import LeftBehind

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.ordering.kept_rights import May
    from replica.machine.state.state import State

_HIDDEN = "they came from queues that are not there; say which queue they are to go to"


class Origins:
    """Of one call at its master."""

    def __init__(self, state: State, may: May, sees: Callable[..., bool]) -> None:
        """`may`, `sees`: what a principal may do with a queue, and whether it is there for that one, by its names."""
        self._state, self._may, self._sees = state, may, sees

    def closed(self, who: str, name: str) -> LeftBehind | None:
        """Why nothing of the caller's goes there; None: it may."""
        if not who:
            return None
        queue = self._state.queues.get(self._state.ids.get(name, 0))
        names = (name,) if queue is None else (name, queue.name, *queue.aliases)
        if self._may(who, PRODUCE, *names):
            return None
        if not self._sees(who, *names):
            return LeftBehind(reason=Reason.REASON_QUEUE_NOT_FOUND, message=_HIDDEN)
        text = f"{who} has not the right to produce on {name}, where they came from"
        return LeftBehind(reason=Reason.REASON_PERMISSION_DENIED, queue=name, message=text)
