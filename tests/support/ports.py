"""A range of ports of a test's own, for one that starts its processes itself. A `Cluster` has its own without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.ports import PortRange


@pytest.fixture
def base_port() -> Iterator[int]:
    """Of a range that no other is given before the test is over."""
    with PortRange() as held:
        yield held.base_port
