"""One domain's handoff at one member: finds out which event of `failover.handoff` it is, and carries out the row.
Decides nothing that is not in that table.

What the rest of the core has decided since (a lost link, a SYNC that was taken, a claim that ended, a drain that is
done) is read from its state after every event, by `observe`: no other part has to know of handoffs. Time is the
domain's, in milliseconds.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from failover.handoff import DEADLINES, Action, HandoffEvent, HandoffState, Ignored, lookup
from failover.marks import DataMark, Link, Role
from failover.promotion import no_epoch_left
from replica.core.handoff.attempt import HOLD_MS, Attempt, HandoffOutcome
from replica.core.state.effects import Note
from replica.core.state.write_tokens import CededStored
from tandemq.peer.v1.peer_service_pb2 import HandoffNack, HandoffReady
from tandemq.v1.pair_service_pb2 import PAIR_EVENT_KIND_HANDOFF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from replica.core.mastership.mastership import Mastership
    from replica.core.ordering.orders import Orders
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import HandoffAck, HandoffPropose, HandoffRequest

HOLD_MS_MAX = 60_000
ANSWER_MS = DEADLINES[HandoffState.PROPOSED].milliseconds
COOLDOWN_MS = 1000
"""A replica's request this soon after the last handoff is refused; an operator at the master is not."""
LAG_RECORDS_MAX = 20_000
"""Further behind, a drain within the hold time is not to be expected."""


