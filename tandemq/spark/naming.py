"""The named reader of a streaming query: the pair keeps for it what the query has not committed. It reads no record."""

from __future__ import annotations

import tandemq
from tandemq.client.places import JournalPosition
from tandemq.errors import NotFound
from tandemq.spark.options import Options


def begin(client: tandemq.Client, options: Options, domain: str, start: JournalPosition | None) -> JournalPosition:
    """Where a query without a checkpoint begins: at the reader's place when the pair has it, else at `start`; None is
    the first that the master keeps.

    Raises Refused with reason READER_LOST or OUT_OF_RANGE.
    """
    return client.register_reader(options.reader, start, domain=domain).position


def renew(client: tandemq.Client, options: Options, domain: str, place: JournalPosition) -> None:
    """The query lives, and has read up to `place`, of which not all need be committed.

    One that has expired meanwhile, or was deleted, begins there again. Raises Refused with reason READER_LOST, or with
    OUT_OF_RANGE when nobody has kept that place.
    """
    try:
        client.advance_reader(options.reader, domain=domain)
    except NotFound as error:
        _again(client, options, domain, place, error)


def advance(client: tandemq.Client, options: Options, domain: str, place: JournalPosition) -> None:
    """All before `place` is committed: nobody needs to keep it for this query. Raises as `renew` does."""
    try:
        client.advance_reader(options.reader, place, domain=domain)
    except NotFound as error:
        _again(client, options, domain, place, error)


def _again(client: tandemq.Client, options: Options, domain: str, place: JournalPosition, error: NotFound) -> None:
    if error.reason != "READER_NOT_FOUND":
        raise error
    client.register_reader(options.reader, place, domain=domain)
