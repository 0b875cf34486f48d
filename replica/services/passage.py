"""What goes with a call of another manager: through how many proxies it came, and which manager it means.

Decides nothing about the call itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from replica.rpc.refusals import refusal
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.state.outcomes import Failed

PROXIED = "x-tandemq-proxied"
MEANT = "x-tandemq-meant"
"""With a call of a link: the manager that it is for, by the name of its pair."""
HOPS_MAX = 8
"""Proxies that one call may come through: more of them lead in a circle (M11)."""


class Passage(NamedTuple):
    """Of one call."""

    hops: int
    """Proxies that it came through, at least 1."""
    manager: str
    """Whom the last of them means, by the name of its pair."""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """As it goes with the call."""
        return ((PROXIED, f"{self.hops} {self.manager}"),)


def passage_of(context: Any) -> Passage | Failed | None:
    """None: no proxy has sent it. Failed: what stands there says nothing."""
    for key, value in context.invocation_metadata() or ():
        if key == PROXIED:
            hops, _, manager = str(value).partition(" ")
            if hops.isascii() and hops.isdecimal() and len(hops) <= 3 and int(hops) and manager:
                return Passage(int(hops), manager)
            text = f"the metadata {PROXIED} is written as in `1 west`: through how many proxies, and for which pair"
            return refusal(Reason.REASON_BAD_REQUEST, text)
    return None


def came_through_a_proxy(context: Any) -> bool:
    """Whoever calls through one is at another manager, wherever that one is."""
    return any(key == PROXIED for key, _ in context.invocation_metadata() or ())


def problem_of(passage: Passage, own: str) -> Failed | None:
    """Why the call is not for the manager of that name."""
    if passage.manager == own:
        return None
    text = f"a proxy meant {passage.manager} at this address, and this is {own}; correct where {passage.manager} is"
    return refusal(Reason.REASON_WRONG_PAIR, text, {"expected": passage.manager, "pair": own})


def problem_of_meant(context: Any, own: str) -> Failed | None:
    """Why a call of a link is not for the manager of that name. Older releases do not name one."""
    meant = next((str(value) for key, value in context.invocation_metadata() or () if key == MEANT), own)
    if meant == own:
        return None
    text = f"a link meant {meant} at this address, and this is {own}; correct where {meant} is"
    return refusal(Reason.REASON_WRONG_PAIR, text, {"expected": meant, "pair": own})


def onward(passage: Passage | None, manager: str) -> Passage:
    """The same call, through one more proxy."""
    return Passage(1 if passage is None else passage.hops + 1, manager)
