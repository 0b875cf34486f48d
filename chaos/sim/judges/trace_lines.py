"""Says what a packet on the simulated network is, in a line for people, and notices when a member's role changes.

It is only asked while a story is kept; nothing in a run hangs on it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import DecodeError, Message

from chaos.sim.kernel.wire import Packet
from replica.listen.direct import Ending
from storage.errors import StorageError
from storage.records import read_prefix
from tandemq.peer.v1 import peer_service_pb2
from tandemq.v1 import manager_admin_service_pb2, pair_service_pb2, queue_admin_service_pb2, queue_service_pb2

if TYPE_CHECKING:
    from chaos.sim.kernel.net import Connection, Pipe
    from chaos.sim.pair.members import Pair
    from failover.register import Register

KNOWN = (peer_service_pb2, manager_admin_service_pb2, pair_service_pb2, queue_admin_service_pb2, queue_service_pb2)
"""Importing them is what makes their methods known."""
LETTERS_MAX = 160
BYTES_MAX = 16
"""Longer ones say nothing to a reader."""
LEFT_OUT = frozenset(
    {
        *("domain", "pair", "member", "endpoint", "header", "config", "protocol_min", "protocol_max", "status"),
        *("client_id", "request_id", "instance_id", "write_stall_ms", "room_bytes", "max_batches", "max_batch_bytes"),
        *("created_at", "last_activity_at", "enqueue_time_ms"),
    }
)
"""Fields that are the same in every frame of a run, or matter to nobody who reads a story."""


class Tracer:
    """Writes the story of one run, while it happens."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._paths: dict[tuple[Connection, int], str] = {}
        """Of every call: a packet names only its number."""
        self._roles: dict[str, str] = {}

    def on_item(self, what: str, pipe: Pipe, item: object) -> None:
        """Something was sent, has arrived, or was lost."""
        self._look()
        if not isinstance(item, Packet):
            return
        key = (pipe.connection, item.call)
        if item.kind == "open":
            self._paths[key] = item.path
        text = line_of(item, self._paths.get(key, ""), is_request=pipe is pipe.connection.pipes[0])
        if text:
            self._pair.run.note(pipe.direction.source, what, text, pipe.direction.target)

    def _look(self) -> None:
        for name, member in self._pair.members.items():
            domain = member.domain
            if domain is None:
                continue
            role = f"{domain.shared.role.name} {domain.shared.state.epoch}"
            if self._roles.get(name) != role:
                self._roles[name] = role
                self._pair.run.note(name, "role", role)


def register_line(register: Register) -> str:
    """What the register says, without its nonce; sets in order, for a text must not hang on a hash seed."""
    in_sync, committed = sorted(register.in_sync_set), sorted(register.committed_set)
    return (
        f"version {register.version}: {register.state.name} epoch {register.epoch} of {register.holder or 'nobody'}, "
        f"in sync {', '.join(in_sync) or 'nobody'}"
        + (f" (committed {', '.join(committed) or 'nobody'})" if committed != in_sync else "")
    )


def line_of(packet: Packet, path: str, *, is_request: bool) -> str:
    """What a packet says; empty for what only opens or ends a call as it should."""
    name = path.rpartition("/")[2] or f"call {packet.call}"
    method = _method(path)
    match packet.kind:
        case "message":
            message = parsed(path, packet.data, is_request=is_request)
            text = summary(message) if message is not None else f"{len(packet.data)} bytes that nobody can read"
            return f"{name} {text}"[:LETTERS_MAX]
        case "end":
            ending = packet.data
            assert isinstance(ending, Ending)
            return (
                "" if ending.code is grpc.StatusCode.OK else f"{name} {ending.code.name} {ending.details}"[:LETTERS_MAX]
            )
        case "cancel" if method is not None and method.client_streaming:
            return f"{name} cancelled"
        case _:
            return ""


def summary(message: Message) -> str:
    """Its kind, if it is one of several, and its small fields; what it holds inside in brackets."""
    words: list[str] = []
    kind = ""
    for field, value in message.ListFields():
        if field.name in LEFT_OUT:
            continue
        if field.containing_oneof is not None and isinstance(value, Message):
            kind = " ".join(part for part in (field.name, summary(value)) if part)
        elif text := _field(field, value):
            words.append(text)
    return " ".join([kind, *words] if kind else words)


def _field(field: FieldDescriptor, value: object) -> str:
    if field.name == "record" and isinstance(value, bytes):
        return _record(value)
    if isinstance(value, Message):
        inner = summary(value)
        return f"{field.name}({inner})" if inner else ""
    if isinstance(value, bytes):
        return f"{field.name} {value.decode()!r}" if _is_text(value) else ""
    if field.enum_type is not None and isinstance(value, int):
        return field.enum_type.values_by_number[value].name.removeprefix(f"{field.name.upper()}_")
    if isinstance(value, bool | int | float):
        return f"{field.name} {value}"
    if isinstance(value, str):
        return f"{field.name} {value}"
    values: list[object] = list(value)  # type: ignore[call-overload]  # what else there is, is repeated
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    return _repeated(field, sorted(values, key=str) if is_map else values)


def _repeated(field: FieldDescriptor, values: list[object]) -> str:
    if values and isinstance(values[0], bytes):
        values = [value.decode() for value in values if isinstance(value, bytes) and _is_text(value)]
    parts = [summary(value) if isinstance(value, Message) else str(value) for value in values]
    listed = ", ".join(parts[:3]) + (f", and {len(parts) - 3} more" if len(parts) > 3 else "")
    return f"{field.name}({listed})" if listed.strip(", ") else ""


def _is_text(data: bytes) -> bool:
    return 0 < len(data) <= BYTES_MAX and data.isascii() and data.decode().isprintable()


def _record(data: bytes) -> str:
    try:
        prefix = read_prefix(data)
    except StorageError:  # it would end the connection of the line: a body may come behind, in a frame of its own
        return "record that cannot be read"
    return f"record {prefix.epoch}:{prefix.log_index}"


def parsed(path: str, data: bytes, *, is_request: bool) -> Message | None:
    """The message of that method; None where the method or the message cannot be known."""
    made = class_of(path, is_request=is_request)
    if made is None:
        return None
    message = made()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message


@cache
def class_of(path: str, *, is_request: bool) -> type[Message] | None:
    """What a message of that method is made of; None where the method cannot be known."""
    method = _method(path)
    if method is None:
        return None
    return message_factory.GetMessageClass(method.input_type if is_request else method.output_type)


@cache
def _method(path: str) -> MethodDescriptor | None:
    try:
        return descriptor_pool.Default().FindMethodByName(path.strip("/").replace("/", "."))
    except KeyError:
        return None
