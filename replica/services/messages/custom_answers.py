"""Puts into words what is to become of a message, and reads the answer of a command or a plug-in (V10). Every doubt is
no answer, and says why. Asks nobody.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from failover.process import Ended
from failover.reasons import tidy
from replica.core.ordering.reaction import Effect
from replica.services.messages.changes import problem_of_update
from tandemq.client.outgoing import from_property
from tandemq.client.reactions import to_update
from tandemq.reacting import Cancel, Change, Input, Leave, MoveTo, Question

if TYPE_CHECKING:
    from collections.abc import Mapping

    from failover.process import Ran
    from replica.core.messages.copies import FoundMessage
    from tandemq.client.outgoing import Value
    from tandemq.v1 import reaction_service_pb2 as pb

ANSWER_BYTES_MAX = 1 << 20
"""Of an answer about one message."""
QUEUE_CHARS_MAX = 255
VERSION = 1
_CHANGES = ("payload", "content_type", "properties", "without", "priority", "ttl_ms", "delay_ms")


class Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A property of bytes."""

    base64: bytes


class SaidJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a command writes to stdout, one line."""

    id: str
    """Of the question."""
    action: str
    queue: str = ""
    """With MOVE."""
    payload: bytes | None = None
    content_type: str | None = None
    properties: dict[str, Bytes | str | int | float | bool] = {}
    without: list[str] = []
    priority: int | None = None
    ttl_ms: int | None = None
    delay_ms: int | None = None


def question_of(custom: pb.ReactionCustom, queue: str, found: FoundMessage) -> Question:
    """About one message, which is here."""
    message = found.message
    assert message is not None, "asked about what is not here"
    return Question(
        custom.name,
        queue,
        found.id,
        found.index,
        found.deliveries,
        message.payload,
        message.content_type,
        message.correlation_id,
        message.group_id,
        message.reply_to,
        message.priority if message.HasField("priority") else 4,
        {name: from_property(value) for name, value in message.properties.items()},
        Input(
            custom.payload,
            custom.content_type,
            {name: from_property(value) for name, value in custom.properties.items()},
        ),
    )


def to_json(question: Question) -> bytes:
    """What a command reads from stdin, one line."""
    texts = ("content_type", "correlation_id", "group_id", "reply_to", "priority")
    return msgspec.json.encode(
        {
            "version": VERSION,
            "reaction": question.reaction,
            "queue": question.queue,
            "id": question.id.hex(),
            "index": question.index,
            "deliveries": question.deliveries,
            "message": {
                "payload": question.payload,
                **{name: getattr(question, name) for name in texts},
                "properties": _plain(question.properties),
            },
            "input": {
                "payload": question.input.payload,
                "content_type": question.input.content_type,
                "properties": _plain(question.input.properties),
            },
        }
    )


def _plain(properties: Mapping[str, Value]) -> dict[str, object]:
    return {
        name: {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in properties.items()
    }


def of_command(question: Question, ran: Ran) -> Effect | str | None:
    """What a command has answered; None: it is left, a text: why that is no answer."""
    if ran.ended is not Ended.EXIT:
        return _with_stderr(ran.why, ran)
    if ran.code:
        return _with_stderr(f"exit code {ran.code}" if ran.code > 0 else f"it died of signal {-ran.code}", ran)
    if ran.stdout_cut:
        return f"it wrote more than {len(ran.stdout):,} bytes to stdout; write one line of JSON"
    try:
        given = msgspec.json.decode(ran.stdout, type=SaidJson)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _with_stderr(f"its stdout is no answer: {tidy(str(error))}", ran)
    if given.id != question.id.hex():
        return f"it answers about message {tidy(given.id)!r}, asked was {question.id.hex()!r}"
    return _of_json(given)


def _with_stderr(why: str, ran: Ran) -> str:
    said = tidy(ran.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return f"{why}; stderr ends: {said}" if said else why


def _of_json(given: SaidJson) -> Effect | str | None:
    changes = [name for name in _CHANGES if getattr(given, name) not in _UNSET]
    if changes and given.action != "UPDATE":
        return f"{', '.join(changes)} go with UPDATE, not with {tidy(given.action)!r}"
    if bool(given.queue) != (given.action == "MOVE"):
        return "queue goes with MOVE, and MOVE needs it"
    match given.action:
        case "LEAVE":
            return None
        case "DELETE":
            return of_plug_in(Cancel())
        case "MOVE":
            return of_plug_in(MoveTo(given.queue))
        case "UPDATE":
            return _of_update(given)
        case _:
            return f"action is {tidy(given.action)!r}; it is one of LEAVE, DELETE, UPDATE, MOVE"


_UNSET: tuple[object, ...] = (None, {}, [])


def _of_update(given: SaidJson) -> Effect | str | None:
    properties: dict[str, Value] = {
        name: value.base64 if isinstance(value, Bytes) else value for name, value in given.properties.items()
    }
    try:
        ttl, delay = (None if ms is None else timedelta(milliseconds=ms) for ms in (given.ttl_ms, given.delay_ms))
    except OverflowError:
        return "ttl_ms or delay_ms is more than a clock can count"
    return of_plug_in(Change(given.payload, given.content_type, properties, given.without, given.priority, ttl, delay))


def of_plug_in(said: object) -> Effect | str | None:
    """What a plug-in has answered; None: it is left, a text: why that is no answer."""
    match said:
        case Leave():
            return None
        case Cancel():
            return Effect()
        case MoveTo():
            queue: object = said.queue
            if not isinstance(queue, str) or not queue:
                return "it says MoveTo, and no queue"
            if len(queue) > QUEUE_CHARS_MAX:  # before a refusal repeats it
                return f"it says MoveTo, and a name of {len(queue):,} characters, which no queue has"
            return Effect(to=queue)
        case Change():
            return _of_change(said)
        case _:
            return f"it returned {type(said).__name__}, which is none of Leave, Cancel, MoveTo, Change"


def _of_change(change: Change) -> Effect | str:
    try:
        size = _least_of(change)
        made = to_update(change) if size <= ANSWER_BYTES_MAX else None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:  # what no field holds
        return f"its change cannot be made: {tidy(str(error))}"
    if made is None or (size := made.ByteSize()) > ANSWER_BYTES_MAX:
        return f"its change has {size:,} bytes; it may have {ANSWER_BYTES_MAX:,}"
    problem = problem_of_update(made)
    return Effect(update=made) if problem is None else problem.message


def _least_of(change: Change) -> int:
    """It has so many bytes or more: known before any of it is copied, which a plug-in's 2 GiB would be twice."""
    named = [text for name, value in change.properties.items() for text in (name, value)]
    texts = [change.payload, change.content_type, *named, *change.without]
    return sum(len(each) for each in texts if isinstance(each, (str, bytes)))
