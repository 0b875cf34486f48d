"""Nothing of a message is lost on the way: what stands beside a body is read, kept in the lake and given back by a
replay, field by field.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from pipeline.lake import Lake
from pipeline.schema import ATTRIBUTES, BARE_JOURNAL, JOURNAL, names
from tandemq.client.aio import Outgoing
from tandemq.client.delivery import RESERVED, ReceivedMessage
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import new_name
from tests.spark.conftest import heard
from tests.spark.lakes import Piped
from tests.support.lakes import of_before

PAST = datetime(2001, 2, 3, 4, 5, 6, 789_000, UTC)
MESSAGES = [
    Outgoing(b"bare"),
    Outgoing(b"", {"priority": 0}),
    Outgoing(
        b"first", {"priority": 9, "content_type": "text/\u00fcn\u00efcode; q=\u2603", "correlation_id": "\U0001f40e"}
    ),
    Outgoing(b"said", {"priority": 4, "persistent": True, "reply_to": "//other/answers", "correlation_id": ""}),
    Outgoing(b"timed", {"ttl": timedelta(days=400), "delay": timedelta(milliseconds=1), "deliver_at": PAST}),
    Outgoing(
        b"\x00\xff",
        {
            "properties": {
                "text": "\u00e9",
                "empty": "",
                "least": -(1 << 63),
                "most": (1 << 63) - 1,
                "number": -0.1,
                "endless": float("inf"),
                "yes": True,
                "no": False,
                "data": b"\x00\xfe\xff",
                "nothing": b"",
                "\u2603 name": 1,
            }
        },
    ),
    Outgoing(b"once", {"dedup_id": "only-once", "group_id": "g\u00e4"}),
    Outgoing(b"grouped", {"group_id": "g\u00e4", "properties": {}}),
]


def sent(client: tandemq.Client, queue: str, **config: Any) -> None:
    """In one record, and each in one of its own."""
    client.create_queue(queue, admin.QueueConfig(**config))
    client.enqueue(queue, MESSAGES[:-2])
    for message in MESSAGES:
        client.enqueue(queue, [message])
    heard(client, queue, 2 * len(MESSAGES) - 1)


def received(client: tandemq.Client, queue: str) -> list[tuple[bytes, dict[str, Any]]]:
    """Payload and attributes of each message, as its consumer gets them; what was not given is left out, or 4."""
    found: list[tuple[bytes, dict[str, Any]]] = []
    while len(batch := client.dequeue(queue, 100)):
        found += [told(message) for message in batch]
        batch.ack()
    return found


def told(message: ReceivedMessage) -> tuple[bytes, dict[str, Any]]:
    attributes: dict[str, Any] = {"priority": 4, **message.attributes}
    if not attributes.get("properties"):
        attributes.pop("properties", None)
    return message.payload, attributes


@pytest.mark.parametrize("journal", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_consumer_gets_of_a_replay_what_he_gets_of_the_original(
    spark: Any, pair: Cluster, client: tandemq.Client, tmp_path: Path, *, journal: bool
) -> None:
    queue, again = new_name(), new_name()
    sent(client, queue)
    client.create_queue(again)
    piped = Piped(pair.target, tmp_path, f'source.queues = ["{queue}"]')
    if not journal:
        piped.ingested()
    source = ["--journal"] if journal else []
    run = piped.run("replay", *source, "--queue", queue, "--to", again, "-o", "json")
    assert run.code == 0, run.stderr
    wanted = received(client, queue)
    assert len(wanted) == 2 * len(MESSAGES) - 2
    assert received(client, again) == wanted


def test_the_source_gives_attributes_where_they_are_asked_for(
    spark: Any, pair: Cluster, client: tandemq.Client
) -> None:
    queue = new_name()
    sent(client, queue)
    reader = spark.read.format("tandemq").options(target=pair.target, queues=queue, kinds="enqueued,queue_created")
    assert reader.load().columns == list(names(BARE_JOURNAL))
    assert reader.option("attributes", "true").load().columns == list(names(JOURNAL))
    rows = {(bytes(row.payload), row.log_index): row for row in reader.load().where("kind = 'ENQUEUED'").collect()}
    assert len(rows) == 2 * len(MESSAGES) - 2
    by_body = {body: row for (body, _), row in rows.items()}
    nothing = dict.fromkeys(names(ATTRIBUTES))
    assert {name: by_body[b"bare"][name] for name in names(ATTRIBUTES)} == nothing
    assert (by_body[b"once"].dedup_id, by_body[b"once"].group_id) == ("only-once", "g\u00e4")
    timed = by_body[b"timed"]
    assert (timed.ttl_ms, timed.delay_ms, timed.deliver_at.timestamp()) == (400 * 86_400_000, 1, PAST.timestamp())
    found = by_body[b"\x00\xff"].properties
    assert {name: next((each for each in value if each is not None), None) for name, value in found.items()} == dict(
        MESSAGES[5].attributes["properties"]
    )
    created = reader.load().where("kind = 'QUEUE_CREATED'").collect()
    assert [{name: row[name] for name in names(ATTRIBUTES)} for row in created] == [nothing] * len(created)


def test_what_the_manager_wrote_beside_a_dead_letter_is_not_sent_for_it(
    spark: Any, pair: Cluster, client: tandemq.Client, tmp_path: Path
) -> None:
    queue, dead, again = new_name(), new_name("dead"), new_name()
    client.create_queue(dead)
    client.create_queue(again)
    sent(client, queue, dead_letter_queue=dead)
    client.dequeue(queue, 1).reject("no good")
    heard(client, dead, 2)
    piped = Piped(pair.target, tmp_path, f'source.queues = ["{dead}"]')
    piped.ingested()
    run = piped.run("replay", "--queue", dead, "--to", again, "-o", "json")
    assert run.code == 0, run.stderr
    [letter], [copy] = list(client.browse(dead)), list(client.browse(again))
    assert any(name.startswith(RESERVED) for name in letter.properties)
    assert not any(name.startswith(RESERVED) for name in copy.properties)
    assert told(copy) == told(letter)


def test_a_lake_of_before_is_taken_over_once_and_read_with_nulls(
    spark: Any, pair: Cluster, client: tandemq.Client, tmp_path: Path
) -> None:
    """An older version kept all but the last message: the columns are not in its files."""
    import pyarrow.parquet as pq  # it may not be installed

    from tandemq.spark.columns import SCHEMA

    queue, again = new_name(), new_name()
    sent(client, queue)
    client.create_queue(again)
    piped = Piped(pair.target, tmp_path, f'source.queues = ["{queue}"]')
    piped.ingested()
    lake, facts = Lake(piped.lake), piped.lake / "_lake.json"
    for member in pair.members:
        for stretch in lake.stretches(member):
            for file in stretch.path.glob("*.parquet"):
                pq.write_table(pq.ParquetFile(file).read(list(names(BARE_JOURNAL))).cast(SCHEMA), file)
            for sums in stretch.path.glob(".*.crc"):
                sums.unlink()
    of_before(lake)
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "columns": list(names(BARE_JOURNAL))}))
    client.enqueue(queue, [MESSAGES[2]])
    heard(client, queue, 2 * len(MESSAGES))
    run = piped.run("ingest")
    assert (run.code, "an older version kept it" in run.stderr) == (0, True), run.stderr
    assert "an older version" not in piped.run("ingest").stderr, "once"
    there = (
        spark.read.option("mergeSchema", "true")
        .parquet(str(lake.journal))
        .where(f"kind = 'ENQUEUED' AND member = '{pair.members[0]}'")
    )
    rows = {row["index"]: (row.priority, row.correlation_id) for row in there.collect()}
    assert rows == {
        **dict.fromkeys(range(1, 2 * len(MESSAGES) - 1), (None, None)),
        2 * len(MESSAGES) - 1: (9, "\U0001f40e"),
    }
    found = piped.run("replay", "--queue", queue, "--to", again, "-o", "json")
    assert (found.code, found.facts["bare_before"] == Lake(piped.lake).attributes_from()) == (0, True), found.stderr
    copies = {message.index: told(message)[1] for message in client.browse(again)}
    last = 2 * len(MESSAGES) - 1
    assert [index for index, attributes in copies.items() if attributes != {"priority": 4}] == [last]
    audited = piped.run("audit", "-o", "json")
    assert audited.code == 0, audited.stderr
    assert any("What stood beside bodies was not compared" in line for line in audited.facts["not_judged"])
