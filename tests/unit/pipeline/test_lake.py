"""The lake on disk, without Spark: stretches get in whole or not at all, follow each other, and are written by one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.compacting import groups
from pipeline.durable import write_json
from pipeline.lake import Lake, Place, Stretch
from pipeline.problems import PipelineError
from pipeline.schema import BARE_JOURNAL, JOURNAL, VERSION, names


def staged(lake: Lake, text: str = "rows") -> Path:
    path = lake.staging("rows-a")
    path.mkdir()
    (path / "part.parquet").write_text(text)
    return path


def published(lake: Lake, *ends: int, start: int = 1) -> list[Stretch]:
    found = []
    for end in ends:
        found.append(lake.publish("a", start, Place(end, 3), staged(lake), rows=1))
        start = end
    return found


def test_a_stretch_says_where_the_next_one_begins(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    assert (lake.members(), lake.paths(), lake.end("a")) == ([], [], None)
    with lake.locked():
        published(lake, 10, 25)
    assert lake.members() == ["a"]
    assert [(each.start, each.end) for each in lake.stretches("a")] == [(1, Place(10, 3)), (10, Place(25, 3))]
    assert lake.end("a") == Place(25, 3)


def test_what_is_not_published_is_not_there_and_is_removed_by_the_next_job(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        left = staged(lake)
    assert lake.end("a") is None
    with lake.locked():
        assert not left.exists()


def test_only_what_was_staged_is_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        left = staged(lake)
        lake.discard(left)
        assert not left.exists()
        [kept] = published(lake, 10)
        for path in (Path(), tmp_path, kept.path, lake.path):
            with pytest.raises(AssertionError, match="is not in"):
                lake.discard(path)
        assert kept.path.exists()


def test_a_wider_stretch_replaces_those_inside_it_wherever_its_writer_died(tmp_path: Path) -> None:
    """1. Three stretches are merged. 2. The wide one is published. 3. Death before the narrow ones are removed."""
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        narrow = published(lake, 10, 20, 30, 40)
        kept = tmp_path / "kept"
        shutil.copytree(lake.folder("a"), kept)
        wide = lake.replace("a", narrow[:3], staged(lake), rows=3)
        shutil.copytree(kept, lake.folder("a"), dirs_exist_ok=True)
    assert lake.paths() == [str(wide.path), str(narrow[3].path)]
    assert narrow[0].path.exists()
    with lake.locked():
        assert not narrow[0].path.exists()
        merged = lake.replace("a", lake.stretches("a"), staged(lake), rows=4)
        assert lake.paths() == [str(merged.path)]
        assert not wide.path.exists()
    assert lake.end("a") == Place(40, 3)


class Busy(Lake):
    """Whose micro-batches go on while stretches are put together: one is published after the next listing."""

    late: list[tuple[int, int]]

    def every(self, member: str) -> list[Stretch]:
        found = super().every(member)
        if self.late:
            start, end = self.late.pop()
            self.publish(member, start, Place(end, 3), staged(self), rows=1)
        return found


def test_what_is_published_while_stretches_are_put_together_stays(tmp_path: Path) -> None:
    """1. Stretches are merged. 2. Those inside the wide one are looked for. 3. A micro-batch is published meanwhile."""
    lake = Busy(tmp_path / "lake")
    lake.late = []
    with lake.locked():
        narrow = published(lake, 10, 20)
        merging = staged(lake)
        lake.late = [(20, 30)]
        lake.replace("a", narrow, merging, rows=2)
        assert not lake.late
    assert [(each.start, each.end.log_index) for each in lake.stretches("a")] == [(1, 20), (20, 30)]


def test_what_names_a_file_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake whose first stretch is durable and whose directories are not would be empty after a loss of power, and
    the next run would begin anew, behind what was trimmed meanwhile.
    """
    synced: list[Path] = []

    def fsync(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").readlink()
        synced.append(path)

    monkeypatch.setattr("os.fsync", fsync)
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        assert lake.path in synced, "journal/"
        synced.clear()
        lake.claim({})
        assert synced[-1] == lake.path
        published(lake, 10)
        assert lake.journal in synced, "member=a/"
        synced.clear()
        lake.save_heads("a", [])
        assert synced[0] == lake.path, "_heads/"
        assert synced[-1] == lake.path / "_heads"


def test_a_gap_is_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        published(lake, 10, 20, 30)
    lake.stretches("a")[1].path.rename(tmp_path / "away")
    with pytest.raises(PipelineError, match=r"BAD_LAKE: after .*-00000000000000000010-3 comes .* is missing"):
        lake.paths()


def test_one_job_writes_at_a_time(tmp_path: Path) -> None:
    with (
        Lake(tmp_path).locked(),
        pytest.raises(PipelineError, match=f"LAKE_IN_USE: another job writes to {tmp_path}"),
        Lake(tmp_path).locked(),
    ):
        pass
    with Lake(tmp_path).locked():
        pass


def test_a_lake_holds_rows_of_one_kind(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        lake.claim({"domain": "main", "queues": []})
        lake.claim({"domain": "main", "queues": []})
        with pytest.raises(PipelineError, match=r"LAKE_SCHEMA: .*queues is \[\] there, \['x'\] is wanted"):
            lake.claim({"domain": "main", "queues": ["x"]})
        published(lake, 10)
        (lake.path / "_lake.json").write_text("{")
        with pytest.raises(PipelineError, match="BAD_LAKE"):
            lake.claim({"domain": "main", "queues": []})
        (lake.path / "_lake.json").unlink()
        with pytest.raises(PipelineError, match=r"LAKE_SCHEMA: .* has rows"):
            lake.claim({"domain": "main", "queues": []})


def test_a_lake_of_before_is_taken_over_once_and_one_of_a_newer_version_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    facts = lake.path / "_lake.json"

    def rewrite(**changes: object) -> None:
        write_json(facts, {**lake.facts(), **changes})

    with lake.locked():
        assert not lake.claim({"domain": "main"})
        assert lake.attributes_from() == 0
        published(lake, 10, 25)
        rewrite(columns=list(names(BARE_JOURNAL)))
        assert lake.attributes_from() == 25, "of all that is there"
        with pytest.raises(PipelineError, match=r"LAKE_SCHEMA: .*domain is 'main' there, 'other' is wanted"):
            lake.claim({"domain": "other"})
        assert lake.claim({"domain": "main"})
        assert not lake.claim({"domain": "main"})
        published(lake, 30, start=25)
        assert lake.attributes_from() == 25
        rewrite(columns=[*names(JOURNAL), "colour", "shape"])
        for look in (lake.paths, lambda: lake.claim({"domain": "main"})):
            with pytest.raises(
                PipelineError, match=r"LAKE_SCHEMA: .*colour, shape: a newer version of tandemq wrote it"
            ):
                look()
        rewrite(columns=list(names(JOURNAL)), version=VERSION + 1)
        with pytest.raises(
            PipelineError, match=f"LAKE_SCHEMA: .*of version {VERSION + 1}, and this one knows {VERSION}"
        ):
            lake.paths()


def test_a_lake_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lake = Lake(tmp_path / "file" / "lake")
    with pytest.raises(PipelineError, match=r"BAD_LAKE: .* cannot be written: Not a directory"), lake.locked():
        pass


def test_a_directory_of_the_lake_that_cannot_be_made_is_refused_by_its_reason(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        for name in ("_staging", "_heads"):
            (lake.path / name).touch()
        with pytest.raises(PipelineError, match=r"BAD_LAKE: .*_staging cannot be written"):
            lake.staging("rows-a")
        with pytest.raises(PipelineError, match=r"BAD_LAKE: .*_heads cannot be written"):
            lake.save_heads("a", [])


def test_members_of_two_histories_are_refused_once_and_by_name(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        lake.check_one_history()
        for member, history_id in (("a", "aa"), ("b", None), ("c", "aa")):
            lake.save_heads(member, [{"member": member, "history_id": history_id}])
        lake.check_one_history()
        lake.save_heads("b", [{"member": "b", "history_id": "bb"}])
        with pytest.raises(PipelineError, match=r"PAIR_CHANGED: .*member a is of history aa, and member b of bb"):
            lake.check_one_history()


def test_heads_are_kept_by_member(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        lake.save_heads("a", [{"member": "a", "next_log_index": 3}])
        lake.save_heads("b", [{"member": "b", "next_log_index": 4}])
        lake.save_heads("a", [{"member": "a", "next_log_index": 5}])
    assert [(row["member"], row["next_log_index"]) for row in lake.heads()] == [("a", 5), ("b", 4)]


def test_a_lake_knows_from_where_on_each_record_has_a_row(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.locked():
        assert lake.every_record_from() == {}, "nothing was claimed"
        lake.claim({})
        lake.note_every_record("a", 1)
        lake.note_every_record("b", 40)
        lake.note_every_record("a", 70)
        assert lake.every_record_from() == {"a": 1, "b": 40}, "the next run goes on"
        lake.note_every_record("a", None)
        assert lake.every_record_from() == {"b": 40}, "a member of an older version gave what follows"
        lake.note_every_record("a", 90)
    assert Lake(tmp_path / "lake").every_record_from() == {"a": 90, "b": 40}
    (lake.path / "_lake.json").write_text('{"every_record_from": {"a": "x"}}')
    with pytest.raises(PipelineError, match=r"BAD_LAKE: .*every_record_from"):
        lake.every_record_from()


def test_small_stretches_that_follow_each_other_go_together(tmp_path: Path) -> None:
    def stretches(*sizes: int) -> list[Stretch]:
        found = []
        for number, size in enumerate(sizes):
            path = tmp_path / f"{len(sizes)}-{number}-{size}"
            path.mkdir(exist_ok=True)
            (path / "part.parquet").write_bytes(bytes(size))
            found.append(Stretch(number, Place(number + 1, 1), path))
        return found

    def sizes(given: list[Stretch], limit: int, fewest: int) -> list[list[int]]:
        return [[each.bytes for each in group] for group in groups(given, limit, fewest)]

    assert sizes(stretches(10, 10, 10, 10, 10), 30, 2) == [[10, 10, 10], [10, 10]]
    assert sizes(stretches(10, 10, 10), 100, 4) == []
    assert sizes(stretches(10, 10, 60, 10, 10), 100, 2) == [[10, 10], [10, 10]], "what is large enough stays"
    assert groups([], 100, 2) == []
