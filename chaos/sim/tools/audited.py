"""Runs a plan and audits the journals of both members at its end, with what clients were answered: a right run is
clean.

A check of the audit, not of the pair: what it accuses in a run that breaks no rule is a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from chaos.journal_checks import Judged, judged
from chaos.journals import Asked, Head, Row
from chaos.sim.pair.books import Book
from chaos.sim.pair.member import SimMember
from chaos.sim.pair.plan import Outcome, Plan
from chaos.sim.world.world import World
from replica.node.journal import RowPlace, bounds_of, epoch_before, read_page
from replica.node.journal_rows import JournalRows, Wanted
from storage.errors import CorruptRecord
from tandemq.client.journal import JournalPage
from tandemq.v1.journal_service_pb2 import ReadJournalPageResponse

EVERY = Wanted(every_record=True)
ROWS = 4_096
UNKNOWN_SENDERS = frozenset({"UNSENT", "GHOST"})
"""Simulated clients do not keep under which name they sent what was not answered: these are not judged."""


class Audited(NamedTuple):
    """One run."""

    outcome: Outcome
    found: Judged | None
    """None: it did not come to rest, or a member's journal has a record that the plan damaged: no lake gets such."""


def audited(plan: Plan) -> Audited:
    """Run it. Raises ValueError for a plan that cannot be carried out."""
    world = _Watched(plan)
    outcome = world.run()
    return Audited(outcome, world.found)


class _Watched(World):
    """Reads the journals while the members still run."""

    found: Judged | None = None

    def _end(self) -> None:
        if not self.outcome.violations:
            with suppress(CorruptRecord):
                self.found = _judged(self)
        super()._end()


def _judged(world: World) -> Judged:
    rows: list[Row] = []
    heads: list[Head] = []
    ends: dict[str, int] = {}
    begins: dict[str, int] = {}
    for name, member in world.pair.members.items():
        first, following, mine = _journal(member)
        rows += mine
        heads.append(Head(name, first, following))
        ends[name], begins[name] = following, first
    asked = [each for book in world.pair.run.books for each in _asked(book)]
    found = judged(rows, asked, heads, ends, begins)
    accused = [each for each in found.violations if each.kind not in UNKNOWN_SENDERS]
    return found._replace(violations=accused)


def _journal(member: SimMember) -> tuple[int, int, list[Row]]:
    """From where to where it is kept, and a row of every record."""
    domain, manager = member.domain, member.manager
    assert domain is not None, "it has come to rest"
    assert manager is not None
    members = manager._members  # noqa: SLF001  # looked at, never touched
    assert members is not None
    shared, store, machine = domain.shared, members.node.store, domain.shared.machine
    assert machine is not None
    bounds = bounds_of(shared)
    place, found, names = RowPlace(bounds.first, epoch_before(shared, bounds.first) or 0), list[Row](), dict[int, str]()
    while place.log_index < bounds.end:
        page = read_page(
            store, shared.domain, place, bounds, 0, JournalRows(shared.domain, EVERY, rows_max=ROWS, bytes_max=1 << 20)
        )
        for number in page.rows.queue_ids():
            names[number] = machine.queue(number).name if machine.has_queue(number) else ""
        found += _rows(member.name, page.rows, names)
        place = page.following
    return bounds.first, bounds.end, found


def _rows(member: str, rows: JournalRows, names: Mapping[int, str]) -> Iterator[Row]:
    for row in JournalPage(ReadJournalPageResponse(columns=rows.columns())).rows():
        yield Row(
            member,
            row.log_index,
            row.epoch,
            row.kind.name,
            row.queue_id,
            row.first,
            row.messages,
            names.get(row.queue_id) or None,
            row.id or None,
            row.lease_id,
            row.producer or None,
            row.sequence,
            round(row.time.timestamp() * 1_000_000),
            row.payload,
        )


def _asked(book: Book) -> Iterator[Asked]:
    history = book.history
    for sent in history.acked:
        yield Asked("send", "ok", _ns(sent.asked_s), _ns(sent.at_s), book.name, sent.index)
    for came in history.delivered:
        at_ns = _ns(came.at_s)
        yield Asked("recv", "ok", at_ns, at_ns, book.name, came.index, client=came.consumer)
    for done in history.settled:
        at_ns = _ns(done.at_s)
        yield Asked("ack", "ok", at_ns, at_ns, book.name, done.index)


def _ns(at_s: float) -> int:
    return round(at_s * 1_000_000_000)
