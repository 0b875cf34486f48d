"""Settles, by the name of a macro queue, what members of it at other managers gave: there, once, over the failovers of
both pairs. What members of this domain gave is settled as ever.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, Moved, SettleDone
from replica.machine import SettleCall
from replica.machine.features.proxies import target_of
from replica.machine.plan.members import proxy_member
from replica.services.answers import FutureWaiter
from replica.services.passage import Passage
from replica.services.proxies.far_acks import are_acks
from replica.services.proxies.refusing import in_own_words, lost
from replica.services.proxies.standing import FAILED
from replica.services.proxies.ways import CALL_S
from tandemq.ambient import random_bytes
from tandemq.errors import TandemqError, error_of
from tandemq.far_leases import is_far, lease_there
from tandemq.peer.v1.peer_service_pb2 import MESSAGE_CODE_DEQUEUE_REQ
from tandemq.v1.common_pb2 import Error, Reason
from tandemq.v1.queue_service_pb2 import Settlement, SettleRequest, SettleResponse, SettleResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from replica.core.domain import Domain
    from replica.core.state.calls import Waiter
    from replica.node.members import Members
    from replica.services.proxies.kept import KeptProxies, KeptProxy

    Settled = SettleDone | Failed | Moved
    Here = Callable[[Sequence[Settlement]], Awaitable[Settled]]

SETTLE = "QueueService/Settle"
FRAMES_MAX = 100
"""Settle frames of one stream that wait for other managers."""


def any_far(settlements: Iterable[Settlement]) -> bool:
    """Whether one of them is about a lease of another manager."""
    return any(is_far(each.lease_id) for each in settlements)


class FarSettling:
    """Of one member."""

    def __init__(self, members: Members, keeper: KeptProxies) -> None:
        self.members, self._keeper = members, keeper

    async def settle(
        self, domain: Domain, queue: str, settlements: Sequence[Settlement], request_id: bytes, here: Here
    ) -> Settled:
        """One result a settlement, in order. `here`: settles those of this domain, by an identity of its own. Refused
        where a manager does not answer: what the others have done they find again when the call is repeated.
        `request_id`: empty, nobody repeats it, and acknowledgements may go together with others.
        """
        own = [place for place, each in enumerate(settlements) if not is_far(each.lease_id)]
        results: list[SettleResult] = [SettleResult()] * len(settlements)
        duplicate = False
        if own:
            done = await here([settlements[place] for place in own])
            if not isinstance(done, SettleDone):
                return done
            duplicate = done.duplicate
            for place, result in zip(own, done.results, strict=True):
                results[place] = result
        by_proxy: dict[str, list[int]] = {}
        for place, each in enumerate(settlements):
            if is_far(each.lease_id):
                by_proxy.setdefault(self._proxy_of(domain, queue, each), []).append(place)
        for place in by_proxy.pop("", ()):
            results[place] = _unknown(settlements[place], queue)
        asked = [
            self._there(domain, queue, name, [settlements[place] for place in places], request_id)
            for name, places in by_proxy.items()
        ]
        for places, answer in zip(by_proxy.values(), await asyncio.gather(*asked), strict=True):
            if isinstance(answer, (Failed, Moved)):
                return answer
            for place, result in zip(places, answer, strict=True):
                results[place] = result
        return SettleDone(results, duplicate)

    def _proxy_of(self, domain: Domain, queue: str, settlement: Settlement) -> str:
        """Empty: it is no member of that macro queue, whose consumers have no say in others; or nobody knows which."""
        machine = domain.shared.machine
        macro = machine.state.macros.by_name.get(queue) if machine is not None else None
        if machine is None or macro is None:
            return ""
        if settlement.queue:
            proxy = proxy_member(machine.state, macro, settlement.queue)
            return proxy.name if proxy is not None else ""
        proxies = [each for each in macro.members if each in machine.state.proxies.by_id]
        return machine.state.proxies.by_id[proxies[0]].name if len(proxies) == 1 else ""

    async def _there(
        self, domain: Domain, macro: str, name: str, settlements: Sequence[Settlement], request_id: bytes
    ) -> Sequence[SettleResult] | Failed | Moved:
        from replica.services.proxies.far_manager import MastershipEnded  # and a client, which most never need

        kept = self._keeper.of(domain, name)
        if kept is None:
            return Moved("the mastership moved; repeat the call")
        if kept.standing.state == FAILED:
            return lost(kept)
        if not request_id and (gathered := await self._gathered(domain, macro, name, settlements)) is not None:
            return gathered
        kept.standing.calls += 1
        request = _request(kept, settlements, request_id or random_bytes(16))
        passage = Passage(1, kept.manager.manager)
        try:
            reply = await kept.manager.ask(
                SETTLE, request.SerializeToString(), SettleResponse, request.queue, passage, CALL_S, 0.0
            )
        except MastershipEnded:
            return Moved("the mastership moved while the manager of a member was asked; repeat the call")
        except TandemqError as error:
            if not error.definite:
                kept.manager.doubt(kept.standing)
            return in_own_words(kept, error, MESSAGE_CODE_DEQUEUE_REQ)
        if (moved := self._moved(domain)) is not None:
            return moved
        found: Sequence[SettleResult] = reply.results
        if len(found) != len(settlements):
            text = f"{len(found)} results for {len(settlements)} settlements"
            return in_own_words(kept, error_of("MANAGER_UNREACHABLE", text).in_doubt(), MESSAGE_CODE_DEQUEUE_REQ)
        return found

    async def _gathered(
        self, domain: Domain, macro: str, name: str, settlements: Sequence[Settlement]
    ) -> Sequence[SettleResult] | Moved | None:
        """By a call that carries those of others too. None: they may not go so, or nobody knows what became of them."""
        gatherer = self._keeper.gatherer(domain, macro, name)
        if gatherer is None or not are_acks(settlements):
            return None
        results = await gatherer.gather([_as_there(each) for each in settlements])
        return self._moved(domain) or results

    def _moved(self, domain: Domain) -> Moved | None:
        if self.members.is_late() or not domain.mastership.commit.can_read:
            return Moved("the mastership moved, or may have; repeat the call")
        return None


class FarFrames:
    """What one stream settles at other managers: each frame is answered when all of it is done, and holds up no other
    one.
    """

    def __init__(self, settling: FarSettling | None, domain: Domain) -> None:
        """`settling`: None, the stream is of no macro queue."""
        self._settling, self._domain = settling, domain
        self._tasks: set[asyncio.Task[None]] = set()

    async def settle(self, call: SettleCall, waiter: Waiter) -> None:
        """Begins it. The stream is read no further while FRAMES_MAX of its frames are unanswered."""
        while len(self._tasks) >= FRAMES_MAX:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._settle(call, waiter))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Nobody waits for an answer any more."""
        for task in self._tasks:
            task.cancel()

    async def _settle(self, call: SettleCall, waiter: Waiter) -> None:
        async def here(own: Sequence[Settlement]) -> Settled:
            node = self._settling_or_fail.members.node
            done = FutureWaiter()
            self._domain.submit(PendingCall(done, SettleCall(call.queue, own)), node.clock.now_ms())
            node.dispatch(self._domain)
            result = await done.future
            assert isinstance(result, (SettleDone, Failed, Moved))
            return result

        settling = self._settling_or_fail
        waiter.answer(await settling.settle(self._domain, call.queue, call.settlements, b"", here))

    @property
    def _settling_or_fail(self) -> FarSettling:
        assert self._settling is not None, "the lease of another manager on a stream of this domain's own"
        return self._settling


