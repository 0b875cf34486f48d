"""Work that moves is waited for, however long; work that stands still ends, and a busy machine is named."""

from __future__ import annotations

import asyncio

import pytest

from pipeline import patience
from pipeline.patience import stuck, while_it_moves
from pipeline.problems import DEMO_FAILED, TOO_BUSY, PipelineError


async def test_what_moves_is_waited_for_much_longer_than_anything_may_stand_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "LOOK_S", 0.02)
    steps, enough = 0, asyncio.Event()

    def progress() -> int:
        nonlocal steps
        steps += 1
        if steps == 20:
            enough.set()
        return steps

    async def work() -> str:
        await enough.wait()
        return "done"

    assert await while_it_moves(work(), progress, "steps", 0.05) == "done"


async def test_what_stands_still_is_cancelled_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LOOK_S", 0.01)
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(PipelineError, match=r"records: nothing has moved for 0\.02 s; 7 was the last"):
        await while_it_moves(work(), lambda: 7, "records", 0.02)
    assert cancelled.is_set()


async def test_what_fails_by_itself_says_so() -> None:
    async def work() -> None:
        raise PipelineError("BAD_LAKE", "gone")

    with pytest.raises(PipelineError, match="BAD_LAKE: gone"):
        await while_it_moves(work(), lambda: 0, "records", 60)


def test_a_machine_with_too_much_to_do_is_named() -> None:
    assert stuck("it stands", 3.9, 2).reason == DEMO_FAILED
    busy = stuck("it stands", 9.0, 2)
    assert busy.reason == TOO_BUSY
    assert "load average is 9.0 on 2 processors" in busy.cause
    assert "less to do" in busy.next_step
