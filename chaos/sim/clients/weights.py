"""Simulated publishers of one table of routing weights, who also read it: what each was answered goes into
`Memory.weights`, which `chaos.sim.judges.weights` judges when the run is over.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.sim.clients.base import QUEUE, SimClient, number_of
from chaos.sim.judges.weights import Asked, Kind
from chaos.sim.pair.plan import Call, ClientPlan, Value
from failover.gate import MASTERS
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from tandemq import aio

TABLE = "shares"
DOMAIN = "main"
VALID = timedelta(days=1)
REFUSED = frozenset({"VERSION_MISMATCH", "WEIGHTS_NOT_FOUND"})
"""What a publisher hears when another one was faster."""
WEIGHERS, CALLS_EACH = 3, 12
KINDS = ("publish", "publish", "publish", "read", "read", "delete")
DEATH_SHARE = 0.25


class Weigher(SimClient):
    """Reads the table, and publishes another one in its place, or deletes it, by the version that it has read."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            only = str(call.args.get("via", ""))
            asked = self.connect(only) if only else client
            version = await self._read(asked)
            if call.kind != "read":
                await asyncio.sleep(number_of(call, "hold_ms") / 1000)  # what it is computed from
                await asyncio.gather(self._change(asked, call, version), self._look(asked, call))
            if asked is not client:
                await asked.close()
            self.at += 1

    async def _look(self, client: aio.Client, call: Call) -> None:
        """Somebody who routes reads while the change is under way."""
        if "look_ms" in call.args:
            await asyncio.sleep(number_of(call, "look_ms") / 1000)
            await self._read(client)

    async def _read(self, client: aio.Client) -> int:
        asked = self._asks(Kind.READ)
        asked.may_be_old = self._may_be_old(client)
        try:
            table = await client.get_weights(TABLE)
        except TandemqError as error:
            self.expects(error)
            asked.ends(self.now_s, 0)
            return 0
        asked.by = table.published_by
        asked.ends(self.now_s, table.version, self.epoch)
        self.answered(asked.asked_s)
        return table.version

    async def _change(self, client: aio.Client, call: Call, version: int) -> None:
        asked = self._asks(Kind.PUBLISH if call.kind == "publish" else Kind.DELETE, version)
        try:
            if asked.kind is Kind.PUBLISH:
                done = await client.publish_weights(
                    TABLE, {QUEUE: 1.0}, valid_for=VALID, expected_version=version, published_by=asked.by
                )
                asked.ends(self.now_s, done.version, self.epoch)
                self.run.count("weights published")
            else:
                await client.delete_weights(TABLE, expected_version=version)
                asked.ends(self.now_s, 0)
        except TandemqError as error:
            self.expects(error)
            if error.definite:
                asked.refused = True
                self.run.count("weights refused")
                self.run.sometimes("a stale publisher of weights refused")

    def _may_be_old(self, client: aio.Client) -> bool:
        """A member that was replaced does not know it yet, and this client names no epoch from which it would."""
        domains = [member.domain for member in self.pair.members.values()]
        masters = {each.shared.state.epoch for each in domains if each is not None and each.shared.role in MASTERS}
        return len(masters) > 1 and client.epoch(DOMAIN) < max(masters)

    @property
    def epoch(self) -> int:
        """Of the master that gave the last answer."""
        return self.header.epoch if self.header is not None else 0

    def _asks(self, kind: Kind, expected: int = 0) -> Asked:
        """Before the call: whoever dies in it leaves it open."""
        events = self.memory.weights
        asked = Asked(kind, self.now_s, by=f"{self.plan.name}/{len(events)}", expected=expected)
        events.append(asked)
        return asked

    def expects(self, error: TandemqError) -> None:
        if error.reason not in REFUSED:
            super().expects(error)


def draw_weights(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    found = []
    for number in range(WEIGHERS):
        calls = []
        for _ in range(CALLS_EACH):
            args: dict[str, Value] = {"hold_ms": stream.choice((0, 5, 50, 300)), "via": stream.choice(("", "a", "b"))}
            if stream.random() < 0.7:
                args["look_ms"] = stream.choice((1, 1, 20))
            calls.append(Call(stream.randrange(safety_ms), stream.choice(KINDS), args))
        if stream.random() < DEATH_SHARE:
            calls.append(Call(stream.randrange(safety_ms), "die", {"down_ms": stream.choice((5, 100, 1_500))}))
        calls.sort(key=lambda call: call.at_ms)
        first: dict[str, Value] = {"first": stream.choice("ab"), "follow": stream.random() < 0.7}
        found.append(ClientPlan(f"weigher{number}", "weigher", tuple(calls), first))
    if handoffs or stream.random() < 0.5:
        times = sorted(stream.randrange(safety_ms) for _ in range(handoffs or 2))
        orders = [Call(at_ms, "handoff", {"via": stream.choice(("a", "b")), "dry_run": False}) for at_ms in times]
        found.append(ClientPlan("admin0", "admin", tuple(orders), {"first": "a", "follow": True}))
    return tuple(found)
