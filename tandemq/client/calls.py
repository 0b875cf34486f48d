"""Decides when a call or a stream is attempted again; carries out what `tandemq.retry` says, with tenacity.

It never changes a request: the identity inside it is what makes repeating safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.asyncio import AsyncRetrying as _AsyncRetrying
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from tandemq import ambient, retry, seen
from tandemq.client.members import Members
from tandemq.errors import TandemqError, TimedOut, Unavailable, Unreachable, error_of, from_rpc_error

Reply = TypeVar("Reply", bound=Message)
Told: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata of a call."""
QUEUE_SERVICE = "/tandemq.v1.QueueService/"
ADMIN_SERVICE = "/tandemq.v1.QueueAdminService/"
MANAGER_SERVICE = "/tandemq.v1.ManagerAdminService/"
PAIR_SERVICE = "/tandemq.v1.PairService/"
BATCH_SERVICE = "/tandemq.v1.BatchService/"
JOURNAL_SERVICE = "/tandemq.v1.JournalService/"
STAGE_SERVICE = "/tandemq.v1.StageService/"
MACRO_SERVICE = "/tandemq.v1.MacroService/"
PROXY_SERVICE = "/tandemq.v1.ProxyService/"
REACTION_SERVICE = "/tandemq.v1.ReactionService/"
TRANSACTION_SERVICE = "/tandemq.v1.TransactionService/"
WEIGHTS_SERVICE = "/tandemq.v1.WeightsService/"
RIGHTS_SERVICE = "/tandemq.v1.RightsService/"


def unreadable(endpoint: str, path: str) -> TandemqError:
    """Of an answer for which gRPC gives None, as its bytes are no message of that call: what was done, nobody knows."""
    return error_of("INTERNAL", f"{endpoint} has answered {path} with what nobody can read; look at what answers there")


class Moved(Unavailable):
    """A member named another one; nothing was applied. Stays inside the client."""

    def __init__(self, master: str, message: str = "") -> None:
        super().__init__("NOT_MASTER", message, {"master": master} if master else None, definite=True, retryable=True)


class Attempts:
    """Where the next attempt goes and when the last one is over; counts anew after each sign of progress."""

    def __init__(self, members: Members, policy: retry.Policy, domain: str = "", since: float | None = None) -> None:
        """`since`: when its caller began to wait, in seconds of the loop; None: now."""
        self._members = members
        self.policy = policy
        self.domain = domain
        self.failures = 0
        self.in_doubt = False  # an attempt since the last progress may have been executed
        self.last_error: TandemqError | None = None
        self.found_nobody = False  # an attempt since the last progress did not get a connection, or lost it
        self.refusal: TandemqError | None = None  # the last word of a server since the last progress
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time() if since is None else since
        self._next: retry.Attempt | None = None
        self._redirected = False
        self.endpoint = retry.first_endpoint(members.endpoints(domain), members.master(domain))

    async def located(self) -> str:
        """Where the attempt goes that begins now; a manager that is known by name only is looked up first."""
        members = self._members
        if members.whereabouts is not None:
            try:
                async with asyncio.timeout(self.remaining_s):
                    await members.located()
            except TimeoutError as error:
                last = f"; last: {self.last_error.message}" if self.last_error is not None else ""
                raise error_of(
                    "MANAGER_UNREACHABLE", f"it was not found out in time where the manager is{last}"
                ) from error
            if self.endpoint not in members.endpoints(self.domain):
                self.endpoint = retry.first_endpoint(members.named, members.master(self.domain))
        return self.endpoint

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.policy.total_s - (self._loop.time() - self._started))

    def progress(self) -> None:
        """Something was answered, or nothing is wanted: the deadline begins anew."""
        self.failures = 0
        self.in_doubt = self._redirected = self.found_nobody = False
        self.last_error = self.refusal = None
        self._started = self._loop.time()

    def prefer_master(self, master: str) -> None:
        """Raises Moved when an opened stream leads to a replica and its master has not been tried yet."""
        if master and master != self.endpoint and self._members.master(self.domain) == master and not self._redirected:
            self._redirected = True
            raise Moved(master, f"{self.endpoint} is not the master")

    def retrying(self) -> _AsyncRetrying:
        """Each attempt of the loop is to use `endpoint` as it is then."""
        return AsyncRetrying(
            retry=retry_if_exception(self._is_worthwhile), wait=_Wait(self), stop=_Stop(self), reraise=True
        )

    def _is_worthwhile(self, error: BaseException) -> bool:
        return isinstance(error, TandemqError) and retry.failure_of(error) is not None

    def failed(self, error: TandemqError) -> float:
        """Notes a failure and moves on; the delay before the next attempt."""
        failure = retry.failure_of(error)
        assert failure is not None, "tenacity asks only about worthwhile failures"
        self.failures += 1
        self.last_error = error
        self.found_nobody = self.found_nobody or isinstance(error, Unreachable)
        self.in_doubt = self.in_doubt or not error.definite
        if failure.kind is not retry.Kind.AWAY:  # who named another member refused nothing
            self.refusal = error if failure.kind is retry.Kind.NOT_YET else None
        if failure.kind is retry.Kind.AWAY and self._members.whereabouts is not None:
            self._members.whereabouts.doubt()
        self._next = retry.next_attempt(
            self.policy,
            self._members.endpoints(self.domain),
            self.endpoint,
            failure,
            failures=self.failures,
            elapsed_s=self._loop.time() - self._started,
            jitter=ambient.fraction(),
        )
        if self._next is None:
            return 0.0
        self.endpoint = self._next.endpoint
        return self._next.delay_s

    @property
    def exhausted(self) -> bool:
        return self._next is None