class Handoff:
    """The state of one domain's handoff."""

    def __init__(
        self,
        shared: Shared,
        orders: Orders,
        mastership: Mastership,
        target: SyncTarget,
        resume: Callable[[], None],
        *,
        hold_ms: int = HOLD_MS,
        cooldown_ms: int = COOLDOWN_MS,
    ) -> None:
        self.shared = shared
        self.orders = orders
        self.mastership = mastership
        self.target = target
        self.resume = resume
        self.hold_ms = hold_ms
        self.cooldown_ms = cooldown_ms
        self.bars: set[str] = set()
        """What the shell knows to stand in the way here: PINNED, BUSY."""
        self.open: Attempt | None = None
        self.ended_at_ms: int | None = None
        self._state = HandoffState.REPLICA
        self._since_ms = 0
        self._count = 0

    @property
    def state(self) -> HandoffState:
        """As in the table; at rest, by what this member is."""
        if self._state.is_steady:
            return HandoffState.MASTER if self.shared.serving else HandoffState.REPLICA
        return self._state

    @property
    def is_paired(self) -> bool:
        """Both copies are in step and the link is up, as far as this member knows: the roles could be exchanged."""
        return self._state.is_steady and (self.shared.link is Link.PAIRED)

    # -- asked here ------------------------------------------------------------------------------------------------

    def start(
        self,
        reason: str,
        *,
        dry_run: bool = False,
        hold_ms: int = 0,
        automatic: bool = False,
        on_end: Callable[[HandoffOutcome], None] | None = None,
    ) -> None:
        """Give the role away, or ask for it: whichever this member can do. `on_end` is called once, with how it ended.

        `automatic`: nobody asked for it, so a member whose automation is paused refuses it.
        """
        self._count += 1
        name = f"{self.shared.member}/{self.shared.incarnation}/{self._count}".encode()
        hold_ms = min(hold_ms or self.hold_ms, HOLD_MS_MAX)
        attempt = Attempt(blake2b(name, digest_size=16).digest(), reason, dry_run, hold_ms, on_end, automatic)
        reasons = self._barred_here(automatic=automatic)
        if not self._state.is_steady:
            reasons = ("BUSY", *reasons)
        if reasons:
            self._feed(HandoffEvent.START_BARRED, attempt, reasons)
        else:
            self._feed(HandoffEvent.START, attempt)

    def abort(self, reason: str) -> None:
        """Take it back, if that is still free."""
        if self.open is not None:
            self._feed(HandoffEvent.ABORT, self.open, (reason,))

    def _barred_here(self, *, automatic: bool = False) -> tuple[str, ...]:
        known = self.bars | ({"PINNED"} if automatic and self.mastership.verdicts.paused else set())
        return barred_here(self.shared, self.mastership, self.target, self.orders, known)

    # -- frames ----------------------------------------------------------------------------------------------------

    def on_ready(self, ready: HandoffReady) -> None:
        """The other member takes the role, once what is ordered is there."""
        if (attempt := self._opened_as(ready.id)) is not None:
            self._feed(HandoffEvent.READY_DRY if attempt.dry_run else HandoffEvent.READY, attempt)

    def on_nack(self, nack: HandoffNack) -> None:
        """The other member refuses; of any epoch, for it only ever ends something."""
        if (attempt := self._opened_as(nack.id)) is not None:
            self._feed(HandoffEvent.NACK, attempt, tuple(nack.reasons))

    def _opened_as(self, handoff_id: bytes) -> Attempt | None:
        return self.open if self.open is not None and self.open.id == handoff_id else None

    def on_request(self, request: HandoffRequest) -> None:
        """A replica asks for the role."""
        attempt = Attempt(request.id, request.reason, request.dry_run, self.hold_ms)
        state = self.state
        reasons = list(self._barred_here())
        if state is HandoffState.PROPOSED:
            reasons.insert(0, "COLLISION")
        elif not state.is_steady:
            reasons.insert(0, "BUSY")
        if not self.shared.serving:
            reasons.append("NOT_MASTER")
        if self._cooldown_left_ms():
            reasons.append("COOLDOWN")
        self._feed(HandoffEvent.REQUEST_BARRED if reasons else HandoffEvent.REQUEST, attempt, tuple(reasons))

    def _cooldown_left_ms(self) -> int:
        ended = self.ended_at_ms
        return 0 if ended is None else max(0, ended + self.cooldown_ms - self.orders.now_ms)

    def on_propose(self, propose: HandoffPropose) -> None:
        """The master gives the role away."""
        known = self.open
        if known is not None and known.id != propose.id:
            self._feed(HandoffEvent.CROSSING, known, ("COLLISION",))
            if self.open is not None:
                return
            known = None
        attempt = known or Attempt(propose.id, propose.reason, propose.dry_run)
        attempt.hold_ms = propose.deadline_ms
        reasons = self._barred_here(automatic=propose.automatic)
        if propose.last_index > self.shared.log.last_index + LAG_RECORDS_MAX:
            reasons = (*reasons, "LAG")
        if reasons:
            self._feed(HandoffEvent.PROPOSE_BARRED, attempt, reasons)
        else:
            self._feed(HandoffEvent.PROPOSE_DRY if propose.dry_run else HandoffEvent.PROPOSE, attempt)

    def on_ack(self, ack: HandoffAck) -> None:
        """The master has ceded an epoch: all that it ordered is in it."""
        shared = self.shared
        attempt = self._opened_as(ack.id)
        if attempt is None:
            if self.state is HandoffState.REPLICA:
                self._feed(HandoffEvent.ACK_MISFIT, Attempt(ack.id, ""), ("TIMEOUT",))
            return
        attempt.final_index, attempt.final_digest = ack.final_index, ack.final_digest
        whole = (shared.log.last_index, shared.log.digest) == (ack.final_index, ack.final_digest)
        fits = whole and shared.progress.durable_index >= ack.final_index and copy_is_whole(shared, self.target)
        if fits and self.mastership.claims.may_take(ack.ceded_epoch):
            attempt.epoch = ack.ceded_epoch
            self._feed(HandoffEvent.ACK, attempt)
        else:
            self._feed(HandoffEvent.ACK_MISFIT, attempt, ("NOT_IN_SYNC",))

    # -- what became of it elsewhere -------------------------------------------------------------------------------

    def on_ceded(self, handoff_id: bytes) -> None:
        """The promise is durable."""
        if (attempt := self._opened_as(handoff_id)) is not None:
            self._feed(HandoffEvent.CEDED, attempt)

    def on_tick(self) -> None:
        """A state that lasts too long ends by its row."""
        state, attempt = self._state, self.open
        if attempt is None or state.is_steady:
            return
        limit_ms = DEADLINES[state].milliseconds
        if state is HandoffState.DRAINING:
            limit_ms = attempt.hold_ms
        elif state is HandoffState.READY:
            limit_ms = attempt.hold_ms + ANSWER_MS
        if self.orders.now_ms - self._since_ms >= limit_ms:
            self._feed(HandoffEvent.DEADLINE, attempt, ("TIMEOUT",))

    def observe(self) -> None:
        """Called after every event of the domain: what it has led to, as an event of the table."""
        while (attempt := self.open) is not None and (found := self._found(self._state)) is not None:
            before = self._state
            self._feed(found[0], attempt, found[1:])
            if self._state is before:
                return

    def _found(self, state: HandoffState) -> tuple[HandoffEvent, *tuple[str, ...]] | None:
        shared, mastership = self.shared, self.mastership
        role = shared.role
        if state is HandoffState.TAKING:
            if shared.serving:
                return (HandoffEvent.SERVING,)
            return (HandoffEvent.CLAIM_LOST, "IN_DOUBT") if mastership.role.claim is None else None
        if state is HandoffState.CEDING and role is Role.REPLICA:
            return (HandoffEvent.SYNC,)
        if not mastership.peer.connected:
            return (HandoffEvent.LINK_LOST, "IN_DOUBT" if state is HandoffState.CEDING else "NOT_CONNECTED")
        if state in (HandoffState.PROPOSED, HandoffState.DRAINING):
            if not shared.serving:
                return (HandoffEvent.ROLE_LOST, "NOT_MASTER")
            drained = state is HandoffState.DRAINING and shared.progress.commit_index == shared.log.last_index
            return (HandoffEvent.DRAINED,) if drained and shared.peer in mastership.commit.required else None
        if state is HandoffState.CEDING:
            return (HandoffEvent.ROLE_LOST, "IN_DOUBT") if role is not Role.CEDING else None
        return (HandoffEvent.ROLE_LOST, "NOT_MASTER") if role is not Role.REPLICA else None

    # -- the row ---------------------------------------------------------------------------------------------------

    def _feed(self, event: HandoffEvent, attempt: Attempt, reasons: tuple[str, ...] = ()) -> None:
        state = self.state
        row = lookup(state, event)
        if isinstance(row, Ignored):
            return
        own = attempt is self.open or state.is_steady  # else it is a second caller, or a frame of another handoff
        if own:
            self.open = None if row.state.is_steady else attempt
        if row.state is not state:
            self._since_ms = self.orders.now_ms
        self._state = row.state
        for action in row.actions:
            self._act(action, attempt, reasons)
        facts = {
            "handoff_id": attempt.id.hex(),
            "from": state.name,
            "event": event.name,
            "state": row.state.name,
            "reason": attempt.reason,
        }
        if reasons:
            facts["reasons"] = ",".join(reasons)
        if attempt.final_index:
            facts["final_index"] = str(attempt.final_index)
        text = f"handoff: {row.why}" + (f" ({', '.join(reasons)})" if reasons else "")
        self.shared.outbox.add(Note(PAIR_EVENT_KIND_HANDOFF, text, facts))

    def _act(self, action: Action, attempt: Attempt, reasons: tuple[str, ...]) -> None:
        shared, now_ms = self.shared, self.orders.now_ms
        if action is Action.SEND_REQUEST:
            shared.outbox.send(handoff_request=attempt.request())
        elif action is Action.SEND_PROPOSE:
            attempt.epoch, attempt.last_index = shared.state.epoch, shared.log.last_index
            shared.outbox.send(handoff_propose=attempt.propose())
        elif action is Action.SEND_READY:
            attempt.drain_at_ms = now_ms
            shared.outbox.send(handoff_ready=HandoffReady(id=attempt.id))
        elif action is Action.SEND_NACK:
            nack = HandoffNack(id=attempt.id, reasons=reasons, retry_after_ms=self._cooldown_left_ms())
            shared.outbox.send(handoff_nack=nack)
        elif action is Action.DRAIN:
            attempt.drain_at_ms = now_ms
            shared.drain(draining=True)
        elif action is Action.RESUME:
            shared.drain(draining=False)
            self.resume()
        elif action is Action.CEDE:
            shared.drain(draining=False)
            attempt.final_index, attempt.final_digest = shared.log.last_index, shared.log.digest
            attempt.epoch = self.mastership.claims.epoch_above_all()
            self.mastership.role.become_ceding(attempt.epoch, CededStored(attempt.id))
        elif action is Action.SEND_ACK:
            shared.outbox.send(handoff_ack=attempt.ack())
        elif action is Action.PROBE:
            self.mastership.role.become_probe("a handoff is in doubt: register and peer decide")
        elif action is Action.TAKE:
            self.target.on_commit(attempt.final_index)  # ceded means committed on both
            self.mastership.claims.take_over(attempt.epoch, self.mastership.now_ms)
        else:
            self._end(action, attempt, reasons)

    def _end(self, action: Action, attempt: Attempt, reasons: tuple[str, ...]) -> None:
        now_ms = self.orders.now_ms
        done = action is Action.DONE
        if done and not attempt.dry_run:
            self.ended_at_ms = now_ms
        if attempt.on_end is None:
            return
        if action is Action.IN_DOUBT and "IN_DOUBT" not in reasons:
            reasons = ("IN_DOUBT", *reasons)
        pause_ms = max(0, now_ms - attempt.drain_at_ms) if attempt.drain_at_ms and not attempt.dry_run else 0
        epoch, on_end = self.shared.state.epoch, attempt.on_end
        attempt.on_end = None
        on_end(HandoffOutcome(done, reasons, attempt.id.hex(), attempt.final_index, epoch, pause_ms))


