"""Says which messages of a queue are wanted; what it names is checked by the member that is asked."""

from __future__ import annotations

from dataclasses import dataclass

from tandemq.v1.message_pb2 import MessageFilter


@dataclass(frozen=True, slots=True)
class Where:
    """All that is set must hold; nothing set: every message.

    selector: a subset of SQL-92 on properties, such as "colour = 'red' AND weight > 2" (docs/CLIENTS.md). ids: of 16
    bytes each. The last three are found by an index, a selector by looking at each message once.
    """

    selector: str = ""
    ids: tuple[bytes, ...] = ()
    correlation_id: str | None = None
    group_id: str | None = None


def to_filter(where: str | Where | None) -> MessageFilter | None:
    """A text is a selector."""
    if where is None:
        return None
    if isinstance(where, str):
        where = Where(where)
    return MessageFilter(
        selector=where.selector, ids=where.ids, correlation_id=where.correlation_id, group_id=where.group_id
    )
