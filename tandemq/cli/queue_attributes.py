"""Reads a queue's attributes from the command line and writes them out; never decides which are allowed."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.params import DURATION, PROPERTY, SIZE, Command
from tandemq.client.sides import behind

if TYPE_CHECKING:
    from tandemq.v1 import queue_admin_service_pb2 as admin

_ENUMS = MappingProxyType(
    {
        "persistence": ("persistent", "volatile", "conditional"),
        "queue_type": ("one_way", "one_way_ack", "one_way_queued_ack", "two_way"),
        "overflow": ("reject", "drop_head"),
        "group_mode": ("none", "ordered", "complete"),
        "default_settle": ("lease", "immediate"),
    }
)
_PREFIXES = MappingProxyType({"default_settle": "SETTLE_MODE_"})
_DURATION = "google.protobuf.Duration"
_TIMESTAMP = "google.protobuf.Timestamp"


def attribute_options(command: Command) -> Command:
    """Options that name attributes; one that is not given is left to the manager, or as it is."""
    choices = tuple(
        click.option(f"--{name.replace('_', '-')}", type=click.Choice(values)) for name, values in _ENUMS.items()
    )
    options = (
        *choices,
        click.option("--max-length", type=int, help="Messages that it may hold, leased ones included."),
        click.option("--max-bytes", type=SIZE, help="Payload bytes that it may hold."),
        click.option("--max-message-bytes", type=SIZE, help="Payload bytes of one message."),
        click.option("--lease", "lease_duration", type=DURATION, help="How long a delivered message is leased."),
        click.option("--max-deliveries", type=int, help="Then it goes to the dead-letter queue; 0 = never."),
        click.option("--dead-letter-queue", help="Default: NAME.dead."),
        click.option("--retry-delay-min", type=DURATION, help="Wait so long, times its deliveries, after a lease."),
        click.option("--retry-delay-max", type=DURATION, help="At most so long."),
        click.option("--default-ttl", type=DURATION, help="Time to live of messages that name none."),
        click.option("--empty-idle-expiry", type=DURATION, help="Deleted when idle for so long; 0 = never."),
        click.option("--reply-timeout", type=DURATION, help="two_way: how long a request may wait for its answer."),
        click.option("--completion-retention", type=DURATION, help="How long the end of a message can be asked for."),
        click.option("--group-timeout", type=DURATION, help="group-mode complete: how long a group may gather."),
        click.option("--dedup-window", type=DURATION, help="How long dedup ids are remembered."),
        click.option("--dedup-max", type=int, help="How many of them at most."),
        click.option("--enqueue/--no-enqueue", "enqueue_enabled", default=None, help="Allow sending."),
        click.option("--enqueue-at", "enqueue_enabled_at", metavar="TIME", help="--no-enqueue: until then."),
        click.option("--dequeue/--no-dequeue", "dequeue_enabled", default=None, help="Allow receiving."),
        click.option("--dequeue-at", "dequeue_enabled_at", metavar="TIME", help="--no-dequeue: until then."),
        click.option("--require-two/--no-require-two", default=None, help="Acknowledge only on two copies."),
        click.option("--max-consumers", type=int, help="Attached at once; 0 = no limit."),
        click.option("--single-active/--no-single-active", default=None, help="Serve the oldest consumer alone."),
        click.option("--reactions/--no-reactions", "reactions_enabled", default=None, help="Allow `msg react`."),
        click.option("--max-sticky-ttl", type=DURATION, help="How long `msg react --sticky` may keep a reaction."),
        click.option("--xmit-batch", type=int, help="SYSTEM.XMIT/MANAGER: go at once; 0 = all that is there."),
        click.option("--xmit-linger", type=DURATION, help="SYSTEM.XMIT/MANAGER: wait so long for as many."),
        click.option("--remote-clients/--no-remote-clients", "remote_clients_allowed", default=None),
        click.option("--address", metavar="HOST:PORT", help="Where clients look for it instead of at its manager."),
        click.option("--annotation", help="Free text."),
        click.option("--owner", metavar="PRINCIPAL", help="Whose quotas it counts for; for administrators."),
        click.option("--label", "labels", type=PROPERTY, multiple=True, help="Again for more; replaces all."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def config_of(attributes: dict[str, Any]) -> tuple[admin.QueueConfig, list[str]]:
    """The given attributes, and their names."""
    from tandemq.v1 import queue_admin_service_pb2 as admin

    config = admin.QueueConfig()
    given = {name: value for name, value in attributes.items() if value is not None and value != ()}
    for name, value in given.items():
        field = config.DESCRIPTOR.fields_by_name[name]
        if field.enum_type is not None:
            setattr(config, name, f"{_PREFIXES.get(name, name.upper() + '_')}{value.upper()}")
        elif name == "labels":
            config.labels.update(dict(value))
        elif field.message_type is None:
            setattr(config, name, value)
        elif field.message_type.full_name == _DURATION:
            getattr(config, name).FromTimedelta(timedelta(milliseconds=value))
        else:
            try:
                getattr(config, name).FromJsonString(value)
            except ValueError as error:
                text = f"{value!r} is no time; write it as 2026-01-31T12:00:00Z"
                raise click.BadParameter(
                    text, param_hint=f"--{name.replace('_enabled', '').replace('_', '-')}"
                ) from error
    return config, list(given)


def attributes_of(config: admin.QueueConfig) -> dict[str, Any]:
    """Every attribute that has a value; durations in milliseconds, times in ISO 8601."""
    facts: dict[str, Any] = {}
    for field in config.DESCRIPTOR.fields:
        name = field.name
        if field.enum_type is not None:
            facts[name] = _plain(config, name)
        elif name == "labels":
            facts[name] = dict(sorted(config.labels.items()))
        elif field.message_type is None:
            facts[name] = getattr(config, name)
        elif config.HasField(name):
            value = getattr(config, name)
            if field.message_type.full_name == _TIMESTAMP:
                facts[name] = value.ToJsonString()
            else:
                facts[f"{name}_ms"] = value.ToMilliseconds()
    return facts


def facts_of(info: admin.QueueInfo) -> dict[str, Any]:
    """What there is to say of a queue; durations in milliseconds, times in ISO 8601, states without prefix."""
    facts: dict[str, Any] = {"name": info.name, "version": info.version, "state": _plain(info, "state")}
    facts |= {name: _plain(info, name) for name in ("role", "data_state")}
    counts = [field.name for field in info.DESCRIPTOR.fields if field.type in (field.TYPE_UINT64, field.TYPE_UINT32)]
    facts |= {name: getattr(info, name) for name in counts if name not in ("version", "ready_by_priority")}
    facts["ready_by_priority"] = list(info.ready_by_priority)
    facts["saving"] = info.saving
    if info.HasField("mean_process_time"):
        facts["mean_process_time_ms"] = info.mean_process_time.ToMilliseconds()
    facts |= attributes_of(info.config)
    times = ("created_at", "last_activity_at")
    facts |= {name: getattr(info, name).ToJsonString() for name in times if info.HasField(name)}
    if info.sides:
        facts["sides"] = [_side_of(info, side) for side in info.sides]
    return {**facts, "open_members": list(info.open_members), "aliases": list(info.aliases)}


def _side_of(info: admin.QueueInfo, side: admin.QueueSide) -> dict[str, Any]:
    """How far it is, and how far from the end; of one that has lost its place, what was given up and why."""
    facts: dict[str, Any] = {"member": side.member, "passed": side.passed, "behind": behind(info, side.passed)}
    return {**facts, "lost_until": side.lost_until, "because": side.because} if side.lost else facts


def _plain(message: admin.QueueInfo | admin.QueueConfig, field: str) -> str:
    """The name of an enum's value without what all its values begin with."""
    kind = message.DESCRIPTOR.fields_by_name[field].enum_type
    value = kind.values_by_number.get(getattr(message, field)) if kind else None
    if value is None or kind is None:
        return ""
    prefix = kind.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return value.name.removeprefix(prefix)
