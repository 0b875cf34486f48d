"""Creates, describes, changes and removes queues through the SDK; the master decides whether it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.exporting import export, find, unexport
from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import (
    confirm,
    output_option,
    target_option,
    timeout_option,
    yes_option,
)
from tandemq.cli.queue_attributes import attribute_options, config_of, facts_of
from tandemq.cli.queue_batch import batch
from tandemq.cli.queue_journal import journal
from tandemq.cli.queue_lives import alias, close, configure, defaults, open_
from tandemq.cli.queue_moves import delete_messages, move, redrive
from tandemq.cli.queue_reader import reader
from tandemq.cli.queue_restore import restore
from tandemq.cli.queue_watch import watch
from tandemq.cli.queue_writer import writer
from tandemq.cli.session import run
from tandemq.cli.statistics import stats

if TYPE_CHECKING:
    from tandemq import aio
    from tandemq.v1 import queue_admin_service_pb2 as admin

COLUMNS = ("name", "state", "length", "ready", "leased", "last_index", "replication", "domain")
whose_option = click.option("--domain", default="", help="Whose it is, of a SYSTEM.XMIT queue that several have.")


@click.group()
def queue() -> None:
    """Create, list, change and remove queues."""


for _command in (export, unexport, find, configure, open_, close, alias, defaults, stats):
    queue.add_command(_command)


@queue.command()
@click.argument("name")
@click.option("--configuring", is_flag=True, help="Leave it to be configured: queue configure and open follow.")
@click.option("--replication", type=click.Choice(["none", "producer", "full"]))
@click.option(
    "--lockstep",
    type=click.Choice(["plain", "selected"]),
    help="--replication producer: plain (default), or selected, which takes priorities and times.",
)
@click.option("--domain", help="Order domain. Default: main, or local when not replicated.")
@attribute_options
@target_option
@timeout_option()
@output_option()
def create(name: str, configuring: bool, target: str | None, timeout_ms: int, output: str, **attributes: Any) -> None:
    """Create a queue on every member.

    Example: tandemq queue create orders --require-two --lease 60s
    """
    config, _ = config_of(attributes)
    show(run(target, timeout_ms, lambda client: client.create_queue(name, config, configuring=configuring)), output)


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
@whose_option
@target_option
@timeout_option()
@output_option()
def info(name: str, domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Describe one queue.

    Example: tandemq queue info orders -o json
    """
    show(run(target, timeout_ms, lambda client: client.get_queue(name, domain=domain)), output)


@queue.command()
@click.argument("name")
@attribute_options
@click.option("--expected-version", type=int, default=0, help="Refuse when it was changed since that version.")
@whose_option
@target_option
@timeout_option()
@output_option()
def update(
    name: str, expected_version: int, domain: str, target: str | None, timeout_ms: int, output: str, **attributes: Any
) -> None:
    """Change the attributes that are given and no others.

    With --persistence it returns when what is in the queue is stored as the new rule says; a large queue takes seconds.

    Example: tandemq queue update orders --persistence persistent

    \b
    Example: tandemq queue update orders --no-enqueue --annotation "closed for the audit"
    """
    config, fields = config_of(attributes)
    if not fields:
        raise click.UsageError("name at least one attribute to change")
    changed = run(
        target,
        timeout_ms,
        lambda client: client.update_queue(name, config, fields, expected_version=expected_version, domain=domain),
    )
    show(changed, output)


@queue.command()
@click.argument("name")
@click.option("--if-empty", is_flag=True, help="Refuse when it holds messages.")
@click.option("--if-unused", is_flag=True, help="Refuse when clients are attached at either member.")
@click.option("--instance", is_flag=True, help="Destroy the instance of the one member in --target alone.")
@whose_option
@yes_option
@target_option
@timeout_option()
@output_option()
def rm(
    name: str,
    *,
    domain: str,
    if_empty: bool,
    if_unused: bool,
    instance: bool,
    yes: bool,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Delete a queue with all its messages; with --instance it ends at one member, and with the last one it is deleted.

    Example: tandemq queue rm orders --if-empty --yes
    """
    if instance:
        if if_empty or if_unused:
            raise click.UsageError("--if-empty and --if-unused are about the whole queue: leave out --instance")
        if not target or "," in target or target.startswith("//"):
            raise click.UsageError("--instance: name the one member, with --target HOST:PORT")
        confirm(f"destroy the instance at {target} of queue", name, yes=yes)
        deleted = run(target, timeout_ms, lambda client: client.destroy_replicated_queue(name), follow_master=False)
        print_facts({"queue": name, "deleted": deleted}, output)
        return
    confirm("delete queue", name, yes=yes)
    removed = run(
        target,
        timeout_ms,
        lambda client: client.delete_queue(name, if_empty=if_empty, if_unused=if_unused, domain=domain),
    )
    print_facts({"queue": name, "deleted": True, "removed": removed}, output)


@queue.command()
@click.argument("name")
@whose_option
@yes_option
@target_option
@timeout_option()
@output_option()
def purge(name: str, domain: str, yes: bool, target: str | None, timeout_ms: int, output: str) -> None:
    """Remove every message that is not leased.

    Example: tandemq queue purge orders --yes
    """
    confirm("purge queue", name, yes=yes)
    removed = run(target, timeout_ms, lambda client: client.purge_queue(name, domain=domain))
    print_facts({"queue": name, "removed": removed}, output)


@queue.command("restart-side")
@click.argument("name")
@click.option("--member", required=True, help="Whose side it is.")
@click.option("--after", type=click.IntRange(min=0), help="Give what has a higher index; default: all that is there.")
@click.option("--at-end", is_flag=True, help="Give only what comes.")
@target_option
@timeout_option()
@output_option()
def restart_side(
    name: str, member: str, *, after: int | None, at_end: bool, target: str | None, timeout_ms: int, output: str
) -> None:
    """Have a side of a PRODUCER queue begin anew that has lost its place (SIDE_LOST).

    What it has lost is gone: give its process the state of its twin, after this.

    Example: tandemq queue restart-side orders --member b
    """
    if at_end and after is not None:
        raise click.UsageError("give --after or --at-end, not both")

    async def restarted(client: aio.Client) -> admin.QueueInfo:
        place = (await client.get_queue(name)).last_index if at_end else after
        return await client.restart_side(name, member, after=place)

    show(run(target, timeout_ms, restarted), output)


for _command in (move, redrive, delete_messages, restore, journal, reader, writer, batch, watch):
    queue.add_command(_command)


def show(info: admin.QueueInfo, output: str) -> None:
    print_facts(facts_of(info), output)
