"""Keeps what queues of other managers have for the macro queues that they are members of (M7): their heads, which are
leased there, and how each of them stands. Never leases or settles: that is the shell's, by calls to those managers.

Of the serving master alone, and no part of the state: a head that is forgotten here returns to its queue by itself.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from replica.core.state.effects import AskFar
from replica.core.state.far_runs import FarRun, Gone, count_of
from replica.core.state.outcomes import FarLease
from replica.machine.plan.fan_in import FarHead
from tandemq.far_leases import far_lease
from tandemq.v1 import macro_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from replica.core.state.calls import Consumer
    from replica.core.state.effects import FarShell
    from replica.core.state.far_runs import Range
    from replica.core.state.shared import Shared
    from replica.machine.state.macros import MacroQueue
    from replica.machine.state.state import State

IDLE, ASKED, HEARD = pb.FAR_STATE_UNSPECIFIED, pb.FAR_STATE_ASKED, pb.FAR_STATE_HEARD
LATE, AWAY, MISFIT = pb.FAR_STATE_LATE, pb.FAR_STATE_AWAY, pb.FAR_STATE_MISFIT
HEAD_MS = 5_000
"""How long a head is leased there."""
CLAIM_BYTES_MAX = 2 << 20
"""Payload bytes of one delivery: bounds a frame, as those of a lease here."""


class FarClaim(NamedTuple):
    """What a consumer is to get, once its lease there lasts as long as the consumer may have it."""

    consumer: Consumer
    lease: FarLease


class FarMember:
    """A queue of another manager, as a member of one macro queue."""

    def __init__(self, proxy_id: int, name: str, target: str, totals: Counter[str]) -> None:
        """`name`: of its proxy; `target`: //manager/queue; `totals`: of all members together."""
        self.proxy_id, self.name, self.target = proxy_id, name, target
        self._totals = totals
        self.state: pb.FarState = IDLE
        self.why = ""
        self.heads: deque[FarRun] = deque()
        """In the order in which its queue gave them. To read only."""
        self.held = 0
        """Messages of them."""
        self._alike = 0
        """Those in front of one age and lease, which may be given together; 0: they have not been counted."""
        self.claims: deque[FarClaim] = deque()
        """For the shell."""
        self.back: list[FarRun] = []
        """For the shell: nobody takes them."""
        self.holder: tuple[int, Consumer] | None = None
        """The lease of the first heads, of which somebody was given a part already, and who."""
        self.delivered = self.returned = 0

    def head(self) -> FarHead | None:
        """What it would give next; None: nothing, or nobody knows."""
        if not self.heads:
            return FarHead(self.proxy_id, 0, 0, 0) if self.is_awaited else None
        first = self.heads[0]
        if not self._alike:  # counted once, and not at each choice
            self._alike = count_of(takewhile(lambda run: _is_like(run, first), self.heads))
        return FarHead(self.proxy_id, *first.age, self._alike)

    def keep(self, runs: Iterable[FarRun]) -> None:
        """They are leased there for a consumer here, behind what is there already."""
        self.heads.extend(runs)
        self._counted()

    def _counted(self) -> None:
        """The heads are others now."""
        self.held, self._alike = count_of(self.heads), 0

    @property
    def is_awaited(self) -> bool:
        """It has not said yet whether it has something: whoever the policy puts behind it waits a moment."""
        return not self.heads and self.state in (IDLE, ASKED)

    def gives_to(self, consumer: Consumer) -> bool:
        """Whether its first heads may be his. A lease has one end and so one holder: where another one has a part of
        it, what is left goes back, and is leased anew.
        """
        if self.holder is None or self.holder[0] != self.heads[0].lease_id or self.holder[1] is consumer:
            return True
        self.give_back()
        return False

    def give_back(self) -> None:
        """What it has is for nobody, and as it was."""
        self.holder = None
        if self.heads:
            self.count(returned=self.held)
            self.back.extend(self.heads)
            self.heads.clear()
            self._counted()
            if self.state == HEARD:
                self.state = IDLE  # what it has then nobody knows

    def set(self, state: pb.FarState, why: str = "") -> bool:
        """True: it stood otherwise before."""
        was, self.state, self.why = (self.state, self.why), state, why
        return was != (state, why)

    def count(self, *, delivered: int = 0, returned: int = 0) -> None:
        """So many messages went out, or back."""
        self.delivered += delivered
        self.returned += returned
        self._totals.update(delivered=delivered, returned=returned)

    def take(self, most: int, bytes_max: int) -> tuple[FarRun, ...]:
        """Its next messages, of one lease; at least one."""
        taken, lease_id, room_bytes = list[FarRun](), self.heads[0].lease_id, bytes_max
        while most > 0 and self.heads and self.heads[0].lease_id == lease_id:
            run = self.heads.popleft()
            count, size = run.fits(most, room_bytes)
            if not taken:
                count = max(1, count)
            if count < run.size:
                if count:
                    run, left = run.split(count)
                    taken.append(run)
                else:
                    left = run
                self.heads.appendleft(left)
                break
            taken.append(run)
            most, room_bytes = most - count, room_bytes - size
        gone = count_of(taken)
        self.held, self._alike = self.held - gone, max(0, self._alike - gone)
        if not self.heads and self.state == HEARD:
            self.state = IDLE  # whether there are more nobody knows
        return tuple(taken)

    def drop(self, lease_id: int, gone: Sequence[Range] | None) -> int:
        """These (first index, count) are leased there no more, or all of that lease; how many of them were here."""
        left, was, lost = list[FarRun](), self.held, Gone(gone or ())
        for run in self.heads:
            if run.lease_id != lease_id:
                left.append(run)
            elif gone is not None:
                left += run.without(lost)
        self.heads = deque(left)
        self._counted()
        self.count(returned=was - self.held)
        if not self.heads and self.state == HEARD:
            self.state = IDLE
        return was - self.held


