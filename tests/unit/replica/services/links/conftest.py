from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.replica.services.links.linked import Managers, two_managers


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[Managers]:
    with two_managers(tmp_path) as both:
        yield both
