"""What an import is made of: the identity of an operation, and the rest of a batch of which a part is done with."""

from __future__ import annotations

from tandemq.client.salvage import identity_of, without
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.pair_service_pb2 import ReadSalvageResponse


def operation(**fields: object) -> ReadSalvageResponse:
    return ReadSalvageResponse(**{"pair": "p", "domain": "main", "epoch": 3, "log_index": 7, **fields})  # type: ignore[arg-type]


def test_the_identity_is_that_of_the_operation_and_of_nothing_else() -> None:
    known = identity_of(operation())
    assert known == identity_of(operation(queue="q", acknowledged=True, batch=b"x"))
    others = [
        operation(pair="pm", domain="ain"),
        operation(domain="other"),
        operation(epoch=4),
        operation(log_index=8),
    ]
    assert len({known, *map(identity_of, others)}) == 5
    assert len(known) <= 64


def test_the_identity_is_that_of_every_version() -> None:
    """An import that is repeated by a newer client has one effect."""
    assert identity_of(operation()) == b"salvage/" + bytes.fromhex("21d1733e081cac307f170cf79132a7b5")


def test_columns_of_one_entry_stay_and_the_others_lose_what_is_done() -> None:
    batch = MessageBatch(payloads=[b"0", b"1", b"2"], priorities=[5], ttls_ms=[1, 2, 3], content_types=["a", "b", "c"])
    rest = without(batch, {1})
    assert list(rest.payloads) == [b"0", b"2"]
    assert list(rest.priorities) == [5]
    assert list(rest.ttls_ms) == [1, 3]
    assert list(rest.content_types) == ["a", "c"]
    assert without(batch, set()) is batch
