"""Decides when a message may be delivered next: by what its producer asked, or after a delivery that failed; changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica.machine.state.config import milliseconds
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

TIME_MS_MAX = (1 << 63) - 1  # far enough; the sum of a clock and any time to live must fit its field
DELAY_MS_MAX = 366 * 86_400_000  # of a release: a year


def delivery_times(time_ms: int, delays_ms: Sequence[int], deliver_at_ms: Sequence[int]) -> Sequence[int]:
    """Domain time of each delivery, 0: at once. Each column is empty, has one entry for all, or one a message.

    Empty when nothing waits; the later of the two counts.
    """
    count = max(len(delays_ms), len(deliver_at_ms))
    delays = delays_ms if len(delays_ms) == count else [delays_ms[0] if delays_ms else 0] * count
    moments = deliver_at_ms if len(deliver_at_ms) == count else [deliver_at_ms[0] if deliver_at_ms else 0] * count
    times = [max(time_ms + delay, moment) for delay, moment in zip(delays, moments, strict=True)]
    last = max(times)
    if last <= time_ms:
        return ()
    if min(times) == last:
        return (min(last, TIME_MS_MAX),)
    return [min(moment, TIME_MS_MAX) if moment > time_ms else 0 for moment in times]


class RetryDelay(NamedTuple):
    """How long a message waits after a lease that ended without a settlement."""

    least_ms: int
    most_ms: int

    @classmethod
    def of(cls, config: admin_pb2.QueueConfig) -> RetryDelay | None:
        if not config.HasField("retry_delay_min"):
            return None
        least_ms = milliseconds(config.retry_delay_min)
        return cls(least_ms, max(least_ms, milliseconds(config.retry_delay_max))) if least_ms else None

    def next_ms(self, time_ms: int, deliveries: int) -> int:
        return time_ms + min(self.least_ms * deliveries, self.most_ms)
