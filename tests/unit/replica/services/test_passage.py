"""What goes with a call that came through proxies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replica.core.state.outcomes import Failed
from replica.services.passage import (
    MEANT,
    PROXIED,
    Passage,
    came_through_a_proxy,
    onward,
    passage_of,
    problem_of,
    problem_of_meant,
)
from tandemq.v1 import common_pb2


def context(*pairs: tuple[str, str]) -> Any:
    return SimpleNamespace(invocation_metadata=lambda: pairs)


def test_it_is_read_as_it_was_written_and_counts_on() -> None:
    first = onward(None, "west")
    assert first == Passage(1, "west")
    assert passage_of(context(("other", "x"), *first.metadata())) == first
    assert onward(first, "north") == Passage(2, "north")
    assert passage_of(context()) is None
    assert not came_through_a_proxy(context(("other", "x")))
    assert came_through_a_proxy(context(*first.metadata()))


@pytest.mark.parametrize("text", ["", "1", "1 ", "0 west", "-1 west", "x west", "1000 west", "¹ west"])
def test_what_says_nothing_is_refused(text: str) -> None:
    found = passage_of(context((PROXIED, text)))
    assert isinstance(found, Failed)
    assert found.reason == common_pb2.REASON_BAD_REQUEST


def test_what_is_meant_for_another_manager_is_refused_by_both_names() -> None:
    assert problem_of(Passage(1, "west"), "west") is None
    found = problem_of(Passage(1, "west"), "north")
    assert found is not None
    assert (found.reason, dict(found.metadata)) == (
        common_pb2.REASON_WRONG_PAIR,
        {"expected": "west", "pair": "north"},
    )


def test_what_a_link_gives_to_another_manager_is_refused_by_both_names() -> None:
    """A call of an older release does not say which manager it means."""
    assert problem_of_meant(context(), "north") is None
    assert problem_of_meant(context((MEANT, "north")), "north") is None
    found = problem_of_meant(context((MEANT, "west")), "north")
    assert found is not None
    assert (found.reason, dict(found.metadata)) == (
        common_pb2.REASON_WRONG_PAIR,
        {"expected": "west", "pair": "north"},
    )
