"""Shows what is remembered of a writer of staged rows, and gives its name free. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_facts
from tandemq.cli.params import confirm, output_option, target_option, timeout_option, yes_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import Client

domain_option = click.option("--domain", default="", help="Default: main.")


@click.group()
def writer() -> None:
    """Writers of staged rows: whose a name is, and which batch was published last under it."""


@writer.command()
@click.argument("name")
@domain_option
@target_option
@timeout_option()
@output_option()
def show(name: str, domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show whose the name NAME is. One that is free is an error.

    Example: tandemq queue writer show copy-to-out -o json
    """
    found = run(target, timeout_ms, lambda client: client.writer_state(name, domain=domain))
    if found is None:
        raise _free(name)
    facts: dict[str, Any] = {
        "writer": name,
        "query_id": found.query_id,
        "batch": found.batch,
        "published_at": found.published_at.isoformat(timespec="seconds"),
        "history_id": found.position.history_id,
    }
    print_facts(facts, output)


@writer.command()
@click.argument("name")
@yes_option
@domain_option
@target_option
@timeout_option()
@output_option()
def release(name: str, yes: bool, domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Give the name NAME free, for another query or a new checkpoint. End the old query first: what it repeats
    afterwards is published again.

    Example: tandemq queue writer release copy-to-out --yes
    """
    confirm("release writer", name, yes=yes)

    async def work(client: Client) -> bool:
        return await client.release_writer(name, domain=domain)

    if not run(target, timeout_ms, work):
        raise _free(name)
    print_facts({"writer": name, "released": True}, output)


def _free(name: str) -> Failure:
    text = f"nobody has published under the name {name!r}, or it was released"
    return Failure("WRITER_NOT_FOUND", text, "name it as its query, unit or twins do; see --domain", FAILED)
