"""`tandemq pipeline stats --publish-weights`: shown first, published when it is said, and never over what is newer."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.client.macros import MacroPolicy, Relationship
from tandemq.errors import NotFound
from tests.integration.support import new_name
from tests.spark.conftest import heard
from tests.spark.lakes import Piped

HOUR = timedelta(hours=1)


def used(client: tandemq.Client, settled: int) -> str:
    """A queue that 12 messages entered and so many have left."""
    queue = new_name()
    client.create_queue(queue)
    client.enqueue(queue, [b"m"] * 12)
    client.dequeue(queue, settled).ack()
    heard(client, queue, 13)
    return queue


def dealt_by(client: tandemq.Client, name: str) -> tandemq.aio.Macro:
    """A macro queue that was sent ten messages, by the table of its name."""
    client.enqueue(name, [b"m"] * 10)
    found = client.get_macro(name)
    assert found.weights is not None
    assert found.weights.in_force
    assert found.weights.version == client.get_weights(name).version
    assert sum(each.share or 0 for each in found.members) == pytest.approx(1, abs=1e-5)
    return found


def test_shares_are_shown_and_then_published_in_the_place_of_what_was_there(
    spark: Any, pair: Cluster, client: tandemq.Client, tmp_path: Path
) -> None:
    del spark
    name, queues = new_name("shares"), sorted((used(client, 12), used(client, 4)))
    gone = used(client, 3)
    kept = ", ".join(f'"{each}"' for each in (*queues, gone))
    piped = Piped(pair.target, tmp_path, f"source.queues = [{kept}]\nstats.window_s = 60")
    piped.ingested()
    client.delete_queue(gone)
    client.create_macro(name, relationship=Relationship.PRODUCER, policy=MacroPolicy.ROUND_ROBIN)
    for queue in queues:
        client.add_macro_member(name, queue)
    words = ["stats", "--publish-weights", name, "-o", "json"]
    for queue in queues:
        words += ["--weights-of", queue]
    told = piped.run(*words, "--valid-for", "1h")
    assert told.code == 0, told.stderr
    assert (told.facts["dry_run"], told.facts["replaces_version"]) == (True, 0)
    shown = {row["queue"]: row["weight"] for row in told.facts["weights"]}
    assert (sorted(shown), sum(shown.values())) == (queues, pytest.approx(1))
    raw = {
        row["queue"]: row["rate_per_s"] / (max(row["service_mean_ms"], 1.0) * (1 + row["growth"]))
        for row in told.facts["weights"]
    }
    assert shown == pytest.approx({queue: each / sum(raw.values()) for queue, each in raw.items()}, abs=1e-5)
    with pytest.raises(NotFound):
        client.get_weights(name)
    table = piped.run(*words, "-o", "table")
    said = " ".join(table.stdout.split())
    assert (table.code, queues[0] in said) == (0, True)
    assert f"Table {name} would be published" in said, table.stdout
    assert "nothing was." in said, table.stdout

    done = piped.run(*words, "--valid-for", "1h", "--yes")
    found = client.get_weights(name)
    assert (done.code, done.facts["version"], found.version) == (0, found.version, done.facts["version"])
    assert found.weights == pytest.approx(shown, abs=1e-6)
    assert (found.published_by, found.expired) == ("tandemq pipeline stats", False)
    assert found.computed_from is not None
    assert found.computed_until is not None
    assert found.computed_from < found.computed_until < found.valid_until
    assert (found.valid_until - found.computed_until).total_seconds() == pytest.approx(3600, abs=0.01)
    everything = piped.run("stats", "--publish-weights", name, "-o", "json").facts
    assert dict(dealt_by(client, name).choices) == {"WEIGHTS": 1}, "M9: whoever routes goes by it"
    assert gone not in [row["queue"] for row in everything["weights"]], "it is deleted"
    assert everything["replaces_version"] == found.version


def test_what_cannot_be_published_ends_with_1_and_its_reason(
    spark: Any, pair: Cluster, client: tandemq.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    from pipeline import weighing

    name, queue = new_name("shares"), used(client, 4)
    piped = Piped(pair.target, tmp_path, f'source.queues = ["{queue}"]\nstats.window_s = 1')
    piped.ingested()
    words = ["stats", "--publish-weights", name, "--weights-of", queue]
    over = piped.run(*words, "--valid-for", "1ms", "-o", "json")
    assert (over.code, over.facts["expired"]) == (0, True)
    refused = piped.run(*words, "--valid-for", "1ms", "--yes")
    assert (refused.code, "error: BAD_WEIGHTS\n" in refused.stderr, "ingest" in refused.stderr) == (1, True, True)
    missing = piped.run("stats", "--publish-weights", name, "--weights-of", "nosuch")
    assert (missing.code, "error: QUEUE_NOT_FOUND\n" in missing.stderr) == (1, True)
    unheard = new_name()
    client.create_queue(unheard)
    idle = piped.run("stats", "--publish-weights", name, "--weights-of", unheard)
    assert (idle.code, "error: LAKE_SHORT\n" in idle.stderr) == (1, True)
    for wrong in (["--yes"], ["--weights-of", queue], ["--valid-for", "1h"]):
        assert piped.run("stats", *wrong).code == 2

    look = weighing.look

    def slow(*given: Any) -> Any:
        found = look(*given)
        with tandemq.connect(pair.target) as other:
            other.publish_weights(name, {queue: 1}, valid_for=HOUR)
        return found

    monkeypatch.setattr(weighing, "look", slow)
    stale = piped.run(*words, "--valid-for", "1h", "--yes")
    assert (stale.code, "error: VERSION_MISMATCH\n" in stale.stderr, "run it again" in stale.stderr) == (1, True, True)
