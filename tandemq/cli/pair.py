"""The group of a pair's commands, and those that show how the members do; whatever changes something is elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tandemq.cli import pair_history, pair_orders
from tandemq.cli.failure import FAILED
from tandemq.cli.pair_table import show
from tandemq.cli.params import DURATION, output_option, target_option, timeout_option
from tandemq.cli.salvage import salvage

if TYPE_CHECKING:
    from tandemq.cli.view import PairView


@click.group()
def pair() -> None:
    """See how the members of a pair do, and give them orders."""


for _command in (*pair_history.COMMANDS, *pair_orders.COMMANDS):
    pair.add_command(_command)


pair.add_command(salvage)


@pair.command()
@target_option
@timeout_option("2s")
@output_option()
@click.pass_context
def status(ctx: click.Context, target: str | None, timeout_ms: int, output: str) -> None:
    """Print both members' own view: role, copy, epoch, log, who decides, and what happens if the other one dies now.
    JSON says more, of every domain.

    A member that does not answer is listed as unreachable. Exit code 1 when the pair is not whole: a member does not
    answer, or a domain has no master or is not in sync; 3 when none answers.

    Example: tandemq pair status -o json
    """
    import asyncio

    from tandemq.cli.view import look

    endpoints = _endpoints(target)
    view = asyncio.run(look(endpoints, timeout_ms / 1000))
    _check_answered(view, endpoints)
    show(view, output)
    ctx.exit(FAILED if view.lacks() else 0)


@pair.command()
@target_option
@timeout_option("2s")
@click.option("--interval", "interval_ms", type=DURATION, default="1s", show_default=True, help="Time between looks.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many looks.")
@click.option("--events/--no-events", default=None, help="What happens too. Default: in a table, not in JSON.")
@output_option("table", "jsonl")
def watch(
    target: str | None, timeout_ms: int, interval_ms: int, count: int | None, events: bool | None, output: str
) -> None:
    """Keep printing the status, and what happens, until interrupted; a member may come and go meanwhile.

    On a terminal the view stays in place, with the newest events below it. In JSON lines an event has the key `event`.

    Example: tandemq pair watch --interval 500ms
    """
    import asyncio

    from tandemq.cli.pair_watch import keep_looking

    with_events = output == "table" if events is None else events
    asyncio.run(
        keep_looking(
            _endpoints(target), timeout_ms / 1000, interval_ms / 1000, count, output=output, with_events=with_events
        )
    )


def _endpoints(target: str | None) -> list[str]:
    from tandemq.cli.session import endpoints_of

    return endpoints_of(target)


def _check_answered(view: PairView, endpoints: list[str]) -> None:
    from tandemq.cli.pair_call import no_view

    if not any(member.reachable for member in view.members):
        raise no_view(view, endpoints)
