"""Each attribute of a queue stands in every list of attributes: one that is left out of a list has no rule there."""

from __future__ import annotations

import click
import pytest

from replica.machine.state.config import _ENUMS, _PLACE, _TIMES, MUTABLE
from tandemq.cli.queue_attributes import attribute_options
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

FIELDS = QueueConfig.DESCRIPTOR.fields
ATTRIBUTES = {field.name for field in FIELDS}
OF_TYPE = {
    "MUTABLE, or chosen at creation": ((*MUTABLE, *_PLACE), ATTRIBUTES),
    "_ENUMS": (_ENUMS, {field.name for field in FIELDS if field.enum_type is not None}),
    "_TIMES": (
        _TIMES,
        {field.name for field in FIELDS if field.message_type is not None and "Duration" in field.message_type.name},
    ),
}


@pytest.mark.parametrize("name", OF_TYPE)
def test_each_attribute_stands_in_the_list_of_its_kind_once(name: str) -> None:
    listed, wanted = OF_TYPE[name]
    assert sorted(listed) == sorted(wanted), f"{name} of replica/machine/state/config.py"


def test_each_attribute_that_can_be_changed_has_an_option() -> None:
    command = attribute_options(click.Command("create"))  # type: ignore[arg-type]  # a command takes options as well
    assert {option.name for option in command.params} == set(MUTABLE)  # type: ignore[attr-defined]  # as above
