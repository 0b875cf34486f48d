"""What counts against the bound of a run, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos import scenario
from chaos.account import Span
from chaos.scenario import Configuration

BOUND_S = 0.05


class SlowToEnd:
    """Processes that take longer to end than a run has."""

    def __init__(self, *_arguments: object, **_settings: object) -> None: ...

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield
        await asyncio.sleep(2 * BOUND_S)


async def run(monkeypatch: pytest.MonkeyPatch, directory: Path, load_s: float) -> object:
    async def under_load(*_arguments: object) -> list[Span]:
        await asyncio.sleep(load_s)
        return []

    judged: Any = lambda *_arguments: "judged"  # noqa: E731 - said in one word
    for name, double in {"Cluster": SlowToEnd, "_under_load": under_load, "judged": judged}.items():
        monkeypatch.setattr(scenario, name, double)
    return await scenario.run(Configuration("none", ()), directory, Path("none"), 0.0, 1, bound_s=BOUND_S)


async def test_a_pair_that_came_together_is_not_stuck_however_long_its_end_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ending processes and doing sums over a hundred thousand events take long where others work too; neither waits."""
    assert await run(monkeypatch, tmp_path, 0.0) == "judged"


async def test_a_pair_that_does_not_come_together_in_time_is_stuck(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="after its time"):
        await run(monkeypatch, tmp_path, 60.0)
