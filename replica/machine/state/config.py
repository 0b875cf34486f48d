"""Decides which names and attributes a queue may have and what unset ones become; never looks at a queue's messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from types import MappingProxyType

from google.protobuf import duration_pb2, timestamp_pb2

from replica.machine.state.errors import Refused
from replica.machine.state.limits import Limits
from replica.machine.state.lockstep import check_lockstep, resolve_lockstep
from tandemq.credentials import names
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

RESOLVED_KEPT = 64  # configurations whose resolution is remembered
_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_RESERVED = "SYSTEM."
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_ADDRESS_BYTES_MAX = 300
_YEAR_10000_MS = 253_402_300_800_000
_XMIT_BATCH_MAX, _LINGER_MS_MAX = 10_000, 60_000
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
    "queue_type",
    "overflow",
    "enqueue_enabled_at",
    "dequeue_enabled_at",
    "empty_idle_expiry",
    "labels",
    "default_settle",
    "retry_delay_min",
    "retry_delay_max",
    "reply_timeout",
    "completion_retention",
    "dedup_window",
    "dedup_max",
    "group_mode",
    "max_consumers",
    "single_active",
    "remote_clients_allowed",
    "address",
    "reactions_enabled",
    "xmit_batch",
    "xmit_linger",
    "group_timeout",
    "max_sticky_ttl",
    "owner",
)
# What ConfigureQueue freezes (R040); replication and domain are chosen at creation for good.
FROZEN = ("queue_type",)
# Chosen at creation for good, and no business of a manager's defaults.
_PLACE = ("replication", "domain", "lockstep")
# What the members of a pair may each see otherwise (R049).
_MEMBERS_OWN = ("address", "remote_clients_allowed")
_ENUMS = ("persistence", "replication", "queue_type", "overflow", "default_settle", "group_mode", "lockstep")
_TIMES = (
    *("lease_duration", "default_ttl", "empty_idle_expiry", "retry_delay_min", "retry_delay_max"),
    *("reply_timeout", "completion_retention", "dedup_window", "xmit_linger", "group_timeout", "max_sticky_ttl"),
)
_ENABLING = MappingProxyType({"enqueue_enabled_at": "enqueue_enabled", "dequeue_enabled_at": "dequeue_enabled"})
_READ_ONLY = set(_PLACE) | {field.name for field in admin_pb2.QueueInfo.DESCRIPTOR.fields} - {"config"}


def milliseconds(duration: duration_pb2.Duration | timestamp_pb2.Timestamp) -> int:
    return int(duration.seconds) * 1_000 + int(duration.nanos) // 1_000_000


def _bad(message: str) -> Refused:
    return Refused(common_pb2.REASON_BAD_ATTRIBUTE, message)


def check_name(name: str, limits: Limits, *, what: str = "queue name") -> None:
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
    raise Refused(common_pb2.REASON_BAD_NAME, f"{what} {name[:300]!r} {problem}")


def resolve(
    asked: admin_pb2.QueueConfig | None, limits: Limits, defaults: admin_pb2.QueueConfig | None = None
) -> admin_pb2.QueueConfig:
    """Every attribute that has a default gets a value, so that members with other defaults still agree on the queue.

    `defaults`: what the manager was told to give to new queues, where that differs from its profile.
    """
    own = b"" if defaults is None else defaults.SerializeToString()
    return admin_pb2.QueueConfig.FromString(_resolved(b"" if asked is None else asked.SerializeToString(), limits, own))


@lru_cache(maxsize=RESOLVED_KEPT)
def _resolved(asked_bytes: bytes, limits: Limits, defaults: bytes) -> bytes:
    """Remembered: whoever makes thousands of queues asks for the same thing each time."""
    config, asked = admin_pb2.QueueConfig.FromString(defaults), admin_pb2.QueueConfig.FromString(asked_bytes)
    if asked_bytes:
        _put(config, asked, [field.name for field, _ in asked.ListFields()])
        if asked.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY and not asked.default_settle:
            config.default_settle = service_pb2.SETTLE_MODE_LEASE  # no other one can be answered under
    config.persistence = config.persistence or limits.persistence
    config.replication = config.replication or limits.replication
    config.domain = config.domain or limits.domain_name
    config.queue_type = config.queue_type or limits.queue_type
    config.overflow = config.overflow or admin_pb2.OVERFLOW_REJECT
    config.default_settle = config.default_settle or limits.default_settle
    config.group_mode = config.group_mode or admin_pb2.GROUP_MODE_NONE
    values = {
        "max_length": limits.queue_length_max,
        "max_bytes": limits.queue_bytes_max,
        "max_message_bytes": limits.message_bytes_max,
        "max_deliveries": limits.deliveries_max,
        "enqueue_enabled": True,
        "dequeue_enabled": True,
        "require_two": False,
        "dedup_max": limits.message_dedup_max,
        "max_consumers": 0,
        "single_active": False,
        "remote_clients_allowed": True,
        "reactions_enabled": False,
    }
    resolve_lockstep(config, asked)
    for name, value in values.items():
        if not config.HasField(name):
            setattr(config, name, value)
    if not config.HasField("dead_letter_queue") and not limits.dead_letter:
        config.dead_letter_queue = ""
    for name, ms in (
        ("lease_duration", limits.lease_ms),
        ("reply_timeout", limits.reply_ms),
        ("completion_retention", limits.completion_ms),
        ("dedup_window", limits.message_dedup_ms),
        ("group_timeout", limits.group_ms if config.group_mode == admin_pb2.GROUP_MODE_COMPLETE else 0),
        ("max_sticky_ttl", limits.kept_ms),
        ("empty_idle_expiry", 0 if config.HasField("empty_idle_expiry") else limits.empty_idle_ms),
    ):
        if ms and not milliseconds(getattr(config, name)):
            getattr(config, name).FromMilliseconds(ms)
    check(config, limits)
    return config.SerializeToString()


def dead_letter_name(queue: str, config: admin_pb2.QueueConfig) -> str:
    """Where that queue's dead letters go; empty: nowhere."""
    return config.dead_letter_queue if config.HasField("dead_letter_queue") else f"{queue}.dead"


