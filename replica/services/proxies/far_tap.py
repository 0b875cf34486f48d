"""Takes messages of one queue of another manager for one macro queue, under leases that it keeps up there (M7).

It renews them, lengthens them when a consumer gets the messages, and gives them back. Which consumer that is, is
decided in `replica.core.delivery.fan_in`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from google.protobuf.duration_pb2 import Duration

from replica.core.delivery.far_heads import ASKED, AWAY, HEAD_MS, HEARD, IDLE, LATE, MISFIT
from replica.core.messages.far_bodies import UnsoundError, runs_of
from replica.core.state.far_runs import count_of, left_of
from replica.core.state.outcomes import Moved
from replica.machine.features.proxies import TargetPlace
from replica.machine.plan.members import queues_of
from replica.services.passage import Passage
from replica.services.proxies.far_acks import FarAcks, answer, in_doubt, settlements_of
from replica.services.proxies.standing import FAILED
from replica.services.proxies.ways import CALL_S, CALLS_MAX
from tandemq.ambient import monotonic_ms, random_bytes
from tandemq.errors import TandemqError, error_of
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueType
from tandemq.v1.queue_service_pb2 import (
    DELIVERY_FORMAT_SEGMENTS,
    OUTCOME_EXTEND,
    OUTCOME_RELEASE,
    SETTLE_MODE_LEASE,
    DequeueRequest,
    DequeueResponse,
    Settlement,
    SettleRequest,
    SettleResponse,
    SettleResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.delivery.far_heads import FarClaim, FarMember
    from replica.core.domain import Domain
    from replica.core.state.far_runs import FarRun
    from replica.machine.state.macros import MacroQueue
    from replica.node.members import Members
    from replica.services.proxies.far_acks import Acked
    from replica.services.proxies.kept import KeptProxies, KeptProxy
    from tandemq.v1.macro_service_pb2 import FarState

RENEW_MS = 2_000
"""A head's lease is so old when it is renewed while somebody waits (M7)."""
LATE_MS = 250
LATE_TEXT = f"no answer in {LATE_MS} ms"
"""Who has not answered by then holds nobody back."""
LINGER_MS = 1_000
"""What nobody waits for goes back so much later: the next call may want it."""
WAIT_S = 2.0
"""How long a member that has nothing is waited for at a time."""
CLAIM_S = 2.0
"""For one call about leases: what is not confirmed by then is not delivered."""
AGAIN_MS = 250
"""Between two attempts at one that has not answered."""
POLL_MS, POLLS_MAX = 1_000, CALLS_MAX // 2
"""With more calls than the second under way to one manager nobody waits there; who has nothing is asked once in the
first.
"""
AHEAD = 2
"""Deliveries to a stream that is alone which one lease is for."""
CALLS_AT_ONCE = 8
"""Leases that are asked for at the same time, each for another consumer."""
WINDOW_MAX = 1_000
GROWTH = 8
"""Messages that are taken at once; one at the beginning, so many times as many each time that all were delivered."""
SETTLEMENTS_MAX = 1_000
"""Of one call."""
DEQUEUE, SETTLE = "QueueService/Dequeue", "QueueService/Settle"


class TapHost(Protocol):
    """The macro queues of one domain, at its serving master."""

    members: Members
    domain: Domain
    keeper: KeptProxies

    def wake(self) -> None:
        """Something may be due."""

    def pump(self, macro_ids: set[int]) -> None:
        """Their members have something, or stand otherwise than before."""


class _Part(NamedTuple):
    """One settlement of a call, and whom it is for."""

    settlement: Settlement
    runs: Sequence[FarRun]
    claim: FarClaim | None
    """None: of heads that wait, or go back."""


