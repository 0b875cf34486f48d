"""A simulated pair as the steps see one: the product's own managers on virtual time, in this process."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc.aio
from google.protobuf.message import Message as Proto

from chaos.sim.faults.table import heal_all, strike
from chaos.sim.kernel.rpc import Channel
from chaos.sim.pair.member import endpoint_of
from chaos.sim.pair.plan import Fault as SimFault
from chaos.sim.pair.plan import Plan, Value
from chaos.sim.tools.product import silence
from chaos.sim.world.world import MEMBERS, TURN_S, World
from tandemq import ambient, retry
from tandemq.client.calls import PAIR_SERVICE, Caller
from tandemq.client.members import Members
from tandemq.errors import TandemqError
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1.queue_admin_service_pb2 import QueueInfo
from tests.support.listed.steps import Fault

CLIENT = "client"
CALL_S, WHOLE_S = 30.0, 30.0
POLICY = retry.Policy(total_s=CALL_S, attempt_s=2.0)


class Simulated:
    """See Driver."""

    calm_ms, struck_ms, late_ms = 400, 4_500, 3_000

    def __init__(self, world: World) -> None:
        self.world = world
        self.process = world.pair.run.process(CLIENT, world.plan.stream(CLIENT))
        network = world.pair.run.network
        self.callers = {
            first: Caller(
                Members(
                    tuple(endpoint_of(name) for name in sorted(MEMBERS, key=lambda name: name != first)),
                    follow_master=False,
                    open_channel=lambda address, _options: Channel(network, CLIENT, address),  # type: ignore[arg-type,return-value]  # in its shape
                ),
                POLICY,
            )
            for first in MEMBERS
        }
        self.orders = 0
        """To hand over, that are not answered yet: the pair may be whole before they begin to act."""

    def now_ms(self) -> float:
        """See Driver."""
        return self.world.loop.now * 1000

    def ask(self, via: str, path: str, request: Proto, reply: type[Proto]) -> Proto:
        """See Driver."""
        loop = self.world.loop
        answers: list[Proto | TandemqError] = []

        async def call() -> None:
            try:
                answers.append(await self.callers[via].call(path, request, reply))
            except TandemqError as error:
                answers.append(error)
            loop.halt()

        loop.spawn(self.process, call())
        loop.run(loop.now + CALL_S + 1)
        self._check()
        if not answers:
            raise AssertionError(f"no answer within {CALL_S} s; {self.world.describe()}")
        (answer,) = answers
        if isinstance(answer, TandemqError):
            raise answer
        return answer

    def strike(self, fault: Fault) -> None:
        """See Driver."""
        loop = self.world.loop
        loop.at(loop.now + fault.after_us / 1e6, None, self._strike, fault)

    def _strike(self, fault: Fault) -> None:
        world = self.world
        masters = [name for name, member in world.pair.members.items() if member.is_serving]
        master = masters[0] if masters else MEMBERS[0]
        replica = next(name for name in MEMBERS if name != master)
        args: dict[str, Value]
        match fault.kind.split():
            case ["kill", role]:
                kind, args = "crash", {"down_ms": fault.for_ms, "power": False}
            case ["pause", role]:
                kind, args = "pause", {"for_ms": fault.for_ms}
            case ["stop", role]:
                kind, args = "stop", {"within_ms": 300, "down_ms": fault.for_ms}
            case ["cut"]:
                for target in (f"{master}>{replica}", f"{replica}>{master}"):
                    strike(world.pair, SimFault(0, "cut", target, {"for_ms": fault.for_ms}))
                return
            case _:
                assert fault.kind == "hand over"
                self.orders += 1
                world.loop.spawn(self.process, self._hand_over(master))
                return
        strike(world.pair, SimFault(0, kind, master if role == "master" else replica, args))

    async def _hand_over(self, via: str) -> None:
        channel = Channel(self.world.pair.run.network, CLIENT, endpoint_of(via))
        ask = channel.unary_unary(
            PAIR_SERVICE + "Handoff",
            request_serializer=pair.HandoffRequest.SerializeToString,
            response_deserializer=pair.HandoffResponse.FromString,
        )
        with contextlib.suppress(grpc.aio.AioRpcError):
            await ask(pair.HandoffRequest(reason="a step"), timeout=5.0)
        await channel.close()
        self.orders -= 1

    def calm(self) -> None:
        """See Driver."""
        world = self.world
        world.loop.run(world.loop.now + 0.005)  # what was to strike has struck
        heal_all(world.pair)
        for member in world.pair.members.values():
            member.start_if_down()
        assert self.wait_for(lambda: not self.orders, WHOLE_S * 1000), "an order to hand over has no answer"
        assert self.wait_for(world.pair.is_whole, WHOLE_S * 1000), f"not whole: {world.describe()}"
        assert self.wait_for(world.pair.is_equal, 5_000), f"the copies differ: {world.describe()}"

    def pass_to(self, now_ms: float) -> None:
        """See Driver."""
        self.world.loop.run(now_ms / 1000)
        self._check()

    def wait_for(self, holds: Callable[[], bool], within_ms: float) -> bool:
        """See Driver."""
        loop = self.world.loop
        end_s = loop.now + within_ms / 1000
        while not holds():
            if loop.now >= end_s:
                return False
            loop.run(loop.now + TURN_S)
        self._check()
        return True

    def look(self, names: Sequence[str]) -> dict[str, QueueInfo]:
        """See Driver. Past the calls, which take longer."""
        found: dict[str, QueueInfo] = {}
        for member in self.world.pair.members.values():
            machine: Any = member.domain.shared.machine if member.is_serving and member.domain is not None else None
            for name in names if machine is not None else ():
                if machine.queue_id(name) is not None:
                    found[name] = machine.queue_info(name, member.name)
        return found

    def _check(self) -> None:
        world = self.world
        assert not world.outcome.violations, world.outcome.violations
        assert not world.loop.problems, world.loop.problems


@contextlib.contextmanager
def simulated(seed: int = 0) -> Iterator[Simulated]:
    """A pair that is whole."""
    world = World(Plan(seed, "listed", safety_ms=10**9))
    collecting = gc.isenabled()
    gc.disable()  # as in `World.run`
    ambient.install(world.pair.run.ambient)
    try:
        with silence():
            for member in world.pair.members.values():
                member.start()
            driver = Simulated(world)
            assert driver.wait_for(world.pair.is_whole, 10_000), world.describe()
            yield driver
    finally:
        world.loop.bury()
        ambient.install(ambient.MACHINE)
        if collecting:
            gc.enable()
