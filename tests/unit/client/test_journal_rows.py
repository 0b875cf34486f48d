"""Rows of a journal's page: each column at its row, and of each kind what belongs to it."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime

import pytest

from tandemq.client.journal import ID_BYTES, JournalKind, JournalPage
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1.message_pb2 import Message as Sent

IDS = [bytes([number]) * ID_BYTES for number in (1, 2, 3)]
SENT = [Sent(correlation_id="one"), Sent(), Sent(correlation_id="three")]


def packed(code: str, *values: int) -> bytes:
    return array(code, values).tobytes()


def page(*, attributes: bool = True) -> JournalPage:
    """A message that entered with its body, one that was acknowledged, and a volatile one that entered."""
    sent = [each.SerializeToString() for each in SENT]
    ends = [0, len(sent[0]), len(sent[0]), len(sent[0]) + len(sent[2])]
    columns = pb.JournalColumns(
        count=3,
        log_indexes=packed("Q", 11, 12, 13),
        epochs=packed("Q", 4, 4, 5),
        times_ms=packed("q", 1_000, 2_000, 3_500),
        kinds=bytes([pb.JOURNAL_KIND_ENQUEUED, pb.JOURNAL_KIND_ACKED, pb.JOURNAL_KIND_ENQUEUED]),
        queue_ids=packed("I", 7, 7, 8),
        indexes=packed("Q", 21, 20, 1),
        counts=packed("Q", 1, 2, 1),
        ids=b"".join(IDS),
        lease_ids=packed("Q", 0, 6, 0),
        producers=packed("I", 2, 0, 1),
        sequences=packed("Q", 31, 0, 33),
        payload_states=bytes([pb.JOURNAL_PAYLOAD_PRESENT, 0, 0]),
        payload_offsets=packed("i", 0, 4, 4, 4),
        payloads=b"body",
        attribute_offsets=packed("i", *ends) if attributes else b"",
        attributes=sent[0] + sent[2] if attributes else b"",
        queues=[pb.JournalQueue(queue_id=7, name="q")],
        producer_ids=[b"first", b"second"],
    )
    return JournalPage(pb.ReadJournalPageResponse(header=common.ResponseHeader(member="a"), columns=columns))


def test_each_row_has_what_stands_at_its_place() -> None:
    entered, acked, volatile = page().rows()
    assert entered == (
        11, 4, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), JournalKind.ENQUEUED, "q", 7, 21, 1, IDS[0], 0,
        b"second", 31, b"body", SENT[0],
    )  # fmt: skip
    assert acked == (
        12, 4, datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), JournalKind.ACKED, "q", 7, 20, 2, b"", 6, b"", 0, None, None,
    )  # fmt: skip
    assert volatile == (
        13, 5, datetime(1970, 1, 1, 0, 0, 3, 500_000, tzinfo=UTC), JournalKind.ENQUEUED, "", 8, 1, 1, IDS[2], 0,
        b"first", 33, None, SENT[2],
    )  # fmt: skip


def test_attributes_that_were_not_asked_for_are_none() -> None:
    assert [row.attributes for row in page(attributes=False).rows()] == [None, None, None]


@pytest.mark.parametrize("count", [0, 5])
def test_rows_that_were_only_counted_are_counted(count: int) -> None:
    counted = JournalPage(pb.ReadJournalPageResponse(columns=pb.JournalColumns(count=count)))
    assert (len(counted), list(counted.rows())) == (count, [])
