"""Says what each profile gives to a queue whose creator says nothing; never looks at a queue."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from replica.machine.state.limits import Limits
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

# Table 5 of the first design and its queue defaults (semantics.md 3.3, rulings.md 25); a limit of bytes has it none.
CLASSIC = MappingProxyType(
    {
        "persistence": admin_pb2.PERSISTENCE_CONDITIONAL,
        "queue_length_max": 1_000,
        "queue_bytes_max": 0,
        "deliveries_max": 0,
        "dead_letter": False,
        "queue_type": admin_pb2.QUEUE_TYPE_ONE_WAY,
        "default_settle": service_pb2.SETTLE_MODE_IMMEDIATE,
        "empty_idle_ms": 24 * 3_600_000,
    }
)
_PROFILES = MappingProxyType({"safe": MappingProxyType({}), "classic": CLASSIC})


def limits_of(profile: str, **others: Any) -> Limits:
    return Limits(**{**_PROFILES[profile], **others})
