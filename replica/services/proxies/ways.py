"""Which calls go through a proxy, and how their names and numbers are those of the other manager there. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from replica.rpc.refusals import refusal
from replica.rpc.skim import Skim, names_at
from replica.services.proxies.frames import ConsumeFrames, ProduceFrames, take_header
from replica.services.weighing import problem_of_reply, problem_of_request
from tandemq.far_leases import lease_there
from tandemq.peer.v1.peer_service_pb2 import (
    MESSAGE_CODE_DEQUEUE_REQ,
    MESSAGE_CODE_ENQUEUE_REQ,
    MESSAGE_CODE_GET_STATS,
    MessageCode,
)
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.macro_service_pb2 import (
    RELATIONSHIP_CONSUMER,
    RELATIONSHIP_PRODUCER,
    RELATIONSHIP_UNSPECIFIED,
    Relationship,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.message import Message

    from replica.core.state.outcomes import Failed
    from replica.machine import Limits
    from replica.machine.state.proxies import Proxy
    from replica.services.proxies.frames import Frames
    from tandemq.v1.common_pb2 import ResponseHeader

    Costly = Callable[[bytes, Limits], Failed | None]


CALL_S, ATTEMPT_S = 5.0, 2.0
"""For one call with its repetitions, and for one attempt, beside what the call itself may wait: a takeover of the other
pair fits, and a member that hangs is not waited for when the other one is master."""
CALLS_MAX = 500
"""Under way at once to one manager: its connection takes 1,000."""
OPENING = "open.queue"
"""Where the first frame of a stream has the queue's name."""


class ProxyWay(NamedTuple):
    """One unary call."""

    request: type[Message]
    reply: type[Message]
    relationship: Relationship
    """That takes it; unset: both do."""
    code: MessageCode
    """That the seed's proxies have for it (000 Table 10)."""
    name: str = "queue"
    """Its field for the queue."""
    costly: Costly | None = None
    """Of one that carries messages: why its bytes are not even parsed; None: it carries none, and is short."""


def _both(request: type[Message], reply: type[Message], code: MessageCode, name: str = "queue") -> ProxyWay:
    return ProxyWay(request, reply, RELATIONSHIP_UNSPECIFIED, code, name)


def _sent(request: type[Message], reply: type[Message], costly: Costly | None = None) -> ProxyWay:
    return ProxyWay(request, reply, RELATIONSHIP_PRODUCER, MESSAGE_CODE_ENQUEUE_REQ, costly=costly)


def _taken(request: type[Message], reply: type[Message], costly: Costly | None = None) -> ProxyWay:
    return ProxyWay(request, reply, RELATIONSHIP_CONSUMER, MESSAGE_CODE_DEQUEUE_REQ, costly=costly)


def _costly_reply(request: bytes, _limits: Limits) -> Failed | None:
    return problem_of_reply(request)


GET_QUEUE = "QueueAdminService/GetQueue"
PRODUCE = "QueueService/Produce"
BROWSE_PAGE = "QueueService/BrowsePage"
WAYS: Mapping[str, ProxyWay] = MappingProxyType(
    {
        "QueueService/Enqueue": _sent(pb.EnqueueRequest, pb.EnqueueResponse, problem_of_request),
        "QueueService/CheckCompletion": _sent(pb.CheckCompletionRequest, pb.CheckCompletionResponse),
        "QueueService/WaitCompletion": _sent(pb.WaitCompletionRequest, pb.WaitCompletionResponse),
        "QueueService/Dequeue": _taken(pb.DequeueRequest, pb.DequeueResponse),
        "QueueService/Settle": _taken(pb.SettleRequest, pb.SettleResponse),
        "QueueService/Reply": _taken(pb.ReplyRequest, pb.ReplyResponse, _costly_reply),
        BROWSE_PAGE: _both(pb.BrowsePageRequest, pb.BrowsePageResponse, MESSAGE_CODE_GET_STATS),
        GET_QUEUE: _both(admin_pb2.GetQueueRequest, admin_pb2.GetQueueResponse, MESSAGE_CODE_GET_STATS, "name"),
    }
)
"""By service and method, without the package."""


class StreamWay(NamedTuple):
    """One stream."""

    request: type[Message]
    relationship: Relationship
    frames: Callable[[Proxy, str], Frames]


