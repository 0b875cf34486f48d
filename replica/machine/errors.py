"""Says that a call is refused as a whole and why; never decides which answer a transport makes of it."""

from __future__ import annotations

from collections.abc import Mapping

from tandemq.v1 import common_pb2


class Refused(Exception):  # noqa: N818 - it is an answer, not a fault: "refused" is what the contract calls it
    """Nothing was done and no sequence was consumed. Definite: the caller may change the request and try again."""

    def __init__(
        self,
        reason: common_pb2.Reason,
        message: str,
        metadata: Mapping[str, str] | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.retry_after_ms = retry_after_ms

    def __repr__(self) -> str:
        return f"Refused({common_pb2.Reason.Name(self.reason)}, {self.message!r}, {self.metadata})"
