"""What is a flood: bytes that are no message, streams that come to nothing."""

from __future__ import annotations

from tandemq.edge.waste import (
    FAILED_MAX,
    FAILED_PER_S,
    MESSAGE_BYTES_MAX,
    UPLOAD_BYTES,
    UPLOADS_MAX,
    WASTE_BYTES_MAX,
    Account,
    Counted,
)

NOTHING = Counted(0, 0, 0, 0, 0)


def after(received: int, *, messages: int = 0, started: int = 0, succeeded: int = 0, failed: int = 0) -> str:
    return Account(NOTHING).flood(Counted(received, messages, started, succeeded, failed), 1.0)


def test_bytes_without_a_call_are_a_flood() -> None:
    assert not after(WASTE_BYTES_MAX)
    assert after(WASTE_BYTES_MAX + 1)
    assert after(WASTE_BYTES_MAX + 1, started=2, succeeded=1, failed=1)


def test_a_call_may_be_in_the_middle_of_a_message() -> None:
    largest = WASTE_BYTES_MAX + MESSAGE_BYTES_MAX + UPLOAD_BYTES
    assert not after(largest, started=1)
    assert after(largest + 1, started=1)
    most = largest + UPLOAD_BYTES * (UPLOADS_MAX - 1)
    assert not after(most, started=1_000)
    assert after(most + 1, started=1_000)


def test_a_message_pays_for_the_bytes_of_the_largest() -> None:
    account = Account(NOTHING)
    for number in range(1, 1_000):
        assert not account.flood(Counted(number * MESSAGE_BYTES_MAX, number, 1, 0, 0), 1.0)


def test_waste_adds_up_over_looks() -> None:
    account = Account(NOTHING)
    assert not account.flood(Counted(WASTE_BYTES_MAX // 2, 0, 0, 0, 0), 1.0)
    assert not account.flood(Counted(WASTE_BYTES_MAX, 0, 0, 0, 0), 1.0)
    assert account.flood(Counted(WASTE_BYTES_MAX + 1, 0, 0, 0, 0), 1.0)


def test_streams_may_fail_at_a_pace() -> None:
    assert not after(0, failed=FAILED_MAX)
    assert after(0, failed=FAILED_MAX + 1)
    account = Account(NOTHING)
    for second in range(1, 100):
        failed = second * FAILED_PER_S
        assert not account.flood(Counted(0, 0, failed, 0, failed), 1.0)
