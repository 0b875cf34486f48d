"""How the frames of the three streams between members become bytes: as the generated code has it, but for the frames
that carry records, which are written by `replica.core.replication.op_frame`. Both ends, and nothing else.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import grpc

from replica.core.replication.op_frame import frame_to_bytes
from tandemq.peer.v1.peer_service_pb2 import DESCRIPTOR, HeartbeatFrame, PeerFrame, TransferFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tandemq.peer.v1.peer_service_pb2_grpc import PeerServiceServicer

SERVICE = DESCRIPTOR.services_by_name["PeerService"].full_name
STREAMS: Mapping[str, tuple[Callable[[Any], bytes], Callable[[bytes], object]]] = MappingProxyType(
    {
        "Data": (frame_to_bytes, PeerFrame.FromString),
        "Heartbeat": (HeartbeatFrame.SerializeToString, HeartbeatFrame.FromString),
        "Transfer": (TransferFrame.SerializeToString, TransferFrame.FromString),
    }
)
"""By stream: what writes its frames, and what reads them. Either side sends the same."""


class PeerStub:
    """Opens the streams at the peer's port."""

    def __init__(self, channel: Any) -> None:
        self.Data, self.Heartbeat, self.Transfer = (
            channel.stream_stream(f"/{SERVICE}/{name}", request_serializer=write, response_deserializer=read)
            for name, (write, read) in STREAMS.items()
        )


def add_peer_service(servicer: PeerServiceServicer, server: Any) -> None:
    """Has the server take the streams of a peer."""
    handlers = {
        name: grpc.stream_stream_rpc_method_handler(
            getattr(servicer, name), request_deserializer=read, response_serializer=write
        )
        for name, (write, read) in STREAMS.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
