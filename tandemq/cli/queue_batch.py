"""Lists, shows and gives back numbered batches of a consumer; it decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import confirm, output_option, target_option, timeout_option, yes_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import Client
    from tandemq.client.batches import LeasedBatch

COLUMNS = ("number", "messages", "lease_id", "expires_at")


@click.group()
def batch() -> None:
    """Numbered batches: what a named consumer has taken and not acknowledged yet."""


@batch.command("list")
@click.argument("queue")
@click.argument("consumer")
@target_option
@timeout_option()
@output_option()
def list_(queue: str, consumer: str, target: str | None, timeout_ms: int, output: str) -> None:
    """List those that CONSUMER has of QUEUE. None: it has acknowledged all, or took none.

    Example: tandemq queue batch list orders lake -o json
    """
    found = run(target, timeout_ms, lambda client: client.get_batches(queue, consumer))
    print_rows([facts_of(each) for each in found.batches], "batches", output, COLUMNS)


@batch.command()
@click.argument("queue")
@click.argument("consumer")
@click.argument("number", type=click.IntRange(1))
@target_option
@timeout_option()
@output_option()
def show(queue: str, consumer: str, number: int, target: str | None, timeout_ms: int, output: str) -> None:
    """Show which messages are in one of them.

    Example: tandemq queue batch show orders lake 58
    """

    async def work(client: Client) -> dict[str, Any]:
        found = await _found(client, queue, consumer, number)
        indexes = await _indexes(client, queue, consumer, number)
        return {"queue": queue, "consumer": consumer, **facts_of(found), "ranges": [list(each) for each in indexes]}

    print_facts(run(target, timeout_ms, work), output)


@batch.command()
@click.argument("queue")
@click.argument("consumer")
@click.argument("number", type=click.IntRange(1))
@yes_option
@target_option
@timeout_option()
@output_option()
def release(
    queue: str, consumer: str, number: int, yes: bool, target: str | None, timeout_ms: int, output: str
) -> None:
    """Give the messages of one of them back to the queue now, as the end of its lease would. End the query that has it
    first: it is refused with BATCH_GONE from then on, and the messages are delivered again.

    Example: tandemq queue batch release orders lake 58 --yes
    """
    confirm("release batch", str(number), yes=yes)

    async def work(client: Client) -> int:
        from tandemq.client.settling import Act
        from tandemq.v1.queue_service_pb2 import OUTCOME_RELEASE

        found = await _found(client, queue, consumer, number)
        ranges = await _indexes(client, queue, consumer, number)
        for lost in await client.settle(queue, [(Act(found.lease_id, OUTCOME_RELEASE), ranges)]):
            raise lost.error
        return found.messages

    released = run(target, timeout_ms, work)
    print_facts({"queue": queue, "consumer": consumer, "number": number, "released": released}, output)


def facts_of(found: LeasedBatch) -> dict[str, Any]:
    """One of them as JSON."""
    return {
        "number": found.number,
        "messages": found.messages,
        "lease_id": found.lease_id,
        "expires_at": found.expires_at.isoformat(timespec="seconds") if found.expires_at is not None else None,
    }


async def _found(client: Client, queue: str, consumer: str, number: int) -> LeasedBatch:
    found = await client.get_batches(queue, consumer)
    for each in found.batches:
        if each.number == number:
            return each
    text = (
        f"consumer {consumer} has no batch {number} of queue {queue}; the last one that it took is {found.last_number}"
    )
    raise Failure("BATCH_GONE", text, f"see `tandemq queue batch list {queue} {consumer}`", FAILED)


async def _indexes(client: Client, queue: str, consumer: str, number: int) -> list[tuple[int, int]]:
    """Its messages as (first index, count)."""
    ranges: list[tuple[int, int]] = []
    async for page in client.read_batch(queue, consumer, number):
        for message in page:
            first, count = ranges[-1] if ranges else (0, 0)
            if ranges and message.index == first + count:
                ranges[-1] = (first, count + 1)
            else:
                ranges.append((message.index, 1))
    return ranges
