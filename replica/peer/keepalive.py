"""How the peer's connection proves that its process lives: by pings that gRPC's own threads send and answer, whatever
the interpreter does. Decides only how often, and after how long without an answer the connection ends.

No load of clients delays such a ping: it waits for no event loop and no lock of the interpreter. A process that is
stopped, and a machine that is cut off, answer none. What a ping does not prove, that the member's loop and its disk
go on, the frames of the Heartbeat stream prove, which the loop writes (`failover.detector`, `Timers.hung_ms`).
"""

from __future__ import annotations

PING_MS = 1_000
"""Without a sign of the other process; gRPC takes less for this much (measured with 1.85)."""
ANSWER_MS_MAX = 750
"""More than the 500 ms that a busy machine sometimes takes, and a process that stands still ends within 2 s."""


def keepalive(lost_ms: int) -> list[tuple[str, int]]:
    """Channel or server options with which a connection to a process that stands still ends."""
    answer_ms = min(lost_ms // 2, ANSWER_MS_MAX)
    return [
        ("grpc.keepalive_time_ms", PING_MS),
        ("grpc.keepalive_timeout_ms", answer_ms),
        ("grpc.http2.ping_timeout_ms", answer_ms),  # without it the keepalive closes no frozen connection (measured)
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
