"""What `tandemq pair verify` makes of the answers of a comparison: ranges are counted, the last one sums up."""

from __future__ import annotations

from typing import Any

from tandemq.cli.pair_verify import _count, _range
from tandemq.v1.pair_service_pb2 import VerifyResponse


def answer(low: int, high: int, *, equal: bool = True, difference: str = "", last: bool = False) -> VerifyResponse:
    return VerifyResponse(
        first_index=low,
        last_index=high,
        records=high - low + 1,
        end_index=90,
        equal=equal,
        difference=difference,
        last=last,
    )


def counted(*answers: VerifyResponse) -> dict[str, Any]:
    facts: dict[str, Any] = {"ranges": 0, "records": 0, "end_index": 0, "different": []}
    for each in answers:
        _count(facts, each)
    return facts


def test_each_range_counts_and_the_sum_does_not() -> None:
    summed = answer(0, 0, last=True)
    assert counted(answer(1, 40), answer(41, 90), summed) == {
        "ranges": 2,
        "records": 90,
        "end_index": 90,
        "different": [],
    }


def test_ranges_that_differ_are_named_one_by_one_and_not_again_by_the_sum() -> None:
    first, second = (answer(low, high, equal=False, difference="other records") for low, high in ((1, 40), (61, 90)))
    found = counted(first, answer(41, 60), second, answer(0, 0, equal=False, difference="2 differ", last=True))
    assert found["different"] == [_range(first), _range(second)]
    assert _range(first) == {
        "first_index": 1,
        "last_index": 40,
        "records": 40,
        "equal": False,
        "difference": "other records",
    }


def test_a_difference_that_only_the_sum_knows_is_named() -> None:
    """The members' states differ although every record is the same."""
    summed = answer(0, 0, equal=False, difference="the queues' state", last=True)
    assert counted(answer(1, 90), summed)["different"] == [_range(summed)]
