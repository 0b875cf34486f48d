"""Registers queues where others look for them, and finds what was registered; it never changes a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_facts
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.session import failure_of, run

if TYPE_CHECKING:
    from tandemq.finding.resolver import Registry

Command = TypeVar("Command", bound=Callable[..., Any])


def _where_option(name: str) -> Callable[[Command], Command]:
    text = "user, host or site (a file of managers), a [[resolvers]] name, ldap://HOST/BASE, or a file's path."
    return click.option(name, "where", required=True, metavar="WHERE", help=text)


def _as_option(command: Command) -> Command:
    return click.option("--as", "manager", default="", metavar="NAME", help="The manager's name. Default: its own.")(
        command
    )


@click.command()
@click.argument("name")
@_where_option("--to")
@_as_option
@click.option("--endpoint", "endpoint", metavar="HOST:PORT[,...]", help="Reach this queue here. Default: its manager.")
@target_option
@timeout_option()
@output_option()
def export(
    name: str, where: str, manager: str, endpoint: str | None, target: str | None, timeout_ms: int, output: str
) -> None:
    """Register a queue, so that others find it by its name alone.

    Example: tandemq queue export cf/hotline --to site
    """
    registry = registry_of(where, "--to")
    endpoints = tuple(endpoint.split(",")) if endpoint else ()
    done = run(
        target, timeout_ms, lambda client: client.export_queue(name, registry, manager=manager, endpoints=endpoints)
    )
    facts = {"queue": str(done.name), "exported_to": registry.source, "endpoints": list(done.endpoints)}
    print_facts({**facts, "changed": done.changed}, output)


@click.command()
@click.argument("name")
@_where_option("--from")
@_as_option
@target_option
@timeout_option()
@output_option()
def unexport(name: str, where: str, manager: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Take a queue out of where it was registered; the queue itself stays.

    Example: tandemq queue unexport cf/hotline --from site
    """
    registry = registry_of(where, "--from")
    changed = run(target, timeout_ms, lambda client: client.withdraw_queue(name, registry, manager=manager))
    print_facts({"queue": name, "withdrawn_from": registry.source, "changed": changed}, output)


@click.command()
@click.argument("name")
@output_option()
def find(name: str, output: str) -> None:
    """Say whose an exported queue is; asks resolvers and no manager.

    Example: tandemq queue find cf/hotline
    """
    from tandemq.errors import TandemqError
    from tandemq.finding.directory import Directory
    from tandemq.finding.names import FullName
    from tandemq.finding.resolvers import standard

    async def found() -> dict[str, object]:
        directory = Directory(standard)
        try:
            entry, source = await directory.find_queue(name)
            endpoints = entry.endpoints or (await directory.find(entry.manager)).answer.managers[0].endpoints
        finally:
            await directory.close()
        full = FullName(entry.manager, entry.queue)
        return {"queue": str(full), "manager": entry.manager, "endpoints": list(endpoints), "source": source}

    try:
        print_facts(asyncio.run(found()), output)
    except TandemqError as error:
        raise failure_of(error, name) from error


def registry_of(where: str, option: str) -> Registry:
    """Where to register. Ends the command when it is no such place."""
    from tandemq.finding.profile import BadProfile
    from tandemq.finding.resolvers import registry

    try:
        return registry(where)
    except BadProfile as error:
        raise Failure("CONFIG_ERROR", f"{option}: {error}", "see docs/CLIENTS.md, Finding a manager", FAILED) from error
