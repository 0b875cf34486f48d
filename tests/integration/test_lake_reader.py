"""The named reader of a lake at a real pair: what no ingest has taken yet stays at both members, up to the limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import tandemq
from chaos.cluster import Cluster
from pipeline.config import Ingest, LakeAt, Pipeline, Source
from pipeline.keeping import Keeping
from pipeline.lake import Lake, Place
from pipeline.problems import PipelineError
from tandemq.client.readers import JournalReader
from tandemq.config import Limits
from tests.integration.module_pair import module_pair
from tests.integration.support import new_name

pytestmark = pytest.mark.process

TIGHT = Limits(journal_bytes=128 << 10, checkpoint_bytes=64 << 10, reader_bytes=64 << 20)


pair = module_pair(limits=TIGHT)


class Kept(NamedTuple):
    """A lake without rows, whose ends the test says, and what looks after its reader."""

    lake: Lake
    config: Pipeline
    client: tandemq.Client
    told: list[str]

    def keeping(self) -> Keeping:
        """Of one more run."""
        return Keeping(self.config, self.lake, self.told.append)

    def publish(self, member: str, end: Place) -> None:
        staged = self.lake.staging("rows")
        staged.mkdir()
        last = self.lake.end(member)
        self.lake.publish(member, last.log_index if last else 1, end, staged, rows=0)

    def ends(self) -> list[Place | None]:
        return [self.lake.end(member) for member in ("a", "b")]

    def reader(self) -> JournalReader:
        [found] = [each for each in self.client.list_readers() if each.name == self.lake.name()]
        return found


@pytest.fixture
def kept(pair: Cluster, tmp_path: Path) -> Iterator[Kept]:
    lake = Lake(tmp_path / "lake")
    config = Pipeline(source=Source(target=pair.target), lake=LakeAt(path=str(lake.path)))
    with lake.locked(), tandemq.connect(pair.target) as client:
        lake.claim({})
        yield Kept(lake, config, client, [])
        client.delete_reader(lake.name())


def here(client: tandemq.Client, queue: str) -> Place:
    """The end of the journal, behind one more message."""
    client.enqueue(queue, [b"x"])
    with tandemq.connect(client.target.endpoints[0], follow_master=False) as member:
        head = member.journal_head(this_member=True).next
    return Place(head.log_index, head.epoch)


def begins_at(client: tandemq.Client) -> list[int]:
    found = []
    for endpoint in client.target.endpoints:
        with tandemq.connect(endpoint, follow_master=False) as member:
            found.append(member.journal_head(this_member=True).first.log_index)
    return found


def churn(client: tandemq.Client, queue: str, size: int) -> None:
    """Three messages that nobody but the journal's readers wants."""
    client.enqueue(queue, [bytes(size)] * 3)
    client.dequeue(queue, 3).ack()


def test_what_is_not_in_the_lake_stays_while_no_ingest_runs_and_is_lost_loudly_beyond_the_limit(kept: Kept) -> None:
    client, queue = kept.client, new_name()
    client.create_queue(queue)
    first = kept.keeping()
    first.look([None, None])
    assert kept.reader().position.log_index <= min(begins_at(client)) <= 2, "from the beginning"
    behind = here(client, queue)
    kept.publish("a", behind)
    first.look([behind, None])
    assert kept.reader().position.log_index < behind.log_index, "of one member the lake has nothing yet"
    kept.publish("b", behind)
    kept.publish("a", here(client, queue))
    first.look(kept.ends())
    assert kept.reader().position[:2] == behind, "where the lake has least"

    while begins_at(client) != [behind.log_index] * 2:
        churn(client, queue, 5_000)  # little in each turn of the upkeep, beside what a reader may be behind
        assert not kept.reader().lost_until_log_index, "the pair gave it up before it had trimmed all else"
    kept.keeping().look([None, None])
    assert kept.reader().position[:2] == behind, "the next run finds it there"

    while not (lost := kept.reader()).lost_until_log_index:
        churn(client, queue, 1_000_000)
    with pytest.raises(PipelineError, match=rf"READER_LOST: {kept.lake.path}: .*limits.reader_bytes") as caught:
        kept.keeping().look([None, None])
    assert "limits.reader_bytes" in caught.value.next_step
    with pytest.raises(PipelineError, match="READER_LOST"):
        first.look([Place(behind.log_index + 1, behind.epoch)] * 2)
    now = kept.reader()  # how far it is behind may grow by a record of the pair's own
    place = (lost.position, lost.lost_until_log_index)
    assert (now.position, now.lost_until_log_index) == place, "nobody but an operator begins it anew"

    for member in ("a", "b"):
        kept.publish(member, here(client, queue))
    kept.keeping().look(kept.ends())
    assert (kept.reader().position[:2], kept.reader().lost_until_log_index) == (min(filter(None, kept.ends())), 0), (
        "the lake has what was given up"
    )


def test_one_that_was_deleted_comes_back_where_the_lake_ends(kept: Kept) -> None:
    client, queue = kept.client, new_name()
    client.create_queue(queue)
    for member in ("a", "b"):
        kept.publish(member, here(client, queue))
    keeping = kept.keeping()
    keeping.look(kept.ends())
    client.delete_reader(kept.lake.name())
    keeping.look(kept.ends())
    assert kept.lake.name() not in [each.name for each in client.list_readers()], "there was nothing to tell"
    for member in ("a", "b"):
        kept.publish(member, here(client, queue))
    keeping.look(kept.ends())
    assert kept.reader().position[:2] == min(filter(None, kept.ends()))


def test_a_pair_that_is_away_is_tried_again_and_nobody_is_kept_for_without_a_name(kept: Kept) -> None:
    config = Pipeline(source=Source(target="127.0.0.1:1", timeout_s=1.0), ingest=Ingest(reader="other"))
    Keeping(config, kept.lake, kept.told.append).look([None])
    assert [line.split(":")[:3] for line in kept.told] == [["reader other", " waits", " UNREACHABLE"]]
    nobody = Pipeline(source=kept.config.source, ingest=Ingest(reader=""))
    Keeping(nobody, kept.lake, kept.told.append).look([Place(5, 1)])
    kept.keeping().look([None, None])
    assert [each.name for each in kept.client.list_readers()] == [kept.lake.name()]
