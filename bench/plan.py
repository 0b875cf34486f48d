"""What `make bench` measures: each workload's name, and what its load is told."""

from __future__ import annotations

from typing import Any

KIB = 1024
WORKLOADS: dict[str, dict[str, Any]] = {
    "enqueue 1 KiB, frames of 100": {"kind": "enqueue", "size": KIB, "frame": 100, "window": 20},
    "enqueue 1 KiB, frames of 500": {"kind": "enqueue", "size": KIB, "frame": 500, "window": 10},
    "enqueue 100 B, frames of 1000": {"kind": "enqueue", "size": 100, "frame": 1000, "window": 10},
    # Beside it: the floor with frames of 100, as if a message that comes alone cost nothing.
    "enqueue 1 KiB, single sends": {"kind": "single", "size": KIB, "tasks": 1000, "frame": 100, "window": 10},
    "enqueue + consume + ack 1 KiB, frames of 100": {
        "kind": "flow", "size": KIB, "frame": 100, "window": 20, "credit": 4000, "backlog": 4000,
    },
    "one in flight 1 KiB": {"kind": "latency", "size": KIB, "frame": 1, "window": 1},
}  # fmt: skip
MEMORY = "first, without the ring of recent records"
"""Of the figures of memory that of the README."""
