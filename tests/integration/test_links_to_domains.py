"""Messages for another domain of another manager: a transmission queue, a writer and an order of its own (X1, X3). Two
real pairs, of which both have a domain beside main.
"""

from __future__ import annotations

import pytest

from tandemq import aio
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.integration.support import new_name
from tests.integration.two_pairs import BILLING, client_of, is_empty, payloads, there, two_pairs
from tests.support.until import until

pytestmark = pytest.mark.process

XMIT = f"SYSTEM.XMIT/west:{BILLING}"
IN_BILLING = QueueConfig(domain=BILLING)

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


async def test_x1_what_is_put_to_a_domain_goes_through_a_queue_of_its_own(east: aio.Client, west: aio.Client) -> None:
    inbox, bills, orders = new_name(), new_name(), new_name()
    await east.create_queue(inbox)
    await west.create_queue(bills, IN_BILLING)
    await west.create_queue(orders)
    await east.enqueue(inbox, [b"1"])
    taken = await east.dequeue(inbox)
    to_bills = f"//west:{BILLING}/{bills}"

    done = await east.transact([taken], {to_bills: [b"a", b"b"], f"//west/{orders}": [b"c"]})

    assert await payloads(east, inbox) == []
    got = await there(west, bills, 2)
    assert [each.payload for each in got] == [b"a", b"b"]
    assert dict(got[0].properties) == {
        "tq_hops": 1,
        "tq_source_id": done[to_bills][0].id,
        "tq_source": "east/main",
    }
    assert [each.payload for each in await there(west, orders, 1)] == [b"c"]
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    writer = f"xmit/east/main/west:{BILLING}"
    known = await west.writer_state(writer, domain=BILLING)
    assert known is not None
    assert known.batch >= 1
    assert await west.writer_state(writer) is None, "it is a writer of that domain alone"
