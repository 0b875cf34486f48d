"""Reads the journal of a domain whole, as what an account of a demo needs of each row; it judges nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tandemq.client.journal import JournalKind

if TYPE_CHECKING:
    from tandemq.client.aio import Client

NONE_GONE: Mapping[int, str] = MappingProxyType({})


class Row(NamedTuple):
    """Something that happened to some messages of a queue, by the record `at`."""

    at: int  # log index
    kind: JournalKind
    queue: str = ""
    first: int = 0  # index of the first of `messages`
    messages: int = 1
    payload: bytes = b""
    time_ms: int = 0
    label: str = ""  # correlation id of what entered
    lease_id: int = 0
    epoch: int = 0


async def rows_of(
    client: Client, domain: str, gone: Mapping[int, str] = NONE_GONE, *, labelled: bool = False
) -> AsyncIterator[Row]:
    """As the member that answers keeps it, in the order of the log. `gone`: names of queues that are not there any
    more, by their numbers. `labelled`: with labels, which need everything that stands beside the bodies.
    """
    async for page in client.read_journal(domain=domain, attributes=labelled):
        for row in page.rows():
            yield Row(
                at=row.log_index,
                kind=row.kind,
                queue=row.queue or gone.get(row.queue_id, ""),
                first=row.first,
                messages=row.messages,
                payload=row.payload or b"",
                time_ms=round(row.time.timestamp() * 1000),
                label=row.attributes.correlation_id if row.attributes is not None else "",
                lease_id=row.lease_id,
                epoch=row.epoch,
            )
