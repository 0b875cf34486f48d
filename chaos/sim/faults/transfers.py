"""Kinds of fault about full transfers: an operator orders one (`tandemq pair resync --full`), and the register comes
back in the middle of one. They are drawn by a profile of their own.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import grpc

from chaos.sim.faults.disks import _has_whole_peer
from chaos.sim.faults.kinds import MEMBERS, Drawn
from chaos.sim.faults.machines import _after, _spread
from chaos.sim.kernel.rpc import Channel
from chaos.sim.pair.member import endpoint_of
from tandemq.client.calls import PAIR_SERVICE
from tandemq.errors import from_rpc_error
from tandemq.v1 import pair_service_pb2

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault

ASKED_S = 8.0


class Resync:
    """An operator has a member take everything anew, whatever it is just then; twice in a row now and then."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"times": stream.choice((1, 1, 2))}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        if not pair.members[fault.target].up:
            return False
        name = f"operator {fault.at_ms}"
        process = pair.run.process(name, pair.run.plan.stream(name))

        async def ask() -> None:
            channel = Channel(pair.run.network, name, endpoint_of(fault.target))
            call = channel.unary_unary(
                PAIR_SERVICE + "Resync",
                request_serializer=pair_service_pb2.ResyncRequest.SerializeToString,
                response_deserializer=pair_service_pb2.ResyncResponse.FromString,
            )
            try:
                await call(pair_service_pb2.ResyncRequest(full=True, reason="the plan"), timeout=ASKED_S)
                pair.run.count("resyncs ordered")
            except grpc.aio.AioRpcError as error:
                pair.run.count(f"resync refused.{from_rpc_error(error).reason}")
            finally:
                await channel.close()

        for _ in range(int(fault.args["times"])):
            pair.run.loop.spawn(process, ask())
        return True


class HalfFilled:
    """A replica comes back empty while its master cannot reach the register, which is back before it is full."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"up_to_ms": _spread(stream, 3, 30), "within_ms": _spread(stream, 1, 5)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = pair.members[fault.target]
        master = pair.members[member.peer]
        if not pair.is_whole() or not master.is_serving or not _has_whole_peer(pair, member):
            return False
        master.route.cut()
        member.kill(silently=True)
        member.machine.disk.strike("lost")
        pair.run.is_harmed = True
        member.machine.salvaged.clear()
        member.start()
        slow = pair.run.network.direction(master.name, member.name)
        slow.hostile_s = float(fault.args["up_to_ms"]) / 1000
        until_s = pair.run.loop.now + 1.5

        def heal() -> None:
            master.route.heal()
            slow.hostile_s = 0.0

        def look() -> None:
            if pair.run.healed:
                return
            if (master.domain is not None and master.domain.source.filling) or pair.run.loop.now >= until_s:
                _after(pair, fault, "within_ms", heal)
            else:
                pair.run.loop.at(pair.run.loop.now + 0.0003, None, look)

        look()
        return True
