"""Refusals as they travel: whatever they speak of, they fit where they go."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from replica.core.state.outcomes import Failed
from replica.rpc.refusals import TEXT_BYTES_MAX, VALUE_BYTES_MAX, failure
from tandemq.errors import status_details
from tandemq.v1.common_pb2 import Reason

HEADERS_BYTES_MAX = 8_192  # what clients take by default


@pytest.mark.parametrize("letter", ["x", "ä", "\n", "\U0001f600", "'"])
@pytest.mark.parametrize("length", [1, 255, 1_024, 5_000, 100_000])
def test_a_refusal_fits_into_the_headers_of_a_status(letter: str, length: int) -> None:
    long = letter * length
    facts = {f"{number}{long}": long for number in range(100)}
    error = failure(Failed(Reason.REASON_QUEUE_NOT_FOUND, f"there is no queue {long}; create it first", facts, 1_000))
    sent = len(quote(error.message)) + len(base64.b64encode(status_details(error)))
    assert sent < HEADERS_BYTES_MAX - 1_024, "with room for headers of others"


def test_what_is_left_out_is_told() -> None:
    error = failure(Failed(Reason.REASON_BAD_NAME, "ä" * 5_000, {"queue": "x" * 5_000}, None))
    assert len(error.message.encode()) <= TEXT_BYTES_MAX
    assert error.message.startswith("ä" * 500)
    assert error.message.endswith("... (10000 bytes)")
    assert len(error.metadata["queue"]) == VALUE_BYTES_MAX
    assert error.metadata["queue"].endswith("... (5000 bytes)")


def test_what_fits_is_told_as_it_is() -> None:
    text, value = "é" * (TEXT_BYTES_MAX // 2), "x" * VALUE_BYTES_MAX
    facts = {"copies": "1", "min_copies": "2", "outcome": "stored", "last_sequence": "7", "queue": value}
    error = failure(Failed(Reason.REASON_BAD_NAME, text, facts, None))
    assert (error.message, dict(error.metadata)) == (text, facts)
