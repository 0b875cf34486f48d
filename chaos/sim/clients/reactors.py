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
from chaos.sim.pair.books import Asked
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel, Change, MoveTo
from tandemq.errors import LeaseLost, TandemqError, UnitAborted

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
VERBS: Mapping[str, Cancel | MoveTo | Change] = MappingProxyType(
    {"cancel": Cancel(), "move": MoveTo(ASIDE), "change": Change(properties={"changed": True}, priority=9)}
)


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
            await self._react(client, call)
            only = str(call.args.get("again", ""))
            if self.at in self.answers and only:
                asked = client if only == "here" else self.connect(only)
                await self._react(asked, call)
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
                VERBS[call.kind],
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

    async def _react(self, client: aio.Client, call: Call) -> None:
        name = self._name_of_call()
        kept_ms = int(str(call.args.get("kept_ms", 0)))
        asked = Asked(str(call.args["line"]), bool(call.args["everything"]), call.kind)
        self.book.wishes.reactions[name] = asked
        try:
            done = await client.react(
                self.queue,
                Where(group_id=asked.line),
                VERBS[asked.verb],
                everything=asked.everything,
                sticky=timedelta(milliseconds=kept_ms) if kept_ms else None,
                request_id=name,
            )
        except TandemqError as error:
            self.expects(error)
            return
        answer = (done.outcome, *done[1:6])
        before = self.answers.setdefault(self.at, answer)
        if before != answer:
            text = f"{self.plan.name} was answered {before}, and {answer} when it asked again"
            self.run.violation("one effect and one answer", text)
        self.book.wishes.reacted[name] = done.applied
