"""Reaches one other manager for all proxies here that lead to it: one client, which follows that pair's takeovers.

A watch opens each proxy, and notices when it is lost. It decides nothing about a call.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from replica.core.ordering.far_depths import FarDepth
from replica.machine.features.proxies import target_of
from replica.node.members import MAIN
from replica.services.forward import QUERY
from replica.services.passage import Passage
from replica.services.proxies.standing import LOOK_MS, ProxyFault, ProxyStanding, goes_with, misfit, unreadable, why_of
from replica.services.proxies.ways import ATTEMPT_S, CALL_S, GET_QUEUE
from tandemq import aio, retry
from tandemq.ambient import monotonic_ms
from tandemq.client.calls import Attempts
from tandemq.errors import TandemqError, error_of, from_rpc_error
from tandemq.finding.target import Target
from tandemq.peer.v1.peer_service_pb2 import MESSAGE_CODE_ERROR_ACK, MESSAGE_CODE_OPEN_ACK, MESSAGE_CODE_OPEN_REQ
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_admin_service_pb2 import GetQueueRequest, GetQueueResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.operations.reports import Reports
    from tandemq.finding.resolver import Resolver

log = logging.getLogger("tandemq.proxies")

ROUND = 50
"""Proxies that are looked at in one turn."""


class MastershipEnded(Exception):  # noqa: N818 - no fault: the mastership here has gone
    """Whoever serves now repeats the call."""


class FarManager:
    """One manager that proxies of one domain lead to, while this member is master of that domain."""

    def __init__(
        self, members: Members, reports: Reports, domain: Domain, manager: str, resolvers: Sequence[Resolver]
    ) -> None:
        self.members, self.reports, self.domain, self.manager = members, reports, domain, manager
        self.proxies: dict[int, ProxyStanding] = {}
        self._found: dict[int, FarDepth] = {}
        """By proxy, the one that was looked at last behind the others."""
        self.under_way = 0
        self.client = aio.Client(
            Target((), "a proxy", manager=manager),
            retry.Policy(total_s=CALL_S, attempt_s=ATTEMPT_S),
            open_channel=members.open,
            resolvers=resolvers,
        )
        self._wake = asyncio.Event()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once it is closed."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Opens what is added, and looks at it now and then."""
        self._task = self.members.node.spawn(self._run())

    def add(self, standing: ProxyStanding) -> None:
        """It is opened at once."""
        self.proxies[standing.proxy.queue_id] = standing
        self._wake.set()

    def drop(self, proxy_id: int) -> None:
        """It is gone."""
        self._see(self.proxies.pop(proxy_id), None)

    def _see(self, standing: ProxyStanding, found: FarDepth | None) -> None:
        """What one proxy knows of its queue; None: nothing any more. Others may lead there that expect another queue:
        it is away where it is for all of them.
        """
        target, depths = standing.proxy.target, self.domain.orders.steering.far.seen
        self._found.pop(standing.proxy.queue_id, None)
        if found is not None:
            self._found[standing.proxy.queue_id] = found  # behind those that are older
        there = [each for number, each in self._found.items() if self._leads(number, target)]
        depths.pop(target, None)
        if there:
            depths[target] = next((each for each in reversed(there) if not each.why), there[-1])

    def _leads(self, proxy_id: int, target: str) -> bool:
        standing = self.proxies.get(proxy_id)
        return standing is not None and standing.proxy.target == target

    def close(self) -> None:
        """Nothing is asked any more: what is under way ends, and the connections are let go of."""
        if not self.over.done():
            self.over.set_result(None)
        if self._task is not None:
            self._task.cancel()
        for standing in self.proxies.values():
            self._see(standing, None)

    def doubt(self, standing: ProxyStanding) -> None:
        """A call through it has ended without an answer."""
        standing.doubt(monotonic_ms())
        self._wake.set()

    def strange(self, error: TandemqError) -> TandemqError:
        """Another manager answers at an address of this one (WRONG_PAIR): the proxies fail by that, and to a caller it
        is this manager that is away.
        """
        now_ms = monotonic_ms()
        for standing in self.proxies.values():
            standing.doubt(now_ms)
        self._wake.set()
        away = error_of("MANAGER_UNREACHABLE", error.message, error.metadata)
        return away if error.definite else away.in_doubt()

    # -- asking ------------------------------------------------------------------------------------------------------

    async def ask(
        self, path: str, data: bytes, reply: type[Message], queue: str, passage: Passage, total_s: float, wait_s: float
    ) -> Any:
        """The answer of that manager to a call with an identity, which is repeated over its takeovers. `wait_s`: of
        `total_s`, what the call itself may wait. Raises TandemqError, and MastershipEnded when this is closed.
        """
        work = asyncio.create_task(self._asked(path, data, reply, queue, passage, total_s, wait_s))
        self.under_way += 1
        try:
            await asyncio.wait((work, self.over), return_when=asyncio.FIRST_COMPLETED)
            if self.over.done():
                raise MastershipEnded
            return work.result()
        except TandemqError as error:
            if error.reason == "WRONG_PAIR":
                raise self.strange(error) from error
            raise
        finally:
            self.under_way -= 1
            work.cancel()

    async def _asked(
        self, path: str, data: bytes, reply: type[Message], queue: str, passage: Passage, total_s: float, wait_s: float
    ) -> Any:
        link = self.client.links.own
        policy = retry.Policy(total_s=max(0.001, total_s), attempt_s=ATTEMPT_S + wait_s)
        attempts = Attempts(link.members, policy, link.members.masters.domain_of(queue) or MAIN)
        answer: Any = None
        try:
            async for attempt in attempts.retrying():
                with attempt:
                    answer = await self._once(attempts, path, data, reply, passage)
        except TandemqError as error:
            if attempts.in_doubt and error.definite:
                raise error.in_doubt() from error
            raise
        link.members.learn(answer.header, queue)
        return answer

    async def _once(self, attempts: Attempts, path: str, data: bytes, reply: type[Message], passage: Passage) -> Any:
        endpoint = await attempts.located()
        call: Any = self.client.links.own.members.channel(endpoint).unary_unary(QUERY + path)
        timeout_s = min(attempts.policy.attempt_s, attempts.remaining_s)
        try:
            answer: Any = reply.FromString(await call(data, timeout=timeout_s, metadata=passage.metadata()))
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except DecodeError as error:
            raise unreadable(endpoint).in_doubt() from error
        if answer.header.pair != self.manager:
            text = f"{endpoint} is {answer.header.pair}, and not {self.manager}; correct where {self.manager} is"
            raise error_of("WRONG_PAIR", text, {"expected": self.manager, "pair": answer.header.pair})
        return answer

    # -- opening -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        async with self.client:
            while True:
                self._wake.clear()
                try:
                    async with asyncio.timeout(await self._turn()):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _turn(self) -> float:
        """Looks at those that are due; seconds until the next one is."""
        now_ms = monotonic_ms()
        due = sorted((each for each in self.proxies.values() if each.due_ms <= now_ms), key=lambda each: each.due_ms)
        for standing in due[:ROUND]:
            if (away := await self._look_at(standing)) is not None:
                self._lose_others(standing, away)
                break
        now_ms = monotonic_ms()
        next_ms = min((each.due_ms for each in self.proxies.values()), default=now_ms + LOOK_MS)
        return max(0.01, (next_ms - now_ms) / 1000)

    async def _look_at(self, standing: ProxyStanding) -> TandemqError | None:
        """RQP_OPEN_REQ. An error: the manager does not answer, or not for the domain that the queue is in."""
        queue = target_of(standing.proxy).queue
        request = GetQueueRequest(name=queue).SerializeToString()
        log.debug("%d %s", MESSAGE_CODE_OPEN_REQ, standing.proxy.target)
        try:
            found = await self._asked(
                GET_QUEUE, request, GetQueueResponse, queue, Passage(1, self.manager), CALL_S, wait_s=0.0
            )
        except TandemqError as error:
            self._failed(standing, why_of(error))
            return error if error.retryable or error.reason == "WRONG_PAIR" else None
        if not self._keeps(standing):
            return None
        standing.found = found.queue.config
        if (why := misfit(standing.proxy, standing.found)) is not None:
            self._failed(standing, why)
            return None
        self._see(standing, FarDepth(found.queue.length))
        if standing.on_opened(found.header, monotonic_ms()):
            self._note(standing, f"proxy {standing.proxy.name} reaches {standing.proxy.target} again", None)
        log.debug("%d %s", MESSAGE_CODE_OPEN_ACK, standing.proxy.target)
        return None

    def _lose_others(self, lost: ProxyStanding, away: TandemqError) -> None:
        """Nobody there answers: each proxy that goes the same way is lost, and none is asked for one by one."""
        for standing in self.proxies.values():
            if standing is not lost and lost.why is not None and goes_with(standing, lost, away):
                self._failed(standing, lost.why)

    def _failed(self, standing: ProxyStanding, why: ProxyFault) -> None:
        log.debug("%d %s: %s", MESSAGE_CODE_ERROR_ACK, standing.proxy.target, why)
        if not self._keeps(standing):
            return
        self._see(standing, FarDepth(0, str(why)))
        if standing.on_failed(why, monotonic_ms()):
            text = f"proxy {standing.proxy.name} does not reach {standing.proxy.target}: {why}"
            self._note(standing, text, why)

    def _keeps(self, standing: ProxyStanding) -> bool:
        """It has not gone while it was asked for."""
        return self.proxies.get(standing.proxy.queue_id) is standing

    def _note(self, standing: ProxyStanding, text: str, why: ProxyFault | None) -> None:
        facts = {"queue": standing.proxy.name, "target": standing.proxy.target}
        if why is not None:
            facts |= {"reason": why.reason, "message_code": str(int(MESSAGE_CODE_ERROR_ACK))}
        kind = PairEventKind.PAIR_EVENT_KIND_FAULT if why is not None else PairEventKind.PAIR_EVENT_KIND_LINK
        self.reports.note(kind, text, self.domain, facts)