def check(config: admin_pb2.QueueConfig, limits: Limits) -> None:
    _check_ranges(config)
    _check_amounts(config, limits)
    check_lockstep(config)
    _check_labels(config, limits)
    _check_address(config.address)
    _check_owner(config.owner)
    for name, switch in _ENABLING.items():
        if config.HasField(name):
            if getattr(config, switch):
                raise _bad(f"{name} says when {switch} becomes true by itself; it needs {switch} = false")
            if not 0 < milliseconds(getattr(config, name)) < _YEAR_10000_MS:
                raise _bad(f"{name} must be a moment after 1970 and before the year 10000")
    if config.dead_letter_queue:
        try:
            check_name(config.dead_letter_queue, limits)
        except Refused as refused:
            raise _bad(f"dead_letter_queue: {refused.message}") from refused


def _check_ranges(config: admin_pb2.QueueConfig) -> None:
    for name in _ENUMS:
        value, kind = getattr(config, name), config.DESCRIPTOR.fields_by_name[name].enum_type
        assert kind, f"{name} is no enum"
        if value not in kind.values_by_number:
            raise _bad(f"{name} {value} is unknown; known are {', '.join(list(kind.values_by_name)[1:])}")
    for name in _TIMES:
        if not 0 <= milliseconds(getattr(config, name)) <= _MS_MAX:
            raise _bad(f"{name} must be from 0 to ten years")
    if milliseconds(config.retry_delay_max) and (
        milliseconds(config.retry_delay_max) < milliseconds(config.retry_delay_min)
    ):
        raise _bad("retry_delay_max is below retry_delay_min")
    if config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY and config.default_settle != service_pb2.SETTLE_MODE_LEASE:
        raise _bad("a TWO_WAY queue delivers under a lease only: default_settle must be LEASE")


def _check_amounts(config: admin_pb2.QueueConfig, limits: Limits) -> None:
    if config.max_length < 1:
        raise _bad("max_length must be at least 1")
    if not 1 <= config.max_message_bytes <= limits.batch_bytes_max:
        raise _bad(f"max_message_bytes must be 1 to {limits.batch_bytes_max}")
    if config.max_bytes and config.max_bytes < config.max_message_bytes:
        raise _bad("max_bytes is below max_message_bytes: the largest message could never enter")
    if not 1 <= milliseconds(config.lease_duration) <= limits.lease_ms_max:
        raise _bad(f"lease_duration must be 1 ms to {limits.lease_ms_max // 1000} s")
    if len(config.annotation.encode()) > limits.annotation_bytes_max:
        raise _bad(f"annotation is longer than {limits.annotation_bytes_max} bytes")
    if not 1 <= config.dedup_max <= limits.dedup_ids_max:
        raise _bad(f"dedup_max must be 1 to {limits.dedup_ids_max}")
    if config.xmit_batch > _XMIT_BATCH_MAX:
        raise _bad(f"xmit_batch must be 1 to {_XMIT_BATCH_MAX}, or 0 for all that is there")
    if milliseconds(config.xmit_linger) > _LINGER_MS_MAX:
        raise _bad(f"xmit_linger must be 0 to {_LINGER_MS_MAX // 1000} s")


