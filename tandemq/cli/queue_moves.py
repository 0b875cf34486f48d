"""Moves, moves back and removes what is in a queue; decides how that is printed, never what goes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_facts, say_over
from tandemq.cli.params import confirm, output_option, target_option, timeout_option, yes_option
from tandemq.cli.queue_restore import identity_of
from tandemq.cli.session import run
from tandemq.cli.where import where_options

if TYPE_CHECKING:
    from tandemq.client.aio import Client
    from tandemq.client.filtering import Where

PROGRESS_S = 0.5
_UNDONE = ("BAD_REQUEST", "BAD_SELECTOR", "QUEUE_NOT_FOUND", "CROSS_DOMAIN", "INVALID_STATE", "ENQUEUE_DISABLED")
"""Reasons of calls that did nothing."""


def _long_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        output_option(),
        timeout_option("10m"),
        target_option,
        click.option("--request-id", metavar="HEX", help="Of a call that broke off: it goes on where that stopped."),
        click.option("--max", "most", type=click.IntRange(min=1), default=None, help="At most so many, oldest first."),
        where_options,
    ):
        command = option(command)
    return command


@click.command()
@click.argument("name")
@click.argument("to")
@_long_options
def move(
    name: str,
    to: str,
    where: Where | None,
    most: int | None,
    request_id: str | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Move messages to queue TO: all that are there now, or those that the options name. What consumers hold stays.

    Example: tandemq queue move orders orders-old --where "year < 2020"
    """

    async def work(client: Client, identity: bytes, timeout: float) -> Any:
        return await client.move_messages(
            name, to, where, max_messages=most or 0, request_id=identity, timeout=timeout
        )  # fmt: skip

    done = _carry_out(name, "moved", request_id, target, timeout_ms, work)
    _print_moved({"queue": name, "to": to}, done, output)


@click.command()
@click.argument("name")
@click.option("--to", default="", metavar="QUEUE", help="Where to. Default: each to the queue that it came from.")
@_long_options
def redrive(
    name: str,
    to: str,
    where: Where | None,
    most: int | None,
    request_id: str | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Move the dead letters in NAME back to the queues that they came from, as they were first sent.

    Example: tandemq queue redrive orders.dead
    """

    async def work(client: Client, identity: bytes, timeout: float) -> Any:
        return await client.redrive_queue(
            name, to, where, max_messages=most or 0, request_id=identity, timeout=timeout
        )  # fmt: skip

    done = _carry_out(name, "moved", request_id, target, timeout_ms, work)
    _print_moved({"queue": name, "to": to or None}, done, output)


@click.command("delete-messages")
@click.argument("name")
@yes_option
@_long_options
def delete_messages(
    name: str,
    yes: bool,
    where: Where | None,
    most: int | None,
    request_id: str | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Remove the messages that the options name. What consumers hold stays.

    \b
    Example: tandemq queue delete-messages orders --where "customer = 'test'" --yes
    """
    if where is None:
        raise click.UsageError(
            "say which messages: --where, --id, --correlation-id or --group-id; `queue purge` is all"
        )
    wanted = where
    confirm("remove messages of queue", name, yes=yes)

    async def work(client: Client, identity: bytes, timeout: float) -> Any:
        return await client.delete_messages(
            name, wanted, max_messages=most or 0, request_id=identity, timeout=timeout
        )  # fmt: skip

    done = _carry_out(name, "removed", request_id, target, timeout_ms, work)
    facts = {"queue": name, "removed": done.removed, "leased": done.leased, "duplicate": done.duplicate}
    print_facts(facts, output)


def _carry_out(
    name: str,
    verb: str,
    request_id: str | None,
    target: str | None,
    timeout_ms: int,
    work: Callable[[Client, bytes, float], Awaitable[Any]],
) -> Any:
    """Makes the call and, on a terminal, says how far it is."""
    identity = identity_of(request_id)

    async def watched(client: Client) -> Any:
        watching = asyncio.ensure_future(_watch(client, name, verb)) if sys.stderr.isatty() else None
        try:
            return await work(client, identity, timeout_ms / 1000)
        finally:
            if watching is not None:
                watching.cancel()
                say_over("")

    try:
        return run(target, timeout_ms, watched)
    except Failure as failure:
        if failure.reason not in _UNDONE:  # it may be under way
            again = f"repeat it with --request-id {identity.hex()}: it goes on where it stopped"
            failure.next_step = f"{failure.next_step}; {again}" if failure.next_step else again
        raise


async def _watch(client: Client, name: str, verb: str) -> None:
    """By what the queue has lost since the call began."""
    from tandemq.errors import TandemqError

    first: int | None = None
    while True:
        with contextlib.suppress(TandemqError):  # the call itself says what is wrong
            total = (await client.get_queue(name)).purged_total
            first = total if first is None else first
            say_over(f"{verb} {total - first} so far")
        await asyncio.sleep(PROGRESS_S)


def _print_moved(facts: dict[str, Any], done: Any, output: str) -> None:
    from tandemq.v1.common_pb2 import Reason

    behind = [
        {
            "reason": Reason.Name(each.reason).removeprefix("REASON_"),
            "queue": each.queue,
            "count": each.count,
            "message": each.message,
        }
        for each in done.behind
    ]
    found = {"moved": done.moved, "left": done.left, "leased": done.leased, "duplicate": done.duplicate}
    table = output == "table"
    print_facts({**facts, **found} if table else {**facts, **found, "behind": behind}, output)
    if done.left:
        why = "; ".join(f"{each['count']}: {each['reason']}, {each['message']}" for each in behind)
        text = f"{done.left} messages stay where they are ({why})"
        raise Failure(str(behind[0]["reason"]), text, "mend that, and call it once more", FAILED)
