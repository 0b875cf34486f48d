"""What a connection that breaks still delivers: a beginning of what was sent, as over TCP, and nothing behind a gap."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from chaos.sim.kernel.loop import Process, SimLoop, make_loop
from chaos.sim.kernel.net import Connection, Network


class Chosen(random.Random):
    """Keeps so many of what is under way."""

    def __init__(self, kept: int) -> None:
        super().__init__(0)
        self._kept = kept

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:  # as `reset` calls it
        del stop, step
        return min(self._kept, start - 1)


WAYS: dict[str, tuple[Callable[[Network, Connection], None], int]] = {
    "reset, the first has left": (lambda _network, connection: connection.reset(Chosen(1)), 1),
    "reset, nothing has left": (lambda _network, connection: connection.reset(Chosen(0)), 0),
    "reset, all of it has left": (lambda _network, connection: connection.reset(Chosen(3)), 3),
    "half-open": (lambda _network, connection: connection.go_silent(), 0),
    "the other machine lost its power": (
        lambda network, connection: network.on_death(connection.server, silently=True),
        0,
    ),
}


def connected(loop: SimLoop) -> tuple[Network, Connection]:
    network = Network(loop, random.Random, 0.001)
    network.machines["a:1"] = "a"
    network.listeners["a:1"] = ("a", Process("a"), lambda _connection: None)
    connection = network.connect("b", Process("b"), "a:1")
    assert connection is not None
    return network, connection


@pytest.mark.parametrize("side", [0, 1], ids=["to the server", "to the client"])
@pytest.mark.parametrize(("breaks", "kept"), WAYS.values(), ids=WAYS)
def test_nothing_arrives_behind_what_was_lost(
    breaks: Callable[[Network, Connection], None], kept: int, side: int
) -> None:
    """The sender does not know yet that it broke, and goes on."""
    loop = make_loop()
    network, connection = connected(loop)
    pipe = connection.pipes[side]
    arrived: list[object] = []
    story: list[tuple[str, object]] = []
    pipe.on_item = arrived.append
    network.on_item = lambda what, _pipe, item: story.append((what, item))
    for number in (1, 2, 3):
        pipe.send(number)
    breaks(network, connection)
    pipe.send(4)
    loop.run(60.0)
    assert arrived == [1, 2, 3][:kept]
    assert ("arrived", 4) not in story
    assert {item for what, item in story if what == "lost"} >= {1, 2, 3} - set(arrived)


def test_nor_through_a_direction_that_is_open_again() -> None:
    loop = make_loop()
    network, connection = connected(loop)
    arrived: list[object] = []
    connection.pipes[0].on_item = arrived.append
    network.cut("b", "a")
    connection.pipes[0].send(1)
    connection.reset(Chosen(0))
    network.heal("b", "a")
    connection.pipes[0].send(2)
    loop.run(60.0)
    assert arrived == []
