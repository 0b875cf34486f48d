"""What the judge of messages that go from one simulated pair to another finds, each by a world in which it is so."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.history import Acked, Delivered, Message
from chaos.sim.draw.profiles import draw
from chaos.sim.judges.links import KEPT, LETTERS, NO_QUEUE, NOWHERE, ORDERS, TRANSMISSION, Links, Sent, broken
from chaos.sim.world.world import World

ONE, TWO, BESIDE = Message(1, 0), Message(1, 2), Message(1, 1)


class Case:
    """Books of both pairs in which everything is as it should be: one for each queue there, acknowledged."""

    def __init__(self) -> None:
        world = World(draw("links_between", 1))
        self.near, self.far = world.pairs
        self.links = Links()

    def sent(self, message: Message, index: int, to: str = ORDERS, **more: Any) -> None:
        self.links.sent[message] = Sent(to, **{"persistent": True, "beside": None, **more})
        self.near.run.books[TRANSMISSION].sent([Acked(0.0, 0.0, message, index, 1, 2)])

    def arrived(self, message: Message, index: int, queue: str = ORDERS) -> None:
        self.far.run.books[queue].history.delivered.append(Delivered(0.0, message, index, 1, "drain"))

    def found(self) -> list[str]:
        return list(broken(self.near, self.far, self.links))


@pytest.fixture
def case() -> Case:
    return Case()


def test_what_arrives_once_and_in_order_is_well(case: Case) -> None:
    case.sent(ONE, 1)
    case.sent(TWO, 2, NOWHERE)
    case.arrived(ONE, 1)
    case.arrived(ONE, 1)  # delivered a second time
    case.arrived(TWO, 1, LETTERS)
    case.links.reasons[TWO] = NO_QUEUE
    assert case.found() == []


def test_what_is_lost_doubled_or_nobodys_is_found(case: Case) -> None:
    case.sent(ONE, 1)
    assert "has not arrived" in case.found()[0]
    case.arrived(ONE, 1)
    case.arrived(ONE, 2)
    assert "arrived 2 times" in case.found()[0]
    case.arrived(TWO, 3)
    assert "nobody has sent it" in case.found()[1]


def test_what_was_refused_or_is_in_another_queue_is_found(case: Case) -> None:
    case.sent(ONE, 1)
    case.arrived(ONE, 1)
    case.links.refused[ONE] = "STORAGE_FULL"
    assert "was refused: STORAGE_FULL" in case.found()[0]
    case.sent(TWO, 2, NOWHERE)
    case.arrived(TWO, 1, LETTERS)
    assert "for the reason None" in case.found()[1]


def test_another_order_is_found(case: Case) -> None:
    case.sent(ONE, 1)
    case.sent(TWO, 2)
    case.arrived(ONE, 2)
    case.arrived(TWO, 1)
    assert "which was sent on later" in case.found()[0]


def test_what_is_volatile_may_be_lost(case: Case) -> None:
    case.sent(ONE, 1, persistent=False)
    assert case.found() == []


def test_half_of_a_unit_is_found(case: Case) -> None:
    case.sent(ONE, 1, beside=BESIDE)
    case.arrived(ONE, 1)
    assert "there, and not here" in case.found()[0]
    case.near.run.books[KEPT].history.delivered.append(Delivered(0.0, BESIDE, 1, 1, "drain"))
    assert case.found() == []
