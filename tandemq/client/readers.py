"""Named readers of the journal: the pair keeps their places and what they have not read. It decides nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from tandemq.client.calls import JOURNAL_SERVICE
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.client.places import JournalPosition, message_of, position_of
from tandemq.v1 import journal_service_pb2 as pb


class JournalReader(NamedTuple):
    """A reader that the pair keeps."""

    name: str
    position: JournalPosition
    """Up to here it has read; what follows is kept for it."""
    ttl: timedelta
    expires_at: datetime
    """Unless it is advanced before."""
    lag_records: int
    registered_at: datetime
    lost_until_log_index: int = 0
    """It was too far behind: what lies between `position` and here was given up. 0: it has lost nothing."""
    lost_because: str = ""


async def register_reader(
    client: Linked,
    name: str,
    start: JournalPosition | None = None,
    *,
    at_end: bool = False,
    ttl: timedelta | None = None,
    restart: bool = False,
    domain: str = "",
) -> JournalReader:
    """Gives a reader a place; nothing from there on is trimmed while it stays within limits.reader_bytes and
    reader_hours. One that is there already keeps the place that it has.

    start: None is the first record that the master keeps, or with `at_end` the end of the journal.
    ttl: how long it is kept without being advanced, 1 s to 30 days; 7 days when it is new and nothing is said.
    restart: begin at `start` also where it is there already, whatever it has not read or has lost.
    Raises Refused with reason OUT_OF_RANGE when `start` is trimmed or was never ordered, READER_LOST when it is
    there, has lost its place, and restart is not given.
    """
    request = pb.RegisterReaderRequest(
        request_id=new_request_id(), domain=domain, name=name, restart=restart, ttl=_duration(ttl)
    )
    if at_end:
        request.at_end = True
    elif start is not None:
        request.position.CopyFrom(message_of(start))
    path = JOURNAL_SERVICE + "RegisterReader"
    return _reader((await client.links.own.caller.call(path, request, pb.RegisterReaderResponse)).reader)


async def advance_reader(
    client: Linked, name: str, position: JournalPosition | None = None, *, domain: str = ""
) -> JournalReader:
    """Says that everything before `position` was read; without one, only that the reader lives. It never goes back:
    a position behind its place changes nothing.

    Raises Refused with reason READER_LOST when it was too far behind, NotFound with reason READER_NOT_FOUND when it
    was deleted or has expired.
    """
    request = pb.AdvanceReaderRequest(request_id=new_request_id(), domain=domain, name=name)
    if position is not None:
        request.position.CopyFrom(message_of(position))
    path = JOURNAL_SERVICE + "AdvanceReader"
    return _reader((await client.links.own.caller.call(path, request, pb.AdvanceReaderResponse)).reader)


async def delete_reader(client: Linked, name: str, *, domain: str = "") -> None:
    """Forgets it: it holds back nothing any more."""
    request = pb.DeleteReaderRequest(request_id=new_request_id(), domain=domain, name=name)
    await client.links.own.caller.call(JOURNAL_SERVICE + "DeleteReader", request, pb.DeleteReaderResponse)


async def list_readers(client: Linked, domain: str = "") -> list[JournalReader]:
    """Those of a domain, by name; with those that have lost their place."""
    request = pb.ListReadersRequest(domain=domain)
    found = await client.links.own.caller.call(JOURNAL_SERVICE + "ListReaders", request, pb.ListReadersResponse)
    return [_reader(each) for each in found.readers]


def _duration(ttl: timedelta | None) -> Duration | None:
    if ttl is None:
        return None
    made = Duration()
    made.FromTimedelta(ttl)
    return made


def _reader(reader: pb.JournalReader) -> JournalReader:
    return JournalReader(
        reader.name,
        position_of(reader.position),
        reader.ttl.ToTimedelta(),
        reader.expires_at.ToDatetime(UTC),
        reader.lag_records,
        reader.registered_at.ToDatetime(UTC),
        reader.lost_until_log_index,
        reader.lost_because,
    )
