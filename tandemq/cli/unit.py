"""Shows units of work that are open; it ends none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_rows
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import UnitState

COLUMNS = ("id", "client", "age_seconds", "left_seconds", "locked", "puts", "reactions", "queues")
UNITS_MAX = 10_000
domain_option = click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")


@click.group()
def unit() -> None:
    """Units of work that are open: who holds messages, for how long still, and what he is about to send.

    \b
    Example: tandemq unit ls
    """


@unit.command()
@click.option("--max", "max_units", type=click.IntRange(1, UNITS_MAX), default=1_000, show_default=True)
@domain_option
@target_option
@timeout_option()
@output_option()
def ls(max_units: int, domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show the units that are open, the oldest first. Each ends at its deadline by itself.

    Example: tandemq unit ls -o json
    """
    found = run(target, timeout_ms, lambda client: client.list_units(max_units, domain=domain))
    print_rows([facts_of(each) for each in found], "units", output, COLUMNS)


def facts_of(found: UnitState) -> dict[str, Any]:
    """One of them as JSON."""
    return {
        "id": found.id.hex(),
        "client": found.client_id.decode(errors="backslashreplace"),
        "age_seconds": round(found.age.total_seconds(), 3),
        "left_seconds": round(found.left.total_seconds(), 3),
        "locked": found.messages_locked,
        "puts": found.messages_put,
        "reactions": found.reactions,
        "queues": list(found.queues),
    }
