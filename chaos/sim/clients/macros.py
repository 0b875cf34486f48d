"""A simulated administrator of macro queues: closes one member at a time and opens it again, takes members out of a
macro queue and puts them back, publishes tables of weights.
"""

from __future__ import annotations

from datetime import timedelta
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
            member, macro = str(call.args.get("member", "")), str(call.args.get("macro", ""))
            try:
                match call.kind:
                    case "close":
                        await client.close_queue(member)
                    case "open":
                        await client.open_queue(member)
                    case "weigh":
                        names, weights = str(call.args["members"]).split(), str(call.args["weights"]).split()
                        table = dict(zip(names, map(float, weights), strict=True))
                        if any(table.values()):
                            valid_for = timedelta(milliseconds=number_of(call, "valid_ms"))
                            await client.publish_weights(macro, table, valid_for=valid_for)
                    case "remove":
                        await client.remove_macro_member(macro, member)
                    case _:
                        await client.add_macro_member(macro, member, priority=number_of(call, "priority"))
            except TandemqError as error:
                # It had done so, and died before it was answered.
                if error.reason not in ("INVALID_STATE", "QUEUE_NOT_FOUND", "CONFIG_ERROR"):
                    raise
            self.at += 1
