"""The group of a pair's commands, and those that show how the members do; whatever changes something is elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli import pair_history, pair_orders
from tandemq.cli.output import console, print_json, print_line
from tandemq.cli.params import DURATION, output_option, target_option, timeout_option
from tandemq.cli.salvage import salvage

if TYPE_CHECKING:
    from rich.table import Table

    from tandemq.cli.view import PairView

COLUMNS = ("member", "endpoint", "role", "data", "link", "epoch", "log", "committed")
NUMBERS = ("epoch", "log", "committed")
OWN_DOMAIN = "local"  # every member has its own, never replicated; shown in JSON


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
def status(target: str | None, timeout_ms: int, output: str) -> None:
    """Print both members' own view: role, copy, epoch, log, who decides, and what happens if the other one dies now.
    JSON says more, of every domain.

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
    from tandemq.cli.failure import unreachable

    if not any(member.reachable for member in view.members):
        raise unreachable(",".join(endpoints), view.problems())


def show(view: PairView, output: str) -> None:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(view)
    if output == "json":
        print_json(facts)
    elif output == "jsonl":
        print_line(facts)
    else:
        console().print(status_table(view))
        for line in notes(view):
            console().print(line, soft_wrap=True)


def notes(view: PairView) -> list[str]:
    """What the table has no room for, a line each: who decides, how far the peer is, what happens next."""
    from rich.markup import escape

    lines = []
    for member in (each for each in view.members if each.reachable):
        if member.authority:
            states = [f"automation {'[yellow]paused[/yellow]' if member.automation_paused else 'on'}"]
            states += ["[yellow]in maintenance[/yellow]"] if member.maintenance else []
            states += [f"[yellow]waits for a verdict on {member.waiting_event_id}[/yellow]"] * bool(
                member.waiting_event_id
            )
            lost = "" if member.authority == "none" or member.witness_connected else " ([yellow]out of reach[/yellow])"
            lines.append(
                f"{member.name}: authority {member.authority}{lost}, classifier {member.classifier} "
                f"({member.classifier_mode}), safety class {member.safety_class}, {', '.join(states)}"
            )
        for domain in member.domains:
            if domain.name == OWN_DOMAIN or not member.authority:
                continue
            place = f"{member.name}/{domain.name}"
            if domain.role == "MASTER":
                copies = len(domain.in_sync_set)
                lines.append(
                    f"{place}: copies {copies}, peer behind by {domain.peer_backlog:,} operations, "
                    f"{domain.peer_backlog_bytes:,} bytes, {domain.peer_lag_ms:,} ms"
                    + (", [yellow]epoch not recorded yet[/yellow]" if domain.unrecorded else "")
                )
            if domain.advice:
                lines.append(f"[yellow]{place}: {escape(domain.advice)}[/yellow]")
            elif domain.if_peer_dies:
                lines.append(f"{place}: if the peer dies now: {escape(domain.if_peer_dies)}")
    return lines


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
