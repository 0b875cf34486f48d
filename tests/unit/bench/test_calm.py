"""What is measured again because of others, and what never is."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from bench.peers.calm import AGAIN_MAX, PAUSE_S, calm, calm_on_loop
from bench.peers.figures import NOISY_CORES
from bench.peers.run import again_max_of

NOISE = NOISY_CORES + 0.01
RATE = {"rate": 1000.0, "load_share": {"producer": 0.1}, "late_p50_ms": 9.0, "late_p99_ms": 9.0, "p50_ms": 10.0,
        "p99_ms": 10.0}  # fmt: skip


def measured(*attempts: list[dict[str, Any]], again_max: int = AGAIN_MAX) -> tuple[list[dict[str, Any]], int]:
    """What is shown of such attempts, and how many were made."""
    left, pauses = list(attempts), list[float]()
    shown = calm(lambda: left.pop(0), again_max, pauses.append)
    made = len(attempts) - len(left)
    assert pauses == [PAUSE_S * number for number in range(1, made)]
    return shown, made


def line(value: float, cores: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "foreign_cores": cores, **more}


def test_a_quiet_attempt_stands_as_it_is() -> None:
    assert measured([line(5, NOISY_CORES)], [line(9, 0)]) == ([line(5, NOISY_CORES)], 1)


def test_a_noisy_attempt_is_told_beside_the_one_that_counts_be_it_the_slower_one() -> None:
    noisy = [line(7, NOISE, p50_ms=2.0, seconds=5), line(8, 0)]
    assert measured(noisy, [line(1, 0), line(2, 0)], [line(9, 0), line(9, 0)]) == (
        [
            line(1, 0, set_aside=[line(7, NOISE, p50_ms=2.0)]),
            line(2, 0, set_aside=[line(8, 0)]),
        ],
        2,
    )


def test_what_was_said_of_an_attempt_is_kept_with_it() -> None:
    """Else a load that was late in each of them looks like one that the noise alone disturbed."""
    late = "the load was the bottleneck: p50 9.00 ms late of 10.00 ms"
    noisy = line(7, NOISE, **RATE, refused=[late], remarks=["noisy: strangers used 0.36 cores"])
    silent = line(8, NOISE, refused=[], remarks=[])
    ((shown,), _) = measured([noisy], [silent], [line(1, 0)])
    assert [(each.get("refused"), each.get("remarks")) for each in shown["set_aside"]] == [
        ([late], ["noisy: strangers used 0.36 cores"]),
        (None, None),
    ]


def test_what_stays_noisy_is_shown_noisy() -> None:
    shown, made = measured(*([line(number, NOISE)] for number in range(AGAIN_MAX + 2)))
    assert made == AGAIN_MAX + 1
    assert shown[0]["foreign_cores"] == NOISE
    assert [each["value"] for each in shown[0]["set_aside"]] == list(range(AGAIN_MAX))


def test_who_asks_for_no_repetition_has_the_first() -> None:
    assert measured([line(1, NOISE)], [line(2, 0)], again_max=0) == ([line(1, NOISE)], 1)


@pytest.mark.parametrize("why", ["3 messages lost", "setting fsync"])
def test_no_noise_excuses_a_failure(why: str) -> None:
    failed = [line(1, NOISE, refused=[why])]
    assert measured(failed, [line(9, 0)]) == (failed, 1)


def test_a_load_that_was_late_in_noise_is_measured_again() -> None:
    late = "the load was the bottleneck: p50 9.00 ms late of 10.00 ms"
    assert (
        measured(
            [line(1, NOISE, **RATE, refused=[late, late.replace("p50", "p99")])], [line(9, 0, **RATE, refused=[late])]
        )[1]
        == 2
    )
    assert measured([line(1, NOISE, **RATE, refused=[late, "2 messages lost"])], [line(9, 0)])[1] == 1


async def test_where_a_loop_must_go_on_it_is_the_same() -> None:
    attempts, pauses = [line(7, NOISE), line(1, 0.0), line(9, 0.0)], list[float]()

    async def measure(attempt: int) -> dict[str, Any]:
        return {**attempts[attempt], "attempt": attempt}

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    assert await calm_on_loop(measure, 5, pause) == line(1, 0.0, attempt=1, set_aside=[line(7, NOISE)])
    assert pauses == [PAUSE_S]
    assert await calm_on_loop(measure, 0, pause) == {**attempts[0], "attempt": 0}
    attempts[0]["refused"] = ["3 messages lost"]
    assert (await calm_on_loop(measure, 5, pause))["attempt"] == 0
    assert pauses == [PAUSE_S]


@pytest.mark.parametrize(("options", "most"), [({}, AGAIN_MAX), ({"once": True}, 0), ({"quick": True}, 0)])
def test_who_wants_one_look_gets_one(options: dict[str, bool], most: int) -> None:
    asked = argparse.Namespace(**{"quick": False, "once": False, **options})
    assert again_max_of(asked) == most
