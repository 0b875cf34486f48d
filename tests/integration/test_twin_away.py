"""Section 11 of the rules, worked example 11, "A day away": twin b is off while a handles inputs with outputs; b comes
back and replays: all its units are duplicates, outputs are there once, digests are equal (K8).

A day is what it has to outlive, not what it takes: more units than the 1,024 whose digests are kept, and a window for
dedup ids that is over before b begins. `docs/PERFORMANCE.md` has the replay of 100,000.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.units import transact
from tandemq.config import Limits
from tandemq.twin.looking import look
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.integration.twin_pairing import pairing, sums
from tests.support.until import until

pytestmark = pytest.mark.process

pair = module_pair(limits=Limits(side_full_seconds=3_600))
client = module_client()

DIGESTS_KEPT = 1_024
INPUTS = 2_400
"""Every second one has an output: 1,200 units, where each is sent alone."""


@pytest.mark.promise
@pytest.mark.requirement("R137")
async def test_example_11_a_day_away(
    pair: Cluster, client: aio.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandemq.twin.outputs.UNIT_MESSAGES_MAX", 1)
    async with pairing(pair, client, tmp_path) as made:
        window = admin.QueueConfig(dedup_window={"nanos": 1_000_000})
        await client.update_queue(made.outputs, window, ["dedup_window"])
        await client.update_queue(made.inputs, admin.QueueConfig(max_length=2 * INPUTS), ["max_length"])
        numbers = list(range(1, INPUTS + 1))
        a = made.twin("a", mark_every=10 * INPUTS)
        made.start(a)
        for start in range(0, INPUTS, 400):
            await made.send(*numbers[start : start + 400])

        async def all_sent() -> bool:
            return (await client.get_queue(made.outputs)).length == INPUTS // 2

        await until(all_sent, "a has sent all of its outputs")
        state = await client.writer_state(made.name, digests=True)
        assert state is not None
        assert (a.counts.units, state.batch, len(state.digests)) == (INPUTS // 2, INPUTS, DIGESTS_KEPT)

        b = made.twin("b", mark_every=10 * INPUTS)
        made.start(b)
        await made.reach(INPUTS, a, b)
        await made.settled()
        counts = b.counts
        assert (counts.made, counts.sent, counts.skipped) == (INPUTS // 2, 0, INPUTS // 2), "it has sent nothing"
        assert (counts.compared, counts.divergences) == (DIGESTS_KEPT, 0)
        assert a.state == b.state == {"sum": sum(numbers)}
        # And whoever does send them again: each is a duplicate, also where its digest is kept no longer.
        for number in (2, INPUTS - 2 * DIGESTS_KEPT, INPUTS - 2, INPUTS):
            again = await transact(
                client,
                [],
                {made.outputs: [b"again"]},
                writer=made.name,
                number=number,
                after=number - 2,
                query_id=state.query_id,
                digest=state.digests.get(number, 1),
            )
            assert (again.duplicate, again.differs) == (True, False)
        assert await made.sent() == sums(*numbers)
        seen = await look(client, made.name)
        assert (seen.sent, seen.differences) == (INPUTS, [])
        assert state.digests[INPUTS] == int(seen.digest, 16)
