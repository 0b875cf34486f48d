"""Simulated administrators who grant rights and ask what counts, and somebody who claims to be one of them: what each
was answered goes into `Memory.rights`, which `chaos.sim.judges.rights` judges when the run is over.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.judges.rights import Event, Kind
from chaos.sim.kernel.rpc import Channel
from chaos.sim.pair.plan import Call, ClientPlan, Value
from failover.gate import MASTERS
from tandemq.ambient import random_bytes
from tandemq.errors import from_rpc_error
from tandemq.v1 import rights_service_pb2 as pb

if TYPE_CHECKING:
    from tandemq import aio

WHOSE, RIGHT, DOMAIN = "asker", "produce", "main"
GRANTERS, CALLS_EACH, FORGERIES = 3, 12, 6
DEATH_SHARE, FORGED_S = 0.5, 2.0
CLAIMS = (("x-tandemq-principal", "principal/ops"), ("x-tandemq-hop", "b"))


class Granter(SimClient):
    """Grants one right after the other, none of which is ever taken away, and asks whether they count."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            only = str(call.args.get("via", ""))
            asked = self.connect(only) if only else client
            if call.kind == "ask":
                known = [each.pattern for each in self.memory.rights if each.kind is Kind.GRANT]
                if known:
                    await self._ask(asked, known[number_of(call, "which") % len(known)])
            else:
                pattern = f"{self.plan.name}/{self.at}"
                await asyncio.gather(self._grant(asked, pattern), self._look(call, pattern))
            if asked is not client:
                await asked.close()
            self.at += 1

    async def _grant(self, client: aio.Client, pattern: str) -> None:
        event = self._begins(Kind.GRANT, pattern)
        await client.grant_right(WHOSE, RIGHT, pattern)
        event.ends(self.now_s, allowed=True)
        self.run.sometimes("a right granted")

    async def _look(self, call: Call, pattern: str) -> None:
        """Somebody who asks while the grant is under way, and once more."""
        only = str(call.args["look"])
        client = self.connect(only)
        for name in ("look_ms", "again_ms"):
            await asyncio.sleep(number_of(call, name) / 1000)
            await self._ask(client, pattern)
        await client.close()

    async def _ask(self, client: aio.Client, pattern: str) -> None:
        event = self._begins(Kind.ASK, pattern)
        event.may_be_old = self._may_be_old(client)
        found = await client.check_right(RIGHT, pattern, principal=WHOSE)
        event.epoch = self.header.epoch if self.header is not None else 0
        event.ends(self.now_s, allowed=found.allowed)

    def _may_be_old(self, client: aio.Client) -> bool:
        """See `chaos.sim.clients.weights`."""
        domains = [member.domain for member in self.pair.members.values()]
        masters = {each.shared.state.epoch for each in domains if each is not None and each.shared.role in MASTERS}
        return len(masters) > 1 and client.epoch(DOMAIN) < max(masters)

    def _begins(self, kind: Kind, pattern: str) -> Event:
        event = Event(kind, pattern, self.now_s)
        self.memory.rights.append(event)
        return event


class Forger(SimClient):
    """Has no right at all, says in the metadata of its calls that it is an administrator, and grants itself one."""

    async def work(self, client: aio.Client) -> None:  # noqa: ARG002  # it speaks without the SDK
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            await self._claim(call)
            self.at += 1

    async def _claim(self, call: Call) -> None:
        event = Event(Kind.CLAIM, f"{self.plan.name}/{self.at}", self.now_s)
        request = pb.GrantRightRequest(
            request_id=random_bytes(16), principal="principal/forger", right=pb.RIGHT_PRODUCE, pattern=event.pattern
        )
        channel: Any = Channel(self.run.network, self.plan.name, self.pair.endpoint(str(call.args["via"])))
        grant = channel.unary_unary("/tandemq.v1.RightsService/GrantRight", None, None)
        try:
            await grant(request.SerializeToString(), metadata=CLAIMS, timeout=FORGED_S)
        except grpc.aio.AioRpcError as error:
            if from_rpc_error(error).reason == "PERMISSION_DENIED":
                event.ends(self.now_s, allowed=False)
                self.run.sometimes("a claim to be somebody else refused")
        else:
            event.ends(self.now_s, allowed=True)
        await channel.close()
        self.memory.rights.append(event)


def draw_rights(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    found = []
    for number in range(GRANTERS):
        calls = []
        for _ in range(CALLS_EACH):
            via: Value = stream.choice(("", "a", "b"))
            if stream.random() < 0.4:
                args: dict[str, Value] = {"via": via, "which": stream.randrange(100)}
                calls.append(Call(stream.randrange(safety_ms), "ask", args))
                continue
            args = {"via": via, "look": stream.choice("ab"), "look_ms": stream.choice((1, 2, 20, 100))}
            args["again_ms"] = stream.choice((20, 100, 500))
            calls.append(Call(stream.randrange(safety_ms), "grant", args))
        if stream.random() < DEATH_SHARE:
            calls.append(Call(stream.randrange(safety_ms), "die", {"down_ms": stream.choice((100, 1_500))}))
        calls.sort(key=lambda call: call.at_ms)
        first: dict[str, Value] = {"first": stream.choice("ab"), "follow": stream.random() < 0.7}
        found.append(ClientPlan(f"granter{number}", "granter", tuple(calls), first))
    times = sorted(stream.randrange(safety_ms) for _ in range(FORGERIES))
    forgeries = [Call(at_ms, "claim", {"via": stream.choice("ab")}) for at_ms in times]
    found.append(ClientPlan("forger0", "forger", tuple(forgeries), {"first": "a"}))
    if handoffs or stream.random() < 0.5:
        times = sorted(stream.randrange(safety_ms) for _ in range(handoffs or 2))
        orders = [Call(at_ms, "handoff", {"via": stream.choice(("a", "b")), "dry_run": False}) for at_ms in times]
        found.append(ClientPlan("admin0", "admin", tuple(orders), {"first": "a", "follow": True}))
    return tuple(found)
