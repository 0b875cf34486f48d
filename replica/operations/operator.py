"""What an operator of this member sees and orders: maintenance, and the cores' state as facts for status and metrics.
Decides nothing about mastership.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from failover.classifier import SafetyClass
from failover.crash_loop import FAILURES_MAX
from failover.marks import Role
from failover.promotion import Why
from replica.node.hand_over import hand_over
from replica.operations import forecast
from replica.operations.lag import Behind, Lag
from tandemq.ambient import monotonic_ms
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.node.quotas import Quotas
    from replica.operations.audit import AuditLog
    from replica.operations.certificates import Certificates
    from replica.operations.reports import Reports
    from replica.tokens.believed_keys import BelievedKeys
    from tandemq.config import ManagerConfig
    from tandemq.peer.v1.peer_service_pb2 import HeartbeatFrame

SAMPLE_MS = 50
FIRST_ANSWER_MS = 5_000  # after a start; an authority that has not answered by then is an event
LEAVE_S = 0.1
"""Between the HELLO that says that this member goes away and the end of the connection: the peer need not wait then."""
log = logging.getLogger("tandemq.operator")

MAINTENANCE = "operator/maintenance"


class Decider(Protocol):
    """Who is asked about a lost peer, as far as an operator is concerned; see replica.peer.judge."""

    name: str
    safety: SafetyClass
    paused: bool
    failures: int

    def waiting_event_id(self) -> str:
        """The absence of the peer that waits for a verdict; empty when none does."""
        ...

    def decide(self, domain_name: str, event_id: str, verdict: int, reason: str) -> tuple[bool, str, str]:
        """An operator's verdict: whether it was taken, one sentence, the event."""
        ...

    async def pause(self, *, paused: bool) -> None:
        """Whether verdicts are only recorded; durable when this returns."""
        ...


class Reachable(Protocol):
    """The authority, as far as an operator is concerned."""

    @property
    def connected(self) -> bool:
        """It has answered lately."""
        ...


class LastBeat(Protocol):
    """What was heard of the peer; see replica.peer.beats."""

    @property
    def last_beat(self) -> HeartbeatFrame | None:
        """Of any connection."""
        ...


class ClosableLink(Protocol):
    """The connection to the peer, as far as an operator is concerned; see replica.peer.link."""

    def close(self, why: str) -> None:
        """Close it and keep it closed, for a reason; empty: open it again."""
        ...


