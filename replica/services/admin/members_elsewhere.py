"""Makes what a macro queue that is sent to needs for a member at another manager: a transmission queue that leads to
that one queue (M4). Adds no member; the master of the domain does, by a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import Failed
from replica.machine import Refused
from replica.machine.features.macros import check_before_made
from replica.machine.plan.members import far_name
from replica.machine.state.system_names import target_of, way_to
from replica.rpc.refusals import refusal
from replica.services.elsewhere import Onward, ensure, onward_of, xmit_config
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.outcomes import Moved
    from replica.machine import MacroCall
    from replica.node.members import Members


async def way_made(members: Members, domain: Domain, call: MacroCall) -> Failed | Moved | None:
    """At the serving master, before the member is added. What is refused names the member, and nothing is made."""
    machine, macro, member = domain.shared.machine, call.name, call.queue
    known = machine.state.macros.by_name.get(macro) if machine is not None else None
    if machine is None or known is None or not known.is_producer:
        return None  # whoever orders it says what is wrong
    full_name = far_name(machine.state, member)
    if not full_name:
        return None
    named = {"queue": macro, "member": member}
    try:
        where = onward_of(members, full_name)
    except Refused as refused:
        return Failed(refused.reason, refused.message, {**refused.metadata, **named}, None)
    way = way_to(full_name)
    if not isinstance(where, Onward):
        return refusal(
            Reason.REASON_CONFIG_ERROR, f"{member} is queue {where} of this manager: add it by that name", named
        )
    target = target_of(way)
    if target is None or not target.queue:
        text = f"{member} cannot be a member of macro queue {macro}: no transmission queue leads to the queues of a"
        return refusal(Reason.REASON_BAD_NAME, f"{text} manager that it keeps for itself", named)
    if machine.queue_id(way) is None:
        try:
            if machine.find_request(call.request_id, call.request_hash) is not None:
                return None  # it was added once, and its queue deleted since
            check_before_made(machine.state, call, xmit_config(members, domain))
        except Refused as refused:
            return Failed(refused.reason, refused.message, refused.metadata, None)
    lack = await ensure(members, domain, way, target)
    if isinstance(lack, Failed):
        text = f"member {member} of macro queue {macro}: {lack.message}"
        return Failed(lack.reason, text, {**lack.metadata, **named}, lack.retry_after_ms)
    return lack
