"""`tandemq pipeline audit` over the lake of a real pair: right is clean, planted is named. `stats` is in test_guide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tandemq
from chaos.cluster import Cluster
from pipeline.lake import Lake
from pipeline.schema import ACK, OK, SEND
from tests.integration.support import new_name
from tests.spark.conftest import heard
from tests.spark.lakes import Piped


def sent_and_acked(client: tandemq.Client, clients: Path) -> str:
    """A queue of 40 messages of which 10 are acknowledged, and the file of what its client was told."""
    from tandemq.spark import Recording

    recording = Recording()
    queue = new_name()
    client.create_queue(queue)
    for first in range(1, 41, 10):
        asked_ns = recording.now_ns()
        receipts = list(client.enqueue(queue, [b"m%d" % at for at in range(first, first + 10)]))
        indexes, ids = [each.index for each in receipts], [each.id for each in receipts]
        recording.add(
            "one", SEND, OK, asked_ns, queue, indexes=indexes, ids=ids, epochs=[each.epoch for each in receipts]
        )
    batch = client.dequeue(queue, 10)
    indexes, ids = [each.index for each in batch], [each.id for each in batch]
    asked_ns = recording.now_ns()
    batch.ack()
    recording.add("two", ACK, OK, asked_ns, queue, indexes=indexes, ids=ids)
    recording.write(clients)
    heard(client, queue, 41)
    return queue


def test_a_lake_is_audited_and_a_planted_loss_is_named(
    spark: Any, pair: Cluster, client: tandemq.Client, tmp_path: Path
) -> None:
    from pipeline.planting import FAULTS, plant

    clients = tmp_path / "clients.parquet"
    queue = sent_and_acked(client, clients)
    piped = Piped(pair.target, tmp_path, f'audit.history = "{clients}"')
    told = piped.run("audit")
    assert (told.code, "error: BAD_LAKE\n" in told.stderr) == (1, True), "there is nothing in it"
    piped.ingested()
    told = piped.run("audit", "-o", "json")
    assert (told.code, told.facts["verdict"], told.facts["violations"]) == (0, "clean", []), told.stdout
    missing = piped.run("audit", "--history", str(tmp_path / "nothing"))
    assert (missing.code, "error: HISTORY_SCHEMA\n" in missing.stderr) == (1, True)
    other = piped.run("audit", "--history", str(Lake(piped.lake).stretches(pair.members[0])[0].path))
    assert (other.code, "client is missing, not string" in other.stderr) == (1, True)

    there = tmp_path / "there"
    there.mkdir()
    copy = plant(Lake(piped.lake), there / "lake", FAULTS[0], queue)
    found = []
    for rows in (100_000, 0):
        more = f'audit.history = "{clients}"\nlake.path = "{copy.path}"\naudit.memory_rows = {rows}'
        told = Piped(pair.target, there, more).run("audit", "-o", "json")
        assert told.facts["checked"].startswith("in memory" if rows else "on Spark")
        lost = [each for each in told.facts["violations"] if each["kind"] == "LOST"]
        assert (told.code, [(each["queue"], each["index"]) for each in lost]) == (5, [(queue, 13)])
        proof = spark.read.parquet(str(there / "reports" / "audit" / "violations"))
        assert proof.where("kind = 'LOST'").count() == 1
        columns = [name for name in proof.columns if name not in ("journals", "clients", "id")]
        found.append((sorted(map(str, proof.select(*columns).collect())), told.facts["not_judged"]))
    assert found[0] == found[1], "both audits say the same of a lake"
