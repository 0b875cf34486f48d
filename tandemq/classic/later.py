"""The refusals of calls that mean nothing here, or that `tandemq.Client` has in another form."""

from __future__ import annotations

from tandemq.errors import Refused


class NotSupported(Refused):
    """A call of the first design that is not in this package; `metadata` says what to use instead."""

    def __init__(self, call: str, instead: str) -> None:
        text = f"{call} is not in tandemq.classic; use {instead}"
        super().__init__("NOT_SUPPORTED", text, {"call": call, "instead": instead}, definite=True)


def macro(call: str) -> NotSupported:
    """Macro queues are made, changed and used by the client."""
    return NotSupported(call, "create_macro and add_macro_member of QueueManager.client")


def proxy(call: str) -> NotSupported:
    """Proxies are made by the client; one that is there is used as any queue."""
    return NotSupported(call, "create_proxy of QueueManager.client, then BindToQueue with the name of the proxy")


def misplaced(call: str, what: str) -> Refused:
    """A call on an object that it has no meaning for (CONFIG_ERROR, R030, R031)."""
    return Refused("CONFIG_ERROR", f"{call}: {what}", definite=True)
