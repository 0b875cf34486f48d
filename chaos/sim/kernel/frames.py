"""How a pair without a network takes one frame of its Data stream, as `replica.peer.session` does; it carries none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from tandemq.peer.v1.peer_service_pb2 import PeerFrame


def take_frame(core: Domain, frame: PeerFrame, now_ms: int, wall_ms: int, *, met: bool) -> bool:
    """False: it is of a lower epoch, and is answered with a HELLO. Raises CorruptRecord: the session ends.

    `met`: the peer has said HELLO in this session; it begins with the first one.
    """
    if not frame.HasField("hello"):
        return core.on_frame(frame, wall_ms)
    if not met:
        core.on_connected()
    core.on_hello(frame.hello.domains[0], now_ms)
    return True
