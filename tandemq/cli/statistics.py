"""Shows what queues and a manager count; it decides nothing, and adds nothing up that the manager has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.queue_attributes import facts_of
from tandemq.cli.session import run

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tandemq.client.aio import Client
    from tandemq.v1 import queue_admin_service_pb2 as admin

COLUMNS = (
    *("name", "state", "length", "highest_length", "enqueued_total", "acked_total", "dead_lettered_total"),
    *("consumers", "producers", "waiters"),
)
CONFIGURED = ("queue_type", "replication", "domain", "max_length", "max_bytes")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--prefix", default="", help="Without names: only queues whose names begin so.")
@target_option
@timeout_option()
@output_option()
def stats(names: tuple[str, ...], prefix: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Count what is in a queue, what ever happened in it, and who uses it; without a name, in all queues.

    Lengths and totals are the pair's and survive a failover; clients and waiters are those of the master. JSON has
    every number of every queue.

    Example: tandemq queue stats orders -o json
    """

    async def asked(client: Client) -> list[admin.QueueInfo]:
        return [await client.get_queue(name) for name in names] if names else await client.list_queues(prefix)

    rows = [numbers_of(info) for info in run(target, timeout_ms, asked)]
    if len(names) == 1:
        print_facts(rows[0], output)
    else:
        print_rows(rows, "queues", output, COLUMNS)


def numbers_of(info: admin.QueueInfo) -> dict[str, Any]:
    """What changes by use, and the limits that it is to be compared with."""
    facts, attributes = facts_of(info), {field.name for field in info.config.DESCRIPTOR.fields}
    names = {name.removesuffix("_ms") for name in facts} - attributes
    return {name: value for name, value in facts.items() if name in CONFIGURED or name.removesuffix("_ms") in names}


@click.group()
def manager() -> None:
    """See what a queue manager is and how it does."""


@manager.command()
@target_option
@timeout_option()
@output_option()
def info(target: str | None, timeout_ms: int, output: str) -> None:
    """Print a member's versions, limits, state and statistics: of the first member that answers.

    Messages and totals of replicated queues are equal on both members; clients and waiters are this member's own.

    Example: tandemq manager info --target 127.0.0.1:7610 -o json
    """
    response = run(target, timeout_ms, lambda client: client.manager_info())
    facts = manager_facts(response)
    print_facts(facts if output != "table" else _flat(facts), output)


def manager_facts(message: Message) -> dict[str, Any]:
    """Every field, by its name; durations in milliseconds, states without prefix."""
    facts: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.enum_type is not None:
            prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
            known = field.enum_type.values_by_number.get(value)
            facts[field.name] = known.name.removeprefix(prefix) if known else str(value)
        elif field.message_type is None:
            facts[field.name] = value
        elif field.message_type.full_name == "google.protobuf.Duration":
            facts[f"{field.name}_ms"] = value.ToMilliseconds()
        else:
            facts[field.name] = manager_facts(value)
    return facts


def _flat(facts: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value
    return flat
