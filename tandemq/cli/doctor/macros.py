"""Judges macro queues by what their master says of them; asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandemq.cli.doctor.finding import Check, Finding
from tandemq.v1 import macro_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

MACROS = Check("macros", "what is sent to a macro queue goes where its members and its table of weights let it go")
PAGE = "docs/MACRO.md"


def macro_queues(found: Sequence[pb.MacroQueue]) -> list[Finding]:
    """One finding where all are well; else one for each that is not."""
    troubles = [trouble for macro in found if (trouble := _trouble(macro)) is not None]
    if found and not troubles:
        return [MACROS.ok("macro queues", f"{len(found)} of them have members", macros=len(found))]
    return troubles


def _trouble(macro: pb.MacroQueue) -> Finding | None:
    about = f"macro queue {macro.name}"
    if not macro.members:
        text = "it has no members: what is sent to it is refused, and who waits at it waits for ever"
        return MACROS.warn(about, text, f"`tandemq macro add {macro.name} QUEUE`, or `tandemq macro rm {macro.name}`")
    for member in macro.members:
        if member.far.state in (pb.FAR_STATE_AWAY, pb.FAR_STATE_MISFIT, pb.FAR_STATE_LATE):
            state = pb.FarState.Name(member.far.state).removeprefix("FAR_STATE_")
            text, step = f"member {member.queue} ({member.target}) is {state}", f"`tandemq proxy info {member.queue}`"
            if macro.relationship == pb.RELATIONSHIP_PRODUCER:
                text = f"{text}, and is dealt only what no other member takes: {member.far.why}"
                step = f"`tandemq proxy ls`, `tandemq xmit ls`; {PAGE}, Sending there"
            else:
                text, step = f"{text}, and nothing of it is given: {member.far.why}", f"{step}; {PAGE}, As a member"
            return MACROS.warn(about, text, step, member=member.queue, state=state)
    if macro.HasField("weights") and not macro.weights.in_force:
        until = macro.weights.valid_until.ToJsonString()
        text = (
            f"its table of weights is not in force (version {macro.weights.version}, valid until {until}): its policy"
        )
        text = f"{text} decides"
        step = f"see that who publishes it runs, or `tandemq weights delete {macro.name}`; {PAGE}, By weights"
        return MACROS.warn(about, text, step, version=macro.weights.version)
    return None
