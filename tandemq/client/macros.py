"""Macro queues: made, changed and shown. Messages are sent to one, or received from one, as with any queue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from tandemq.client.calls import MACRO_SERVICE
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.v1 import macro_service_pb2 as pb


class Relationship(StrEnum):
    """Which calls a macro queue takes."""

    CONSUMER = "CONSUMER"
    """Messages are received from it."""
    PRODUCER = "PRODUCER"
    """Messages are sent to it."""


class MacroPolicy(StrEnum):
    """Which member is chosen; see tandemq.v1.MacroPolicy."""

    FIRST_AVAILABLE = "FIRST_AVAILABLE"
    PRIORITIZED = "PRIORITIZED"
    ROUND_ROBIN = "ROUND_ROBIN"
    SHORTEST_QUEUE = "SHORTEST_QUEUE"
    CHRONOLOGICAL = "CHRONOLOGICAL"
    MESSAGE_PRIORITY = "MESSAGE_PRIORITY"
    BY_GROUP = "BY_GROUP"
    DUPLICATE = "DUPLICATE"
    DUPLICATE_BEST_EFFORT = "DUPLICATE_BEST_EFFORT"
    FASTEST_RESPONSE = "FASTEST_RESPONSE"


class FarState(StrEnum):
    """How a member at another manager stands; see tandemq.v1.FarState."""

    IDLE = "IDLE"
    """Nobody waits at the macro queue."""
    ASKED = "ASKED"
    HEARD = "HEARD"
    """It has messages here, or has answered that it has none."""
    LATE = "LATE"
    """It has not answered in time, and holds nobody back until it does."""
    AWAY = "AWAY"
    """Its proxy is FAILED, or it is refused there."""
    MISFIT = "MISFIT"
    """Its queue does not go with the macro queue."""


class MemberState(StrEnum):
    """Whether a member is chosen; see tandemq.v1.MemberState."""

    OPEN = "OPEN"
    CLOSED = "CLOSED"
    """It is open at neither member of the pair, and passed over until open_queue."""
    OPEN_IN_PART = "OPEN_IN_PART"
    """It is open at one member of the pair alone: who is attached to the other one has nothing of it."""
    DISABLED = "DISABLED"
    """Sending to it is disabled, or receiving where the macro queue is received from."""


class FarMember(NamedTuple):
    """A member at another manager, as the serving master sees it."""

    state: FarState
    why: str
    """Of LATE, AWAY and MISFIT."""
    heads: int
    """Messages that are leased there and wait here for a consumer."""
    delivered: int
    returned: int
    """Messages that went back, or whose lease there had ended; both since the master serves."""


class MacroMember(NamedTuple):
    """A queue of a macro queue."""

    queue: str
    priority: int
    """0 to 9; higher goes first."""
    handle: int
    """Number of the queue in its domain, never used again."""
    mean_response: timedelta | None = None
    """FASTEST_RESPONSE: from delivery to settlement, as the master has seen it lately; None: nothing is known."""
    share: float | None = None
    """What it is dealt of all messages, 0 to 1, where a table of weights is in force; of get_macro alone."""
    target: str = ""
    """At another manager, //manager/queue; `queue` is then a proxy, or the transmission queue that leads there."""
    far: FarMember | None = None
    """At another manager, where a proxy leads there: how it is reached; of get_macro alone."""
    state: MemberState = MemberState.OPEN
    """Of a queue of this pair: whether it is chosen, or passed over."""


class MacroWeights(NamedTuple):
    """The table of weights of a macro queue's name (see publish_weights), which overrides its policy while it is valid:
    of FIRST_AVAILABLE, ROUND_ROBIN, SHORTEST_QUEUE and FASTEST_RESPONSE. A group keeps its member, a copy goes to all.
    """

    version: int
    valid_until: datetime
    in_force: bool
    """Whether messages are dealt by it now: it is valid, and gives members a weight. Else the policy decides."""


class Macro(NamedTuple):
    """A macro queue as the pair answered it."""

    name: str
    relationship: str
    """CONSUMER or PRODUCER."""
    policy: str
    members: tuple[MacroMember, ...]
    """In the order of adding."""
    version: int
    """Rises with each change."""
    created_at: datetime
    choices: tuple[tuple[str, int], ...] = ()
    """Reasons for which members were chosen, and how often, by the master since it started; of get_macro alone."""
    weights: MacroWeights | None = None
    """None: there is no such table; of get_macro alone."""


async def create_macro(
    client: Linked,
    name: str,
    *,
    relationship: Relationship = Relationship.CONSUMER,
    policy: MacroPolicy | None = None,
    domain: str = "",
) -> Macro:
    """Makes a macro queue without members. policy: None is PRIORITIZED of a consumer, FIRST_AVAILABLE of a producer.

    Raises Refused with reason QUEUE_EXISTS when a queue or macro queue has the name, CONFIG_ERROR for a policy of the
    other relationship. A call that is in doubt is repeated by the client, and has one effect.
    """
    request = pb.CreateMacroRequest(
        request_id=new_request_id(),
        domain=domain,
        name=name,
        relationship=f"RELATIONSHIP_{relationship}",
        policy=f"MACRO_POLICY_{policy or 'UNSPECIFIED'}",
    )
    path = MACRO_SERVICE + "CreateMacro"
    return _macro((await client.links.own.caller.call(path, request, pb.CreateMacroResponse)).macro)


