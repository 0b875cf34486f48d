"""How the frames of a stream through a proxy read at the manager that it leads to, and how that one's read here. Pure.

Names and headers are changed: a client here knows the proxy's name, and the epochs of this pair alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from replica.node.members import domain_number
from tandemq.v1.common_pb2 import Reason, ResponseHeader
from tandemq.v1.queue_service_pb2 import (
    ConsumeRequest,
    ConsumeResponse,
    EnqueueAck,
    Goaway,
    ProduceRequest,
    ProduceResponse,
)

if TYPE_CHECKING:
    from replica.machine.state.proxies import Proxy


class Frames(Protocol):
    """Of one stream."""

    def there(self, frame: bytes) -> bytes:
        """What the client says, as the other manager reads it. Raises DecodeError, and ValueError for a frame that
        cannot go through this proxy.
        """

    def here(self, frame: bytes, header: ResponseHeader) -> bytes:
        """What the other manager says, as the client reads it; `header`: of this pair, now."""

    def header(self, frame: bytes) -> ResponseHeader | None:
        """Of the frame with which the other manager opens; None: it sends the client away instead."""

    def refusal(self, frame: bytes) -> Goaway:
        """ProxyFault it sends the client away."""


def take_header(there: ResponseHeader, header: ResponseHeader) -> None:
    """Makes it that of this pair, whose epochs clients here know. Of copies the other one speaks."""
    copies, level = there.copies, there.level
    there.CopyFrom(header)
    there.copies, there.level = copies, level


class ProduceFrames:
    """Of Produce."""

    def __init__(self, proxy: Proxy, queue: str) -> None:
        self._proxy, self._queue = proxy, queue
        self._reached = ResponseHeader()

    def there(self, frame: bytes) -> bytes:
        """See Frames."""
        request = ProduceRequest.FromString(frame)
        if request.HasField("open"):
            request.open.queue = self._queue
            request.open.ClearField("epoch")
        elif request.HasField("batch"):
            if request.batch.queue != self._proxy.name:
                text = f"a batch for {request.batch.queue!r} on a stream of proxy {self._proxy.name}: open one for it"
                raise ValueError(text)
            request.batch.queue = self._queue
        return request.SerializeToString()

    def here(self, frame: bytes, header: ResponseHeader) -> bytes:
        """See Frames."""
        response = ProduceResponse.FromString(frame)
        match response.WhichOneof("frame"):
            case "opened":
                self._reached.CopyFrom(response.opened.header)
                take_header(response.opened.header, header)
            case "ack":
                self._ack(response.ack, header)
                for ack in response.more_acks:
                    self._ack(ack, header)
            case "reject":
                response.reject.queue = self._proxy.name
                _own_words(response.reject.error.metadata)
            case "goaway":
                _away(response.goaway)
        return response.SerializeToString()

    def _ack(self, ack: EnqueueAck, header: ResponseHeader) -> None:
        ack.queue = self._proxy.name
        if not ack.id_epoch:  # else it came through one more proxy, which knows who made the ids
            ack.id_epoch, ack.id_domain = ack.epoch, domain_number(self._reached.domain)
        ack.epoch = header.epoch

    def header(self, frame: bytes) -> ResponseHeader | None:
        """See Frames."""
        response = ProduceResponse.FromString(frame)
        return response.opened.header if response.HasField("opened") else None

    def refusal(self, frame: bytes) -> Goaway:
        """See Frames."""
        return ProduceResponse.FromString(frame).goaway


class ConsumeFrames:
    """Of Consume."""

    def __init__(self, proxy: Proxy, queue: str) -> None:
        self._proxy, self._queue = proxy, queue
        self._is_open = False
        self._id_domain = 0
        """By which ids are made there, as the frame says that opens."""

    def there(self, frame: bytes) -> bytes:
        """See Frames. Only what opens names the queue, and it is the first frame, in whatever order its fields come."""
        if self._is_open:
            return frame
        request = ConsumeRequest.FromString(frame)
        if not request.HasField("open"):
            raise ValueError("the first frame of Consume must be open")
        self._is_open = True
        request.open.queue = self._queue
        request.open.ClearField("epoch")
        return request.SerializeToString()

    def here(self, frame: bytes, header: ResponseHeader) -> bytes:
        """See Frames."""
        response = ConsumeResponse.FromString(frame)
        kind = response.WhichOneof("frame")
        if kind == "goaway":
            _away(response.goaway)
        elif kind is not None:
            if kind == "opened":
                self._id_domain = domain_number(response.opened.header.domain)
            take_header(getattr(response, kind).header, header)
        if kind == "deliveries":  # of a macro queue too: its members are no names here, and who holds a lease is found
            response.deliveries.queue = self._proxy.name
            for segment in response.deliveries.segments:
                segment.id_domain = segment.id_domain or self._id_domain  # else it came through one more proxy
        return response.SerializeToString()

    def header(self, frame: bytes) -> ResponseHeader | None:
        """See Frames."""
        response = ConsumeResponse.FromString(frame)
        return response.opened.header if response.HasField("opened") else None

    def refusal(self, frame: bytes) -> Goaway:
        """See Frames."""
        return ConsumeResponse.FromString(frame).goaway


def _away(goaway: Goaway) -> None:
    """Who is master there is no word about this pair: the client opens its stream again, here."""
    goaway.ClearField("master_endpoint")
    goaway.ClearField("epoch")
    _own_words(goaway.error.metadata)
    if goaway.error.reason == Reason.REASON_UNSPECIFIED:
        goaway.error.reason = Reason.REASON_NOT_MASTER


def _own_words(metadata: object) -> None:
    assert hasattr(metadata, "pop"), "a map"
    for name in ("master", "epoch", "domain"):
        metadata.pop(name, None)
