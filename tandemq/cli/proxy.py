"""Makes, shows and removes proxies; the serving master says how each is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import confirm, output_option, target_option, timeout_option, yes_option
from tandemq.cli.session import run
from tandemq.client.macros import Relationship

if TYPE_CHECKING:
    from tandemq.client.aio import Proxy

COLUMNS = ("name", "target", "relationship", "state", "since", "calls")
TYPES = ("ONE_WAY", "ONE_WAY_ACK", "ONE_WAY_QUEUED_ACK", "TWO_WAY")
domain_option = click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")


@click.group()
def proxy() -> None:
    """Proxies: names here that lead to queues of other managers. Send to one, or receive from it, as with any queue.

    \b
    Example: tandemq proxy create orders //west/orders
             tandemq msg send orders hello
             tandemq proxy info orders
    """


@proxy.command()
@click.argument("name")
@click.argument("queue", metavar="//MANAGER/QUEUE")
@click.option("--consumer", "relationship", flag_value="CONSUMER", help="It is received from alone.")
@click.option("--producer", "relationship", flag_value="PRODUCER", help="It is sent to alone. Default: both.")
@click.option(
    "--type", "queue_type", type=click.Choice(TYPES, case_sensitive=False), help="What the queue there must be."
)
@domain_option
@target_option
@timeout_option()
@output_option()
def create(
    name: str,
    queue: str,
    relationship: str | None,
    queue_type: str | None,
    domain: str,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Make NAME lead to a queue of another manager.

    Example: tandemq proxy create orders //west/orders --producer
    """
    from tandemq.v1.queue_admin_service_pb2 import QueueConfig

    expected = QueueConfig(queue_type=f"QUEUE_TYPE_{queue_type.upper()}") if queue_type else None
    chosen = None if relationship is None else Relationship(relationship)
    made = run(
        target,
        timeout_ms,
        lambda client: client.create_proxy(name, queue, relationship=chosen, expected=expected, domain=domain),
    )
    print_facts(_facts_of(made), output)


@proxy.command()
@click.argument("name")
@target_option
@timeout_option()
@output_option()
def info(name: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show proxy NAME, and how its master reaches what it leads to.

    Example: tandemq proxy info orders -o json
    """
    print_facts(_facts_of(run(target, timeout_ms, lambda client: client.get_proxy(name))), output)


@proxy.command("ls")
@domain_option
@target_option
@timeout_option()
@output_option()
def list_(domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """List proxies.

    Example: tandemq proxy ls
    """
    found = run(target, timeout_ms, lambda client: client.list_proxies(domain))
    print_rows([_facts_of(each) for each in found], "proxies", output, COLUMNS)


@proxy.command()
@click.argument("name")
@yes_option
@target_option
@timeout_option()
@output_option()
def rm(name: str, yes: bool, target: str | None, timeout_ms: int, output: str) -> None:
    """Remove proxy NAME. The queue that it leads to stays as it is.

    Example: tandemq proxy rm orders --yes
    """
    confirm("remove the proxy", name, yes=yes)
    run(target, timeout_ms, lambda client: client.delete_proxy(name))
    print_facts({"name": name, "removed": True}, output)


def _facts_of(found: Proxy) -> dict[str, Any]:
    """One of them as JSON."""
    return {
        "name": found.name,
        "target": found.target,
        "relationship": found.relationship or "BOTH",
        "state": found.state,
        "why": found.why,
        "since": found.since.isoformat(timespec="milliseconds"),
        "reached": found.reached,
        "reopened": found.reopened,
        "calls": found.calls,
        "handle": found.handle,
        "created_at": found.created_at.isoformat(timespec="milliseconds"),
    }