class _Wait(wait_base):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __call__(self, retry_state: RetryCallState) -> float:
        assert retry_state.outcome is not None
        error = retry_state.outcome.exception()
        assert isinstance(error, TandemqError)
        return self._attempts.failed(error)


class _Stop(stop_base):
    """Asked after the wait: tenacity decides on the pause first, then whether there is one more attempt."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __call__(self, retry_state: RetryCallState) -> bool:  # noqa: ARG002 - tenacity's interface
        return self._attempts.exhausted


class Caller:
    """Unary calls of one client. Repeats them, unchanged, until they are answered, refused for good, or out of time."""

    def __init__(self, members: Members, policy: retry.Policy) -> None:
        self.members = members
        self.policy = policy
        # Set for who may be asked about full names: the caller of the manager, the request it reads, the name there.
        self.elsewhere: Callable[[Message, str], tuple[Caller, Message, str]] | None = None

    async def call(
        self,
        path: str,
        request: Message,
        reply: type[Reply],
        *,
        queue: str = "",
        wait: timedelta | None = None,
        domain: str = "",
        since: float | None = None,
        beside: Told = (),
    ) -> Reply:
        """The answer. `queue` says whose master is asked first, and by a full name which manager, or `domain` does;
        `wait` is time that the call itself may take; `since`, in seconds of the loop, when its caller began to wait
        (None: now); `beside`, metadata of each attempt."""
        if queue.startswith("//") and self.elsewhere is not None:
            caller, local, relative = self.elsewhere(request, queue)
            return await caller.call(path, local, reply, queue=relative, wait=wait, since=since)
        wait_s = wait.total_seconds() if wait is not None else 0.0
        policy = retry.Policy(
            self.policy.total_s + wait_s,
            self.policy.attempt_s + wait_s,
            self.policy.delay_first_s,
            self.policy.delay_max_s,
        )
        attempts = Attempts(self.members, policy, domain or self.members.masters.domain_of(queue) or "main", since)
        try:
            # Most calls are answered at once: only the first failure is tenacity's, which costs as much as the call.
            answer = await self._attempt(attempts, path, request, reply, beside)
        except TandemqError as failure:
            answer = await self._go_on(attempts, failure, path, request, reply, beside)
        header = getattr(answer, "header", None)
        if header is not None:
            self.members.learn(header, queue)
        return answer

    async def _attempt(
        self, attempts: Attempts, path: str, request: Message, reply: type[Reply], beside: Told
    ) -> Reply:
        endpoint = attempts.endpoint if self.members.whereabouts is None else await attempts.located()
        timeout_s = min(attempts.policy.attempt_s, attempts.remaining_s)
        metadata = beside
        if "epoch" not in request.DESCRIPTOR.fields_by_name:
            metadata += seen.told(attempts.domain, self.members.masters.epoch(attempts.domain))
        return await self.once(endpoint, path, request, reply, timeout_s, metadata)

    async def _go_on(
        self, attempts: Attempts, failure: TandemqError, path: str, request: Message, reply: type[Reply], beside: Told
    ) -> Reply:
        """After the first attempt, which ended in that failure."""
        answer: Reply | None = None
        first: TandemqError | None = failure
        try:
            async for attempt in attempts.retrying():
                with attempt:
                    if first is not None:
                        failed, first = first, None
                        raise failed
                    answer = await self._attempt(attempts, path, request, reply, beside)
        except TandemqError as found:
            error = await self.members.explained(found, found_nobody=attempts.found_nobody)
            if isinstance(error, TimedOut) and attempts.refusal is not None:
                raise attempts.refusal.in_doubt() from error  # why there was no answer, not that there was none
            if attempts.in_doubt and error.definite:
                raise error.in_doubt() from error
            if error is not found:
                raise error from found
            raise
        assert answer is not None
        return answer

    async def once(
        self, endpoint: str, path: str, request: Message, reply: type[Reply], timeout_s: float, metadata: Told = ()
    ) -> Reply:
        """One attempt at one endpoint. `metadata` goes beside the request."""
        method: Any = self.members.channel(endpoint).unary_unary(
            path, request_serializer=type(request).SerializeToString, response_deserializer=reply.FromString
        )
        try:
            answer: Reply | None = await method(request, timeout=timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        if answer is None:
            raise unreadable(endpoint, path)
        return answer

    async def stream(
        self, endpoint: str, path: str, request: Message, reply: type[Reply], timeout_s: float | None
    ) -> AsyncGenerator[Reply, None]:
        """The answers of one server stream at one endpoint; no attempt is repeated here."""
        method: Any = self.members.channel(endpoint).unary_stream(
            path, request_serializer=type(request).SerializeToString, response_deserializer=reply.FromString
        )
        call = method(request, timeout=timeout_s)
        try:
            async for answer in call:
                if answer is None:
                    raise unreadable(endpoint, path)
                yield answer
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        finally:
            call.cancel()
