"""What must hold of a pair at any step, whatever fails. A check raises `BrokenRuleError`, so a mutant is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from storage.records import read_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.state.log import Entry
    from tests.support.member import Member


class BrokenRuleError(AssertionError):
    """A rule of the pair does not hold."""


class Acked(NamedTuple):
    """An enqueue whose answer a client has."""

    log_index: int
    epoch: int
    first_index: int
    copies: int


def require(holds: object, text: str) -> None:
    if not holds:
        raise BrokenRuleError(text)


class Watched(Protocol):
    """What is looked at."""

    members: dict[str, Member]
    a: Member
    b: Member

    @property
    def up(self) -> list[Member]:
        """Members whose process runs."""

    @property
    def is_paired(self) -> bool:
        """Both copies are in step."""

    def describe(self) -> str:
        """For messages."""


class Checks:
    """Memory of what was seen; told by the harness."""

    def __init__(self, pair: Watched) -> None:
        self.pair = pair
        self.digests: dict[tuple[int, int], bytes] = {}
        """(epoch, log index): chained digest. One name, one record, for ever (P11)."""
        self.owners: dict[int, str] = {}
        self.serving: dict[str, int] = {}
        self.highest: Acked | None = None
        self.acks = 0
        self.excused = False
        """An operator has forced a member: what the other one acknowledged may be missing; an account is made later."""

    # -- told by the harness ---------------------------------------------------------------------------------------

    def on_records(self, member: Member, appends: Sequence[Entry]) -> None:
        for entry in appends:
            name = (entry.epoch, entry.log_index)
            known = self.digests.setdefault(name, entry.digest)
            # Without a register two members may take one number; they find out by the digest, and by the owner.
            same = known == entry.digest or self.excused
            require(same, f"{member.name} gives the name {name} to a second record (P11)")

    def after_dispatch(self, member: Member) -> None:
        if not member.serving:
            self.serving.pop(member.name, None)
            return
        epoch = member.shared.state.epoch
        if self.serving.get(member.name) != epoch:
            self.serving[member.name] = epoch
            owner = self.owners.setdefault(epoch, member.name)
            require(owner == member.name or self.excused, f"epoch {epoch} has two owners, {owner} and {member.name}")
            self.holds_everything(member)

    def on_ack(self, member: Member, done: Any) -> None:
        """An answer with copies was given by this member just now: it must be true now."""
        self.acks += 1
        acked = Acked(done.log_index, done.epoch, done.first_index, done.copies)
        digest = self.digests.get((done.epoch, done.log_index))
        require(digest is not None, f"{member.name} answers for {acked}, which is no record")
        holders = [m.name for m in self.pair.members.values() if holds(m, acked, digest)]
        require(
            len(holders) >= done.copies,
            f"{member.name} answers copies={done.copies} for log index {done.log_index} of epoch {done.epoch}, "
            f"durable at {holders}",
        )
        if self.highest is None or done.log_index > self.highest.log_index:
            self.highest = acked

    def forget(self) -> None:
        """The pair is begun anew: another history, in which every name may name something else."""
        self.digests.clear()
        self.owners.clear()
        self.serving.clear()
        self.highest = None

    # -- asked by tests --------------------------------------------------------------------------------------------

    def holds_everything(self, member: Member) -> None:
        """Nobody serves without every acknowledged operation."""
        acked = self.highest
        if acked is None or self.excused:
            return
        log = member.shared.log
        found = log.digest_at(acked.log_index)
        held = found is not None and found[1] == self.digests[acked.epoch, acked.log_index]
        require(
            held or acked.log_index < max(log.base_index, member.shared.state.kept_from),
            f"{member.name} serves epoch {member.shared.state.epoch} without the acknowledged {acked}",
        )

    def at_rest(self) -> None:
        """Nothing is under way: a pair has one log and one state."""
        if not self.pair.is_paired:
            return
        for member in self.pair.up:
            self.holds_everything(member)
        a, b = self.pair.a, self.pair.b
        if a.shared.machine.applied_index == b.shared.machine.applied_index == a.shared.log.last_index:
            require(a.shared.machine.digest() == b.shared.machine.digest(), "equal logs, different state of the queues")

    def equal(self) -> None:
        """Both members hold the same and have applied it."""
        a, b = self.pair.a, self.pair.b
        require(self.pair.is_paired, f"not a pair: {self.pair.describe()}")
        require(
            a.shared.machine.applied_index == b.shared.machine.applied_index == a.shared.log.last_index,
            f"not everything is applied: {self.pair.describe()}",
        )
        require(a.shared.machine.digest() == b.shared.machine.digest(), "equal logs, different state of the queues")


def holds(member: Member, acked: Acked, digest: bytes) -> bool:
    """Whether a member's disk has the record, or a snapshot that includes it."""
    from replica.core.state.durable import decode_state, state_key
    from tests.support.member import NUMBER

    record = member.store.read(NUMBER, acked.log_index)
    if record is not None:
        prefix = read_prefix(record)
        return (prefix.epoch, prefix.digest) == (acked.epoch, digest)
    state = member.store.get_meta(state_key(NUMBER))
    if state is None:
        return False
    known = decode_state(state)  # a full transfer's snapshot, or a checkpoint of what was trimmed
    return acked.log_index <= max(known.base_index, known.kept_from - 1)
