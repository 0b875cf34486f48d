"""Attributes of a message: one that it cannot have is refused, in whichever form it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from tandemq.client.outgoing import Attributes, Outgoing, attributes_bytes, rows_of, to_message, write_columns
from tandemq.client.staging import batch_of
from tandemq.twin.digests import NONE, chained
from tandemq.twin.handling import Output
from tandemq.v1.message_pb2 import MessageBatch

WRONG: Any = {"priority": 3, "prioritty": 9, "Ttl": 1}


@pytest.mark.parametrize(
    "way",
    [
        lambda: to_message(b"x", WRONG),
        lambda: attributes_bytes(WRONG),
        lambda: rows_of([Outgoing(b"x", WRONG)]),
        lambda: write_columns(MessageBatch(), [None, WRONG], [1, 1]),
        lambda: batch_of([Outgoing(b"x", WRONG)]),
        lambda: chained(NONE, 1, [Output("q", b"x", WRONG)]),
    ],
)
def test_a_misspelt_attribute_is_refused_and_not_left_out(way: Any) -> None:
    with pytest.raises(TypeError, match=r"a message has no attribute 'Ttl', 'prioritty'; it may have .*priority,"):
        way()


def test_those_of_the_type_are_all_taken() -> None:
    names = Attributes.__annotations__.keys()
    assert len(names) == 14
    made = to_message(b"x", Attributes(priority=9, persistent=False, correlation_id="c", properties={"a": 1}))
    assert (made.priority, made.persistent, made.correlation_id, made.properties["a"].integer) == (9, False, "c", 1)
