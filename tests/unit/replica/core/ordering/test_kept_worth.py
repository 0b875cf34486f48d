"""Which messages are asked about at all: none that a kept reaction may act on is left out (V12)."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.messages.bodies import message_id
from tandemq.v1.message_pb2 import Properties, PropertyValue
from tests.unit.replica.core.ordering.test_dying import payloads
from tests.unit.replica.core.ordering.test_kept_reactions import MINUTE, begin, keep
from tests.unit.replica.core.ordering.test_sweeps import send

THREE = (b"1", b"2", b"3")


def named(master: Any, ahead: int, ordinal: int) -> list[bytes]:
    """The id that a message will have: `ahead` records from now."""
    shared = master.shared
    return [message_id(shared.domain, shared.state.epoch, shared.log.last_index + ahead, ordinal)]


@pytest.mark.parametrize(
    ("asked", "columns", "left"),
    [
        ({"correlation_id": "c"}, {"correlation_ids": ["a", "c", "b"]}, [b"1", b"3"]),
        ({"correlation_id": "c"}, {"correlation_ids": ["c"]}, []),
        ({"correlation_id": "c"}, {"group_ids": ["c", "c", "c"]}, [*THREE]),
        ({"correlation_id": ""}, {}, []),
        ({"group_id": "g"}, {"group_ids": ["g", "h", "g"]}, [b"2"]),
        ({"group_id": "g"}, {"correlation_ids": ["g"]}, [*THREE]),
        ({"selector": "tq_priority >= 0"}, {}, []),
    ],
)
def test_by_a_column_of_one_and_of_many(asked: dict[str, Any], columns: Any, left: list[bytes]) -> None:
    pair, master = begin()
    keep(pair, ttl_ms=10 * MINUTE, **asked)
    for number in range(20):  # many that fit none of them
        keep(pair, number=2 + number, correlation_id=f"else-{number}")
    send(pair, "q", *THREE, **columns)
    assert payloads(master, "q") == left


def test_by_the_id_that_it_will_have() -> None:
    pair, master = begin()
    keep(pair, ids=[b"i" * 16], number=1)
    keep(pair, ids=named(master, 2, 1), number=2)  # its own record comes before
    send(pair, "q", *THREE, correlation_ids=["a", "b", "c"])
    assert payloads(master, "q") == [b"1", b"3"]


def test_by_an_id_that_it_brings_along() -> None:
    pair, master = begin()
    keep(pair, ids=[b"s" * 16])
    brought = Properties(entries={"tq_source_id": PropertyValue(data=b"s" * 16)})
    send(pair, "q", *THREE, properties=[Properties(), brought, Properties()])
    assert payloads(master, "q") == [b"1", b"3"]
