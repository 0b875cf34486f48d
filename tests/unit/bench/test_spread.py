"""Open loops over several connections: each message when it is due, to the next one; what waits leaves together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from bench.peers.clients.spread import Due, one_request_each, when_due
from bench.peers.load import Job
from tests.support.until import until


def job(folder: Path) -> Job:
    """Twenty messages, a millisecond apart."""
    return Job({
        "folder": str(folder), "progress": str(folder / "progress"), "target": {}, "queue": "q", "seed": 1, "size": 64,
        "window": 10, "batch": 4, "warm_s": 0, "seconds": 0.02, "rate": 1000.0,
    })  # fmt: skip


async def test_each_message_goes_to_the_next_connection_with_the_moment_at_which_it_was_due(tmp_path: Path) -> None:
    one, handed = job(tmp_path), list[tuple[int, Due]]()
    await when_due(one, 3, lambda number, message: handed.append((number, message)))
    assert [number for number, _ in handed] == [number % 3 for number in range(20)]
    due = [at for _, (_, at) in handed]
    assert [later - at for at, later in pairwise(due)] == pytest.approx([0.001] * 19)
    assert len({payload for _, (payload, _) in handed}) == 20


async def test_a_connection_has_one_request_under_way_and_the_next_takes_what_came_meanwhile(tmp_path: Path) -> None:
    one = job(tmp_path)
    requests: list[list[int]] = [[], []]
    under_way = [0, 0]

    def sender(number: int) -> Callable[[list[Due]], Awaitable[None]]:
        async def send(messages: list[Due]) -> None:
            under_way[number] += 1
            assert under_way[number] == 1
            if not requests[number]:  # the first answer comes when all is due
                await until(lambda: one.over, "all is due")
            requests[number].append(len(messages))
            under_way[number] -= 1

        return send

    await one_request_each(one, [sender(0), sender(1)])
    assert [sum(counts) for counts in requests] == [10, 10]
    assert all(len(counts) <= 3 for counts in requests), "the rest leaves together"
    assert one.all_sent() == 20


async def test_a_connection_that_fails_ends_it(tmp_path: Path) -> None:
    async def send(_: list[Due]) -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await one_request_each(job(tmp_path), [send])
