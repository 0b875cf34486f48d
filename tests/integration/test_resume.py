"""A consumer that opens its stream again gets back at once what was on its way when the stream died."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import Raw, new_name, raw_to
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

CLIENT = b"worker-1"


async def _open(member: Raw, queue: str, **fields: int) -> service.Deliveries:
    """Opens a Consume stream, takes the first deliveries, and lets the stream die with its lease."""
    stream = member.queue.Consume(timeout=OUTER_S)
    opening = service.ConsumeOpen(queue=queue, client_id=CLIENT, **fields)
    await stream.write(service.ConsumeRequest(open=opening))
    await stream.write(service.ConsumeRequest(credit=service.ConsumeCredit(messages=10, bytes=1 << 20)))
    while True:
        frame = await stream.read()
        assert isinstance(frame, service.ConsumeResponse)
        if frame.WhichOneof("frame") == "deliveries":
            stream.cancel()
            return frame.deliveries


@pytest.mark.promise
@pytest.mark.parametrize("at", ["a", "b"])
async def test_what_never_arrived_comes_again_at_once_as_a_first_delivery(at: str, tmp_path: Path) -> None:
    async with patient(tmp_path).running() as pair, raw_to(pair.endpoint(at)) as [member]:
        name = new_name()
        await member.create(name)
        await member.send(name, *(b"%d" % number for number in range(10)))
        lost = await _open(member, name)
        assert len(lost.messages) == 10

        # Its lease runs for 30 s. The consumer says that it received nothing of it, and later all of it.
        again = await _open(member, name, last_lease_id=lost.lease_id - 1)
        assert [message.index for message in again.messages] == [message.index for message in lost.messages]
        assert {message.delivery_count for message in again.messages} == {1}
        assert again.lease_id > lost.lease_id

        await member.send(name, b"next")
        following = await _open(member, name, last_lease_id=again.lease_id)
        assert [message.message.payload for message in following.messages] == [b"next"]
