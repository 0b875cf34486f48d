"""Says to a caller here why a proxy did not do what was asked: in the other manager's words, but for what that one says
of its own members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import Failed
from tandemq.ambient import monotonic_ms
from tandemq.errors import OUTCOME, RULES, UNKNOWN, TandemqError
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from datetime import timedelta

    from replica.services.proxies.kept import KeptProxy
    from tandemq.peer.v1.peer_service_pb2 import MessageCode

OF_A_MASTER = ("NOT_MASTER", "NO_MASTER", "SUSPENDED", "SYNCING", "DRAINING", "STALE_EPOCH")
"""What the other manager says of its own members is no word about those here."""


def lost(kept: KeptProxy) -> Failed:
    """It has failed: it opens by itself, and this says when it tries next."""
    proxy, why = kept.standing.proxy, kept.standing.why
    assert why is not None, "it has failed for some reason"
    facts = {"queue": proxy.name, "target": proxy.target, "why": why.reason}
    text = f"proxy {proxy.name} of {proxy.target} is FAILED, and opens by itself: {why}"
    return Failed(Reason.REASON_MANAGER_UNREACHABLE, text, facts, max(1, kept.standing.due_ms - monotonic_ms()))


def in_own_words(
    kept: KeptProxy, error: TandemqError, code: MessageCode | None = None, *, opening: bool = False
) -> Failed:
    """Of a call, or a stream; `opening`: nothing of it can have been done."""
    proxy = kept.standing.proxy
    known = Reason.DESCRIPTOR.values_by_name.get(f"REASON_{error.reason}")
    facts = {key: value for key, value in error.metadata.items() if key not in ("master", "epoch", "domain", OUTCOME)}
    facts["target"] = proxy.target
    if code is not None:
        facts["message_code"] = str(int(code))
    if not error.definite and not opening:
        facts[OUTCOME] = error.metadata.get(OUTCOME) or UNKNOWN
    if known is None or error.reason not in RULES or error.reason in OF_A_MASTER:
        text = f"proxy {proxy.name}: //{kept.manager.manager} has not answered ({error.reason}: {error.message})"
        return Failed(Reason.REASON_MANAGER_UNREACHABLE, text, facts, None)
    text = f"{proxy.target}, by proxy {proxy.name}: {error.message}"
    return Failed(known.number, text, facts, _milliseconds(error.retry_after))  # type: ignore[arg-type]  # enum number


def _milliseconds(time: timedelta | None) -> int | None:
    return None if time is None else round(time.total_seconds() * 1000)
