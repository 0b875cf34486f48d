"""The refusal of what the first design has and this version has not; it is raised, never passed over in silence."""

from __future__ import annotations

from tandemq.errors import Refused


class NotSupported(Refused):
    """A call of the first design that a later version brings; `metadata` says which one, and what to use until then."""

    def __init__(self, call: str, later: str, instead: str) -> None:
        text = f"{call} comes with {later}; until then {instead}"
        super().__init__("NOT_SUPPORTED", text, {"call": call, "later": later, "instead": instead}, definite=True)


MACRO = "macro queues and proxies"


def macro(call: str) -> NotSupported:
    """What macro queues will do."""
    return NotSupported(call, MACRO, "receive from each queue, or send to each queue, by itself")


def proxy(call: str) -> NotSupported:
    """What proxies will do: clients need none here, a queue is used wherever it lives."""
    instead = "BindToQueue of a QueueManager at that manager: every queue is used over the network without a proxy"
    return NotSupported(call, MACRO, instead)


def misplaced(call: str, what: str) -> Refused:
    """A call on an object that it has no meaning for (CONFIG_ERROR, R030, R031)."""
    return Refused("CONFIG_ERROR", f"{call}: {what}", definite=True)
