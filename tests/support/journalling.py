"""The commands of a script by which somebody reads the journal, and what must hold of what he has read.

He keeps his position, as a checkpoint does, and goes on from it at either member. The service's steps are repeated here
(`replica.services.admin.journal`): in step or not, judge, read, and judge anew what was trimmed meanwhile.
"""

from __future__ import annotations

from replica.core.state.durable import Boundary
from replica.core.state.outcomes import Failed
from replica.node.journal import RowPlace, Trimmed, bounds_of, history_id_of, is_in_step, problem_of, read_page
from replica.node.journal_rows import JournalRows, Wanted
from storage.records import read_prefix
from tandemq.client.journal import JournalPage, JournalRow
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.journal_service_pb2 import ReadJournalPageResponse
from tests.support.calling import Calling
from tests.support.checks import require
from tests.support.grammar import command
from tests.support.pair import NUMBER, Member
from tests.support.walk import trim

ALL = Wanted()


def rows_at(
    member: Member, place: RowPlace, wanted: Wanted = ALL, *, trims: bool = False, rows_max: int = 1_000
) -> tuple[list[JournalRow], RowPlace] | str:
    """What the service of that member gives, or the reason why it gives nothing."""
    if not is_in_step(member.core):
        return "not in step"
    problem = problem_of(member.shared, place, is_master=member.serving)
    if problem is not None:
        return reason_of(problem)
    bounds = bounds_of(member.shared)
    if trims:
        trim(member)
        member.commit()
    rows = JournalRows(NUMBER, wanted, rows_max=rows_max, bytes_max=1 << 20)
    try:
        page = read_page(member.store, NUMBER, place, bounds, 0, rows)
    except Trimmed:
        problem = problem_of(member.shared, place, is_master=member.serving)
        require(problem is not None, f"the log of {member.name} has a gap that nothing explains")
        assert problem is not None
        return reason_of(problem)
    return list(JournalPage(ReadJournalPageResponse(columns=rows.columns())).rows()), page.following


def reason_of(problem: Failed) -> str:
    return Reason.Name(problem.reason).removeprefix("REASON_")


class Journalling(Calling):
    """One reader of the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.place = RowPlace(1, 0)
        self.read: dict[int, int] = {}
        """Epoch of each record that was read."""
        self.histories: dict[int, bytes] = {}
        """Id of the history that each of them was read of."""
        self.refused = ""

    @command("read the journal at MEMBER")
    def read_journal(self, name: str) -> list[str]:
        """A reader goes on from where he stopped, as far as that member lets him, and says what he got or why not."""
        return self._read(self.member(name))

    @command("read the journal at MEMBER while it trims")
    def read_journal_while_it_trims(self, name: str) -> list[str]:
        """As above; once his position has been judged, the member trims its log, and only then it is read."""
        return self._read(self.member(name), trims=True)

    @command("the reader goes on where the journal of MEMBER begins")
    def go_on(self, name: str) -> list[str]:
        """He has been refused, or has read nothing yet: he forgets what he read, and accepts what is missing."""
        if self.read and not self.refused:
            return []  # nobody has told him
        self.read.clear()
        self.histories.clear()
        self.place = RowPlace(bounds_of(self.member(name).shared).first, 0)
        return []

    def _read(self, member: Member, *, trims: bool = False) -> list[str]:
        found = rows_at(member, self.place, trims=trims)
        self.refused = found if isinstance(found, str) else ""
        if isinstance(found, str):
            return [*self.said(), f"reader at {member.name}: {found}"]
        rows, following = found
        for row in rows:
            at = max(self.read, default=self.place.log_index - 1)
            passed_over = range(at + 1, row.log_index)
            jumps = not all(has_no_row(member, log_index) for log_index in passed_over)
            require(not jumps, f"the reader jumps from {at} to {row.log_index} and is not told")
            self.read[row.log_index] = row.epoch
            self.histories[row.log_index] = history_id_of(member.shared)
        self.place = following._replace(history_id=history_id_of(member.shared))
        told = ", ".join(
            f"{row.log_index} {row.payload.decode().split('/')[0] if row.payload else row.kind.name.lower()}"
            for row in rows
        )
        return [*self.said(), f"reader at {member.name}: {told or 'nothing'}; next {following.log_index}"]

    def check_read(self) -> None:
        """Every record that the reader believes in is one of the history that the pair has in the end."""
        master = self.pair.master
        require(master is not None, "nobody serves")
        assert master is not None
        here_id = history_id_of(master.shared)
        for log_index, history_id in self.histories.items():
            require(history_id == here_id, f"the reader has record {log_index} of another history")
        history: list[Boundary] = master.shared.log.history
        for log_index, epoch in self.read.items():
            stored = master.store.read(NUMBER, log_index)
            here = read_prefix(stored).epoch if stored is not None else epoch_in(history, log_index, epoch)
            require(
                here == epoch, f"the reader has record {log_index} of epoch {epoch}, the pair has it of epoch {here}"
            )


def has_no_row(member: Member, log_index: int) -> bool:
    """A record about readers themselves."""
    header = member.shared.log.header_at(log_index)
    return header is not None and header.HasField("reader")


def epoch_in(history: list[Boundary], log_index: int, otherwise: int) -> int:
    """By the boundaries of epochs; what is before all of them cannot be told."""
    found = [each.epoch for each in history if each.first_index <= log_index]
    return found[-1] if found else otherwise
