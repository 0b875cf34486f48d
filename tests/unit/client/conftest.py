"""Fixtures of tests whose client calls a member that says what it is told to say."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.client.fake import FakeMember


@pytest.fixture
async def member() -> AsyncIterator[FakeMember]:
    async with FakeMember() as started:
        yield started


@pytest.fixture
async def other() -> AsyncIterator[FakeMember]:
    async with FakeMember("b") as started:
        yield started
