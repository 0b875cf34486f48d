"""A simulated client that cancels, moves and changes messages of a group that nobody has taken yet.

Some of its reactions are kept for a while, some are parts of units of work, and it repeats its calls.
`chaos.sim.judges.reactions` judges what came of it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from chaos.sim.clients.base import SimClient
from chaos.sim.judges.reactions import ASK
from chaos.sim.kernel.asked import NAME
from chaos.sim.pair.books import Asked
from tandemq.client.calls import QUEUE_SERVICE
from tandemq.client.filtering import Where
from tandemq.client.reactions import (
    Action,
    Cancel,
    Change,
    Custom,
    Exceptions,
    MoveTo,
    Reacted,
    reacted_of,
    to_reaction,
)
from tandemq.errors import LeaseLost, TandemqError, UnitAborted
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_service_pb2 import EnqueueRequest, EnqueueResponse

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio

ASIDE = "m"
"""Where it moves messages."""
UNIT_ENDS: Mapping[str, str] = MappingProxyType(
    {
        "commit": "a reaction in a unit that its commit carried out",
        "rollback": "a reaction in a unit that was rolled back",
        "leave": "a reaction in a unit that was left to its deadline",
    }
)
ENDS = ("commit", "rollback", "commit", "leave")
UNIT_VERBS: Mapping[str, Cancel | MoveTo | Change] = MappingProxyType(
    {"cancel": Cancel(), "move": MoveTo(ASIDE), "change": Change(properties={"changed": True}, priority=9)}
)
VERBS: Mapping[str, Action] = MappingProxyType({**UNIT_VERBS, ASK: Custom(NAME)})


class Reactor(SimClient):
    """One call after the other, each under an id that it keeps over its deaths."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.answers: dict[int, tuple[int, ...]] = {}
        """The first answer to each."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            drawn = self._drawn(call)
            if drawn[0] % 4 == 0:
                await self._react_in_unit(client, call, ENDS[drawn[1] % len(ENDS)], drawn[2] / 100)
                self.at += 1
                continue
            verb, by_enqueue = call.kind, drawn[4] % 3 == 0
            if drawn[3] % 4 == 0 and "kept_ms" not in call.args:
                verb = ASK
            more = (ASIDE,) if verb in ("cancel", "change") and not by_enqueue and drawn[5] % 2 == 0 else ()
            await self._react(client, call, verb, by_enqueue=by_enqueue, more=more)
            only = str(call.args.get("again", ""))
            if self.at in self.answers and only:
                asked = client if only == "here" else self.connect(only)
                await self._react(asked, call, verb, by_enqueue=by_enqueue, more=more)
                if asked is not client:
                    await asked.close()
                self.run.sometimes("a reaction repeated after its answer, at either member")
            self.at += 1

    def _name_of_call(self) -> bytes:
        return hashlib.blake2b(f"reaction {self.plan.name}/{self.at}".encode(), digest_size=16).digest()

    def _drawn(self, call: Call) -> bytes:
        """Of the call: another one of another run, which has the same place, is another."""
        said = f"{self.plan.name}/{self.at} {call.kind} {sorted(call.args.items())} {call.at_ms}"
        return hashlib.blake2b(said.encode(), digest_size=16).digest()

    async def _react_in_unit(self, client: aio.Client, call: Call, end: str, hold_s: float) -> None:
        """What it finds is locked for a while; the judges follow the log."""
        kept_ms = int(str(call.args.get("kept_ms", 0)))
        unit = client.unit(timeout=timedelta(seconds=5))
        try:
            done = await unit.react(
                self.queue,
                Where(group_id=str(call.args["line"])),
                UNIT_VERBS[call.kind],
                everything=bool(call.args["everything"]),
                sticky=timedelta(milliseconds=kept_ms) if kept_ms else None,
            )
            await asyncio.sleep(hold_s)
            if end == "commit":
                await unit.commit()
            elif end == "rollback":
                await unit.rollback()
            if done.held:
                self.run.sometimes(UNIT_ENDS[end])
        except (UnitAborted, LeaseLost) as ended:
            if unit.id and (ended.definite or isinstance(ended, LeaseLost)):
                self.memory.units.aborted.add(unit.id)
        except TandemqError as error:
            self.expects(error)

    async def _react(
        self, client: aio.Client, call: Call, verb: str, *, by_enqueue: bool, more: tuple[str, ...]
    ) -> None:
        name = self._name_of_call()
        kept_ms = int(str(call.args.get("kept_ms", 0)))
        asked = Asked(str(call.args["line"]), bool(call.args["everything"]), verb)
        queues = (self.queue, *more)
        for queue in queues:
            self.run.books[queue].wishes.reactions[name] = asked
        sticky = timedelta(milliseconds=kept_ms) if kept_ms else None
        try:
            if by_enqueue:
                done = await self._send_reactive(client, name, asked, sticky)
                self.run.sometimes("a reactive message was sent by Enqueue")
            else:
                done = await client.react(
                    queues,
                    Where(group_id=asked.line),
                    VERBS[asked.verb],
                    everything=asked.everything,
                    sticky=sticky,
                    request_id=name,
                )
        except TandemqError as error:
            self.expects(error)
            return
        answer = (done.outcome, *done[1:6], *(home.applied for home in done.homes))
        before = self.answers.setdefault(self.at, answer)
        if before != answer:
            text = f"{self.plan.name} was answered {before}, and {answer} when it asked again"
            self.run.violation("one effect and one answer", text)
        counts = [home.applied for home in done.homes] if more else [done.applied]
        for queue, applied in zip(queues, counts, strict=True):
            self.run.books[queue].wishes.reacted[name] = applied

    async def _send_reactive(self, client: aio.Client, name: bytes, asked: Asked, sticky: timedelta | None) -> Reacted:
        """V2."""
        reaction = to_reaction(
            Where(group_id=asked.line),
            VERBS[asked.verb],
            everything=asked.everything,
            sticky=sticky,
            report_to="",
            correlation_id="",
            exceptions=Exceptions.NONE,
        )
        request = EnqueueRequest(request_id=name, queue=self.queue, messages=[Message()], reaction=reaction)
        done = await client.links.own.caller.call(QUEUE_SERVICE + "Enqueue", request, EnqueueResponse, queue=self.queue)
        return reacted_of(done.reacted)
