"""Lists, registers and deletes the named readers of the journal; the master decides whether it may be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import DURATION, confirm, output_option, target_option, timeout_option, yes_option
from tandemq.cli.queue_journal import PLACE, Place, position_of
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import JournalReader

COLUMNS = ("name", "log_index", "epoch", "lag_records", "expires_at", "lost")
domain_option = click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")


@click.group()
def reader() -> None:
    """Named readers of the journal: what they have not read is kept for them, up to a limit."""


@reader.command("list")
@domain_option
@target_option
@timeout_option()
@output_option()
def list_(domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """List them, with how far behind they are, and which have lost their place.

    Example: tandemq queue reader list -o json
    """
    found = run(target, timeout_ms, lambda client: client.list_readers(domain))
    rows = [facts_of(each) for each in found]
    if output == "table":
        rows = [{**row, "lost": f"before {row['lost_until']}" if row["lost_until"] else ""} for row in rows]
    print_rows(rows, "readers", output, COLUMNS)


@reader.command()
@click.argument("name")
@click.option("--from-log-index", type=PLACE, help="Begin with this record. Default: the first that is kept.")
@click.option("--at-end", is_flag=True, help="Begin with what comes from now on.")
@click.option("--ttl", "ttl_ms", type=DURATION, help="How long it is kept without being advanced. Default: 7 days.")
@click.option("--restart", is_flag=True, help="Move one that is there already, too: give up what it has not read.")
@domain_option
@target_option
@timeout_option()
@output_option()
def register(
    name: str,
    from_log_index: Place | None,
    at_end: bool,
    ttl_ms: int | None,
    restart: bool,
    domain: str,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Give reader NAME a place; one that is there keeps the place that it has.

    Example: tandemq queue reader register lake --at-end --ttl 24h

    Example: tandemq queue reader register lake --restart

    \b
    Example: tandemq queue reader register lake --from-log-index 120:3:5d41402abc4b2a76b9719d911017c592
    """
    if from_log_index and at_end:
        raise click.UsageError("give --from-log-index or --at-end, not both")
    ttl = timedelta(milliseconds=ttl_ms) if ttl_ms is not None else None

    async def work(client: Any) -> JournalReader:
        made: JournalReader = await client.register_reader(
            name, position_of(from_log_index), at_end=at_end, ttl=ttl, restart=restart, domain=domain
        )
        return made

    print_facts(facts_of(run(target, timeout_ms, work)), output)


@reader.command()
@click.argument("name")
@yes_option
@domain_option
@target_option
@timeout_option()
@output_option()
def delete(name: str, yes: bool, domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Forget reader NAME: nothing is kept for it any more.

    Example: tandemq queue reader delete lake --yes
    """
    confirm("delete reader", name, yes=yes)
    run(target, timeout_ms, lambda client: client.delete_reader(name, domain=domain))
    print_facts({"reader": name, "deleted": True}, output)


def facts_of(found: JournalReader) -> dict[str, Any]:
    """One of them as JSON."""
    return {
        "name": found.name,
        "log_index": found.position.log_index,
        "epoch": found.position.epoch,
        "row": found.position.row,
        "history_id": found.position.history_id,
        "lag_records": found.lag_records,
        "ttl_seconds": found.ttl.total_seconds(),
        "expires_at": found.expires_at.isoformat(timespec="seconds"),
        "registered_at": found.registered_at.isoformat(timespec="seconds"),
        "lost_until": found.lost_until_log_index,
        "lost_because": found.lost_because,
    }
