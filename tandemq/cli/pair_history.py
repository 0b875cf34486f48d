"""Shows what happened at the members of a pair: the list, and the last change in a sentence; it changes nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import console, print_json, print_rows, say
from tandemq.cli.pair_call import domain_option, look_at, member_option
from tandemq.cli.params import output_option, target_option, timeout_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tandemq.cli.explain import Happening
    from tandemq.cli.view import PairView
    from tandemq.v1.pair_service_pb2 import PairEvent

COLUMNS = ("time", "member", "domain", "kind", "event")
ENOUGH = 1_000


@click.command()
@target_option
@member_option
@click.option("--domain", default="", help="Only of this domain. Default: all.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Newest events to show.")
@timeout_option("5s")
@output_option()
def history(target: str | None, member: str | None, domain: str, limit: int, timeout_ms: int, output: str) -> None:
    """List what happened at the members, oldest first: roles, links, verdicts, claims, transfers, handoffs, orders.

    Each member keeps its own events, over restarts; those of all members that answer are put in one order by time.

    Example: tandemq pair history --domain main --limit 20
    """
    view = look_at(target, timeout_ms)
    found = events_of(view, timeout_ms, limit=limit, domain=domain, member=member)[-limit:]
    if output == "table":
        console().print(event_table(found))
    else:
        print_rows([_facts(each) for each in found], "events", output)


@click.command()
@target_option
@domain_option
@timeout_option("5s")
@output_option("table", "json")
def why(target: str | None, domain: str, timeout_ms: int, output: str) -> None:
    """Print the last change in a sentence: what, when, who decided, what is now, what to do.

    Example: tandemq pair why
    """
    import time

    from tandemq.cli.explain import explain

    view = look_at(target, timeout_ms)
    events = events_of(view, timeout_ms, limit=ENOUGH, domain=domain)
    story = explain(events, view, domain, time.time_ns() // 1_000_000)
    if output == "json":
        parts = {name: getattr(story, name) for name in ("text", "what", "when", "who", "now", "do")}
        print_json({**parts, "event": _facts(story.event) if story.event is not None else None})
    else:
        say(story.text)


def events_of(
    view: PairView, timeout_ms: int, *, limit: int, domain: str = "", member: str | None = None
) -> list[Happening]:
    """The newest events of all members that answer, in the order of their clocks."""
    asked = [each.endpoint for each in view.members if each.reachable and member in (None, each.name)]
    if member is not None and not asked:
        names = ", ".join(each.name for each in view.members if each.reachable)
        raise click.UsageError(f"no member called {member} answers; {names} does")

    async def ask_all() -> list[list[Happening]]:
        return await asyncio.gather(*(_ask(endpoint, timeout_ms, limit, domain) for endpoint in asked))

    found = [event for events in _run(ask_all, asked) for event in events]
    return sorted(found, key=lambda event: (event.time_ms, event.member, event.number))


def _run(work: Any, endpoints: list[str]) -> Any:
    import grpc.aio

    from tandemq.cli.session import failure_of
    from tandemq.errors import from_rpc_error

    try:
        return asyncio.run(work())
    except grpc.aio.AioRpcError as error:
        raise failure_of(from_rpc_error(error), ",".join(endpoints)) from error


async def _ask(endpoint: str, timeout_ms: int, limit: int, domain: str) -> list[Happening]:

    from tandemq.cli.opening import open_channel
    from tandemq.cli.view import CHANNEL_OPTIONS
    from tandemq.v1 import pair_service_pb2, pair_service_pb2_grpc

    async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
        stub = pair_service_pb2_grpc.PairServiceStub(channel)
        request = pair_service_pb2.ListEventsRequest(limit=limit, domain=domain)
        answer = await stub.ListEvents(request, timeout=timeout_ms / 1000)
    return [happening(event) for event in answer.events]


def happening(event: PairEvent) -> Happening:
    """An event of the wire, with names as people say them."""
    from tandemq.cli.explain import Happening
    from tandemq.v1 import common_pb2, pair_service_pb2

    return Happening(
        number=event.number,
        time_ms=event.time.ToMilliseconds(),
        member=event.member,
        kind=pair_service_pb2.PairEventKind.Name(event.kind).removeprefix("PAIR_EVENT_KIND_"),
        domain=event.domain,
        epoch=event.epoch,
        role=common_pb2.Role.Name(event.role).removeprefix("ROLE_").replace("UNSPECIFIED", ""),
        text=event.text,
        facts=dict(event.facts),
    )


def _facts(event: Happening) -> dict[str, Any]:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(event)
    return facts


def event_table(events: Sequence[Happening]) -> Table:
    """A line each; a long sentence is folded, never cut."""
    from tandemq.cli.terminal import new_table

    table = new_table()
    for name in COLUMNS:
        table.add_column(name, no_wrap=name != "event", overflow="fold")
    for event in events:
        at = datetime.fromtimestamp(event.time_ms / 1000, UTC).astimezone()
        when = f"{at:%m-%d %H:%M:%S}.{event.time_ms % 1000:03d}"
        table.add_row(when, event.member, event.domain or "-", event.kind.lower(), event.text)
    return table


COMMANDS = (history, why)
