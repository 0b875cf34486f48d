"""Shows how the members of a pair do, once or again and again; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import console, print_json, print_line
from tandemq.cli.params import DURATION, output_option, target_option, timeout_option

if TYPE_CHECKING:
    from rich.table import Table

    from tandemq.cli.view import PairView

COLUMNS = ("member", "endpoint", "role", "data", "link", "epoch", "log", "committed")
NUMBERS = ("epoch", "log", "committed")
OWN_DOMAIN = "local"  # every member has its own, never replicated; shown in JSON


@click.group()
def pair() -> None:
    """See how the members of a pair do."""


@pair.command()
@target_option
@timeout_option("2s")
@output_option()
def status(target: str | None, timeout_ms: int, output: str) -> None:
    """Print both members' own view: role, copy, epoch and log. JSON says more, of every domain.

    A member that does not answer is listed as unreachable. Exit code 3 when none answers.

    Example: tandemq pair status -o json
    """
    import asyncio

    from tandemq.cli.view import look

    endpoints = _endpoints(target)
    view = asyncio.run(look(endpoints, timeout_ms / 1000))
    _check_answered(view, endpoints)
    show(view, output)


@pair.command()
@target_option
@timeout_option("2s")
@click.option("--interval", "interval_ms", type=DURATION, default="1s", show_default=True, help="Time between looks.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many looks.")
@output_option("table", "jsonl")
def watch(target: str | None, timeout_ms: int, interval_ms: int, count: int | None, output: str) -> None:
    """Keep printing the status until interrupted; a member may come and go meanwhile.

    Example: tandemq pair watch --interval 500ms
    """
    import asyncio
    import itertools

    from tandemq.cli.view import look

    endpoints = _endpoints(target)

    async def keep_looking() -> None:
        for number in itertools.count(1):
            show(await look(endpoints, timeout_ms / 1000), output)
            if number == count:
                return
            await asyncio.sleep(interval_ms / 1000)

    asyncio.run(keep_looking())


def _endpoints(target: str | None) -> list[str]:
    from tandemq.cli.session import endpoints_of

    return endpoints_of(target)


def _check_answered(view: PairView, endpoints: list[str]) -> None:
    from tandemq.cli.failure import unreachable

    if not any(member.reachable for member in view.members):
        raise unreachable(",".join(endpoints))


def show(view: PairView, output: str) -> None:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(view)
    if output == "json":
        print_json(facts)
    elif output == "jsonl":
        print_line(facts)
    else:
        console().print(status_table(view))


def status_table(view: PairView) -> Table:
    from rich import box
    from rich.table import Table

    shown = [(member, [d for d in member.domains if d.name != OWN_DOMAIN]) for member in view.members]
    many = len({domain.name for _, domains in shown for domain in domains}) > 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"pair {view.pair}" if view.pair else None)
    for name in (*COLUMNS[:2], *(["domain"] if many else []), *COLUMNS[2:]):
        table.add_column(name, no_wrap=True, justify="right" if name in NUMBERS else "left")
    for member, domains in shown:
        if not domains:
            seen = "-" if member.reachable else "[red]unreachable[/red]"
            table.add_row(member.name or "?", member.endpoint, *(["-"] if many else []), seen, *["-"] * 5)
        for domain in domains:
            states = (*([domain.name] if many else []), domain.role, domain.data_state, domain.link_state)
            numbers = (domain.epoch, domain.log_index, domain.commit_index)
            table.add_row(member.name, member.endpoint, *states, *(f"{number:,}" for number in numbers))
    return table
