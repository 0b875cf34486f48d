"""What clients may put beside payloads: at the limit it enters, one more is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import Refused
from replica.machine.plan.content import (
    BATCH_PROPERTIES_MAX,
    PROPERTIES_MAX,
    TEXT_BYTES_MAX,
    check_content,
    check_message,
)
from tandemq.v1.common_pb2 import REASON_BAD_ATTRIBUTE, REASON_BAD_REQUEST
from tandemq.v1.message_pb2 import Message, MessageBatch, Properties, PropertyValue

TEXTS = ["content_type", "correlation_id", "reply_to", "group_id"]


def named(*names: str) -> dict[str, PropertyValue]:
    return {name: PropertyValue(flag=True) for name in names}


def numbered(count: int) -> dict[str, PropertyValue]:
    return named(*map(str, range(count)))


def batch(count: int = 1, *properties: dict[str, PropertyValue], **columns: Any) -> MessageBatch:
    entries = [Properties(entries=each) for each in properties]
    return MessageBatch(payloads=[b""] * count, properties=entries, **columns)


def refusal_of(messages: MessageBatch) -> Refused:
    with pytest.raises(Refused) as info:
        check_content(messages)
    return info.value


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("letter", ["x", "ä"])
def test_texts_have_a_length(name: str, letter: str) -> None:
    longest = letter * (TEXT_BYTES_MAX // len(letter.encode()))
    check_content(batch(2, **{f"{name}s": ["", longest]}))
    check_message(Message(**{name: longest}))
    refused = refusal_of(batch(2, **{f"{name}s": ["", longest + "x"]}))
    assert refused.reason == REASON_BAD_ATTRIBUTE
    assert f"{name}s has an entry of {TEXT_BYTES_MAX + 1} bytes" in refused.message
    with pytest.raises(Refused, match=f"{name} has an entry of {TEXT_BYTES_MAX + 1} bytes"):
        check_message(Message(**{name: longest + "x"}))


def test_a_message_has_so_many_properties() -> None:
    check_content(batch(2, {}, numbered(PROPERTIES_MAX)))
    check_message(Message(properties=numbered(PROPERTIES_MAX)))
    refused = refusal_of(batch(2, {}, numbered(PROPERTIES_MAX + 1)))
    assert refused.reason == REASON_BAD_REQUEST
    assert refused.message == "messages[1] has 257 properties; a message may have 256"
    with pytest.raises(Refused, match="257 properties"):
        check_message(Message(properties=numbered(PROPERTIES_MAX + 1)))


def test_a_batch_has_so_many_properties_however_they_are_written() -> None:
    most = BATCH_PROPERTIES_MAX // PROPERTIES_MAX
    check_content(batch(most, numbered(PROPERTIES_MAX)))
    for messages in (
        batch(most + 1, numbered(PROPERTIES_MAX)),
        batch(most + 1, *[numbered(PROPERTIES_MAX)] * (most + 1)),
    ):
        refused = refusal_of(messages)
        assert refused.reason == REASON_BAD_REQUEST
        assert refused.message.startswith(f"{(most + 1) * PROPERTIES_MAX} properties in a batch; it may have 200000")


def test_what_the_manager_sets_nobody_else_does() -> None:
    check_content(batch(1, named("tq", "x_tq_", "")))
    refused = refusal_of(batch(2, named("colour"), named("colour", "tq_hops")))
    assert refused.reason == REASON_BAD_REQUEST
    assert "property 'tq_hops'" in refused.message
    with pytest.raises(Refused, match="property 'tq_hops'"):
        check_message(Message(properties=named("tq_hops")))


def test_names_of_properties_have_a_length() -> None:
    check_content(batch(1, named("x" * TEXT_BYTES_MAX)))
    refused = refusal_of(batch(1, named("x" * (TEXT_BYTES_MAX + 1))))
    assert refused.reason == REASON_BAD_ATTRIBUTE
    assert "1025 bytes" in refused.message
