"""Says that a call is refused as a whole and why; never decides which answer a transport makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


class Unseen(NamedTuple):
    """What a refusal says to whoever may not see a queue that it names and was not asked about: that is not there."""

    names: tuple[str, ...]
    text: str


class Refused(Exception):  # noqa: N818 - it is an answer, not a fault: "refused" is what the contract calls it
    """Nothing was done and no sequence was consumed. Definite: the caller may change the request and try again."""

    def __init__(
        self,
        reason: common_pb2.Reason,
        message: str,
        metadata: Mapping[str, str] | None = None,
        retry_after_ms: int | None = None,
        unseen: Unseen | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.unseen = unseen
        self.message = message
        self.metadata = dict(metadata or {})
        self.retry_after_ms = retry_after_ms

    def __repr__(self) -> str:
        return f"Refused({common_pb2.Reason.Name(self.reason)}, {self.message!r}, {self.metadata})"


def disabled(name: str, config: admin_pb2.QueueConfig, *, receiving: bool = False) -> Refused:
    """Sending to a queue, or receiving from it, is not allowed now."""
    verb, attribute, reason = "sending to", "enqueue_enabled", common_pb2.REASON_ENQUEUE_DISABLED
    at = config.enqueue_enabled_at
    if receiving:
        verb, attribute, reason = "receiving from", "dequeue_enabled", common_pb2.REASON_DEQUEUE_DISABLED
        at = config.dequeue_enabled_at
    until = f" until {at.ToJsonString()}" if at.seconds else ""
    text = f"{verb} queue {name} is disabled{until}; repeat it later, or set its {attribute}"
    return Refused(reason, text, {"queue": name})