def barred_here(
    shared: Shared, mastership: Mastership, target: SyncTarget, orders: Orders, known: Iterable[str]
) -> tuple[str, ...]:
    """What stands in the way at this member, whichever side it is on: all of it, not the first thing found. `known` is
    what the shell has set.
    """
    reasons = sorted(known)
    if shared.role is Role.MAINTENANCE:
        reasons.append("MAINTENANCE")
    if not mastership.peer.connected:
        reasons.append("NOT_CONNECTED")
    if shared.serving:
        if (
            shared.link is not Link.PAIRED
            or shared.peer not in mastership.commit.required
            or mastership.commit.publishing
        ):
            reasons.append("NOT_IN_SYNC")
        elif shared.log.last_index - mastership.source.peer_durable > LAG_RECORDS_MAX:
            reasons.append("LAG")
        if no_epoch_left(mastership.claims.epoch_above_all()):
            reasons.append("NO_EPOCH")
        return tuple(reasons)
    if shared.role is not Role.REPLICA or not copy_is_whole(shared, target):
        reasons.append("NOT_IN_SYNC")
    if orders.room_bytes <= orders.again_bytes:
        # As full as the other one, perhaps: the role would come back at once, and each time let a few messages in.
        reasons.append("DISK")
    return tuple(reasons)


def copy_is_whole(shared: Shared, target: SyncTarget) -> bool:
    """Whether this replica holds all that was acknowledged, and its queues' state is at hand."""
    return target.opened and shared.state.data is DataMark.IN_SYNC and shared.machine is not None
