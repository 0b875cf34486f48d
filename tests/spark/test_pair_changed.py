"""A pair that is begun anew, or another one under the same name: whoever read the old one is refused by name."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from pipeline.lake import Lake
from tests.spark.conftest import more
from tests.spark.lakes import Piped, lake_rows
from tests.spark.test_ingest_faults import refused
from tests.spark.test_stream import Followed, indexes_of, rewrite
from tests.support.clusters import patient

QUEUE = "orders"
DOMAIN = "local"
"""Of a member without a peer."""
SOURCE = f'source.domain = "{DOMAIN}"'


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def begin(cluster: Cluster, count: int) -> None:
    """One member, from nothing: what it tells readers is what both members of a pair would."""
    for name in cluster.members:
        shutil.rmtree(cluster.data_dir / name, ignore_errors=True)
    asyncio.run(cluster.start())
    with tandemq.connect(cluster.target) as client:
        client.create_queue(QUEUE)
        more(client, QUEUE, 1, count)


def test_a_pair_that_is_begun_anew_is_never_read_as_the_old_one(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    cluster = patient(tmp_path / "pair", members=("a",))
    followed = Followed(spark, cluster.target, tmp_path / "checkpoint", queues=QUEUE)
    named = Followed(spark, cluster.target, tmp_path / "named", queues=QUEUE, reader="lake")
    piped = Piped(cluster.target, tmp_path, SOURCE)
    unnamed = Piped(cluster.target, made(tmp_path / "unnamed"), f'{SOURCE}\ningest.reader = ""')
    try:
        begin(cluster, 40)
        for each in (followed, named):
            assert indexes_of(each.run()) == list(range(1, 41))
        piped.ingested()
        unnamed.ingested()
        lake = Lake(piped.lake)
        before = lake.paths()
        asyncio.run(cluster.stop())

        begin(cluster, 400)  # the places of the old one are within its journal, and of the same epoch
        for each in (followed, named):
            assert "PAIR_CHANGED" in each.refusal()
        assert "another pair, or one that was begun anew" in refused(piped.run("ingest"), "PAIR_CHANGED")
        assert "holds history" in refused(unnamed.run("ingest"), "PAIR_CHANGED")
        old = spark.read.format("tandemq").options(target=cluster.target, queues=QUEUE, historyId=lake.history_id())
        with pytest.raises(PySparkException, match="PAIR_CHANGED"):
            old.load().count()
        weights = piped.run("stats", "--publish-weights", "shares", "--weights-of", QUEUE, "--yes")
        assert "another pair, or one that was begun anew" in refused(weights, "PAIR_CHANGED")
        place = f"9:1:{lake.history_id()}"
        replay = piped.run("replay", "--journal", "--from-log-index", place, "--to", QUEUE)
        assert "another pair, or one that was begun anew" in refused(replay, "PAIR_CHANGED")
        lake.save_heads("b", [{**lake.heads()[0], "member": "b", "history_id": "ab" * 16}])
        for job in (("audit",), ("stats",), ("replay", "--dry-run")):
            assert "member b of" in refused(piped.run(*job), "PAIR_CHANGED")
        assert lake.paths() == before

        fresh = Piped(cluster.target, made(tmp_path / "new"), SOURCE)
        fresh.ingested()
        assert len(lake_rows(spark, fresh.lake, "a")) > 400
        assert indexes_of(Followed(spark, cluster.target, tmp_path / "fresh", queues=QUEUE).run()) == [*range(1, 401)]
    finally:
        asyncio.run(cluster.stop())


def test_another_pair_that_has_no_such_queue_is_named_too(spark: Any, tmp_path: Path) -> None:
    cluster = patient(tmp_path / "pair", members=("a",))
    followed = Followed(spark, cluster.target, tmp_path / "checkpoint", queues=QUEUE)
    try:
        begin(cluster, 20)
        followed.run()
        asyncio.run(cluster.stop())
        shutil.rmtree(cluster.data_dir / "a")
        asyncio.run(cluster.start())
        assert "PAIR_CHANGED" in followed.refusal()
    finally:
        asyncio.run(cluster.stop())


def test_lakes_and_checkpoints_of_before_take_the_history_over_once(spark: Any, tmp_path: Path) -> None:
    cluster = patient(tmp_path / "pair", members=("a",))
    followed = Followed(spark, cluster.target, tmp_path / "checkpoint", queues=QUEUE)
    piped = Piped(cluster.target, tmp_path, SOURCE)
    facts = piped.lake / "_lake.json"
    try:
        begin(cluster, 20)
        followed.run()
        piped.ingested()
        history_id = Lake(piped.lake).history_id()
        assert history_id

        rewrite(tmp_path / "checkpoint", lambda offset: offset[DOMAIN].pop("history_id"))
        later = ("history_id", "digest", "manifests")
        facts.write_text(json.dumps({k: v for k, v in json.loads(facts.read_text()).items() if k not in later}))
        with tandemq.connect(cluster.target) as client:
            more(client, QUEUE, 21, 40)
        assert indexes_of(followed.run()) == list(range(21, 41))
        told = piped.run("ingest")
        assert (told.code, f"it is held to history {history_id} from now on" in told.stderr) == (0, True), told.stderr
        assert "is held to" not in piped.run("ingest").stderr, "once"
        assert Lake(piped.lake).history_id() == history_id
        last = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        assert json.loads(last.read_text().splitlines()[-1])[DOMAIN]["history_id"] == history_id
    finally:
        asyncio.run(cluster.stop())
