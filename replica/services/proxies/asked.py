"""Asks of messages for a proxy what a queue here would ask: whether their sender is over a quota, and may have answers
sent where they say. Carries none.

The manager there sees who keeps the proxy, and not who calls: what it lets this manager do is not for everybody here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from replica.machine.features.proxies import target_of
from replica.machine.state.rights import PRODUCE
from replica.rpc.refusals import abort, refusal
from replica.services.weighing import problem_of_frame
from tandemq.finding.names import is_full
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_service_pb2 import ProduceRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.state.outcomes import Failed
    from replica.machine.state.proxies import Proxy
    from replica.node.members import Members


async def problem_of_replies(
    members: Members, proxy: Proxy, reply_tos: Iterable[str], method: str, context: Any
) -> Failed | None:
    """Why the caller may not name these queues in `reply_to`: each is one of the other manager, and wants the right to
    produce on //MANAGER/QUEUE here, as if it were sent to by that name.
    """
    asker = None if members.access is None else members.access.asker
    if asker is None:
        return None
    manager = target_of(proxy).manager
    for name in sorted(set(reply_tos) - {""}):
        full = name if is_full(name) else f"//{manager}/{name}"
        if (problem := await asker.problem_of(context, method, PRODUCE, full)) is not None:
            return problem
    return None


class AskedBatches:
    """The context of a producer's stream at the member that its client is attached to: each batch is looked at when it
    is read. One that may not be sent ends the stream.
    """

    def __init__(self, members: Members, proxy: Proxy, method: str, context: Any) -> None:
        self._members, self._proxy, self._method, self._context = members, proxy, method, context

    async def read(self) -> Any:
        """As gRPC has it."""
        frame = await self._context.read()
        asker = None if self._members.access is None else self._members.access.asker
        if asker is None or not isinstance(frame, bytes):
            return frame
        if (problem := problem_of_frame(frame, self._members.node.limits)) is not None:
            await abort(self._context, problem)
        try:
            batch = ProduceRequest.FromString(frame).batch
        except DecodeError:
            await abort(self._context, refusal(Reason.REASON_BAD_REQUEST, "the frame is not a ProduceRequest"))
        if asker.quoted is not None:
            await asker.quoted.batch(self._context, len(batch.messages.payloads), len(frame))
        reply_tos = batch.messages.reply_tos
        problem = await problem_of_replies(self._members, self._proxy, reply_tos, self._method, self._context)
        if problem is not None:
            await abort(self._context, problem)
        return frame

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
