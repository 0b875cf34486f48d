"""The blocking form of the calls that stage rows and publish them; see `staging`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from tandemq.client import aio
from tandemq.client.loop_thread import LoopThread
from tandemq.client.places import JournalPosition
from tandemq.client.staging import Published, Rows, Staged, WriterState


class Staging:
    """Part of the blocking client."""

    _inner: aio.Client
    _thread: LoopThread

    def stage(
        self,
        queue: str,
        rows: Rows,
        *,
        stage_id: bytes,
        part: int = 1,
        ttl: timedelta | None = None,
        seen: JournalPosition | None = None,
    ) -> Staged:
        """Keeps rows for a queue aside; see aio.Client.stage."""
        return self._thread.run(self._inner.stage(queue, rows, stage_id=stage_id, part=part, ttl=ttl, seen=seen))

    def publish(
        self,
        writer: str,
        query_id: str,
        batch: int,
        stage_ids: Sequence[bytes],
        *,
        domain: str = "",
        min_copies: int = 0,
        seen: JournalPosition | None = None,
        previous_batch: int | None = None,
    ) -> Published:
        """Puts all rows of all stages into their queues, once for each (writer, batch); see aio.Client.publish."""
        return self._thread.run(
            self._inner.publish(
                writer,
                query_id,
                batch,
                stage_ids,
                domain=domain,
                min_copies=min_copies,
                seen=seen,
                previous_batch=previous_batch,
            )
        )

    def abort_stages(self, stage_ids: Sequence[bytes], *, domain: str = "") -> int:
        """Drops stages; how many were there. See aio.Client.abort_stages."""
        return self._thread.run(self._inner.abort_stages(stage_ids, domain=domain))

    def writer_state(self, writer: str, *, domain: str = "") -> WriterState | None:
        """The last batch that was published under a name; see aio.Client.writer_state."""
        return self._thread.run(self._inner.writer_state(writer, domain=domain))

    def release_writer(self, writer: str, *, domain: str = "", seen: JournalPosition | None = None) -> bool:
        """Forgets a writer; see aio.Client.release_writer."""
        return self._thread.run(self._inner.release_writer(writer, domain=domain, seen=seen))
