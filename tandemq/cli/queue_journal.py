"""Prints what happened to queues, from the journal that the members keep; it changes nothing."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tandemq.cli.output import print_facts, print_json, print_line, print_rows
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import Client, JournalHead, JournalPosition, JournalRow, JournalStart

    PlaceParamType = click.ParamType["Place"]  # see `params`
else:
    PlaceParamType = click.ParamType

COLUMNS = ("log_index", "epoch", "time", "kind", "queue", "index", "messages", "body")
KINDS = (
    *("enqueued", "leased", "taken", "acked", "released", "rejected", "extended", "replied", "expired", "lease_ended"),
    *("lost", "matured", "reply_timed_out", "moved", "dead_lettered", "dropped", "removed", "purged", "saved"),
    *("queue_created", "queue_deleted", "configured", "epoch_began"),
    *("staged", "published", "unstaged", "nothing", "selected"),
)
NUMBER_MAX = (1 << 64) - 1
_HISTORY_ID = re.compile("[0-9a-f]{32}")


class Place(NamedTuple):
    """What a user writes; as Spark's startingPosition has it."""

    number: int
    epoch: int = 0
    history_id: str = ""


class PlaceType(PlaceParamType):
    """`INDEX`; with `:EPOCH`, which is refused where that history was given up (EPOCH_DIVERGED); and with
    `:EPOCH:HISTORY`, which is refused at another pair, and at one that was emptied and formed anew (PAIR_CHANGED).
    """

    name = "n[:epoch[:history]]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        if isinstance(value, Place):
            return value
        number, *more = value.split(":")
        epoch, history_id = more[0] if more else "0", more[1].lower() if len(more) > 1 else ""
        known = _is_number(number) and int(number) and _is_number(epoch) and len(more) <= 2
        if not known or (len(more) > 1 and not _HISTORY_ID.fullmatch(history_id)):
            hint = (
                "write a number from 1, or with its epoch: 120:3, or with the history's id behind that: 120:3:0a1b..."
            )
            self.fail(f"{value!r} is no place; {hint}", param, ctx)
        return Place(int(number), int(epoch), history_id)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= NUMBER_MAX


PLACE = PlaceType()


@click.command()
@click.argument("name", nargs=-1)
@click.option("--from-index", type=PLACE, help="Begin with this message; name one queue.")
@click.option("--from-log-index", type=PLACE, help="Begin with this record: `next` or `from_here` of an earlier run.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only these; may be repeated.")
@click.option("--every-record", is_flag=True, help="Records that did nothing to a queue too: kind nothing.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Rows; 0 means all there are.")
@click.option("--no-body", is_flag=True, help="Leave out what the messages say.")
@click.option("--head", is_flag=True, help="Only print where the journal begins and ends.")
@click.option("--this-member", is_flag=True, help="Of the first endpoint of --target alone, whatever its role.")
@target_option
@timeout_option()
@output_option("jsonl", "json", "table")
def journal(
    name: tuple[str, ...],
    from_index: Place | None,
    from_log_index: Place | None,
    kinds: tuple[str, ...],
    every_record: bool,
    count: int,
    no_body: bool,
    head: bool,
    this_member: bool,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Print what happened to queues, settled messages too, as far back as the members keep it.

    Without a NAME: of every queue of domain main. A replica answers where there is one. Nothing is changed.

    `-o json` says in `next` where the next run begins, `--head` in `from_here` where the journal ends: N:EPOCH:HISTORY.
    At another pair, and at one that was formed anew, such a place is refused: PAIR_CHANGED, exit code 1. After --count
    rows it may be inside a record, all of which comes once more then.

    Example: tandemq queue journal orders --kind enqueued --kind acked -o jsonl

    Example: tandemq queue journal orders --from-index 120:3

    \b
    Example: tandemq queue journal orders --from-log-index "$(jq -r .next before.json)" -o json

    Example: tandemq queue journal orders --head -o json
    """
    if from_index and from_log_index:
        raise click.UsageError("give --from-index or --from-log-index, not both")
    if from_index and len(name) != 1:
        raise click.UsageError("--from-index is a place in one queue: name exactly one")
    if head:
        found = run(target, timeout_ms, lambda client: client.journal_head(name, this_member=this_member))
        print_facts(_facts_of_head(found), output)
        return
    rows: list[dict[str, Any]] = []
    following = ""

    async def work(client: Client) -> None:
        nonlocal following
        from tandemq.client.aio import JournalKind

        pages = client.read_journal(
            name,
            _start(from_index, from_log_index),
            kinds=[JournalKind[kind.upper()] for kind in kinds],
            max_rows=count,
            payloads=not no_body,
            this_member=this_member,
            every_record=every_record or "nothing" in kinds,
        )
        async for page in pages:
            following = text_of(page.next)
            for row in page.rows():
                if output == "jsonl":
                    print_line(facts_of(row))
                else:
                    rows.append(facts_of(row))

    run(target, timeout_ms, work)
    if output == "json":
        print_json({"rows": rows, "next": following})
    elif output == "table":
        print_rows(rows, "rows", output, COLUMNS)


def _start(index: Place | None, log_index: Place | None) -> JournalPosition | JournalStart | None:
    from tandemq.client.aio import JournalStart

    if index is not None:
        return JournalStart(index.number, index.epoch, index.history_id)
    return position_of(log_index)


def position_of(place: Place | None) -> JournalPosition | None:
    """For the client."""
    from tandemq.client.aio import JournalPosition

    if place is None:
        return None
    return JournalPosition(place.number, place.epoch, history_id=place.history_id)


def text_of(place: JournalPosition) -> str:
    """As --from-log-index takes it. Inside a record (`--count`): its beginning, so that nothing is left out."""
    epoch = place.epoch if not place.row else 0  # that of the record before it is not known here
    return f"{place.log_index}:{epoch}" + (f":{place.history_id}" if place.history_id else "")


def facts_of(row: JournalRow) -> dict[str, Any]:
    """A row as JSON; what its kind does not have is left out. A body that is no UTF-8 is given as `body_base64`."""
    facts: dict[str, Any] = {
        "log_index": row.log_index,
        "epoch": row.epoch,
        "time": row.time.isoformat(timespec="milliseconds"),
        "kind": row.kind.name.lower(),
    }
    if row.queue_id:
        facts["queue"] = row.queue or f"#{row.queue_id}"
    if row.first:
        facts["index"] = row.first
    if row.messages:
        facts["messages"] = row.messages
    if row.id:
        facts["id"] = row.id.hex()
    if row.lease_id:
        facts["lease_id"] = row.lease_id
    if row.producer:
        facts["producer"] = row.producer.hex()
    if row.sequence:
        facts["sequence"] = row.sequence
    if row.payload is not None:
        try:
            facts["body"] = row.payload.decode()
        except UnicodeDecodeError:
            facts["body_base64"] = base64.b64encode(row.payload).decode()
    return facts


def _facts_of_head(head: JournalHead) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "member": head.member,
        "domain": head.domain,
        "first_log_index": head.first.log_index,
        "next_log_index": head.next.log_index,
        "epoch": head.next.epoch,
        "history_id": head.next.history_id,
        "from_here": text_of(head.next),
    }
    if head.queues:
        facts["queues"] = [
            {"queue": each.queue, "first_index": each.first_index, "next_index": each.next_index}
            for each in head.queues
        ]
    return facts
