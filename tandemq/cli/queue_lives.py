"""Opens and closes queues, gives them other names, shows what new ones get; the master decides whether it may be."""

from __future__ import annotations

from typing import Any

import click

from tandemq.cli.output import print_facts
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.queue_attributes import attribute_options, attributes_of, config_of, facts_of
from tandemq.cli.session import run


@click.command()
@click.argument("name")
@target_option
@timeout_option()
@output_option()
def configure(name: str, target: str | None, timeout_ms: int, output: str) -> None:
    """End the configuration phase: the type cannot be changed any more.

    Example: tandemq queue configure orders
    """
    print_facts(facts_of(run(target, timeout_ms, lambda client: client.configure_queue(name))), output)


@click.command("open")
@click.argument("name")
@target_option
@timeout_option()
@output_option()
def open_(name: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Open a configured or closed queue on every member.

    Example: tandemq queue open orders
    """
    print_facts(facts_of(run(target, timeout_ms, lambda client: client.open_queue(name))), output)


@click.command()
@click.argument("name")
@target_option
@timeout_option()
@output_option()
def close(name: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Send its clients away on every member; volatile messages go, persistent ones stay.

    Example: tandemq queue close orders
    """
    print_facts(facts_of(run(target, timeout_ms, lambda client: client.close_queue(name))), output)


@click.group()
def alias() -> None:
    """Give queues other names."""


@alias.command()
@click.argument("name")
@click.argument("other")
@target_option
@timeout_option()
@output_option()
def add(name: str, other: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Let OTHER be one more name of queue NAME.

    Example: tandemq queue alias add orders incoming
    """
    print_facts(facts_of(run(target, timeout_ms, lambda client: client.create_alias(other, name))), output)


@alias.command()
@click.argument("other")
@target_option
@timeout_option()
@output_option()
def remove(other: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Take such a name away; the queue stays.

    Example: tandemq queue alias remove incoming
    """
    run(target, timeout_ms, lambda client: client.delete_alias(other))
    print_facts({"alias": other, "removed": True}, output)


@click.group()
def defaults() -> None:
    """What a new queue gets for what its creator leaves unset."""


@defaults.command("show")
@click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")
@target_option
@timeout_option()
@output_option()
def show_defaults(domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show them.

    Example: tandemq queue defaults show
    """
    found = run(target, timeout_ms, lambda client: client.get_defaults(domain))
    print_facts({"profile": found.profile, "version": found.version, **attributes_of(found.config)}, output)


@defaults.command("update")
@click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")
@attribute_options
@click.option("--expected-version", type=int, default=0, help="Refuse when they were changed since that version.")
@target_option
@timeout_option()
@output_option()
def update_defaults(
    domain: str, expected_version: int, target: str | None, timeout_ms: int, output: str, **attributes: Any
) -> None:
    """Change them for queues made from now on.

    Example: tandemq queue defaults update --max-length 1000
    """
    config, fields = config_of(attributes)
    if not fields:
        raise click.UsageError("name at least one attribute to change")
    changed = run(
        target,
        timeout_ms,
        lambda client: client.update_defaults(config, fields, domain=domain, expected_version=expected_version),
    )
    print_facts({"version": changed.version, **attributes_of(changed.config)}, output)
