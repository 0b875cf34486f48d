"""Holds what one principal keeps in a domain: how many queues, how much in them, and who sends there."""

from __future__ import annotations

from collections import OrderedDict

Identity = tuple[int, bytes]
"""Queue and client id."""


class Owned:
    """What one principal keeps."""

    __slots__ = ("bytes", "identities", "queues")

    def __init__(self) -> None:
        self.queues = 0
        self.bytes = 0  # payload bytes in them; always the sum of theirs
        self.identities: OrderedDict[Identity, int] = OrderedDict()
        """With the domain time of their last batch, which rises; none before the window of the last look."""

    def remember(self, queue_id: int, client_id: bytes, time_ms: int, before_ms: int) -> None:
        """It has sent a batch. What was used before that is forgotten."""
        key = queue_id, client_id
        self.identities[key] = time_ms
        self.identities.move_to_end(key)
        while (oldest := next(iter(self.identities.items())))[1] < before_ms:
            del self.identities[oldest[0]]