class FarHeads:
    """Of the macro queues of one domain."""

    def __init__(self, shared: Shared, waiting_at: Callable[[int], list[Consumer]]) -> None:
        """`waiting_at`: the consumers at a macro queue, in the order of their turns."""
        self._shared, self._waiting_at = shared, waiting_at
        self.shell: FarShell | None = None
        """None: there is nobody who could ask them, and they are passed over."""
        self.macros: dict[int, dict[int, FarMember]] = {}
        self.totals = Counter[str](delivered=0, returned=0)
        """Messages by what became of them, since this member started."""
        self._seen: dict[int, int] = {}
        self._turns: dict[int, tuple[int, int]] = {}

    def of(self, state: State, macro: MacroQueue) -> Mapping[int, FarMember]:
        """Its members at other managers, by the number of the proxy, in the order of adding."""
        if self.shell is None or not state.proxies.by_id:
            return {}
        if self._seen.get(macro.queue_id) != macro.version:
            self._seen[macro.queue_id] = macro.version
            known = self.macros.get(macro.queue_id, {})
            proxies = state.proxies.by_id
            self.macros[macro.queue_id] = {
                each: known.get(each) or FarMember(each, proxies[each].name, proxies[each].target, self.totals)
                for each in macro.members
                if each in proxies
            }
        return self.macros[macro.queue_id]

    def states(self) -> Counter[pb.FarState]:
        """How many members stand how."""
        return Counter(each.state for members in tuple(self.macros.values()) for each in tuple(members.values()))

    def credits_of(self, macro_id: int) -> list[int]:
        """Messages that each consumer at a macro queue can take now, in the order of their turns."""
        return [each.credit_messages for each in self._waiting_at(macro_id) if each.credit_messages > 0]

    def next_of(self, macro_id: int) -> list[int]:
        """Messages that each stream which has had something by other managers may want next."""
        return [each.took for each in self._waiting_at(macro_id) if each.took and not each.one_shot]

    def credit(self, macro_id: int) -> int:
        """Messages that all consumers at a macro queue can take now."""
        return sum(self.credits_of(macro_id))

    def wake(self) -> None:
        """The shell has something to do."""
        if self.shell is not None:
            self._shared.outbox.add(AskFar(self.shell))

    def last(self, macro: MacroQueue) -> int:
        """The member that gave something last. Those at other managers are known to this master alone."""
        known, proxy_id = self._turns.get(macro.queue_id, (0, 0))
        return proxy_id if proxy_id and known == macro.last else macro.last

    def gave_here(self, macro: MacroQueue) -> None:
        """A member of this domain has the turn behind it."""
        self._turns.pop(macro.queue_id, None)

    def give(self, macro: MacroQueue, member: FarMember, consumer: Consumer, most: int) -> FarLease:
        """Its next messages, on their way to the consumer: they go out when the shell says that they may."""
        size = min(consumer.credit_bytes, CLAIM_BYTES_MAX)
        runs = member.take(min(consumer.credit_messages, most or consumer.credit_messages), size)
        consumer.took_from_afar(count_of(runs))
        self._turns[macro.queue_id] = macro.last, member.proxy_id
        is_left = bool(member.heads) and member.heads[0].lease_id == runs[0].lease_id
        member.holder = (runs[0].lease_id, consumer) if is_left else None
        if is_left and self._is_short(macro, consumer):
            member.give_back()  # it would end before somebody wants the rest
        lease = FarLease(macro.queue_id, member.proxy_id, member.name, far_lease(runs[0].lease_id), runs)
        member.claims.append(FarClaim(consumer, lease))
        self.wake()
        return lease

    def _is_short(self, macro: MacroQueue, consumer: Consumer) -> bool:
        """Whether his lease may end before that of a head would."""
        machine = self._shared.machine
        duration_ms = consumer.duration_ms or (machine.lease_ms(macro.name) if machine is not None else 0)
        return 0 < duration_ms < HEAD_MS

    def drop(self, macro_id: int) -> None:
        """That macro queue is deleted."""
        for kept in (self.macros, self._seen, self._turns):
            kept.pop(macro_id, None)

    def forget(self) -> None:
        """This member serves no more, or begins to: what it held returns by itself."""
        self.macros.clear()
        self._seen.clear()
        self._turns.clear()


def _is_like(run: FarRun, first: FarRun) -> bool:
    return run.lease_id == first.lease_id and run.age == first.age
