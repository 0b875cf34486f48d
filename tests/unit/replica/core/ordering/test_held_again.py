"""A request that comes again at a replica while its master has it: how many wait together, and what they count for."""

from __future__ import annotations

import pytest

from replica.core.ordering.holding import JOINED_MAX
from replica.core.state.outcomes import Moved
from tests.support.clients import create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_room import fill, send, take

LONG_MS = 60_000


@pytest.fixture
def pair() -> Pair:
    """A pair whose queue takes two messages, and has them."""
    made = Pair()
    made.start()
    create(made, max_length=2)
    fill(made)
    return made


def test_so_many_wait_beside_the_first_and_of_more_the_oldest_is_to_repeat_it(pair: Pair) -> None:
    sent = [send(pair.b, "p", wait_ms=LONG_MS) for _ in range(1 + JOINED_MAX)]
    assert all(each.waits for each in sent)
    sent.append(send(pair.b, "p", wait_ms=LONG_MS))
    assert [at for at, each in enumerate(sent) if not each.waits] == [1]
    assert isinstance(sent[1].waiter.done, Moved)


@pytest.mark.parametrize("waits_ms", [(0, 500), (500, 900), (500, 900, 1_500), (900, 500), (0, 0, 500, 900)], ids=str)
def test_what_waits_for_room_counts_once_however_often_it_comes(pair: Pair, waits_ms: tuple[int, ...]) -> None:
    """Counted twice, it took the place of others, for ever."""
    holding = pair.b.core.holding
    sent = [send(pair.b, "p", wait_ms=wait_ms, size=100) for wait_ms in waits_ms]
    size = len(sent[0].call.batch)
    assert (holding.held_bytes, holding.waiting_bytes) == (size, size)
    take(pair)
    pair.settle(2_000)
    assert not any(each.waits for each in sent)
    assert (holding.held_bytes, holding.waiting_bytes, len(holding)) == (0, 0, 0)