def _check_labels(config: admin_pb2.QueueConfig, limits: Limits) -> None:
    if len(config.labels) > limits.labels_max:
        raise _bad(f"{len(config.labels)} labels; there may be {limits.labels_max}")
    for key, value in config.labels.items():
        if not 1 <= len(key.encode()) <= limits.label_key_bytes_max:
            raise _bad(f"label {key[:100]!r}: a key has 1 to {limits.label_key_bytes_max} bytes")
        if len(value.encode()) > limits.label_value_bytes_max:
            raise _bad(f"label {key!r}: its value is longer than {limits.label_value_bytes_max} bytes")


def _check_address(address: str) -> None:
    if not address:
        return
    parts = _ADDRESS.fullmatch(address) if len(address) <= _ADDRESS_BYTES_MAX else None
    if parts is None or not 1 <= int(parts[2]) <= 65_535:
        raise _bad(
            f"address {address[:100]!r} must be host:port, with a port from 1 to 65535; empty: the manager's own"
        )


def _check_owner(owner: str) -> None:
    if owner and (problem := names.problem_of(owner)):
        raise _bad(f"owner {problem}")


def opened(
    old: admin_pb2.QueueConfig,
    options: admin_pb2.QueueConfig,
    limits: Limits,
    *,
    first: bool,
    frozen: bool,
    defaults: admin_pb2.QueueConfig | None,
) -> admin_pb2.QueueConfig | None:
    """What the queue's attributes become when an instance opens with these; None: they stay (R049).

    `first`: no other instance is open.
    """
    names = [field.name for field, _ in options.ListFields()]
    fixed = [name for name in names if name in _PLACE or not (first or name in _MEMBERS_OWN)]
    for name in fixed:
        if getattr(options, name) != getattr(old, name):
            text = f"{name} is {_word(old, name)} at the members where it is open, not {_word(options, name)}; "
            text += "open it with the same, or change the queue first"
            raise Refused(common_pb2.REASON_CONFIG_MISMATCH, text, {"attribute": name})
    free = [name for name in names if name not in _PLACE]
    if not first or not free:
        return None
    return updated(old, options, free, limits, frozen=frozen, defaults=defaults)


def _word(config: admin_pb2.QueueConfig, name: str) -> str:
    """A value as people read it."""
    value, kind = getattr(config, name), config.DESCRIPTOR.fields_by_name[name].enum_type
    return kind.values_by_number[value].name if kind is not None and value in kind.values_by_number else str(value)


def updated(
    old: admin_pb2.QueueConfig,
    new: admin_pb2.QueueConfig,
    mask: Sequence[str],
    limits: Limits,
    *,
    frozen: bool = False,
    defaults: admin_pb2.QueueConfig | None = None,
) -> admin_pb2.QueueConfig:
    """An empty mask means what is set in `new`; a named attribute that is unset there goes back to its default.

    `frozen`: the configuration phase is over.
    """
    names = list(mask) or [field.name for field, _ in new.ListFields()]
    if not names:
        raise Refused(common_pb2.REASON_BAD_REQUEST, "nothing to change: name at least one attribute")
    for name in names:
        if name in _READ_ONLY:
            raise Refused(common_pb2.REASON_READ_ONLY, f"{name} cannot be changed")
        if name not in MUTABLE:
            raise _bad(f"there is no attribute {name!r}; known are {', '.join(MUTABLE)}")
        if frozen and name in FROZEN:
            text = f"{name} cannot be changed once the queue is configured; create another queue and move the messages"
            raise Refused(common_pb2.REASON_READ_ONLY, text)
    config = admin_pb2.QueueConfig()
    config.CopyFrom(old)
    _put(config, new, names)
    for name, switch in _ENABLING.items():
        if switch in names and name not in names and getattr(config, switch):
            config.ClearField(name)  # it has become true before its time
    becomes_two_way = "queue_type" in names and config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY
    if becomes_two_way and "default_settle" not in names:
        config.default_settle = service_pb2.SETTLE_MODE_LEASE  # as at creation: no other one can be answered under
    if defaults is not None:
        unset = [name for name in names if not _is_set(config, name) and _is_set(defaults, name)]
        _put(config, defaults, unset)
    return resolve(config, limits)


def _is_set(config: admin_pb2.QueueConfig, name: str) -> bool:
    field = config.DESCRIPTOR.fields_by_name[name]
    return config.HasField(name) if field.has_presence else bool(getattr(config, name))


def _put(config: admin_pb2.QueueConfig, source: admin_pb2.QueueConfig, names: Sequence[str]) -> None:
    """Each as a whole: a duration or a map is not merged with the one that was there."""
    taken = admin_pb2.QueueConfig()
    taken.CopyFrom(source)
    for name in {field.name for field in config.DESCRIPTOR.fields} - set(names):
        taken.ClearField(name)
    for name in names:
        config.ClearField(name)
    config.MergeFrom(taken)
