"""The blocking form of the calls that read the journal; see `journal`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta

from tandemq.client import aio
from tandemq.client.journal import JournalHead, JournalKind, JournalPage, JournalStart
from tandemq.client.loop_thread import LoopThread
from tandemq.client.places import JournalPosition
from tandemq.client.readers import JournalReader


class Journals:
    """Part of the blocking client."""

    _inner: aio.Client
    _thread: LoopThread

    def journal_head(self, queues: Sequence[str] = (), *, domain: str = "", this_member: bool = False) -> JournalHead:
        """Where the journal begins and ends; see aio.Client.journal_head."""
        return self._thread.run(self._inner.journal_head(queues, domain=domain, this_member=this_member))

    def read_journal(
        self,
        queues: Sequence[str] = (),
        start: JournalPosition | JournalStart | None = None,
        *,
        domain: str = "",
        kinds: Sequence[JournalKind] = (),
        until_log_index: int = 0,
        max_rows: int = 0,
        payloads: bool = True,
        attributes: bool = False,
        this_member: bool = False,
        reader: str = "",
        rows: bool = True,
        every_record: bool = False,
    ) -> Iterator[JournalPage]:
        """The committed operations from `start` on, page by page; see aio.Client.read_journal."""
        pages = self._inner.read_journal(
            queues,
            start,
            domain=domain,
            kinds=kinds,
            until_log_index=until_log_index,
            max_rows=max_rows,
            payloads=payloads,
            attributes=attributes,
            this_member=this_member,
            reader=reader,
            rows=rows,
            every_record=every_record,
        )
        while (page := self._thread.run(_next_of(pages))) is not None:
            yield page

    def register_reader(
        self,
        name: str,
        start: JournalPosition | None = None,
        *,
        at_end: bool = False,
        ttl: timedelta | None = None,
        restart: bool = False,
        domain: str = "",
    ) -> JournalReader:
        """Gives a reader a place, and keeps what follows for it; see aio.Client.register_reader."""
        made = self._inner.register_reader(name, start, at_end=at_end, ttl=ttl, restart=restart, domain=domain)
        return self._thread.run(made)

    def advance_reader(self, name: str, position: JournalPosition | None = None, *, domain: str = "") -> JournalReader:
        """Says how far it has read, or that it lives; see aio.Client.advance_reader."""
        return self._thread.run(self._inner.advance_reader(name, position, domain=domain))

    def delete_reader(self, name: str, *, domain: str = "") -> None:
        """Forgets it; see aio.Client.delete_reader."""
        self._thread.run(self._inner.delete_reader(name, domain=domain))

    def list_readers(self, domain: str = "") -> list[JournalReader]:
        """Those of a domain; see aio.Client.list_readers."""
        return self._thread.run(self._inner.list_readers(domain))


async def _next_of(pages: AsyncIterator[JournalPage]) -> JournalPage | None:
    return await anext(pages, None)
