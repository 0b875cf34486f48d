"""Makes the call of React that a reactive message is, and the answer of Enqueue of what it came to (V2). Decides
nothing else: a reactive message is never stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.rpc.refusals import abort, refusal
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_service_pb2 import EnqueueResponse
from tandemq.v1.reaction_service_pb2 import Reaction, ReactRequest, ReactResponse

if TYPE_CHECKING:
    from replica.rpc.requests import Context
    from replica.services.messages.react import ReactionHandlers
    from tandemq.v1.queue_service_pb2 import EnqueueRequest

_INPUT = ("payload", "content_type", "properties")
"""What a reactive message may say, where its action takes something."""
_TAKING = ("update", "custom")


async def enqueue_reactive(reactions: ReactionHandlers, request: EnqueueRequest, context: Context) -> bytes:
    """The same call under the same request id as React with it."""
    if (text := _problem_of(request)) is not None:
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
    asked = ReactRequest(
        request_id=request.request_id,
        queue=request.queue,
        reaction=_with_input(request.reaction, request.messages[0] if request.messages else Message()),
        min_copies=request.min_copies,
        epoch=request.epoch,
        unit_id=request.unit_id,
    )
    done = ReactResponse.FromString(await reactions.react(asked.SerializeToString(), context))
    made = EnqueueResponse(header=done.header, duplicate=done.duplicate, forwarded=done.forwarded, reacted=done)
    return made.SerializeToString()


def _problem_of(request: EnqueueRequest) -> str | None:
    if len(request.messages) > 1:
        return f"a reactive message stands alone in its batch; there are {len(request.messages)} messages"
    if request.HasField("wait"):
        return "a reactive message waits for nothing, neither for room nor for an end; leave out wait"
    action = request.reaction.WhichOneof("action")
    may = ("correlation_id", *_INPUT) if action in _TAKING else ("correlation_id",)
    others = [field.name for message in request.messages for field, _ in message.ListFields() if field.name not in may]
    if (idle := [name for name in others if name in _INPUT]) and action is not None:
        return f"reaction.{action} takes no {', '.join(idle)} of its message; leave it out"
    if others:
        return f"a reactive message is not stored and has no {', '.join(others)}; leave it out"
    return None


def _with_input(reaction: Reaction, message: Message) -> Reaction:
    """What the reaction says itself stays."""
    made = Reaction()
    made.CopyFrom(reaction)
    made.correlation_id = made.correlation_id or message.correlation_id
    match made.WhichOneof("action"):
        case "update":
            update = made.update
            if message.payload and not update.HasField("payload"):
                update.payload = message.payload
            if message.content_type and not update.HasField("content_type"):
                update.content_type = message.content_type
            properties = update.set_properties
        case "custom":
            made.custom.payload = made.custom.payload or message.payload
            made.custom.content_type = made.custom.content_type or message.content_type
            properties = made.custom.properties
        case _:
            return made
    for name, value in message.properties.items():
        if name not in properties:
            properties[name].CopyFrom(value)
    return made
