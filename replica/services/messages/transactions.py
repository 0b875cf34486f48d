"""The handlers of TransactionService at one member: whole units, several of them, and those that stay open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from replica.rpc.handlers import generic_handler
from replica.rpc.requests import Context
from replica.services.messages.open_units import OpenUnitHandlers
from replica.services.messages.transact import WholeUnits
from replica.services.messages.transact_many import transact_many

if TYPE_CHECKING:
    from replica.node.members import Members

SERVICE = "tandemq.v1.TransactionService"


class TransactionHandlers:
    """Of one manager."""

    def __init__(self, members: Members) -> None:
        self.whole, self.open = WholeUnits(members), OpenUnitHandlers(members)

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        methods = self.open.methods()
        methods["Transact"] = grpc.unary_unary_rpc_method_handler(self.whole.transact)
        methods["TransactMany"] = grpc.unary_unary_rpc_method_handler(self.transact_many)
        return generic_handler(SERVICE, methods)

    async def transact_many(self, request: bytes, context: Context) -> bytes:
        """See TransactionService.TransactMany."""
        return await transact_many(self.whole, request, context)
