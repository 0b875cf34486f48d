"""Bytes and digests that two twins compare, which may be of two versions: they stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from tandemq.twin.codecs import JSON, check_json
from tandemq.twin.digests import NONE, chained, shown, state_digest
from tandemq.twin.faults import TwinFault
from tandemq.twin.handling import Output
from tandemq.twin.snapshots import SnapshotCutError, snapshot_from


def test_the_bytes_of_a_state_stay_as_they_are() -> None:
    assert JSON.encode({"b": [1, None, True], "a": "ü"}) == '{"a":"ü","b":[1,null,true]}'.encode()


def test_the_digests_stay_as_they_are() -> None:
    first = chained(NONE, 1, [Output("q", b"ab", {"correlation_id": "x"}), Output("r", b"")])
    assert (shown(state_digest(b"state")), shown(first), shown(chained(first, 1 << 40, []))) == (
        "23d21f0921a2cd21",
        "29e21e1fbbd74eda",
        "b412019a45b200ba",
    )


@pytest.mark.parametrize("state", [float("nan"), float("inf"), {"x": [float("-inf")]}])
def test_numbers_that_are_none_are_no_json(state: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        JSON.encode(state)


@pytest.mark.parametrize(("state", "comes_back"), [({"a": [1, "b"]}, True), ({1: "a"}, False), ({"a": (1, 2)}, False)])
def test_a_state_that_comes_back_otherwise_is_refused(state: Any, comes_back: bool) -> None:
    if comes_back:
        check_json(state, JSON.encode(state))
        return
    with pytest.raises(TwinFault, match="does not come back from JSON as it was"):
        check_json(state, JSON.encode(state))


@pytest.mark.parametrize("data", [b"", b"another\n{}\n", b"tandemq twin snapshot 0 \n"])
def test_a_file_of_something_else_is_named_so(data: bytes) -> None:
    with pytest.raises(SnapshotCutError, match="does not begin as a snapshot of this version does"):
        snapshot_from(data)
