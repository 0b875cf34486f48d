"""Translates registers to and from the witness's messages and states the channel options; it decides nothing.

Both ends use it, so that a register that went over the wire or to disk and back is equal to itself.
"""

from __future__ import annotations

from types import MappingProxyType

from failover.register import Register, RegisterState
from tandemq.channels import LASTING, lasting
from tandemq.edge.options import EDGE_OPTIONS
from tandemq.witness.v1 import witness_service_pb2 as pb

MESSAGE_BYTES_MAX = 64 * 1024  # a register is below 2 KiB; nothing larger has business at a witness

CLIENT_CHANGES = MappingProxyType(
    {
        "grpc.enable_retries": 0,  # whether to repeat a set is decided after reading the register again (P1)
        "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
    }
)
CLIENT_OPTIONS = lasting(CLIENT_CHANGES)
SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *EDGE_OPTIONS,
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    (
        "grpc.http2.min_ping_interval_without_data_ms",
        LASTING["grpc.keepalive_time_ms"] // 2,
    ),  # members' pings are no abuse
    ("grpc.keepalive_time_ms", 10_000),  # frees the watches of clients that vanished
)


class BadRegisterError(ValueError):
    """The message is no register; the text says why."""


def to_message(register: Register) -> pb.Register:
    """Sets are sorted, so that equal registers have equal bytes."""
    return pb.Register(
        version=register.version,
        epoch=register.epoch,
        holder=register.holder,
        in_sync_set=sorted(register.in_sync_set),
        committed_set=sorted(register.committed_set),
        state=pb.RegisterState.Name(register.state.value),
        nonce=register.nonce,
    )


def from_message(message: pb.Register) -> Register:
    """Raises BadRegisterError for a state that is not known here and for a set that names a member twice."""
    try:
        state = RegisterState(message.state)
    except ValueError:
        raise BadRegisterError(f"state {int(message.state)} is not known") from None
    in_sync_set, committed_set = frozenset(message.in_sync_set), frozenset(message.committed_set)
    if len(in_sync_set) != len(message.in_sync_set) or len(committed_set) != len(message.committed_set):
        raise BadRegisterError("a set names a member twice")
    return Register(
        version=message.version,
        epoch=message.epoch,
        holder=message.holder,
        in_sync_set=in_sync_set,
        committed_set=committed_set,
        state=state,
        nonce=bytes(message.nonce),
    )
