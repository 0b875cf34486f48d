"""Sends, receives and browses messages; says only what a member confirmed, and never repeats a call on its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tandemq.cli.completion import completion, reply, request, send_with_handles
from tandemq.cli.failure import Failure
from tandemq.cli.msg_react import react
from tandemq.cli.output import print_facts, print_line, print_rows
from tandemq.cli.params import DURATION, MOMENT, TYPED_PROPERTY, output_option, target_option, timeout_option
from tandemq.cli.session import run
from tandemq.cli.where import where_options

if TYPE_CHECKING:
    from rich.progress import Progress

    from tandemq.client.aio import Client, ReceivedBatch, ReceivedMessage
    from tandemq.client.filtering import Where
    from tandemq.client.outgoing import Attributes
    from tandemq.client.receipts import Receipts

CHUNK_MESSAGES = 10_000  # sent, and asked for, at once
COLUMNS = ("index", "delivery_count", "body")
PROGRESS_FROM_MESSAGES = 2  # one message needs no bar


@click.group()
def msg() -> None:
    """Send, receive and browse messages."""


@msg.command()
@click.argument("queue")
@click.argument("text", nargs=-1)
@click.option(
    "--lines", metavar="FILE", help="Send each line of the file as a message; - reads stdin, .gz is unpacked."
)
@click.option("--body-file", metavar="FILE", help="Send the file's bytes as one message; - reads stdin.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 is delivered first. Default: 4.")
@click.option("--persistent/--volatile", default=None, help="Default: the queue decides.")
@click.option("--ttl", type=DURATION, help="Remove it when it was not settled by then.")
@click.option("--delay", type=DURATION, help="Not delivered before so much time has passed.")
@click.option("--deliver-at", type=MOMENT, help="Not delivered before: 2030-12-24T18:00:00+01:00.")
@click.option(
    "--dedup-id", help="Not stored if the queue had one with this id within its dedup window; of one message."
)
@click.option("--inert", is_flag=True, help="No reaction acts on it (`msg react`).")
@click.option(
    "--property",
    "properties",
    type=TYPED_PROPERTY,
    multiple=True,
    help="K=TEXT, or K:=V for an integer, a number, true or false; `--where` finds it. Repeatable.",
)
@click.option("--content-type", help="What the body is; `--where` finds it as tq_content_type.")
@click.option("--min-copies", type=click.IntRange(0, 2), default=0, help="Refuse rather than keep fewer copies.")
@click.option("--correlation-id", help="Found by `msg receive --correlation-id`, without looking at others.")
@click.option(
    "--group-id", help="Found by `msg receive --group-id`; queues of group_mode ordered keep the order of a group."
)
@click.option(
    "--group-sequence", type=click.IntRange(1), help="Queues of group_mode complete: its place in its group, from 1."
)
@click.option("--last-in-group", is_flag=True, help="The group is whole with this one and all before it.")
@click.option("--reply-to", help="Queue that an answer should go to as well.")
@click.option(
    "--wait",
    "wait_ms",
    type=DURATION,
    default="0",
    help="Wait this long for room in a full queue; with --handles, then for what completes the queue's type.",
)
@click.option("--handles", is_flag=True, help="Print a handle for each message, for `msg completion`.")
@target_option
@timeout_option("30s")
@output_option()
def send(
    queue: str,
    text: tuple[str, ...],
    lines: str | None,
    body_file: str | None,
    min_copies: int,
    wait_ms: int,
    handles: bool,
    **options: Any,
) -> None:
    """Send messages in order and wait until every one is acknowledged.

    \b
    Example: tandemq msg send orders "first" "second" --property kind=test
             tandemq msg send orders --lines big.txt --ttl 1h --wait 5m
             tandemq msg send orders "paid" --group-id customer-7
             tandemq msg send parcels "box" --property colour=red --property weight:=2
             tandemq msg send reminders "call back" --delay 15m
             tandemq msg send reminders "happy new year" --deliver-at 2030-01-01T00:00:00+01:00
             tandemq msg send orders "order 17" --dedup-id order-17
             echo hello | tandemq msg send orders --lines -
             tandemq msg send alarms "fire" --handles --wait 10s
    """
    if sum((bool(text), lines is not None, body_file is not None)) != 1:
        raise click.UsageError("give exactly one of TEXT, --lines and --body-file")
    if options["dedup_id"] and (len(text) > 1 or lines is not None):
        raise click.UsageError("--dedup-id names one message: of several with it all but the first would be dropped")
    target, timeout_ms, output = options.pop("target"), options.pop("timeout_ms"), options.pop("output")
    tally = Tally(queue, tells_duplicates=bool(options["dedup_id"]))
    attributes, wait = _attributes_of(options), timedelta(milliseconds=wait_ms)
    try:
        with _opened(lines or body_file) as stream:
            bodies = _bodies(text, stream, whole=body_file is not None)
            if handles:
                send_with_handles(target, timeout_ms, output, queue, bodies, attributes, min_copies, wait)
                return
            run(target, timeout_ms, lambda client: _send_all(client, bodies, attributes, min_copies, wait, tally))
    except Failure as failure:
        if not tally.acknowledged:
            raise
        before = f"{tally.acknowledged} were acknowledged before that, the last one at index {tally.last_index}"
        raise Failure(failure.reason, f"{failure.message}; {before}", failure.next_step, failure.exit_code) from failure
    print_facts(tally.facts(), output)


class Tally:
    """What was acknowledged so far."""

    def __init__(self, queue: str, *, tells_duplicates: bool = False) -> None:
        self.queue = queue
        self.duplicate = False
        """The message was there already, and this is its first answer."""
        self._tells_duplicates = tells_duplicates
        self.acknowledged = self.first_index = self.last_index = self.copies = self.epoch = 0
        self.level = ""

    def add(self, receipts: Receipts) -> None:
        for run_of in receipts.runs:
            self.first_index = self.first_index or run_of.first_index
            self.last_index = run_of.first_index + run_of.count - 1
            self.copies = min(self.copies or run_of.copies, run_of.copies)
            self.epoch, self.level = run_of.epoch, run_of.level.name
            self.acknowledged += run_of.count
            self.duplicate = self.duplicate or run_of.duplicate

    def facts(self) -> dict[str, Any]:
        names = ["queue", "acknowledged", "first_index", "last_index", "copies", "level", "epoch"]
        if self._tells_duplicates:
            names.append("duplicate")
        return {name: getattr(self, name) for name in names}


async def _send_all(
    client: Client, bodies: Iterator[bytes], attributes: Attributes, min_copies: int, wait: timedelta, tally: Tally
) -> None:
    import itertools

    from tandemq.client.receipts import PartlyRefused

    async with client.producer(tally.queue, min_copies=min_copies, full_wait=wait) as producer:
        with _progress() as progress:
            task = progress.add_task("sent", total=None)
            while chunk := list(itertools.islice(bodies, CHUNK_MESSAGES)):
                try:
                    tally.add(await producer.send_many(chunk, **attributes))
                except PartlyRefused as error:
                    tally.add(error.receipts)
                    raise
                progress.update(task, completed=tally.acknowledged, visible=tally.acknowledged > PROGRESS_FROM_MESSAGES)


def _progress() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from tandemq.cli.output import console

    columns = (TextColumn("{task.completed:,.0f} acknowledged"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def _attributes_of(options: dict[str, Any]) -> Attributes:
    from tandemq.client.outgoing import Attributes

    found = Attributes()
    if options["priority"] is not None:
        found["priority"] = options["priority"]
    if options["persistent"] is not None:
        found["persistent"] = options["persistent"]
    if options["ttl"] is not None:
        found["ttl"] = timedelta(milliseconds=options["ttl"])
    if options["delay"] is not None:
        found["delay"] = timedelta(milliseconds=options["delay"])
    if options["deliver_at"] is not None:
        found["deliver_at"] = options["deliver_at"]
    for name in ("content_type", "correlation_id", "reply_to", "group_id", "group_sequence", "dedup_id"):
        if options[name]:
            found[name] = options[name]
    if options["inert"]:
        found["inert"] = True
    if options["last_in_group"]:
        found["last_in_group"] = True
    if options["properties"]:
        found["properties"] = dict(options["properties"])
    return found


class _opened:  # noqa: N801 - used like a function
    """A file, stdin for "-", or nothing, as a stream of bytes."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._stream: BinaryIO | None = None

    def __enter__(self) -> BinaryIO | None:
        if self._name == "-":
            return sys.stdin.buffer
        if self._name:
            try:
                self._stream = _open(Path(self._name))
            except OSError as error:
                raise click.UsageError(f"{self._name}: {error.strerror}") from error
        return self._stream

    def __exit__(self, *_: object) -> None:
        if self._stream:
            self._stream.close()


