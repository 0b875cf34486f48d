"""Decides which names and attributes a queue may have and what unset ones become; never looks at a queue's messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from google.protobuf import duration_pb2

from replica.machine.errors import Refused
from replica.machine.limits import Limits
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_RESERVED = "SYSTEM."
_MS_MAX = 10 * 366 * 86_400_000  # no duration here is meant to be longer than ten years

MUTABLE = (
    "persistence",
    "max_length",
    "max_bytes",
    "max_message_bytes",
    "lease_duration",
    "max_deliveries",
    "dead_letter_queue",
    "enqueue_enabled",
    "dequeue_enabled",
    "require_two",
    "annotation",
    "default_ttl",
)
_READ_ONLY = {"replication", "domain"} | {field.name for field in admin_pb2.QueueInfo.DESCRIPTOR.fields} - {"config"}


def milliseconds(duration: duration_pb2.Duration) -> int:
    return int(duration.seconds) * 1_000 + int(duration.nanos) // 1_000_000


def _bad(message: str) -> Refused:
    return Refused(common_pb2.REASON_BAD_ATTRIBUTE, message)


def check_name(name: str, limits: Limits) -> None:
    if len(name.encode()) > limits.name_bytes_max:
        problem = f"is longer than {limits.name_bytes_max} bytes"
    elif not _NAME.fullmatch(name):
        problem = "must be segments of A-Z a-z 0-9 . _ - joined by /"
    elif any(segment in (".", "..") for segment in name.split("/")):
        problem = "must not have a segment . or .."
    elif name.startswith(_RESERVED):
        problem = f"must not begin with {_RESERVED}, which is reserved"
    else:
        return
    raise Refused(common_pb2.REASON_BAD_NAME, f"queue name {name[:300]!r} {problem}")


def resolve(asked: admin_pb2.QueueConfig | None, limits: Limits) -> admin_pb2.QueueConfig:
    """Every attribute that has a default gets a value, so that members with other defaults still agree on the queue."""
    config = admin_pb2.QueueConfig()
    if asked is not None:
        config.CopyFrom(asked)
    config.persistence = config.persistence or limits.persistence
    config.replication = config.replication or limits.replication
    config.domain = config.domain or limits.domain_name
    defaults = {
        "max_length": limits.queue_length_max,
        "max_bytes": limits.queue_bytes_max,
        "max_message_bytes": limits.message_bytes_max,
        "max_deliveries": limits.deliveries_max,
        "enqueue_enabled": True,
        "dequeue_enabled": True,
        "require_two": False,
    }
    for name, value in defaults.items():
        if not config.HasField(name):
            setattr(config, name, value)
    if not milliseconds(config.lease_duration):
        config.lease_duration.FromMilliseconds(limits.lease_ms)
    check(config, limits)
    return config


def check(config: admin_pb2.QueueConfig, limits: Limits) -> None:
    if config.persistence not in admin_pb2.Persistence.values():
        raise _bad(f"persistence {config.persistence} is unknown")
    if config.replication not in admin_pb2.Replication.values():
        raise _bad(f"replication {config.replication} is unknown")
    if config.replication == admin_pb2.REPLICATION_PRODUCER:
        raise Refused(common_pb2.REASON_CONFIG_ERROR, "replication PRODUCER is not available; use FULL")
    if config.max_length < 1:
        raise _bad("max_length must be at least 1")
    if not 1 <= config.max_message_bytes <= limits.batch_bytes_max:
        raise _bad(f"max_message_bytes must be 1 to {limits.batch_bytes_max}")
    if config.max_bytes and config.max_bytes < config.max_message_bytes:
        raise _bad("max_bytes is below max_message_bytes: the largest message could never enter")
    if not 1 <= milliseconds(config.lease_duration) <= limits.lease_ms_max:
        raise _bad(f"lease_duration must be 1 ms to {limits.lease_ms_max // 1000} s")
    if not 0 <= milliseconds(config.default_ttl) <= _MS_MAX:
        raise _bad("default_ttl must be from 0 to ten years")
    if len(config.annotation.encode()) > limits.annotation_bytes_max:
        raise _bad(f"annotation is longer than {limits.annotation_bytes_max} bytes")
    if config.dead_letter_queue:
        try:
            check_name(config.dead_letter_queue, limits)
        except Refused as refused:
            raise _bad(f"dead_letter_queue: {refused.message}") from refused


def updated(
    old: admin_pb2.QueueConfig, new: admin_pb2.QueueConfig, mask: Sequence[str], limits: Limits
) -> admin_pb2.QueueConfig:
    """An empty mask means what is set in `new`; a named attribute that is unset there goes back to its default."""
    names = list(mask) or [field.name for field, _ in new.ListFields()]
    if not names:
        raise Refused(common_pb2.REASON_BAD_REQUEST, "nothing to change: name at least one attribute")
    for name in names:
        if name in _READ_ONLY:
            raise Refused(common_pb2.REASON_READ_ONLY, f"{name} cannot be changed")
        if name not in MUTABLE:
            raise _bad(f"there is no attribute {name!r}; known are {', '.join(MUTABLE)}")
    config = admin_pb2.QueueConfig()
    config.CopyFrom(old)
    source = admin_pb2.QueueConfig()
    source.CopyFrom(new)
    for name in names:
        config.ClearField(name)
    for name in {field.name for field in source.DESCRIPTOR.fields} - set(names):
        source.ClearField(name)
    config.MergeFrom(source)
    return resolve(config, limits)
