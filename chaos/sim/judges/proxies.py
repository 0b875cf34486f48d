"""Meets the points of a proxy while a run of two pairs lasts. What clients did through it is in the books of the pair
that has the queue, and judged there like what its own clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from chaos.sim.kernel.wire import Packet
from tandemq.v1.queue_service_pb2 import EnqueueResponse

if TYPE_CHECKING:
    from chaos.sim.kernel.net import Pipe
    from chaos.sim.pair.members import Pair

SHARED = "shared"
"""A queue of the other pair, and the name of its proxy."""
FOUND_AGAIN = "a call through a proxy found its first answer"
POINTS: Mapping[str, str] = MappingProxyType(
    {
        FOUND_AGAIN: "the other pair answered a repetition of a call that came through a proxy (M11)",
    }
)


class ProxyWatch:
    """Looks at what arrives."""

    def __init__(self, near: Pair, far: Pair) -> None:
        self._near, self._far = near, far

    def on_arrived(self, pipe: Pipe, item: object) -> None:
        """A packet has arrived somewhere."""
        source, target = pipe.direction.source, pipe.direction.target
        if source not in self._far.members or target not in self._near.members:
            return
        is_answer = isinstance(item, Packet) and item.kind == "message" and item.path.endswith("/Enqueue")
        if is_answer and EnqueueResponse.FromString(item.data).duplicate:  # type: ignore[attr-defined]  # a packet
            self._near.run.sometimes(FOUND_AGAIN)
