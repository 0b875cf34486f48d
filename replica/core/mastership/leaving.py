"""When a master goes on without a peer that is connected: one that is too slow, that takes everything anew, or whose
copy is no good. Never decides who is master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.classifier import EventKind
from replica.core.replication.sync_source import Aside, Phase

if TYPE_CHECKING:
    from replica.core.mastership.claims import Claims
    from replica.core.mastership.commit_rule import CommitRule
    from replica.core.mastership.peer import Peer
    from replica.core.mastership.register_view import RegisterView
    from replica.core.mastership.role import MemberRole
    from replica.core.mastership.verdicts import Verdicts
    from replica.core.replication.sync_source import SyncSource
    from replica.core.state.shared import Shared

SLOW_PEER_MS = 10_000
REJOIN_MS, REJOIN_MS_MAX = 10_000, 60_000
"""How long a peer that was too slow is left alone before it is taken back; doubled each time."""
REJOIN_FORGET_MS = 600_000
"""After so long in step the next time counts as the first."""


class Leaving:
    """A mastership of one domain that can do without the other member."""

    def __init__(
        self,
        shared: Shared,
        source: SyncSource,
        view: RegisterView,
        peer: Peer,
        commit: CommitRule,
        role: MemberRole,
        claims: Claims,
        verdicts: Verdicts,
        *,
        slow_peer_ms: int,
    ) -> None:
        self.shared = shared
        self.source = source
        self.view = view
        self.peer = peer
        self.commit = commit
        self.role = role
        self.claims = claims
        self.verdicts = verdicts
        self.leave_asked = False
        """The peer is in step, and says that it is to take everything anew: it is left out first."""
        self.slow_peer_ms = slow_peer_ms
        self.rejoin_ms = REJOIN_MS

    # -- a peer that needs everything ------------------------------------------------------------------------------

    def aside(self) -> Aside:
        """Whether commits wait for the peer while it is sent everything, and whether that can be helped (P22)."""
        shared, register = self.shared, self.view.known
        if shared.peer not in self.commit.required:
            return Aside.IS_ASIDE
        known = register is not None and not shared.hello_register and self.view.owns(register)
        return Aside.POSSIBLE if known and not self.claims.is_spent() else Aside.IMPOSSIBLE

    def on_wish(self) -> None:
        """A peer in step says that it is to take everything anew."""
        self.leave_asked = self.shared.peer in self.commit.required

    def maybe_leave(self) -> None:
        """The register has just been read: leave a peer out that is to be filled, or that somebody wants filled.

        Not later: a claim that nobody answers costs the mastership (P6), an unreadable register does not.
        """
        source, asked = self.source, self.leave_asked
        self.leave_asked = False
        if not self._is_steady() or self.shared.draining:
            return  # ASIDE is looked at again, and whoever asked asks again
        if source.phase is not Phase.ASIDE and not asked and not source.goes_on:
            return
        if self.aside() is Aside.POSSIBLE:
            why = f"{self.shared.peer} takes everything anew"
            self.role.become_suspended(f"{why}: going on without it")
            self.claims.begin(frozenset({self.shared.member}), why)
        else:
            source.look_again()

    def _is_steady(self) -> bool:
        """This member serves, and nothing is under way that would change for whom."""
        return self.shared.serving and self.role.claim is None and not self.commit.publishing

    # -- a peer that is connected ----------------------------------------------------------------------------------

    def watch_progress(self, now_ms: int) -> None:
        """A peer that is there, again and again, and does not come a step further holds everybody up (4.11, slow peer).

        Also one whose connection breaks before each transfer ends: it is never lost for long enough, and never in step.
        """
        progress = self.shared.progress
        waited_ms = self.commit.waited_ms(now_ms)
        if waited_ms is None:
            self.verdicts.forget(EventKind.PEER_SLOW)
        elif waited_ms >= self.slow_peer_ms and progress.durable_index > progress.commit_index:
            text = f"no progress at {self.shared.peer} for {self.slow_peer_ms} ms"
            self.verdicts.ask(EventKind.PEER_SLOW, now_ms, text)
            self.leave_behind(now_ms)

    def leave_behind(self, now_ms: int) -> None:
        """Go on without a slow peer, once the verdict and the register allow it; it is taken back later."""
        shared, ruling = self.shared, self.verdicts.current(now_ms)
        if self.verdicts.kind is not EventKind.PEER_SLOW or not ruling.lets_claim or not self._is_steady():
            return
        if not self.view.readable or shared.peer not in self.commit.required or self.claims.is_spent():
            return
        self.verdicts.report_current(ruling)
        if now_ms - self.peer.rejoin_at_ms > REJOIN_FORGET_MS:
            self.rejoin_ms = REJOIN_MS
        self.peer.leave_until(now_ms + self.rejoin_ms)
        self.rejoin_ms = min(2 * self.rejoin_ms, REJOIN_MS_MAX)
        self.role.become_suspended(f"{shared.peer} is too slow: going on without it")
        self.claims.begin(frozenset({shared.member}), f"{shared.peer} is too slow")

    # -- a peer whose copy is no good ------------------------------------------------------------------------------

    def leave_out(self, why: str) -> str:
        """Go on without a replica whose copy is no good, where a register can say so; it is added when it has all.
        Returns why not; empty: it is on its way.

        Else its full transfer would hold everybody up, for it stays required until the register has removed it (P2).
        """
        shared = self.shared
        if not self._is_steady():
            return f"{shared.member} is not in a steady state"
        if not self.view.readable or shared.hello_register or shared.peer not in self.commit.required:
            return "there is no authority, or it cannot be read"
        if spent := self.claims.is_spent():
            return spent
        self.role.become_suspended(f"{why}: going on without it")
        self.claims.begin(frozenset({shared.member}), why)
        return ""
