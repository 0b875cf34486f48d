"""`tandemq queue writer` and `queue batch` at a real pair: what an operator sees of a query, and can end for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from tandemq.cli import root
from tandemq.client.staging import new_stage_id
from tandemq.errors import Refused
from tests.integration.module_pair import module_pair
from tests.integration.support import new_name

pytestmark = pytest.mark.process


pair = module_pair()


@pytest.fixture
def client(pair: Cluster) -> Iterator[tandemq.Client]:
    with tandemq.connect(pair.target) as made:
        yield made


def run(pair: Cluster, *words: str) -> Any:
    return CliRunner().invoke(root, ["queue", *words, "--target", pair.target])


def test_a_writer_is_shown_and_its_name_given_free(pair: Cluster, client: tandemq.Client) -> None:
    queue, name = new_name(), new_name()
    client.create_queue(queue)
    stage = new_stage_id()
    client.stage(queue, [b"x"], stage_id=stage)
    client.publish(name, "one", 7, [stage])
    facts = json.loads(run(pair, "writer", "show", name, "-o", "json").stdout)
    assert (facts["writer"], facts["query_id"], facts["batch"]) == (name, "one", 7)
    with pytest.raises(Refused, match="WRITER_TAKEN"):
        client.publish(name, "two", 0, [])
    assert run(pair, "writer", "release", name).exit_code == 2, "without a terminal it wants --yes"
    assert run(pair, "writer", "release", name, "--yes").exit_code == 0
    client.publish(name, "two", 0, [])
    assert json.loads(run(pair, "writer", "show", name, "-o", "json").stdout)["query_id"] == "two"
    for words in (("show", "nobody"), ("release", "nobody", "--yes")):
        missing = run(pair, "writer", *words)
        assert (missing.exit_code, "WRITER_NOT_FOUND" in missing.output, "'nobody'" in missing.output) == (
            1,
            True,
            True,
        )


def test_a_consumers_batches_are_shown_and_given_back(pair: Cluster, client: tandemq.Client) -> None:
    queue = new_name()
    client.create_queue(queue)
    client.enqueue(queue, [b"m"] * 10)
    assert json.loads(run(pair, "batch", "list", queue, "lake", "-o", "json").stdout)["batches"] == []
    for number in (1, 2):
        client.lease_batch(queue, "lake", number, max_messages=4)
    listed = json.loads(run(pair, "batch", "list", queue, "lake", "-o", "json").stdout)["batches"]
    assert [(each["number"], each["messages"]) for each in listed] == [(1, 4), (2, 4)]
    shown = json.loads(run(pair, "batch", "show", queue, "lake", "2", "-o", "json").stdout)
    assert (shown["messages"], shown["ranges"], shown["lease_id"]) == (4, [[5, 4]], listed[1]["lease_id"])
    assert run(pair, "batch", "release", queue, "lake", "1").exit_code == 2, "without a terminal it wants --yes"
    told = run(pair, "batch", "release", queue, "lake", "1", "--yes", "-o", "json")
    assert (told.exit_code, json.loads(told.stdout)["released"]) == (0, 4)
    assert client.get_queue(queue).ready == 6, "four of ten are in the second one"
    with pytest.raises(Refused, match="BATCH_GONE"):
        client.ack_batch(queue, "lake", 1)
    client.ack_batch(queue, "lake", 2)
    for words in (("show", queue, "lake", "1"), ("release", queue, "lake", "1", "--yes")):
        gone = run(pair, "batch", *words)
        assert (gone.exit_code, "BATCH_GONE" in gone.output, "took is 2" in gone.output) == (1, True, True)
    missing = run(pair, "batch", "list", "nobody-made-this", "lake")
    assert (missing.exit_code, "QUEUE_NOT_FOUND" in missing.output) == (1, True)
    assert run(pair, "batch", "show", queue, "lake", "0").exit_code == 2
