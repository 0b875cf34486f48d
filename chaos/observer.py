"""Watches a pair from outside, each process for itself, and writes down what it says; it changes nothing.

Every member is asked what it is, and beside that a question that only a master answers, so that a second master would
be seen even if it did not call itself one. The register is read at the witness, past any relay.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import grpc.aio

from chaos.history import Answered, History, Recorded, Seen
from chaos.pair import Pair
from tandemq.credentials.chosen import opener_of
from tandemq.v1 import common_pb2, pair_service_pb2, pair_service_pb2_grpc
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_admin_service_pb2_grpc as admin_grpc
from tandemq.witness.v1 import witness_service_pb2 as witness
from tandemq.witness.v1 import witness_service_pb2_grpc as witness_grpc

DOMAIN = "main"
LOOK_S = 0.05
ANSWER_S = 1.0
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
)

Look = Callable[[grpc.aio.Channel], Awaitable[None]]


class Observer:
    """Fills a history while `watching`. `began_s` is the zero of its times, on the monotonic clock."""

    def __init__(self, cluster: Pair, history: History) -> None:
        self.began_s = time.monotonic()
        self._cluster, self._history = cluster, history
        self._open = opener_of(cluster.credentials)

    @property
    def now_s(self) -> float:
        return time.monotonic() - self.began_s

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Looks at everybody every 50 ms; a process that does not answer delays no other look."""
        witness = self._cluster.witness_endpoint
        looks: list[tuple[str, Look]] = []
        if witness:
            looks += [(witness, self._read_register), (witness, self._watch_register)]
        for name in self._cluster.members:
            looks += [(self._cluster.endpoint(name), look) for look in (self._see(name), self._ask)]
        tasks = [asyncio.create_task(self._again(endpoint, look)) for endpoint, look in looks]
        tasks.append(asyncio.create_task(self._stay_awake()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for error in ended:
                if isinstance(error, Exception):
                    raise error

    async def last_look(self) -> None:
        """One more look at everybody, now: what the end of the run is judged by."""
        for name in self._cluster.members:
            await self._once(self._cluster.endpoint(name), self._see(name))
        if self._cluster.witness_endpoint:
            await self._once(self._cluster.witness_endpoint, self._read_register)

    async def _once(self, endpoint: str, look: Look) -> None:
        async with self._open(endpoint, _OPTIONS) as channel:
            await look(channel)

    async def _again(self, endpoint: str, look: Look) -> None:
        async with self._open(endpoint, _OPTIONS) as channel:
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError):  # no answer says nothing
                    await look(channel)
                await asyncio.sleep(LOOK_S)

    async def _stay_awake(self) -> None:
        """Writes down that it is at work: where this stops nobody looked, and no answer is missing there."""
        while True:
            self._history.awake.append(self.now_s)
            await asyncio.sleep(LOOK_S)

    def _see(self, name: str) -> Look:
        async def see(channel: grpc.aio.Channel) -> None:
            asked_s = self.now_s
            stub = pair_service_pb2_grpc.PairServiceStub(channel)
            answer = await stub.GetPairStatus(pair_service_pb2.GetPairStatusRequest(), timeout=ANSWER_S)
            state = next((domain for domain in answer.member.domains if domain.name == DOMAIN), None)
            if state is not None:
                self._history.seen.append(
                    Seen(
                        asked_s,
                        self.now_s,
                        name,
                        answer.member.instance_id,
                        answer.member.incarnation,
                        common_pb2.Role.Name(state.role).removeprefix("ROLE_"),
                        common_pb2.DataState.Name(state.data_state).removeprefix("DATA_STATE_"),
                        state.epoch,
                        state.log_index,
                        state.digest,
                        state.state_digest,
                        state.parked,
                        answer.member.peer_connected,
                        answer.member.witness_connected,
                    )
                )

        return see

    async def _ask(self, channel: grpc.aio.Channel) -> None:
        # Only a master answers it, and it waits for no commit: those take as long as the link to the peer does.
        asked_s = self.now_s
        stub = admin_grpc.QueueAdminServiceStub(channel)
        header = (await stub.GetDefaults(admin.GetDefaultsRequest(domain=DOMAIN), timeout=ANSWER_S)).header
        self._history.answered.append(Answered(asked_s, self.now_s, header.member, header.epoch))

    async def _read_register(self, channel: grpc.aio.Channel) -> None:
        asked_s = self.now_s
        stub = witness_grpc.WitnessServiceStub(channel)
        request = witness.GetRegisterRequest(pair=self._cluster.pair, domain=DOMAIN)
        self._record(asked_s, (await stub.GetRegister(request, timeout=ANSWER_S)).register)

    async def _watch_register(self, channel: grpc.aio.Channel) -> None:
        """Every change, also one that is in force for less time than lies between two looks."""
        stub = witness_grpc.WitnessServiceStub(channel)
        async for response in stub.WatchRegister(witness.WatchRegisterRequest(pair=self._cluster.pair, domain=DOMAIN)):
            self._record(0.0, response.register)  # true at some time before now: nobody asked

    def _record(self, asked_s: float, register: witness.Register) -> None:
        committed = register.state == witness.REGISTER_STATE_COMMITTED
        in_sync = tuple(register.in_sync_set)
        self._history.recorded.append(
            Recorded(asked_s, self.now_s, register.version, register.epoch, register.holder, in_sync, committed)
        )