async def add_macro_member(
    client: Linked, name: str, queue: str, *, priority: int = 0, expected_version: int = 0
) -> Macro:
    """Adds a queue of the same domain behind the members that are there; from now on it is chosen as they are. Also a
    queue of another manager, by its proxy's name or as //MANAGER/QUEUE: one that is received from needs a proxy, one
    that is sent to gets a transmission queue here, SYSTEM.XMIT/MANAGER/QUEUE, which is the member.

    priority: 0 to 9, higher goes first. expected_version: only where the macro queue has this one; 0: any.
    Raises NotFound with reason QUEUE_NOT_FOUND (metadata `member` when it is the queue), Refused with reason
    CONFIG_ERROR (a member already, a macro queue), CONFIG_MISMATCH (it does not go with the others), CROSS_DOMAIN or
    VERSION_MISMATCH; NotFound with reason MANAGER_NOT_FOUND.
    """
    request = pb.AddMemberRequest(
        request_id=new_request_id(), name=name, queue=queue, priority=priority, expected_version=expected_version
    )
    path = MACRO_SERVICE + "AddMember"
    return _macro((await client.links.own.caller.call(path, request, pb.AddMemberResponse)).macro)


async def remove_macro_member(client: Linked, name: str, queue: str, *, expected_version: int = 0) -> Macro:
    """Takes a queue out; it stays, with its messages. What was received from it is settled as before.

    Raises NotFound with reason QUEUE_NOT_FOUND, Refused with reason VERSION_MISMATCH.
    """
    request = pb.RemoveMemberRequest(
        request_id=new_request_id(), name=name, queue=queue, expected_version=expected_version
    )
    path = MACRO_SERVICE + "RemoveMember"
    return _macro((await client.links.own.caller.call(path, request, pb.RemoveMemberResponse)).macro)


async def get_macro(client: Linked, name: str) -> Macro:
    """The macro queue of that name. Raises NotFound with reason QUEUE_NOT_FOUND."""
    path = MACRO_SERVICE + "GetMacro"
    return _macro((await client.links.own.caller.call(path, pb.GetMacroRequest(name=name), pb.GetMacroResponse)).macro)


async def list_macros(client: Linked, domain: str = "") -> list[Macro]:
    """All macro queues of a domain, by name. Pages are read one after another."""
    found: list[Macro] = []
    token = ""
    while True:
        request, path = pb.ListMacrosRequest(domain=domain, page_token=token), MACRO_SERVICE + "ListMacros"
        page = await client.links.own.caller.call(path, request, pb.ListMacrosResponse)
        found.extend(map(_macro, page.macros))
        token = page.next_page_token
        if not token:
            return found


async def delete_macro(client: Linked, name: str, *, expected_version: int = 0) -> None:
    """Removes a macro queue; its members stay, with their messages. Raises NotFound with reason QUEUE_NOT_FOUND, and
    Refused with reason VERSION_MISMATCH when it has another version.
    """
    request = pb.DeleteMacroRequest(request_id=new_request_id(), name=name, expected_version=expected_version)
    await client.links.own.caller.call(MACRO_SERVICE + "DeleteMacro", request, pb.DeleteMacroResponse)


def _macro(found: pb.MacroQueue) -> Macro:
    return Macro(
        found.name,
        pb.Relationship.Name(found.relationship).removeprefix("RELATIONSHIP_"),
        pb.MacroPolicy.Name(found.policy).removeprefix("MACRO_POLICY_"),
        tuple(map(_member, found.members)),
        found.version,
        found.created_at.ToDatetime(UTC),
        tuple((each.reason, each.count) for each in found.choices),
        _weights(found.weights) if found.HasField("weights") else None,
    )


def _weights(found: pb.MacroWeights) -> MacroWeights:
    return MacroWeights(found.version, found.valid_until.ToDatetime(UTC), found.in_force)


def _member(found: pb.MacroMember) -> MacroMember:
    response = found.mean_response.ToTimedelta() if found.HasField("mean_response") else None
    share = found.share if found.HasField("share") else None
    far = _far(found.far) if found.HasField("far") else None
    name = pb.MemberState.Name(found.state).removeprefix("MEMBER_STATE_")
    state = MemberState.OPEN if found.state == pb.MEMBER_STATE_UNSPECIFIED else MemberState(name)
    return MacroMember(found.queue, found.priority, found.handle, response, share, found.target, far, state)


def _far(found: pb.FarMember) -> FarMember:
    name = pb.FarState.Name(found.state).removeprefix("FAR_STATE_")
    state = FarState.IDLE if found.state == pb.FAR_STATE_UNSPECIFIED else FarState(name)
    return FarMember(state, found.why, found.heads, found.delivered, found.returned)
