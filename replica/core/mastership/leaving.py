"""When a master goes on without its peer: what an answer about the peer's loss lets it do, and what becomes of a
connected peer that holds everybody up. Never decides who is master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.classifier import EventKind
from failover.gate import Consequence, Ruling
from failover.marks import Role
from replica.core.mastership.following import Following
from replica.core.replication.sync_source import Aside, Phase

if TYPE_CHECKING:
    from replica.core.mastership.claims import ClientCalls
    from replica.core.replication.sync_source import SyncSource
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared

SLOW_PEER_MS = 10_000
REJOIN_MS, REJOIN_MS_MAX = 10_000, 60_000
"""How long a peer that was too slow is left alone before it is taken back; doubled each time."""
REJOIN_FORGET_MS = 600_000
"""After so long in step the next time counts as the first."""
NOT_KNOWN_WHOLE = (
    "the authority cannot be asked, and when it was asked last it did not name this copy among those that hold "
    "everything: bring the authority or the peer back, or accept the loss that `tandemq pair failover --force` states"
)


class Leaving(Following):
    """A mastership of one domain that can do without the other member."""

    def __init__(
        self, shared: Shared, source: SyncSource, target: SyncTarget, calls: ClientCalls, bias_ms: int
    ) -> None:
        super().__init__(shared, source, target, calls, bias_ms)
        source.aside = self.aside
        self.leave_asked = False
        """The peer is in step, and says that it is to take everything anew: it is left out first."""
        self.slow_peer_ms = SLOW_PEER_MS
        self.rejoin_ms = REJOIN_MS

    # -- verdicts --------------------------------------------------------------------------------------------------

    def held_everything(self) -> bool:
        """P5 without a register to read: what it said last, or the set that this member was in when it was written.

        Says nothing of what the peer did alone after the link broke: that is for whoever decides to know.
        """
        register, state = self.register, self.shared.state
        known = register is not None and not register.vouches_for_nobody
        members = register.eligible_set if register is not None and known else state.in_sync_set
        return state.data.is_good and self.shared.member in members

    def ruling(self, now_ms: int) -> Ruling:
        """What the answer about the peer's loss lets this member do now."""
        return self._fitting(self.verdicts.current(now_ms, connected=self.connected, readable=self.readable))

    def _fitting(self, ruling: Ruling) -> Ruling:
        if ruling.effect is Consequence.CLAIM_UNRECORDED and not self.held_everything():
            return Ruling(Consequence.REFUSE, NOT_KNOWN_WHOLE, ruling.by)
        return ruling

    def _tell(self, ruling: Ruling) -> None:
        answer = self.verdicts.answer
        self.verdicts.tell(ruling, answer.verdict if answer is not None else None)

    # -- a peer that needs everything ------------------------------------------------------------------------------

    def aside(self) -> Aside:
        """Whether commits wait for the peer while it is sent everything, and whether that can be helped (P22)."""
        shared, register = self.shared, self.register
        if shared.peer not in self.required:
            return Aside.IS_ASIDE
        known = self.readable and register is not None and not shared.told_register and self.owns(register)
        return Aside.POSSIBLE if known and not self.is_spent() else Aside.IMPOSSIBLE

    def _maybe_leave(self) -> None:
        """The register has just been read: leave a peer out that is to be filled, or that somebody wants filled.

        Not later: a claim that nobody answers costs the mastership (P6), an unreadable register does not.
        """
        source, asked = self.source, self.leave_asked
        self.leave_asked = False
        if not self.serving or self.claim is not None or self.publishing or self.shared.draining:
            return  # ASIDE is looked at again, and whoever asked asks again
        if source.phase is not Phase.ASIDE and not asked and not source.goes_on:
            return
        if self.aside() is Aside.POSSIBLE:
            why = f"{self.shared.peer} takes everything anew"
            self.shared.become(Role.MASTER_SUSPENDED, f"{why}: going on without it")
            self.begin_claim(frozenset({self.shared.member}), why)
        else:
            source.look_again()

    # -- a peer that is connected ----------------------------------------------------------------------------------

    def _watch_progress(self, now_ms: int) -> None:
        """A peer that is there, again and again, and does not come a step further holds everybody up (4.11, slow peer).

        Also one whose connection breaks before each transfer ends: it is never lost for long enough, and never in step.
        """
        shared = self.shared
        owed = shared.peer in self.required and shared.commit_index < shared.log.last_index
        if not owed or shared.commit_index != self.progress[0]:
            self.progress = (shared.commit_index, now_ms)
            self.verdicts.asked.pop(EventKind.PEER_SLOW, None)
        elif now_ms - self.progress[1] >= self.slow_peer_ms and shared.durable_index > shared.commit_index:
            self.verdicts.ask(EventKind.PEER_SLOW, now_ms, f"no progress at {shared.peer} for {self.slow_peer_ms} ms")
            self._leave_behind(now_ms)

    def _leave_behind(self, now_ms: int) -> None:
        """Go on without a slow peer, once the verdict and the register allow it; it is taken back later."""
        ruling = self.ruling(now_ms)
        if self.verdicts.kind is not EventKind.PEER_SLOW or not ruling.lets_claim or not self.serving:
            return
        if self.claim is not None or self.publishing or not self.readable or self.shared.peer not in self.required:
            return
        if self.is_spent():
            return
        self._tell(ruling)
        if now_ms - self.rejoin_at_ms > REJOIN_FORGET_MS:
            self.rejoin_ms = REJOIN_MS
        self.rejoin_at_ms = now_ms + self.rejoin_ms
        self.rejoin_ms = min(2 * self.rejoin_ms, REJOIN_MS_MAX)
        self.shared.become(Role.MASTER_SUSPENDED, f"{self.shared.peer} is too slow: going on without it")
        self.begin_claim(frozenset({self.shared.member}), f"{self.shared.peer} is too slow")
