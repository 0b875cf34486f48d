"""A page of a filtered browse belongs to one mastership, however often it lets others go first."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replica.core.selection.filters import filter_of
from replica.core.state.outcomes import Moved
from replica.node.pacing import TURN_S, Pace
from replica.services import filters
from tandemq.v1 import queue_service_pb2 as service
from tandemq.v1.message_pb2 import MessageFilter


class TiredPace(Pace):
    """Has just been looking for a whole turn; something happens while everybody else is first."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.now_s = 0.0
        super().__init__(lambda: self.now_s)
        self._meanwhile = meanwhile
        self.begin()
        self.now_s += TURN_S
        self.end()

    def rest_s(self) -> float:
        self._meanwhile()
        self.now_s += TURN_S
        return 0.0


@pytest.mark.parametrize(("serving", "epoch"), [(False, 2), (True, 4)], ids=["another serves", "it serves again"])
async def test_a_mastership_that_went_meanwhile_takes_the_page_with_it(serving: bool, epoch: int) -> None:
    """What was looked through may have been cut: nothing of it is shown, least of all as of the epoch that cut it."""
    state = SimpleNamespace(epoch=2)
    shared = SimpleNamespace(state=state, domain="main", serving=True)

    def moves() -> None:
        state.epoch, shared.serving = epoch, serving

    members: Any = SimpleNamespace(pace=TiredPace(moves))
    domain: Any = SimpleNamespace(shared=shared)
    machine: Any = SimpleNamespace(queue_id=lambda _name: 1, has_queue=lambda _number: True)
    asked = filter_of(MessageFilter(selector="colour = 'blue'"))
    assert asked is not None
    page = service.BrowsePageRequest(queue="q", max_messages=1)
    assert isinstance(await filters.browse_page(members, domain, machine, page, asked, 1), Moved)
