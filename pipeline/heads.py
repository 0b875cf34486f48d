"""Asks a member where its journal and its queues stand: what an audit later holds the lake against."""

from __future__ import annotations

from typing import Any

import tandemq
from tandemq.client.journal import JournalHead, QueueHead
from tandemq.errors import NotFound

NAMES_MAX = 1_000
"""Of one question, as JournalSelection has it."""


def rows_of(client: tandemq.Client, domain: str, queues: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Rows of schema.HEADS, from the first endpoint's own copy: one of the journal, one for each queue.

    queues: empty is all of the domain. The client follows no master. Raises TandemqError.
    """
    names = list(queues) or [info.name for info in client.list_queues() if info.config.domain == domain]
    head = client.journal_head((), domain=domain, this_member=True)
    rows = [_row(head, None)]
    for at in range(0, len(names), NAMES_MAX):
        rows += [_row(head, queue) for queue in _queues(client, domain, names[at : at + NAMES_MAX], given=bool(queues))]
    return rows


def _queues(client: tandemq.Client, domain: str, names: list[str], *, given: bool) -> tuple[QueueHead, ...]:
    """Where these stand. One that was deleted since it was listed is left out; one that was given must be there."""
    try:
        return client.journal_head(names, domain=domain, this_member=True).queues
    except NotFound:
        if given:
            raise
        if len(names) == 1:
            return ()
    return tuple(found for name in names for found in _queues(client, domain, [name], given=False))


def _row(head: JournalHead, queue: QueueHead | None) -> dict[str, Any]:
    return {
        "member": head.member,
        "domain": head.domain,
        "first_log_index": head.first.log_index,
        "next_log_index": head.next.log_index,
        "epoch": head.next.epoch,
        "history_id": head.next.history_id or None,
        "every_record": head.every_record,
        "queue": queue.queue if queue else None,
        "queue_id": queue.queue_id if queue else None,
        "first_index": queue.first_index if queue else None,
        "next_index": queue.next_index if queue else None,
    }
