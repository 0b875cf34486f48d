"""Decides how a proxy stands: being opened, open, or failed, why, and when it is asked again. Pure: a value of what was
heard goes in, with the time; it asks nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tandemq.errors import RULES, error_of
from tandemq.v1 import proxy_service_pb2 as pb
from tandemq.v1.common_pb2 import ResponseHeader

if TYPE_CHECKING:
    from replica.machine.state.proxies import Proxy
    from tandemq.errors import TandemqError
    from tandemq.v1.queue_admin_service_pb2 import QueueConfig

OPENING, OPEN, FAILED = pb.PROXY_STATE_OPENING, pb.PROXY_STATE_OPEN, pb.PROXY_STATE_FAILED
AGAIN_FIRST_MS, AGAIN_MAX_MS = 100, 5_000
"""A proxy that is not open is asked for again after the first, then twice as long each time, up to the second."""
LOOK_MS = 5_000
"""An open one is looked at so often: whether its queue is still there, and still as expected."""


class ProxyFault(NamedTuple):
    """Why a proxy is failed."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class ProxyStanding:
    """Of one proxy, at its serving master."""

    def __init__(self, proxy: Proxy, now_ms: int) -> None:
        """`now_ms`: of a clock that never goes back, in all calls here."""
        self.proxy = proxy
        self.state = OPENING
        self.why: ProxyFault | None = None
        self.since_ms = self.due_ms = now_ms
        self.failures = 0
        """In a row."""
        self.reopened = 0
        self.calls = 0
        self.reached = ResponseHeader()
        """Of the last opening."""
        self.found: QueueConfig | None = None
        """What its queue was then; None: it was never there."""

    def on_opened(self, header: ResponseHeader, now_ms: int) -> bool:
        """The queue is there, as expected. True: it had failed before."""
        was, self.reached, self.failures, self.why = self.state, header, 0, None
        self.due_ms = now_ms + LOOK_MS
        if was != OPEN:
            self.state, self.since_ms = OPEN, now_ms
        self.reopened += was == FAILED
        return was == FAILED

    def on_failed(self, why: ProxyFault, now_ms: int) -> bool:
        """It is not there, or not as expected. True: it had not failed before."""
        was, self.why = self.state, why
        self.due_ms = now_ms + min(AGAIN_MAX_MS, AGAIN_FIRST_MS << min(self.failures, 10))
        self.failures += 1
        if was != FAILED:
            self.state, self.since_ms = FAILED, now_ms
        return was != FAILED

    def doubt(self, now_ms: int) -> None:
        """A call has ended without an answer: whether it is still there is asked now. One that has failed is asked
        again at its time, however many calls there are.
        """
        if self.state == OPEN:
            self.due_ms = now_ms


def unreadable(manager: str) -> TandemqError:
    """What another manager sends may end nothing here but its own call."""
    return error_of("MANAGER_UNREACHABLE", f"{manager} has sent what nobody can read; look at what answers there")


def why_of(error: TandemqError) -> ProxyFault:
    """Of what the manager said, or the connection to it."""
    return ProxyFault(error.reason, error.message)


def goes_with(other: ProxyStanding, lost: ProxyStanding, away: TandemqError) -> bool:
    """Whether what became of one proxy is so of another one of that manager: where no member of it answers, or another
    manager does; and where one does, but cannot serve, for a queue of the same domain.
    """
    is_said_there = away.reason in RULES and away.reason not in ("MANAGER_UNREACHABLE", "WRONG_PAIR")
    return not is_said_there or other.reached.domain == lost.reached.domain


def misfit(proxy: Proxy, found: QueueConfig) -> ProxyFault | None:
    """What the queue has that the proxy does not expect (type and parameters, M11)."""
    for field, wanted in proxy.expected.ListFields():
        has = getattr(found, field.name)
        if has != wanted:
            text = (
                f"{proxy.target} has {field.name} {_shown(field, has)}, and the proxy expects {_shown(field, wanted)}"
            )
            return ProxyFault("CONFIG_MISMATCH", text)
    return None


def _shown(field: object, value: object) -> str:
    kinds = getattr(field, "enum_type", None)
    if kinds is not None and isinstance(value, int) and value in kinds.values_by_number:
        return str(kinds.values_by_number[value].name)
    return " ".join(str(value).split()) or "none"
