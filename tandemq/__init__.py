"""Tandemq: a fault-tolerant queue service in which two managers keep every queue.

`tandemq.connect` is the blocking client, `tandemq.aio.connect` the asyncio one. This module imports neither until it is
asked for it, so that the command line and the servers start without what they do not need.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandemq import errors
    from tandemq.client import aio
    from tandemq.client.blocking import Client, Consumer, Producer, connect
    from tandemq.client.filtering import Where
    from tandemq.client.outgoing import Outgoing
    from tandemq.client.receipts import Receipt, Receipts
    from tandemq.errors import TandemqError

__all__ = [
    "Client",
    "Consumer",
    "Outgoing",
    "Producer",
    "Receipt",
    "Receipts",
    "TandemqError",
    "Where",
    "aio",
    "connect",
    "errors",
]

_HOMES = MappingProxyType(
    {
        "Client": "tandemq.client.blocking",
        "Consumer": "tandemq.client.blocking",
        "Outgoing": "tandemq.client.outgoing",
        "Producer": "tandemq.client.blocking",
        "Receipt": "tandemq.client.receipts",
        "Receipts": "tandemq.client.receipts",
        "TandemqError": "tandemq.errors",
        "Where": "tandemq.client.filtering",
        "connect": "tandemq.client.blocking",
    }
)


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("tandemq.client.aio")
    if name == "errors":
        return import_module("tandemq.errors")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tandemq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