def _request(kept: KeptProxy, settlements: Sequence[Settlement], request_id: bytes) -> SettleRequest:
    """`request_id`: of the caller. Each member is asked by one made of that and its own name, so that a repetition is
    one there, however many members a call is about.
    """
    made = hashlib.blake2b(request_id, digest_size=16, person=b"tq-far-settle", salt=_salt(kept)).digest()
    queue, settlements = target_of(kept.standing.proxy).queue, [_as_there(each) for each in settlements]
    return SettleRequest(queue=queue, request_id=made, settlements=settlements)


def _as_there(settlement: Settlement) -> Settlement:
    made = Settlement()
    made.CopyFrom(settlement)
    made.lease_id = lease_there(settlement.lease_id)
    made.ClearField("queue")
    return made


def _salt(kept: KeptProxy) -> bytes:
    return hashlib.blake2b(kept.standing.proxy.target.encode(), digest_size=16).digest()


def _unknown(settlement: Settlement, name: str) -> SettleResult:
    text = (
        f"lease {settlement.lease_id} is of no member of macro queue {name}: its proxy is no member any more, or there "
        "are several and it is not named; name the queue that the delivery named"
    )
    return SettleResult(error=Error(reason=Reason.REASON_LEASE_LOST, message=text), refused=settlement.ranges)
