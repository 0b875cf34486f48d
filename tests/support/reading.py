"""The commands of a script by which the reader of the journal gets a name, and what the pair then keeps for him.

What the service does is repeated here (`replica.services.admin.readers`, `replica.services.admin.journal`): the master
orders, and a reader that has lost his place is given nothing in his name.
"""

from __future__ import annotations

from replica.core.ordering.readers import Limit, give_up, late_readers
from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, QueueDone
from replica.machine import AdvanceCall, Machine, ReaderPlace, Refused, RegisterCall
from replica.machine.features import readers
from replica.machine.features.readers import all_readers
from tandemq.v1.common_pb2 import Reason
from tests.support.checks import require
from tests.support.clients import Waiter
from tests.support.grammar import command
from tests.support.journalling import Journalling
from tests.support.pair import Member

READER = "lake"


class Reading(Journalling):
    """The reader under his name."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = False
        """He was given up, and has not begun anew."""

    @command("the reader registers at MEMBER")
    def register(self, name: str) -> list[str]:
        """He gets a name there, with the place where he is; prints what the pair keeps for him."""
        place = ReaderPlace(*self.place[:3])
        return self._order(
            self.member(name),
            RegisterCall(READER, place, 0, restart=False, request_id=b"", request_hash=0),
        )

    @command("the reader begins anew at MEMBER")
    def begin_anew(self, name: str) -> list[str]:
        """As above, knowingly: whatever he had not read is given up."""
        place, self.lost = ReaderPlace(*self.place[:3]), False
        return self._order(
            self.member(name),
            RegisterCall(READER, place, 0, restart=True, request_id=b"", request_hash=0),
        )

    @command("the reader tells MEMBER how far he is")
    def advance(self, name: str) -> list[str]:
        """He has read everything before the place where he is, and says so."""
        place = ReaderPlace(*self.place[:3])
        return self._order(
            self.member(name),
            AdvanceCall(READER, place, b"", 0),
        )

    @command("MEMBER gives up readers that are behind")
    def give_up_readers(self, name: str) -> list[str]:
        """As if everything that is committed there were older than the limits let a reader be."""
        member = self.member(name)
        floor = member.shared.progress.commit_index - 1
        late = late_readers(member.core.mastership, floor)
        self.lost = (
            give_up(member.core.orders, late, [Limit(floor, "the script says so")], floor, member.pair.wall_ms) > 0
        )
        member.dispatch(member.core)
        return self.said()

    @command("read in the reader's name at MEMBER")
    def read_in_his_name(self, name: str) -> list[str]:
        """As `read the journal`, but the member asks first whether the reader that it knows may go on."""
        member = self.member(name)
        machine: Machine = member.shared.machine
        try:
            readers.named_reader(machine.state, READER)
        except Refused as refused:
            self.refused = Reason.Name(refused.reason).removeprefix("REASON_")
            return [*self.said(), f"reader at {name}: {self.refused}"]
        require(not self.lost, f"{READER} has lost its place, and {name} does not tell")
        told = self.read_journal(name)
        kept = readers.named_reader(machine.state, READER).place.log_index <= self.place.log_index
        require(not kept or self.refused != "OUT_OF_RANGE", f"what {READER} has not read is gone at {name}")
        return told

    @command("show the readers at MEMBER")
    def show_readers(self, name: str) -> list[str]:
        """What that member knows of them, and where its log begins."""
        return [*self.said(), f"{self._known(self.member(name))}; log from {self.member(name).shared.state.kept_from}"]

    def _order(self, member: Member, call: RegisterCall | AdvanceCall) -> list[str]:
        waiter = Waiter()
        member.submit(PendingCall(waiter, call))
        self.pair.settle(200)
        match waiter.done:
            case QueueDone():
                told = self._known(member)
            case Failed(reason):
                told = Reason.Name(reason).removeprefix("REASON_")
            case _:
                told = "no answer yet"
        return [*self.said(), f"reader at {member.name}: {told}"]

    def _known(self, member: Member) -> str:
        machine: Machine = member.shared.machine
        return ", ".join(
            f"{each.name} lost {each.place.log_index} to {each.lost_until - 1}"
            if each.lost_until
            else f"{each.name} wants {each.place.log_index}"
            for each in all_readers(machine.state)
        )