STREAMS: Mapping[str, StreamWay] = MappingProxyType(
    {
        PRODUCE: StreamWay(pb.ProduceRequest, RELATIONSHIP_PRODUCER, ProduceFrames),
        "QueueService/Consume": StreamWay(pb.ConsumeRequest, RELATIONSHIP_CONSUMER, ConsumeFrames),
    }
)


class Names:
    """Reads the queue's name of a request, and nothing else of it."""

    def __init__(self, way: ProxyWay) -> None:
        self._field = way.name
        self._skim = Skim(way.request.DESCRIPTOR, [way.name])  # type: ignore[arg-type]  # the other kind of the same

    def of(self, request: bytes) -> str:
        """Empty where it names none, or is no such request."""
        found = self._skim.read(request)
        return next(names_at(found, self._field), "") if found is not None else ""


def problem_of(way: ProxyWay, proxy: Proxy, request: Any) -> Failed | None:
    """ProxyFault no proxy takes it, or not this one; nothing has been sent then."""
    if (problem := problem_of_relationship(proxy, way.relationship)) is not None:
        return problem
    fields = request.DESCRIPTOR.fields_by_name
    if "unit_id" in fields and request.unit_id:
        text = f"{proxy.name} is a proxy of {proxy.target}: a unit of work has queues of one manager; begin it there"
        return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": proxy.name, "target": proxy.target})
    if "reaction" in fields and request.HasField("reaction"):
        text = f"{proxy.name} is a proxy of {proxy.target}: a reaction is sent to that manager itself"
        return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": proxy.name, "target": proxy.target})
    return None


def problem_of_relationship(proxy: Proxy, wanted: Relationship) -> Failed | None:
    """M12, of a proxy."""
    if wanted == RELATIONSHIP_UNSPECIFIED or proxy.relationship in (RELATIONSHIP_UNSPECIFIED, wanted):
        return None
    kind = Relationship.Name(proxy.relationship).removeprefix("RELATIONSHIP_")
    what = "sent to" if proxy.relationship == RELATIONSHIP_PRODUCER else "received from"
    text = f"proxy {proxy.name} of {proxy.target} is a {kind}: it is {what} alone"
    return refusal(Reason.REASON_RELATIONSHIP_MISMATCH, text, {"queue": proxy.name})


def there(way: ProxyWay, request: Any, queue: str) -> bytes:
    """The same request, as the other manager reads it: the identity in it stays, the epoch was one of ours."""
    if isinstance(request, pb.SettleRequest):
        for settlement in request.settlements:
            settlement.lease_id = lease_there(settlement.lease_id)  # by a macro queue here, of which it is a member
            if settlement.queue == request.queue:
                settlement.ClearField("queue")  # a macro queue there finds who holds the lease
    setattr(request, way.name, queue)
    if "epoch" in request.DESCRIPTOR.fields_by_name:
        request.ClearField("epoch")
    data: bytes = request.SerializeToString()
    return data


def here(reply: Any, proxy: Proxy, header: ResponseHeader) -> None:
    """The answer as a client here reads it; `header`: of this pair, now. A member of a macro queue there is no name
    here, where a queue may be called so too; what it gave is settled by the proxy's name, as its lease says.
    """
    if isinstance(reply, pb.EnqueueResponse) and not reply.id_epoch:  # else one more proxy has said it
        reply.id_epoch = reply.header.epoch
    take_header(reply.header, header)
    if isinstance(reply, admin_pb2.GetQueueResponse):
        reply.queue.name = proxy.name
    elif isinstance(reply, pb.DequeueResponse):
        reply.ClearField("member_queue")


def wait_of(request: Any, left_s: float | None = None) -> float:
    """Seconds that the call itself may take. `left_s`: that its caller waits for it, which is how long a WaitCompletion
    takes that does not say; None: its caller does not say either.
    """
    if "wait" not in request.DESCRIPTOR.fields_by_name:
        return 0.0
    if isinstance(request, pb.WaitCompletionRequest) and not request.HasField("wait"):
        return max(0.0, (left_s or 0.0) - CALL_S)
    return max(0.0, float(request.wait.seconds) + float(request.wait.nanos) / 1e9)
