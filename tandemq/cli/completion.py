"""Asks what became of messages, sends requests and answers them; prints what a member said, and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_rows
from tandemq.cli.params import DURATION, output_option, target_option, timeout_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import Client
    from tandemq.client.completion import Completion
    from tandemq.client.outgoing import Attributes

COLUMNS = ("handle", "reached", "final", "completed", "reply")


def send_with_handles(
    target: str | None,
    timeout_ms: int,
    output: str,
    queue: str,
    bodies: Iterable[bytes],
    attributes: Attributes,
    min_copies: int,
    wait: timedelta,
) -> None:
    """Send one by one, and print what is known of each."""
    rows: list[dict[str, Any]] = []

    async def work(client: Client) -> None:
        for body in bodies:
            handle = await client.send(queue, body, wait=wait, min_copies=min_copies, **attributes)
            rows.append({"index": handle.index} | facts_of_completion(handle.completion))

    run(target, timeout_ms + int(wait.total_seconds() * 1_000), work)
    print_rows(rows, "messages", output, ("index", *COLUMNS))


def facts_of_completion(completion: Completion) -> dict[str, Any]:
    """A completion as JSON. An answer that is no UTF-8 is given as `reply_base64`."""
    import base64

    facts: dict[str, Any] = {
        "handle": completion.handle.hex(),
        "reached": completion.reached.name,
        "final": completion.final.name if completion.final else "",
        "completed": completion.completed,
    }
    if completion.reply is not None:
        try:
            facts["reply"] = completion.reply.payload.decode()
        except UnicodeDecodeError:
            facts["reply_base64"] = base64.b64encode(completion.reply.payload).decode()
    if completion.error is not None:
        facts["error"] = completion.error.reason
    return facts


def _check_known(completions: Iterable[Completion], queue: str) -> None:
    """Ends the command after its rows when one of them says nothing of its message."""
    for each in completions:
        if each.error is not None and each.error.reason == "INVALID_HANDLE":
            from tandemq.cli.session import failure_of

            error = type(each.error)(each.error.reason, f"{each.handle.hex()} in queue {queue}: {each.error.message}")
            raise failure_of(error, queue)


def _handles(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[bytes]:
    try:
        return [bytes.fromhex(value) for value in values]
    except ValueError as error:
        raise click.BadParameter("a handle is 32 hexadecimal digits, as `msg send --handles` prints it") from error


@click.command()
@click.argument("queue")
@click.argument("handles", nargs=-1, required=True, callback=_handles)
@click.option("--wait", "wait_ms", type=DURATION, default="0", help="Wait this long until all have ended.")
@target_option
@timeout_option()
@output_option()
def completion(
    queue: str, handles: list[bytes], wait_ms: int, target: str | None, timeout_ms: int, output: str
) -> None:
    """Say what became of messages: how far they came, how they ended, and the answers to requests. Exit code 1 when one
    of the handles is not known, or not any more.

    \b
    Example: tandemq msg completion alarms 88dcdbd6000000020000000000000001 --wait 1m
    """

    async def work(client: Client) -> list[Completion]:
        return list(await client.wait_completions(queue, handles, timedelta(milliseconds=wait_ms)))

    found = run(target, timeout_ms + wait_ms, work)
    print_rows([facts_of_completion(each) for each in found], "completions", output, COLUMNS)
    _check_known(found, queue)


@click.command()
@click.argument("queue")
@click.argument("text")
@click.option("--wait", "wait_ms", type=DURATION, default="30s", show_default=True, help="For the answer.")
@target_option
@timeout_option()
@output_option()
def request(queue: str, text: str, wait_ms: int, target: str | None, timeout_ms: int, output: str) -> None:
    """Send a request to a TWO_WAY queue and print its answer; exit code 1 and the handle's state when there is none.

    \b
    Example: tandemq msg request prices "apples" --wait 5s
    """
    rows: list[dict[str, Any]] = []

    async def work(client: Client) -> None:
        answer = await client.call(queue, text.encode(), timedelta(milliseconds=wait_ms))
        rows.append({"queue": queue, "reply": answer.payload.decode(errors="replace")})

    run(target, timeout_ms + wait_ms, work)
    print_rows(rows, "answers", output, ("queue", "reply"))


@click.command()
@click.argument("queue")
@click.argument("text")
@click.option("--lease-id", type=click.IntRange(1), help="Of a request that was received before.")
@click.option("--index", type=click.IntRange(1), help="Of that request.")
@click.option("--wait", "wait_ms", type=DURATION, default="0", help="Wait this long for a request.")
@target_option
@timeout_option()
@output_option()
def reply(
    queue: str,
    text: str,
    lease_id: int | None,
    index: int | None,
    wait_ms: int,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Answer the next request of a TWO_WAY queue, or the one that --lease-id and --index name.

    \b
    Example: tandemq msg reply prices "3.50" --wait 1m
    """
    if (lease_id is None) != (index is None):
        raise click.UsageError("give both --lease-id and --index, or neither")
    answer = text.encode()  # refused before a request is leased for it
    rows: list[dict[str, Any]] = []

    async def work(client: Client) -> None:
        lease, at, asked = lease_id, index, None
        if lease is None or at is None:
            batch = await client.dequeue(queue, wait=timedelta(milliseconds=wait_ms))
            if not batch:
                return
            lease, at, asked = batch.lease_id, batch[0].index, batch[0].payload.decode(errors="replace")
        await client.reply(queue, lease, at, answer)
        rows.append({"queue": queue, "index": at, "request": asked, "reply": text})

    run(target, timeout_ms + wait_ms, work)
    print_rows(rows, "answered", output, ("queue", "index", "request", "reply"))
