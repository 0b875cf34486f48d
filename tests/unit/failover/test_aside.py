"""Calls of other people's code on a loop of its own: what it raised is said by name, and its text where it has one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from failover.aside import AsideLoop
from tests.support.until import OUTER_S


@pytest.fixture
def aside() -> Iterator[AsideLoop]:
    made = AsideLoop("test")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("no disk"), "it raised RuntimeError: no disk"),
        (RuntimeError(), "it raised RuntimeError"),
    ],
)
def test_what_it_raised_is_said(aside: AsideLoop, error: Exception, said: str) -> None:
    async def fails() -> object:
        raise error

    assert aside.call_and_wait(fails(), OUTER_S) == said
