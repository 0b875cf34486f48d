"""A simulated administrator of macro queues: closes one member at a time and opens it again, takes members out of a
macro queue and puts them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.clients.base import SimClient, number_of
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from tandemq import aio


class Shuffler(SimClient):
    """One call after the other; what it died over it does once more."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            member, macro = str(call.args["member"]), str(call.args.get("macro", ""))
            try:
                match call.kind:
                    case "close":
                        await client.close_queue(member)
                    case "open":
                        await client.open_queue(member)
                    case "remove":
                        await client.remove_macro_member(macro, member)
                    case _:
                        await client.add_macro_member(macro, member, priority=number_of(call, "priority"))
            except TandemqError as error:
                # It had done so, and died before it was answered.
                if error.reason not in ("INVALID_STATE", "QUEUE_NOT_FOUND", "CONFIG_ERROR"):
                    raise
            self.at += 1