class FarTap:
    """Of one member of one macro queue."""

    def __init__(self, far: TapHost, macro: MacroQueue, member: FarMember) -> None:
        self.far, self.macro, self.member = far, macro, member
        manager, _, queue = member.target.removeprefix("//").partition("/")
        self._target = TargetPlace(manager, queue)
        self._client_id = f"macro/{far.members.pair or far.members.member}/{macro.name}".encode()[:64]
        self._fetching: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._acking: asyncio.Task[None] | None = None
        """A call about acknowledgements alone; those that come meanwhile go with the next call of either kind."""
        self._acks = FarAcks()
        self._window, self._all_taken = 1, False
        self._wanted_ms = self._leased_ms = self._again_ms = self._settle_again_ms = self._asked_ms = 0
        self._left_ms = 0
        self._refusal = ""
        self._is_closed = self._is_left = False

    @property
    def is_able(self) -> bool:
        """It may have something to do before the next look at all of them."""
        return self.member.state not in (AWAY, MISFIT) or bool(self.member.claims or self.member.back)

    def close(self) -> None:
        """This member is master no more: what it holds returns when its lease ends."""
        self._is_closed = True
        for task in (self._fetching, self._settling, self._acking):
            if task is not None:
                task.cancel()
        in_doubt(self._acks.take_all())

    def leave(self, now_ms: int) -> None:
        """It is no member any more: what it holds goes back, and what is on its way to a consumer arrives."""
        self._is_left, self._left_ms = True, now_ms
        self._give_back()
        self._see_to_leases(now_ms)

    def is_leaving(self, now_ms: int) -> bool:
        """It has something to settle still, and does so again where that has failed; what it holds ends by itself."""
        self._see_to_leases(now_ms)
        has_more = self.member.back or self.member.claims or self._acks.waiting or self._settling or self._acking
        return bool(has_more) and now_ms - self._left_ms < HEAD_MS

    # -- looking -----------------------------------------------------------------------------------------------------

    def look(self, now_ms: int) -> bool:
        """Begins what is due. True: it stands otherwise than before, and consumers may be served."""
        member = self.member
        wanted = self.far.domain.consumers.fan_in.far.credits_of(self.macro.queue_id)
        if wanted:
            self._wanted_ms = now_ms
        elif now_ms - self._wanted_ms >= LINGER_MS:
            self._give_back()
        state, why = self._standing(now_ms)
        if state in (AWAY, MISFIT):
            self._give_back()
            changed = member.set(state, why)
        elif member.state in (AWAY, MISFIT):
            changed = member.set(IDLE)
        else:
            changed = False
            if not wanted and self._fetching is None and not member.heads and member.state == HEARD:
                member.set(IDLE)  # what it has meanwhile nobody knows: who comes next waits for its word
                self._again_ms = 0
            if self._fetching is not None and member.is_awaited and now_ms - self._asked_ms >= LATE_MS:
                changed = member.set(LATE, LATE_TEXT)
        if member.state not in (AWAY, MISFIT) and self._is_fetch_due(now_ms):
            parts = wanted or self._ahead(now_ms)
            if parts and self._all_taken:
                self._window = min(GROWTH * self._window, WINDOW_MAX)
            if parts:
                fetch = self._fetch(parts_of(parts, self._window), ahead=not wanted)
                self._fetching = self.far.members.node.spawn(fetch)
        self._see_to_leases(now_ms)
        return changed

    def _ahead(self, now_ms: int) -> list[int]:
        """What is leased for streams that are at work on what they have: else each delivery waits for the other
        manager. Only while that gives as many as are asked for, and they are taken.
        """
        if not self._all_taken or self._window == 1 or now_ms - self._wanted_ms >= LINGER_MS:
            return []
        parts = self.far.domain.consumers.fan_in.far.next_of(self.macro.queue_id)
        return [AHEAD * parts[0]] if len(parts) == 1 else parts

    def _is_fetch_due(self, now_ms: int) -> bool:
        few = self.member.held * 2 <= self._window if self._window > 1 else not self.member.heads
        return few and self._fetching is None and now_ms >= self._again_ms

    def _kept(self) -> KeptProxy | None:
        return self.far.keeper.of(self.far.domain, self.member.name)

    def _standing(self, now_ms: int) -> tuple[FarState, str]:
        kept = self._kept()
        if kept is None:
            return AWAY, "its proxy is gone"
        standing = kept.standing
        if standing.state == FAILED:
            return AWAY, str(standing.why)
        if (problem := self._misfit(kept)) is not None:
            return MISFIT, problem
        if self._refusal and now_ms < self._again_ms:
            return AWAY, self._refusal
        return IDLE, ""

    def _misfit(self, kept: KeptProxy) -> str | None:
        """Why its queue could not be a member here either (R074)."""
        found, machine = kept.standing.found, self.far.domain.shared.machine
        if found is None or machine is None:
            return None
        if found.single_active:
            return "CONFIG_MISMATCH: it serves one consumer at a time (single_active)"
        kind = QueueType.Name(found.queue_type).removeprefix("QUEUE_TYPE_")
        if found.queue_type == QUEUE_TYPE_TWO_WAY:
            return "CONFIG_MISMATCH: it is TWO_WAY, and requests of another manager are answered there"
        own = next(iter(queues_of(machine.state, self.macro.members)), None)
        if own is not None and own.config.queue_type != found.queue_type:
            return f"CONFIG_MISMATCH: it is {kind}, and the members here are not"
        return None

    # -- taking ------------------------------------------------------------------------------------------------------

    async def _fetch(self, parts: Sequence[int], *, ahead: bool) -> None:
        """One lease for each who waits: so many messages at most. `ahead`: who will wait."""
        from replica.services.proxies.far_manager import MastershipEnded  # and a client, which most never need

        member, kept = self.member, self._kept()
        if kept is None:  # it has gone since it was looked at
            self._fetching = None
            return
        has_none = member.state == HEARD and not member.heads
        waits = has_none and not ahead and kept.manager.under_way < POLLS_MAX
        if not has_none and member.state != LATE:
            member.set(ASKED)
        self._all_taken, self._asked_ms = False, monotonic_ms()
        late = asyncio.get_running_loop().call_later(LATE_MS / 1000, self._on_late)
        if has_none:
            late.cancel()
        try:
            if waits:  # whoever waits besides is asked for once there is something
                parts = parts[:1]
            asked = [self._dequeue(kept, most, WAIT_S if waits else 0.0) for most in parts]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            self._on_answers(kept, answers, sum(parts), polls=has_none and not waits and not ahead)
        except MastershipEnded:
            return
        finally:
            late.cancel()
            self._fetching = None
        if not self._is_closed:
            self.far.pump({self.macro.queue_id})
            self.far.wake()

    def _on_answers(
        self, kept: KeptProxy, answers: Sequence[Sequence[FarRun] | BaseException], most: int, *, polls: bool
    ) -> None:
        """What came is kept, whatever became of the other calls. In the order in which the leases were made there."""
        failures = [each for each in answers if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, TandemqError):
                raise failure
        leases = sorted((each for each in answers if not isinstance(each, BaseException)), key=_lease_of)
        if leases:
            self._on_runs([run for runs in leases for run in runs], most, polls=polls)
        for failure in failures[:1]:
            assert isinstance(failure, TandemqError), "looked at above"
            self._on_failed(kept, failure)

    async def _dequeue(self, kept: KeptProxy, most: int, wait_s: float) -> Sequence[FarRun]:
        request = DequeueRequest(
            queue=self._target.queue,
            request_id=random_bytes(16),
            max_messages=most,
            settle_mode=SETTLE_MODE_LEASE,
            lease_duration=_duration(HEAD_MS),
            client_id=self._client_id,
            format=DELIVERY_FORMAT_SEGMENTS,
        )
        if wait_s:
            request.wait.CopyFrom(_duration(round(1000 * wait_s)))
        reply: DequeueResponse = await self._ask(kept, DEQUEUE, request, DequeueResponse, CALL_S + wait_s, wait_s)
        try:
            runs = runs_of(reply)
        except UnsoundError as error:
            raise self._nonsense(str(error)) from error
        if count_of(runs) > most:
            raise self._nonsense("more messages than were asked for")
        if not self.member.heads:  # else the older ones are renewed first, and these with them
            self._leased_ms = monotonic_ms()
        return runs

    async def _ask(
        self,
        kept: KeptProxy,
        path: str,
        request: DequeueRequest | SettleRequest,
        reply: type[DequeueResponse | SettleResponse],
        total_s: float,
        wait_s: float = 0.0,
    ) -> Any:
        kept.standing.calls += 1
        passage = Passage(1, kept.manager.manager)
        data = request.SerializeToString()
        return await kept.manager.ask(path, data, reply, self._target.queue, passage, total_s, wait_s)

    def _nonsense(self, what: str) -> TandemqError:
        """What another manager says may stop this member in nothing."""
        return error_of("MANAGER_UNREACHABLE", f"{self.member.target} has sent {what}").in_doubt()

    def _on_late(self) -> None:
        if self.member.is_awaited:
            self.member.set(LATE, LATE_TEXT)
            self.far.pump({self.macro.queue_id})

    def _on_failed(self, kept: KeptProxy, error: TandemqError) -> None:
        self._again_ms = monotonic_ms() + AGAIN_MS
        why = f"{error.reason}: {error.message}"
        kept.manager.doubt(kept.standing)  # its queue may be gone, and another one be there under its name before long
        if error.definite:
            self._refusal, self._again_ms = why, monotonic_ms() + POLL_MS
            self.member.set(AWAY, why)
            return
        self.member.set(LATE, why)

    def _on_runs(self, runs: Sequence[FarRun], most: int, *, polls: bool) -> None:
        self._refusal = ""
        if self._is_closed:
            return
        if self._is_left:
            self.member.back.extend(runs)
            self._see_to_leases(monotonic_ms())
            return
        self.member.set(HEARD)
        self._all_taken = count_of(runs) == most
        self.member.keep(runs)
        if polls and not runs:
            self._again_ms = monotonic_ms() + POLL_MS

    # -- leases ------------------------------------------------------------------------------------------------------

    def _give_back(self) -> None:
        if self.member.heads:
            self._window, self._all_taken = 1, False
            self.member.give_back()

    def _see_to_leases(self, now_ms: int) -> None:
        member = self.member
        renews = bool(member.heads) and now_ms - self._leased_ms >= RENEW_MS
        later = (renews or self.member.back) and now_ms >= self._settle_again_ms
        if (later or member.claims) and self._settling is None and not self._is_closed:
            self._settling = self.far.members.node.spawn(self._settle(renews=renews))
        if self._acks.waiting and self._settling is None and self._acking is None and not self._is_closed:
            self._acking = self.far.members.node.spawn(self._settle_acks())

    def gather(self, settlements: Sequence[Settlement]) -> Acked:
        """See AckGatherer."""
        done = self._acks.add(settlements)
        self.far.wake()
        return done

    async def _settle_acks(self) -> None:
        try:
            await self._settled([])
        finally:
            self._acking = None
        self.far.wake()

    def _parts(self, *, renews: bool) -> list[_Part]:
        """What one call is about: consumers first, then heads that wait, then what goes back."""
        parts: list[_Part] = []
        claims = self.member.claims
        machine = self.far.domain.shared.machine
        own_ms = machine.lease_ms(self.macro.name) if machine is not None else 0
        while claims and len(parts) < SETTLEMENTS_MAX:
            claim = claims.popleft()
            if claim.consumer.waiter.cancelled:
                self.member.back.extend(claim.lease.runs)
                continue
            (part,) = settlements_of(claim.lease.runs, OUTCOME_EXTEND)
            if extension_ms := claim.consumer.duration_ms or own_ms:
                part.extension.CopyFrom(_duration(extension_ms))
            parts.append(_Part(part, claim.lease.runs, claim))
        if renews:
            self._window, self._all_taken = 1, False
            if self.member.holder is not None:  # their lease is a consumer's too, and ends when his part does
                self.member.give_back()
            for part in settlements_of(self.member.heads, OUTCOME_EXTEND):
                part.extension.CopyFrom(_duration(HEAD_MS))
                parts.append(_Part(part, [run for run in self.member.heads if run.lease_id == part.lease_id], None))
        back, self.member.back = self.member.back, []
        returned = settlements_of(back, OUTCOME_RELEASE)
        parts += [_Part(part, [run for run in back if run.lease_id == part.lease_id], None) for part in returned]
        return parts

    async def _settle(self, *, renews: bool) -> None:
        asked_ms = monotonic_ms()
        try:
            if await self._settled(self._parts(renews=renews)) and renews:
                self._leased_ms = asked_ms
        finally:
            self._settling = None
        if not self._is_closed:
            self.far.pump({self.macro.queue_id})
            self.far.wake()

    async def _settled(self, parts: Sequence[_Part]) -> bool:
        """One call about these, which carries what streams have acknowledged meanwhile. True: it was answered."""
        from replica.services.proxies.far_manager import MastershipEnded  # as above

        kept, acks = self._kept(), self._acks.take(SETTLEMENTS_MAX - len(parts))
        settlements = [*(part.settlement for part in parts), *(one for each in acks for one in each.settlements)]
        try:
            if kept is None or kept.standing.state == FAILED:
                self._on_unsettled(parts)
            elif settlements:
                request = SettleRequest(queue=self._target.queue, request_id=random_bytes(16), settlements=settlements)
                reply: SettleResponse = await self._ask(kept, SETTLE, request, SettleResponse, CLAIM_S)
                if len(reply.results) != len(settlements):
                    raise self._nonsense(f"{len(reply.results)} results for {len(settlements)} settlements")
                for part, result in zip(parts, reply.results, strict=False):  # behind them is what was carried
                    self._on_settled(part, result)
                answer(acks, iter(reply.results[len(parts) :]))
                return True
        except MastershipEnded:
            return False
        except TandemqError as error:
            assert kept is not None, "nobody else is asked"
            if not error.definite:
                kept.manager.doubt(kept.standing)
            self._on_unsettled(parts)
            if error.definite and not error.retryable:
                self.member.back.clear()  # there is no such queue, or nothing of it is given to this manager
        finally:
            in_doubt(acks)
        return False

    def _on_settled(self, part: _Part, result: SettleResult) -> None:
        refused = [(each.first, each.count) for each in result.refused]
        is_lost = result.HasField("error") and not refused
        if part.claim is not None:
            self._deliver(part.claim, [] if is_lost else left_of(part.runs, refused))
        elif part.settlement.outcome == OUTCOME_EXTEND:
            self.member.drop(part.settlement.lease_id, None if is_lost else refused)

    def _on_unsettled(self, parts: Sequence[_Part]) -> None:
        """Nobody has said what became of the leases: no consumer gets anything, and what may be held goes back."""
        for part in parts:
            if part.claim is not None:
                self._deliver(part.claim, [])
                self.member.back.extend(part.runs)
            elif part.settlement.outcome == OUTCOME_RELEASE:
                self.member.back.extend(part.runs)
        self._give_back()
        self._settle_again_ms = monotonic_ms() + AGAIN_MS
        while count_of(self.member.back) > 2 * WINDOW_MAX:
            del self.member.back[0]  # the older ones return when their leases end

    def _deliver(self, claim: FarClaim, runs: Sequence[FarRun]) -> None:
        """These are leased to the consumer as long as it may have them; the others of its claim are lost to it."""
        far, consumer, member = self.far, claim.consumer, self.member
        lost = claim.lease.size - count_of(runs)
        member.count(returned=lost)
        if far.members.is_late() or not far.domain.mastership.commit.can_read or consumer.waiter.cancelled:
            self.member.back.extend(runs)
            return
        if lost and not consumer.one_shot:
            far.domain.consumers.take_back(consumer, lost)
        if runs:
            lease = claim.lease._replace(runs=runs)
            member.count(delivered=lease.size)
            if consumer.one_shot:
                consumer.waiter.answer(lease)
            else:
                consumer.waiter.deliver(lease)
        elif consumer.one_shot:
            consumer.waiter.answer(Moved(f"{member.target} has given these messages to others; repeat the call"))


def parts_of(wanted: Sequence[int], most: int) -> list[int]:
    """Messages of one lease for each who waits, most of `most` together. A lease has one holder (M7)."""
    parts: list[int] = []
    for each in wanted[:CALLS_AT_ONCE]:
        if most > 0:
            parts.append(min(each, most))
            most -= parts[-1]
    return parts


def _lease_of(runs: Sequence[FarRun]) -> int:
    return runs[0].lease_id if runs else 0


def _duration(ms: int) -> Duration:
    made = Duration()
    made.FromMilliseconds(ms)
    return made
