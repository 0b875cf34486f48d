"""The stories of `tests.support.stories`, one test each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import stories


@pytest.mark.parametrize("story", stories.ALL, ids=lambda story: story.__name__)
def test_story_ends_well(story: Callable[[], None]) -> None:
    story()
