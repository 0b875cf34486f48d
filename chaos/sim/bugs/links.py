"""Bugs of what carries messages to another pair; plants them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import replica.core.ordering.orders
import replica.core.ordering.units
import replica.services.links.carrier
import replica.services.messages.produce
from chaos.sim.bugs.planting import Patch, bug
from replica.machine import AckBatchCall
from replica.machine.state.system_names import CONSUMER, Destination
from replica.services.links import leaving
from replica.services.links.carrier import Carrier
from replica.services.messages import onward
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from replica.core.domain import Domain
    from replica.core.ordering.desk import Desk
    from replica.core.state.calls import Transact, Waiter
    from replica.machine import QueueState
    from replica.node.members import Members
    from replica.operations.reports import Reports
    from replica.services.links.far_side import FarSide
    from replica.services.links.leaving import Bound
    from replica.services.messages.onward import Entrance

LINKS = "links_between"
LEASE_MS = 100


@bug("link-lease-ends", "X4", "An agent's leases end by time, and what has come back is sent as new.", LINKS)
def leases_end(patch: Patch) -> None:
    async def nothing(_carrier: Carrier, _far: FarSide, _queue: QueueState) -> None:
        return

    patch.setattr(replica.services.links.carrier, "FOR_EVER", LEASE_MS)
    patch.setattr(Carrier, "_settle_left", nothing)


@bug("link-writer-forgotten", "X3", "A target does not know which batches of a link it has had.", LINKS)
def numbers_are_not_known(patch: Patch) -> None:
    original = replica.core.ordering.units.order_unit

    def order(orders: Desk, waiter: Waiter, asked: Transact, lines: Collection[int]) -> None:
        original(orders, waiter, asked._replace(call=replace(asked.call, identity=None)), lines)

    patch.setattr(replica.core.ordering.orders, "order_unit", order)


@bug("link-acked-before-it-is-there", "X3", "An agent acknowledges a batch, and sends it then.", LINKS, first=4)
def acknowledges_first(patch: Patch) -> None:
    original = Carrier._send  # what is taken apart

    async def send(carrier: Carrier, far: FarSide, number: int, rows: list[Bound]) -> None:
        await carrier._order(AckBatchCall(carrier.queue, CONSUMER, number))
        await original(carrier, far, number, rows)

    patch.setattr(Carrier, "_send", send)


@bug(
    "link-stream-shares-numbers",
    "X2",
    "A producer's batches for two queues of a manager are numbered in one name.",
    LINKS,
    first=23,
)
def streams_have_one_name(patch: Patch) -> None:
    original = onward.way_of

    def way_of(members: Members, queue: str, client_id: bytes) -> Entrance:
        return original(members, queue, client_id)._replace(client_id=client_id)

    patch.setattr(replica.services.messages.produce, "way_of", way_of)


@bug("link-writer-of-each-epoch", "X3", "Each master has a writer's name of its own at the target.", LINKS)
def writers_are_of_one_epoch(patch: Patch) -> None:
    original = Carrier.__init__

    def init(
        carrier: Carrier, members: Members, reports: Reports, domain: Domain, queue: QueueState, to: Destination
    ) -> None:
        original(carrier, members, reports, domain, queue, to)
        carrier.writer += f"/{domain.shared.state.epoch}"

    patch.setattr(Carrier, "__init__", init)


@bug("link-refused-is-dropped", "X5", "What a target refuses for ever is left out, and nobody has it.", LINKS, first=4)
def refused_ones_vanish(patch: Patch) -> None:
    original = leaving.without_place

    def without(rows: Sequence[Bound], refusal: TandemqError) -> list[Bound] | None:
        found = original(rows, refusal)
        return None if found is None else [row for row in found if row in rows]

    patch.setattr(replica.services.links.carrier, "without_place", without)
