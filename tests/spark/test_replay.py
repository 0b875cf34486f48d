"""`tandemq pipeline replay` on real Spark at a real pair: messages are in queues again, once and in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tandemq
from chaos.cluster import Cluster
from tests.integration.support import new_name
from tests.spark.conftest import more
from tests.spark.lakes import Piped


def payloads(client: tandemq.Client, queue: str) -> list[bytes]:
    return [message.payload for message in client.browse(queue)]


def rows_of(first: int, last: int) -> list[bytes]:
    return [f"m{number}".encode() for number in range(first, last + 1)]


def test_a_lake_is_sent_again_in_order_and_once(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    source, sink, writer = filled(60), new_name(), new_name()
    client.create_queue(sink)
    client.dequeue(source, 25).ack()
    piped = Piped(pair.target, tmp_path, f'source.queues = ["{source}"]')
    short = piped.run("replay", "-o", "json")
    assert (short.code, "LAKE_SHORT" in short.stderr) == (1, True)
    ends = piped.ingested()
    until = min(row["next_log_index"] for row in ends.values())
    asked = ["replay", "--queue", source, "--to", sink, "--until-log-index", str(until), "-o", "json"]

    dry = piped.run(*asked, "--dry-run")
    assert dry.code == 0, dry.stderr
    row = dry.facts["queues"][0]
    assert (row["queue"], row["to"], row["rows"], row["bytes"]) == (source, sink, 60, len(b"".join(rows_of(1, 60))))
    assert (row["first_index"], row["last_index"], row["without_payload"]) == (1, 60, 0)
    assert payloads(client, sink) == []

    for _ in range(2):
        told = piped.run(*asked, "--writer", writer)
        assert told.code == 0, told.stderr
    assert payloads(client, sink) == rows_of(1, 60)
    other = piped.run("replay", "--to", sink, "--until-log-index", str(until), "--writer", writer)
    assert (other.code, "WRITER_TAKEN" in other.stderr) == (1, True)
    far = piped.run("replay", "--to", sink, "--until-log-index", str(until + 1_000), "--writer", new_name())
    assert (far.code, "LAKE_SHORT" in far.stderr) == (1, True)
    assert payloads(client, sink) == rows_of(1, 60)


def test_a_journal_is_sent_to_where_its_messages_were(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    first, second = filled(10), filled(10)
    more(client, first, 11, 20)
    piped = Piped(pair.target, tmp_path)
    told = piped.run("replay", "--journal", "--queue", first, "--queue", second, "-o", "json")
    assert told.code == 0, told.stderr
    assert payloads(client, first) == rows_of(1, 20) * 2
    assert payloads(client, second) == rows_of(1, 10) * 2


def test_messages_without_a_payload_are_told(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    source = filled(10)
    piped = Piped(pair.target, tmp_path, f'source.queues = ["{source}"]\nsource.payloads = false')
    piped.ingested()
    refused = piped.run("replay", "-o", "json")
    assert (refused.code, "NO_PAYLOAD" in refused.stderr) == (1, True)
    left_out = piped.run("replay", "--skip-missing", "-o", "json")
    assert left_out.code == 0, left_out.stderr
    assert payloads(client, source) == rows_of(1, 10)


def test_a_name_needs_an_end(tmp_path: Path) -> None:
    told = Piped("127.0.0.1:1", tmp_path).run("replay", "--writer", "w")
    assert (told.code, "--until-log-index" in told.stderr) == (2, True)
    told = Piped("127.0.0.1:1", tmp_path).run("replay", "--journal", "--writer", "w", "--until-log-index", "9")
    assert (told.code, "--from-log-index" in told.stderr) == (2, True)
