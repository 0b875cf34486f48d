"""The group of a pair's commands, and those that show how the members do; whatever changes something is elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli import pair_history, pair_orders
from tandemq.cli.failure import FAILED
from tandemq.cli.output import console, print_json, print_line
from tandemq.cli.params import DURATION, output_option, target_option, timeout_option
from tandemq.cli.salvage import salvage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tandemq.cli.view import PairView

COLUMNS = ("member", "endpoint", "role", "data", "link", "epoch", "log", "committed")
NUMBERS = ("epoch", "log", "committed")
WARNS = "yellow"


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
        out = console()
        out.print(status_table(view, out))
        for line in notes(view):
            out.print(line, soft_wrap=True)


def notes(view: PairView) -> list[Text]:
    """What the table has no room for, a line each: who decides, how far the peer is, what happens next, what lacks."""
    from tandemq.cli.terminal import styled
    from tandemq.cli.view import OWN_DOMAIN

    lines: list[Text] = []
    for member in (each for each in view.members if each.reachable):
        lines += [styled(f"{member.name}: ", ("last writes in doubt", WARNS), f": {doubt}") for doubt in member.doubts]
        if member.authority:
            states: list[str | tuple[str, str]] = [", automation "]
            states += [("paused", WARNS)] if member.automation_paused else ["on"]
            states += [", ", ("in maintenance", WARNS)] if member.maintenance else []
            waits = (f"waits for a verdict on {member.waiting_event_id}", WARNS)
            states += [", ", waits] if member.waiting_event_id else []
            near = member.authority == "none" or member.witness_connected
            lost: list[str | tuple[str, str]] = [] if near else [" (", ("out of reach", WARNS), ")"]
            who = f", classifier {member.classifier} ({member.classifier_mode}), safety class {member.safety_class}"
            lines.append(styled(f"{member.name}: authority {member.authority}", *lost, who, *states))
        for domain in member.domains:
            if domain.name == OWN_DOMAIN or not member.authority:
                continue
            place = f"{member.name}/{domain.name}"
            if domain.role == "MASTER":
                copies = len(domain.in_sync_set)
                behind = (
                    f"{place}: copies {copies}, peer behind by {domain.peer_backlog:,} operations, "
                    f"{domain.peer_backlog_bytes:,} bytes, {domain.peer_lag_ms:,} ms"
                )
                lines.append(styled(behind, (", epoch not recorded yet" if domain.unrecorded else "", WARNS)))
            if domain.advice:
                lines.append(styled((f"{place}: {domain.advice}", WARNS)))
            elif domain.if_peer_dies:
                lines.append(styled(f"{place}: if the peer dies now: {domain.if_peer_dies}"))
    if lacking := view.lacks():
        lines.append(styled((f"not whole: {', '.join(lacking)}", "bold red")))
    return lines


def status_table(view: PairView, out: Console) -> Table:
    from tandemq.cli.terminal import Column, fitted, styled
    from tandemq.cli.view import OWN_DOMAIN

    shown = [(member, [d for d in member.domains if d.name != OWN_DOMAIN]) for member in view.members]
    many = len({domain.name for _, domains in shown for domain in domains}) > 1
    names = (*COLUMNS[:2], *(["domain"] if many else []), *COLUMNS[2:])
    rows: list[list[str | Text]] = []
    for member, domains in shown:
        if not domains:
            seen = "-" if member.reachable else styled(("unreachable", "red"))
            rows.append([member.name or "?", member.endpoint, *(["-"] if many else []), seen, *["-"] * 5])
        for domain in domains:
            states = (*([domain.name] if many else []), domain.role, domain.data_state, domain.link_state)
            numbers = (domain.epoch, domain.log_index, domain.commit_index)
            rows.append([member.name, member.endpoint, *states, *(f"{number:,}" for number in numbers)])
    columns = [
        Column(name, typed=name != "endpoint", number=name in NUMBERS, folds=name == "endpoint") for name in names
    ]
    return fitted(out, columns, rows, f"pair {view.pair}" if view.pair else None)
