"""What was seen of a run, for the account and the picture: rows of journals, answers, and processes that ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tandemq.client.journal import JournalKind

if TYPE_CHECKING:
    from tandemq.client.aio import Client

FLIGHTS, DEAD, LEGS, LEDGER, REPORTS = "flights", "flights.dead", "legs", "ledger", "reports"
TARGET = "west"
XMIT = f"SYSTEM.XMIT/{TARGET}"
CANCEL = "cancel"


class Row(NamedTuple):
    """One of the journal: something that happened to some messages of a queue, by the record `at`."""

    at: int  # log index
    kind: JournalKind
    queue: str = ""
    first: int = 0  # index of the first of `messages`
    messages: int = 1
    payload: bytes = b""
    label: str = ""  # correlation id of what entered
    lease_id: int = 0
    time_ms: int = 0
    epoch: int = 0


class Answer(NamedTuple):
    """What a reaction's caller got to hear."""

    label: str
    applied: int
    locked: int
    sticky: bool = False


class Committed(NamedTuple):
    """A unit whose worker has the answer: where what it sent is."""

    row: int
    leg_index: int
    entry_index: int


@dataclass(slots=True)
class Seen:
    """All of it. Journals are in the order of the log."""

    here: list[Row] = field(default_factory=list)
    there: list[Row] = field(default_factory=list)  # at the second pair
    sent: set[int] = field(default_factory=set)  # rows of the file whose sending was acknowledged
    committed: list[Committed] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    masters_killed: int = 0  # processes that ended by SIGKILL
    workers_killed: int = 0


async def rows_of(client: Client) -> AsyncIterator[Row]:
    """The whole journal of the domain `main`, as one member keeps it."""
    async for page in client.read_journal(domain="main", attributes=True):
        for row in page.rows():
            label = row.attributes.correlation_id if row.attributes is not None else ""
            yield Row(
                row.log_index,
                row.kind,
                row.queue,
                row.first,
                row.messages,
                row.payload or b"",
                label,
                row.lease_id,
                round(row.time.timestamp() * 1000),
                row.epoch,
            )