class Operator:
    """What a member does for whoever runs it. A manager without a peer has no authority, judge, beats or link."""

    def __init__(
        self,
        reports: Reports,
        members: Members,
        config: ManagerConfig,
        *,
        authority: Reachable | None,
        judge: Decider | None,
        beats: LastBeat | None,
        link: ClosableLink | None,
    ) -> None:
        self.reports = reports
        self.members = members
        self.config = config
        self.authority, self.judge = authority, judge
        self._beats, self._link = beats, link
        self.maintenance = False
        self.certificates: Certificates | None = None
        """None: connections are plain."""
        self.audit: AuditLog | None = None
        self.quotas: Quotas | None = None
        self.token_keys: BelievedKeys | None = None
        """None: nobody is asked about, or nothing is to be written."""
        self.alone_s: dict[str, float] = {}
        """Domain: seconds that it was served with one copy since the start."""
        self._lag: dict[str, Lag] = {}
        self._was_reachable: bool | None = None
        self._began_ms = self._sampled_ms = monotonic_ms()

    # -- maintenance -----------------------------------------------------------------------------------------------

    def resume_maintenance(self) -> None:
        """At the start: an order of before still stands."""
        if self.members.node.store.get_meta(MAINTENANCE) == b"1":
            self._take_out("in maintenance since before this start")
            self._shut("this member is in maintenance")
        elif self.judge is not None and self.judge.failures >= FAILURES_MAX:
            text = (
                f"it was the failed instance {self.judge.failures} times in ten minutes: look at it, then take it back"
            )
            log.error("%s: %s (tandemq pair maintenance off)", self.members.member, text)
            self.reports.note(PairEventKind.PAIR_EVENT_KIND_FAULT, text)
            self._take_out(text)
            self._shut("this member is in maintenance")

    def would_end_service(self) -> str:
        """Why the other member could not serve without this one, as far as this one knows; empty: it could."""
        for domain in self.members.node.paired():
            if domain.mastership.peer.connected and domain.shared.role in (Role.MASTER, Role.REPLICA):
                found, why = forecast.way(self.view(domain))
                if found is forecast.Way.OPERATOR:
                    return f"{domain.shared.peer} would serve nobody without {domain.shared.member}, because {why}"
        return ""

    async def begin_maintenance(self, reason: str, *, confirmed: bool = False) -> str:
        """Hand off what is served, then take part in nothing, durably. Returns why not; empty = done."""
        if not confirmed and (why := self.would_end_service()):
            return f"{why}; mend that first, or stop the service knowingly with --yes"
        for domain in self.members.node.paired():
            if domain.shared.role is Role.DIVERGED:
                return f"{domain.shared.name} has two histories; choose one first: tandemq pair resolve --keep MEMBER"
            if not confirmed and (why := _undecided(domain)):
                return f"{why}; ask again when that is done, or stop the service knowingly with --yes"
            if not domain.shared.serving:
                continue
            outcome = await hand_over(domain, self.members, f"maintenance: {reason}" if reason else "maintenance")
            if not outcome.done:
                why = ", ".join(outcome.reasons) or "refused"
                return f"{domain.shared.name} is served here and cannot be handed over ({why})"
        await self.members.node.write(lambda batch: batch.meta.__setitem__(MAINTENANCE, b"1"))
        self._take_out(f"in maintenance: {reason}" if reason else "in maintenance")
        await asyncio.sleep(LEAVE_S)
        self._shut("this member is in maintenance")
        return ""

    def _shut(self, why: str) -> None:
        if self._link is not None:
            self._link.close(why)

    def _take_out(self, reason: str) -> None:
        self.maintenance = True
        for domain in self.members.node.paired():
            if domain.shared.role is Role.DIVERGED:
                continue  # takes part in nothing as it is, and an operator must choose
            domain.handoff.bars.add("MAINTENANCE")
            domain.mastership.role.become_maintenance(reason)
            self.members.node.dispatch(domain)

    async def end_maintenance(self) -> None:
        """Take part again, as after a start."""
        await self.members.node.write(lambda batch: batch.meta.__setitem__(MAINTENANCE, b"0"))
        self.maintenance = False
        for domain in self.members.node.paired():
            domain.handoff.bars.discard("MAINTENANCE")
            if domain.shared.role is Role.MAINTENANCE:
                domain.mastership.role.become_probe("maintenance is over")
            self.members.node.dispatch(domain)
        self._shut("")

    # -- samples ---------------------------------------------------------------------------------------------------

    def look(self, now_ms: int) -> None:
        """Called at each tick of the node: samples how far the peer is behind, and whether the authority answers."""
        passed_ms = now_ms - self._sampled_ms
        if passed_ms < SAMPLE_MS:
            return
        self._sampled_ms = now_ms
        for domain in self.members.node.paired():
            self._sample(domain, now_ms, passed_ms)
        self._watch_authority(now_ms)

    def _sample(self, domain: Domain, now_ms: int, passed_ms: int) -> None:
        shared, mastership = domain.shared, domain.mastership
        lag = self._lag.setdefault(shared.name, Lag())
        peer_index = self.peer_index(domain)
        if not mastership.shared.serving:
            self._lag[shared.name] = kept = Lag()
            kept.peer_index = peer_index
            return
        lag.sample(shared.log.last_index, shared.log.appended_bytes, peer_index, now_ms)
        if shared.peer not in mastership.commit.required:
            self.alone_s[shared.name] = self.alone_s.get(shared.name, 0.0) + passed_ms / 1000

    def authority_reachable(self) -> bool:
        """Whether the register can be asked."""
        return self.authority is not None and self.authority.connected

    def _watch_authority(self, now_ms: int) -> None:
        name = self.config.authority
        reachable = self.authority_reachable()
        if name == "none" or reachable is self._was_reachable:
            return
        if self._was_reachable is None and not reachable and now_ms - self._began_ms < FIRST_ANSWER_MS:
            return  # it is being called for the first time
        first, self._was_reachable = self._was_reachable is None, reachable
        if first and reachable:
            return
        text = f"the {name} answers again" if reachable else f"the {name} cannot be reached"
        self.reports.note(PairEventKind.PAIR_EVENT_KIND_AUTHORITY, text, None, {"reachable": str(reachable).lower()})

    def behind(self, domain: Domain) -> Behind:
        """What the peer has not confirmed of this domain; nothing, unless this member serves it."""
        shared = domain.shared
        lag = self._lag.get(shared.name)
        if lag is None or not domain.shared.serving or not shared.peer:
            return Behind()
        return lag.behind(shared.log.last_index, shared.log.appended_bytes, monotonic_ms())

    def peer_index(self, domain: Domain) -> int:
        """Highest log index that the peer was heard to hold durably; 0 = unknown."""
        if domain.source.peer_durable:
            return domain.source.peer_durable
        lag = self._lag.get(domain.shared.name)
        beat = self._beats.last_beat if self._beats is not None else None
        number = domain.shared.domain
        said = max((d.durable_index for d in beat.domains if d.domain == number), default=0) if beat is not None else 0
        return max(said, lag.peer_index if lag is not None else 0)

    # -- facts -----------------------------------------------------------------------------------------------------

    def view(self, domain: Domain) -> forecast.DomainView:
        """What a forecast for this domain rests on."""
        shared, mastership, failover = domain.shared, domain.mastership, self.config.failover
        judge = self.judge
        return forecast.DomainView(
            member=shared.member,
            peer=shared.peer,
            role=shared.role,
            data=shared.state.data,
            in_sync_set=mastership.view.in_sync_set,
            serving=mastership.shared.serving,
            required=mastership.commit.required,
            connected=mastership.peer.connected,
            last_index=shared.log.last_index,
            authority=self.config.authority,
            authority_reachable=self.authority_reachable(),
            classifier=judge.name if judge is not None else "",
            mode=failover.mode,
            safety=judge.safety if judge is not None else SafetyClass.A,
            accept_unproven=failover.accept_unproven,
            paused=judge.paused if judge is not None else False,
            waiting=bool(judge.waiting_event_id()) if judge is not None else False,
            last_change=shared.last_change,
            may_claim=mastership.claims.may_claim or self.config.authority == "none",
            held_everything=mastership.verdicts.held_everything(),
            nobody=mastership.view.readable and shared.last_change == str(Why.NONE_ELIGIBLE),
        )


def _undecided(domain: Domain) -> str:
    """Why it is open whether this member goes on with a domain: it may be the only one who can, and do so soon."""
    role = domain.shared.role
    if role in (Role.MASTER_SUSPENDED, Role.CEDING) or domain.mastership.role.claim is not None:
        return f"who serves {domain.shared.name} is being decided at {domain.shared.member} ({role.name})"
    return ""
