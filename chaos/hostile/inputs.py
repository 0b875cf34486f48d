"""What a hostile input is, and the table of them; each says for itself how it was answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import grpc.aio

from chaos.hostile.target import Target
from tandemq.errors import from_rpc_error

Attack = Callable[[Target], Awaitable[str]]
"""Returns the answer, in words."""


class Input(NamedTuple):
    """One row of `build/secure/hostile.json`."""

    name: str
    wanted: str
    """A regular expression that the whole answer has to match."""
    attack: Attack


INPUTS: dict[str, Input] = {}
"""In the order in which they are tried."""


def hostile(name: str, wanted: str) -> Callable[[Attack], Attack]:
    """Enters an attack under this name."""

    def enter(attack: Attack) -> Attack:
        assert name not in INPUTS, name
        INPUTS[name] = Input(name, wanted, attack)
        return attack

    return enter


async def said_by(call: Awaitable[object]) -> str:
    """OK, or the reason for which it was refused."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error).reason or error.code().name
    return "OK"
