"""What is said of a name that is no macro queue's."""

from __future__ import annotations

import pytest

from replica.machine.features.macros import named_macro
from tandemq.v1.common_pb2 import REASON_QUEUE_NOT_FOUND
from tests.unit.replica.machine.driver import Driver


@pytest.mark.parametrize(("name", "what"), [("q", "a queue and no macro queue"), ("nowhere", "not there; create it")])
def test_a_name_that_no_macro_queue_has_says_what_it_is(name: str, what: str) -> None:
    driver = Driver()
    driver.create("q")
    why = driver.refusal(lambda: named_macro(driver.master.state, name))
    assert (why.reason, why.metadata) == (REASON_QUEUE_NOT_FOUND, {"queue": name})
    assert f"there is no macro queue {name!r}: it is {what}" in why.message
