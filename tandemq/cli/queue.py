"""Creates, describes, changes and removes queues through the SDK; the master decides whether it may be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import (
    DURATION,
    SIZE,
    Command,
    confirm,
    output_option,
    target_option,
    timeout_option,
    yes_option,
)
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.v1 import queue_admin_service_pb2 as admin

COLUMNS = ("name", "state", "length", "ready", "leased", "last_index", "replication", "domain")
_DURATIONS = ("lease_duration", "default_ttl")
_ENUMS = ("persistence", "replication")


@click.group()
def queue() -> None:
    """Create, list, change and remove queues."""


def _attribute_options(command: Command) -> Command:
    """Options that name attributes; one that is not given is left to the manager, or as it is."""
    options = (
        click.option("--max-length", type=int, help="Messages that it may hold, leased ones included."),
        click.option("--max-bytes", type=SIZE, help="Payload bytes that it may hold."),
        click.option("--max-message-bytes", type=SIZE, help="Payload bytes of one message."),
        click.option("--lease", "lease_duration", type=DURATION, help="How long a delivered message is leased."),
        click.option("--max-deliveries", type=int, help="Then it goes to the dead-letter queue; 0 = never."),
        click.option("--dead-letter-queue", help="Default: NAME.dead."),
        click.option("--default-ttl", type=DURATION, help="Time to live of messages that name none."),
        click.option("--enqueue/--no-enqueue", "enqueue_enabled", default=None, help="Allow sending."),
        click.option("--dequeue/--no-dequeue", "dequeue_enabled", default=None, help="Allow receiving."),
        click.option("--require-two/--no-require-two", default=None, help="Acknowledge only on two copies."),
        click.option("--annotation", help="Free text."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@queue.command()
@click.argument("name")
@click.option("--persistence", type=click.Choice(["persistent", "volatile", "conditional"]))
@click.option("--replication", type=click.Choice(["none", "producer", "full"]))
@click.option("--domain", help="Order domain. Default: main, or local when not replicated.")
@_attribute_options
@target_option
@timeout_option()
@output_option()
def create(name: str, target: str | None, timeout_ms: int, output: str, **attributes: Any) -> None:
    """Create a queue on every member.

    Example: tandemq queue create orders --require-two --lease 60s
    """
    config, _ = _config_of(attributes)
    show(run(target, timeout_ms, lambda client: client.create_queue(name, config)), output)


@queue.command()
@click.option("--prefix", default="", help="Only names that begin so.")
@target_option
@timeout_option()
@output_option()
def ls(prefix: str, target: str | None, timeout_ms: int, output: str) -> None:
    """List queues by name.

    Example: tandemq queue ls --prefix orders/
    """
    found = run(target, timeout_ms, lambda client: client.list_queues(prefix))
    print_rows([facts_of(info) for info in found], "queues", output, COLUMNS)


@queue.command()
@click.argument("name")
@target_option
@timeout_option()
@output_option()
def info(name: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Describe one queue.

    Example: tandemq queue info orders -o json
    """
    show(run(target, timeout_ms, lambda client: client.get_queue(name)), output)


@queue.command()
@click.argument("name")
@_attribute_options
@click.option("--expected-version", type=int, default=0, help="Refuse when it was changed since that version.")
@target_option
@timeout_option()
@output_option()
def update(
    name: str, expected_version: int, target: str | None, timeout_ms: int, output: str, **attributes: Any
) -> None:
    """Change the attributes that are given and no others.

    Example: tandemq queue update orders --no-enqueue --annotation "closed for the audit"
    """
    config, fields = _config_of(attributes)
    if not fields:
        raise click.UsageError("name at least one attribute to change")
    changed = run(
        target,
        timeout_ms,
        lambda client: client.update_queue(name, config, fields, expected_version=expected_version),
    )
    show(changed, output)


@queue.command()
@click.argument("name")
@click.option("--if-empty", is_flag=True, help="Refuse when it holds messages.")
@yes_option
@target_option
@timeout_option()
@output_option()
def rm(name: str, if_empty: bool, yes: bool, target: str | None, timeout_ms: int, output: str) -> None:
    """Delete a queue with all its messages.

    Example: tandemq queue rm orders --if-empty --yes
    """
    confirm("delete queue", name, yes=yes)
    removed = run(target, timeout_ms, lambda client: client.delete_queue(name, if_empty=if_empty))
    print_facts({"queue": name, "deleted": True, "removed": removed}, output)


@queue.command()
@click.argument("name")
@yes_option
@target_option
@timeout_option()
@output_option()
def purge(name: str, yes: bool, target: str | None, timeout_ms: int, output: str) -> None:
    """Remove every message that is not leased.

    Example: tandemq queue purge orders --yes
    """
    confirm("purge queue", name, yes=yes)
    removed = run(target, timeout_ms, lambda client: client.purge_queue(name))
    print_facts({"queue": name, "removed": removed}, output)


def _config_of(attributes: dict[str, Any]) -> tuple[admin.QueueConfig, list[str]]:
    """The given attributes, and their names."""
    from tandemq.v1 import queue_admin_service_pb2 as admin

    config = admin.QueueConfig()
    given = {name: value for name, value in attributes.items() if value is not None}
    for name, value in given.items():
        if name in _DURATIONS:
            getattr(config, name).FromTimedelta(timedelta(milliseconds=value))
        elif name in _ENUMS:
            setattr(config, name, f"{name.upper()}_{value.upper()}")
        else:
            setattr(config, name, value)
    return config, list(given)


def facts_of(info: admin.QueueInfo) -> dict[str, Any]:
    """What there is to say of a queue; durations in milliseconds, times in ISO 8601, states without prefix."""
    config = info.config
    facts: dict[str, Any] = {"name": info.name, "version": info.version, "state": _plain(info, "state")}
    counts = ("length", "ready", "leased", "bytes", "last_index", "enqueued_total", "acked_total", "expired_total")
    facts |= {name: getattr(info, name) for name in (*counts, "volatile_lost_total", "highest_length")}
    facts |= {name: _plain(config, name) for name in _ENUMS}
    limits = ("domain", "max_length", "max_bytes", "max_message_bytes", "max_deliveries", "dead_letter_queue")
    facts |= {name: getattr(config, name) for name in limits}
    facts |= {f"{name}_ms": getattr(config, name).ToMilliseconds() for name in _DURATIONS if config.HasField(name)}
    flags = ("enqueue_enabled", "dequeue_enabled", "require_two", "annotation")
    facts |= {name: getattr(config, name) for name in flags}
    times = ("created_at", "last_activity_at")
    facts |= {name: getattr(info, name).ToJsonString() for name in times if info.HasField(name)}
    return {**facts, "open_members": list(info.open_members)}


def _plain(message: admin.QueueInfo | admin.QueueConfig, field: str) -> str:
    """The name of an enum's value without what all its values begin with."""
    kind = message.DESCRIPTOR.fields_by_name[field].enum_type
    value = kind.values_by_number.get(getattr(message, field)) if kind else None
    if value is None or kind is None:
        return ""
    prefix = kind.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return value.name.removeprefix(prefix)


def show(info: admin.QueueInfo, output: str) -> None:
    print_facts(facts_of(info), output)
