"""The blocking form of the calls that read the journal; see `journal`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from tandemq.client import aio
from tandemq.client.journal import JournalHead, JournalKind, JournalPage, JournalPosition, JournalStart
from tandemq.client.loop_thread import LoopThread


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
        )
        while (page := self._thread.run(_next_of(pages))) is not None:
            yield page


async def _next_of(pages: AsyncIterator[JournalPage]) -> JournalPage | None:
    return await anext(pages, None)
