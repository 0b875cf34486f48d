"""Calls to a process that is not there: who says so, and when."""

from __future__ import annotations

import random
from collections.abc import Callable

import grpc
import pytest

from chaos.sim.kernel.loop import Process, make_loop
from chaos.sim.kernel.net import Network
from chaos.sim.kernel.rpc import CONNECT_S, CONNECT_TIMEOUT_S, Channel

WAYS: dict[str, tuple[Callable[[Network], object], str, float]] = {
    "a machine without a listener refuses": (lambda _network: None, "refused", CONNECT_S),
    "not through a cut there": (lambda network: network.cut("b", "a"), "timed out", CONNECT_TIMEOUT_S),
    "nor through one back": (lambda network: network.cut("a", "b"), "timed out", CONNECT_TIMEOUT_S),
    "nor without power": (lambda network: network.dark.add("a"), "timed out", CONNECT_TIMEOUT_S),
}


@pytest.mark.parametrize(("strike", "told", "after_s"), WAYS.values(), ids=WAYS)
def test_a_call_to_nobody(strike: Callable[[Network], object], told: str, after_s: float) -> None:
    loop = make_loop()
    network = Network(loop, random.Random, 0.001)
    network.machines["a:1"] = "a"
    strike(network)
    seen: list[tuple[grpc.StatusCode, str, float]] = []

    async def calls() -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Channel(network, "b", "a:1").unary_unary("/x")(b"")
        seen.append((caught.value.code(), caught.value.details() or "", loop.time()))

    loop.spawn(Process("b"), calls())
    loop.run(5.0)
    [(code, details, at_s)] = seen
    assert code is grpc.StatusCode.UNAVAILABLE
    assert told in details
    assert at_s == pytest.approx(after_s)
