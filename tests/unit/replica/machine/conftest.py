"""The fixture that most tests of the machine begin with."""

from __future__ import annotations

import pytest

from tests.unit.replica.machine.driver import Driver


@pytest.fixture
def driver() -> Driver:
    """With a queue."""
    made = Driver()
    made.create()
    return made
