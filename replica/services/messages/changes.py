"""Decides whether a change that a reaction asks for could have been sent so; what the queue says is decided later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine import Refused
from replica.machine.plan.content import RESERVED, check_message
from replica.machine.state.segments import PRIORITIES
from replica.rpc.refusals import refusal
from replica.services.checks import problem_of_ttl
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message

if TYPE_CHECKING:
    from replica.core.state.outcomes import Failed
    from tandemq.v1 import reaction_service_pb2 as pb


def problem_of_update(update: pb.ReactionUpdate) -> Failed | None:
    """What no sender may send, either."""
    if not update.ListFields():
        return refusal(Reason.REASON_BAD_REQUEST, "reaction.update changes nothing; name at least one field")
    if update.priority >= PRIORITIES:
        return refusal(Reason.REASON_BAD_ATTRIBUTE, f"priority {update.priority}; the highest is {PRIORITIES - 1}")
    if any(name.startswith(RESERVED) for name in update.remove_properties):
        text = f"names that begin with {RESERVED} are the manager's; leave them out of remove_properties"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    sent = Message(payload=update.payload, content_type=update.content_type, properties=update.set_properties)
    for name in ("ttl", "delay"):
        if update.HasField(name):
            getattr(sent, name).CopyFrom(getattr(update, name))
    try:
        check_message(sent)
    except Refused as refused:
        return refusal(refused.reason, refused.message, refused.metadata)
    return problem_of_ttl((sent,))