def _open(path: Path) -> BinaryIO:
    import gzip

    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]  # GzipFile is one


def _bodies(text: tuple[str, ...], stream: BinaryIO | None, *, whole: bool) -> Iterator[bytes]:
    if stream is None:
        yield from (item.encode(errors="surrogateescape") for item in text)  # as it was typed, UTF-8 or not
    elif whole:
        yield stream.read()
    else:
        yield from (line.removesuffix(b"\n") for line in stream)


@msg.command()
@click.argument("queue")
@click.option("--count", type=click.IntRange(min=0), default=1, show_default=True, help="0 means all there are.")
@click.option("--wait", "wait_ms", type=DURATION, default="0", help="Wait this long for a message when there is none.")
@click.option("--lease", "lease_ms", type=DURATION, help="Keep them from others this long. Default: the queue's.")
@click.option("--ack", "outcome", flag_value="ack", help="Remove them.")
@click.option("--release", "outcome", flag_value="release", default="release", help="Put them back (default).")
@where_options
@target_option
@timeout_option()
@output_option("jsonl", "json", "table")
def receive(
    queue: str,
    count: int,
    wait_ms: int,
    lease_ms: int | None,
    outcome: str,
    where: Where | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Receive messages and print one JSON object a line; nothing to receive is an empty success.

    With --ack, exit code 0 means that a member confirmed their removal. What is printed was flushed before that.

    \b
    Example: tandemq msg receive orders --count 10 --wait 5s --ack
             tandemq msg receive orders --count 0 --ack -o jsonl > orders.jsonl
             tandemq msg receive orders --where "colour = 'red' AND weight > 2"
    """
    waits = timedelta(milliseconds=wait_ms)
    lease = timedelta(milliseconds=lease_ms) if lease_ms else None
    rows: list[dict[str, Any]] = []
    received = 0

    async def work(client: Client) -> None:
        nonlocal received
        held: list[ReceivedBatch] = []
        while not count or received < count:
            wanted = min(count - received, CHUNK_MESSAGES) if count else CHUNK_MESSAGES
            batch = await client.dequeue(queue, wanted, wait=waits, lease=lease, where=where)
            if not batch:
                break
            received += len(batch)
            _print_batch(batch, rows, output)
            if outcome == "ack":
                await batch.ack()
            else:
                held.append(batch)
        for batch in held:
            await batch.release()

    run(target, timeout_ms, work)
    if output != "jsonl":
        print_rows(rows, "messages", output, COLUMNS)


def _print_batch(batch: ReceivedBatch, rows: list[dict[str, Any]], output: str) -> None:
    facts = (facts_of(message) for message in batch)
    if output == "jsonl":
        for row in facts:
            print_line(row)
        sys.stdout.flush()  # before it may be removed
    else:
        rows.extend(facts)


@msg.command()
@click.argument("queue")
@click.option("--from-index", type=click.IntRange(min=0), default=0, help="Lowest index wanted.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="0 means all there are.")
@where_options
@target_option
@timeout_option()
@output_option("jsonl", "json", "table")
def browse(
    queue: str,
    from_index: int,
    count: int,
    where: Where | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Print messages by rising index without changing anything.

    Example: tandemq msg browse orders --from-index 100 --count 5
    """
    rows: list[dict[str, Any]] = []

    async def work(client: Client) -> None:
        async for message in client.browse(queue, from_index=from_index, max_messages=count, where=where):
            if output == "jsonl":
                print_line(facts_of(message))
            else:
                rows.append(facts_of(message))

    run(target, timeout_ms, work)
    if output != "jsonl":
        print_rows(rows, "messages", output, COLUMNS)


def facts_of(message: ReceivedMessage) -> dict[str, Any]:
    """A message as JSON. A body that is no UTF-8 is given as `body_base64`."""
    import base64

    facts: dict[str, Any] = {"queue": message.queue, "index": message.index, "id": message.id.hex()}
    try:
        facts["body"] = message.payload.decode()
    except UnicodeDecodeError:
        facts["body_base64"] = base64.b64encode(message.payload).decode()
    facts["properties"] = {name: _json_value(value) for name, value in message.properties.items()}
    facts["delivery_count"] = message.delivery_count
    attributes = message.attributes
    for name in (
        *("priority", "content_type", "correlation_id", "reply_to"),
        *("group_id", "group_sequence", "last_in_group"),
    ):
        if name in attributes:
            facts[name] = attributes[name]
    return facts


def _json_value(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


for _command in (completion, react, reply, request):
    msg.add_command(_command)
