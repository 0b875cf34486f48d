"""What is done to a lake behind its back is found, at its path; what a job left when it died is none of that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.adopting import settle
from pipeline.integrity import LOOKS_MAX, REMOVE, RENAME, RESTORE, examine, progress_to, prove, prove_stretches
from pipeline.lake import Lake, Place, Stretch
from pipeline.problems import PipelineError
from tests.support.lakes import ROWS, made_lake, of_before, publish, staged, told


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return made_lake(tmp_path / "lake")


def stretch(lake: Lake, number: int, member: str = "a") -> Stretch:
    return lake.stretches(member)[number]


def flipped(path: Path, at: int = 3, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(bytes(data))


def name(start: int, end: int) -> str:
    return f"log-{start:020}-{end:020}-3"


A = "journal/member=a"
MIDDLE = f"{A}/{name(10, 20)}"


def test_a_lake_as_it_was_published_is_clean_and_counted(lake: Lake) -> None:
    proof = examine(lake)
    assert (proof.findings, proof.of_before, proof.unread_bytes) == ([], False, 0)
    assert (proof.stretches, proof.files, proof.rows) == (6, 12, 6 * ROWS)
    assert proof.bytes == sum(each.stat().st_size for each in lake.journal.rglob("*part-0*"))
    assert prove(lake).rows == proof.rows


def gone(lake: Lake) -> str:
    (stretch(lake, 1).path / "part-0.parquet").unlink()
    return f"{MIDDLE}/part-0.parquet is gone"


def cut(lake: Lake) -> str:
    (stretch(lake, 1).path / "part-0.parquet").write_text("a20")
    return f"{MIDDLE}/part-0.parquet has 3 bytes, and had 30 when it was published"


def damaged(lake: Lake) -> str:
    flipped(stretch(lake, 1).path / "part-0.parquet")
    return f"{MIDDLE}/part-0.parquet is damaged: it does not fit the SHA-256 that it was published with"


def sums_damaged(lake: Lake) -> str:
    """Spark reads them, and ends where they do not fit."""
    flipped(stretch(lake, 1).path / ".part-0.parquet.crc")
    return f"{MIDDLE}/.part-0.parquet.crc is damaged"


def added(lake: Lake) -> str:
    (stretch(lake, 1).path / "part-1.parquet").write_text("more")
    return f"{MIDDLE}/part-1.parquet is in no manifest"


def renamed(lake: Lake) -> str:
    path = stretch(lake, 1).path / "part-0.parquet"
    path.rename(path.with_name("part-9.parquet"))
    return f"{MIDDLE}/part-0.parquet is gone; {MIDDLE}/part-9.parquet is in no manifest"


def linked(lake: Lake) -> str:
    path = stretch(lake, 1).path / "part-0.parquet"
    elsewhere = lake.path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    return f"{MIDDLE}/part-0.parquet is a symbolic link"


def a_folder_instead(lake: Lake) -> str:
    path = stretch(lake, 1).path / "part-0.parquet"
    path.unlink()
    path.mkdir()
    return f"{MIDDLE}/part-0.parquet is no file"


def manifest_gone(lake: Lake) -> str:
    (stretch(lake, 1).path / "_manifest.json").unlink()
    return f"{MIDDLE}/_manifest.json is gone"


def manifest_of_another_format(lake: Lake) -> str:
    (stretch(lake, 1).path / "_manifest.json").write_text("[]\n")
    return f"{MIDDLE}/_manifest.json is damaged: is no JSON object"


def files_gone(lake: Lake) -> str:
    """A manifest without its files."""
    for path in stretch(lake, 1).path.glob("*part*"):
        path.unlink()
    return f"{MIDDLE}/.part-0.parquet.crc is gone; {MIDDLE}/part-0.parquet is gone"


def stretch_empty(lake: Lake) -> str:
    shutil.rmtree(stretch(lake, 1).path)
    (lake.path / MIDDLE).mkdir()
    return f"{MIDDLE}/_manifest.json is gone"


def first_gone(lake: Lake) -> str:
    shutil.rmtree(stretch(lake, 0).path)
    return f"{A} has no records from 1 up to 10: the first stretches are gone"


def middle_gone(lake: Lake) -> str:
    shutil.rmtree(stretch(lake, 1).path)
    return f"{A} has no records from 10 up to 20: a stretch is gone"


def last_gone(lake: Lake) -> str:
    shutil.rmtree(stretch(lake, 2).path)
    return f"{A} has no records from 20 up to 30: the last stretches are gone"


def member_gone(lake: Lake) -> str:
    shutil.rmtree(lake.folder("a"))
    return f"{A} has no records from 1 up to 30"


def member_gone_with_all_that_is_said_of_it(lake: Lake) -> str:
    shutil.rmtree(lake.folder("b"))
    lake.range_path("b").unlink()
    lake.heads_path("b").unlink()
    return "journal/member=b is gone, with all that this lake says of member b"


def journal_gone(lake: Lake) -> str:
    shutil.rmtree(lake.journal)
    return f"{A} has no records from 1 up to 30; journal/member=b has no records from 1 up to 30"


def stretch_renamed(lake: Lake) -> str:
    stretch(lake, 2).path.rename(lake.path / A / name(20, 29))
    return f"{A} has no records from 29 up to 30; {A}/{name(20, 29)} has the manifest of member=a/{name(20, 30)}"


def stretch_away(lake: Lake) -> str:
    stretch(lake, 1).path.rename(lake.path / A / "old")
    return f"{A} has no records from 10 up to 20; {A}/old is in no manifest"


def stretch_doubled_behind(lake: Lake) -> str:
    shutil.copytree(stretch(lake, 1).path, lake.path / A / name(30, 40))
    return f"{A}/{name(30, 40)} has the manifest of member=a/{name(10, 20)}: it was copied or renamed"


def stretch_doubled_inside(lake: Lake) -> str:
    shutil.copytree(stretch(lake, 1).path, lake.path / A / name(11, 19))
    return f"{A}/{name(11, 19)} has records that {name(10, 20)} has too"


def stretch_doubled_around(lake: Lake) -> str:
    """The ones that are right would count for nothing."""
    shutil.copytree(stretch(lake, 1).path, lake.path / A / name(1, 30))
    return f"{A}/{name(1, 30)} has the manifest of member=a/{name(10, 20)}: it was copied or renamed"


def stretch_across(lake: Lake) -> str:
    shutil.copytree(stretch(lake, 2).path, lake.path / A / name(15, 35))
    return f"{A}/{name(15, 35)} has records that {name(10, 20)} has too"


def stretch_of_the_other_member(lake: Lake) -> str:
    shutil.rmtree(stretch(lake, 1).path)
    shutil.copytree(stretch(lake, 1, "b").path, lake.path / MIDDLE)
    return f"{MIDDLE} has the manifest of member=b/{name(10, 20)}"


def stretch_of_another_lake(lake: Lake) -> str:
    other = Lake(lake.path.parent / "other")
    with other.locked():
        other.claim({"domain": "main"})
        publish(other, "a", 10, 20, 30, 40)
    shutil.copytree(stretch(other, 3).path, lake.path / A / name(30, 40))
    return f"{A}/{name(30, 40)} is of lake '{other.name()}', and this one is '{lake.name()}'"


def stretch_linked(lake: Lake) -> str:
    elsewhere = lake.path / "elsewhere"
    stretch(lake, 1).path.rename(elsewhere)
    (lake.path / MIDDLE).symlink_to(elsewhere)
    return f"{MIDDLE} is a symbolic link"


def a_third_member(lake: Lake) -> str:
    shutil.copytree(lake.folder("a"), lake.folder("c"))
    return "_ranges/c.json is gone"


def a_file_beside_the_members(lake: Lake) -> str:
    (lake.journal / "part-7.parquet").touch()
    return "journal/part-7.parquet is in no manifest"


def range_gone(lake: Lake) -> str:
    lake.range_path("a").unlink()
    return "_ranges/a.json is gone"


def ranges_gone(lake: Lake) -> str:
    shutil.rmtree(lake.range_path("a").parent)
    return "_ranges/a.json is gone; _ranges/b.json is gone"


def range_damaged(lake: Lake) -> str:
    path = lake.range_path("a")
    path.write_text(path.read_text().replace("30", "20"))
    return "_ranges/a.json cannot be read: does not fit its digest"


def range_of_another(lake: Lake) -> str:
    shutil.copy(lake.range_path("b"), lake.range_path("a"))
    return f"_ranges/a.json is of member b of lake '{lake.name()}', and not of this one"


def facts_gone(lake: Lake) -> str:
    (lake.path / "_lake.json").unlink()
    return "_lake.json is gone"


def facts_damaged(lake: Lake) -> str:
    path = lake.path / "_lake.json"
    path.write_text(path.read_text().replace('"domain": "main"', '"domain": "mein"'))
    return "_lake.json cannot be read: does not fit its digest"


def heads_gone(lake: Lake) -> str:
    lake.heads_path("a").unlink()
    return "_heads/a.json is gone"


def heads_copied(lake: Lake) -> str:
    shutil.copy(lake.heads_path("a"), lake.heads_path("c"))
    return "_heads/c.json is of member a: it was copied or renamed"


def heads_damaged(lake: Lake) -> str:
    path = lake.heads_path("a")
    path.write_text(path.read_text().replace("30", "31"))
    return "_heads/a.json cannot be read: does not fit its digest"


def heads_without_a_digest(lake: Lake) -> str:
    path = lake.heads_path("a")
    path.write_text(path.read_text().replace('"digest"', '"digesu"'))
    return "_heads/a.json cannot be read: has no digest"


FAULTS: tuple[Callable[[Lake], str], ...] = (
    *(gone, cut, damaged, sums_damaged, added, renamed, linked, a_folder_instead),
    *(manifest_gone, manifest_of_another_format, files_gone, stretch_empty),
    *(
        first_gone,
        middle_gone,
        last_gone,
        member_gone,
        member_gone_with_all_that_is_said_of_it,
        journal_gone,
        stretch_renamed,
        stretch_away,
    ),
    *(stretch_doubled_behind, stretch_doubled_inside, stretch_doubled_around, stretch_across),
    *(stretch_of_the_other_member, stretch_of_another_lake, stretch_linked, a_third_member, a_file_beside_the_members),
    *(range_gone, ranges_gone, range_damaged, range_of_another),
    *(facts_gone, facts_damaged, heads_gone, heads_copied, heads_damaged, heads_without_a_digest),
)


@pytest.mark.parametrize("fault", FAULTS, ids=[each.__name__ for each in FAULTS])
def test_what_was_done_to_a_lake_is_named_at_its_path(lake: Lake, fault: Callable[[Lake], str]) -> None:
    wanted = fault(lake).split("; ")
    found = told(lake)
    lines = [f"{path} {what}" for path, what, _ in found]
    for want in wanted:
        assert [line for line in lines if line.startswith(want)], lines
    alone = fault not in (stretch_across, a_third_member)  # there a copy is more than one thing
    assert not alone or len(found) == len(wanted), lines
    assert {next_step for _, _, next_step in found} <= {REMOVE, RENAME, RESTORE, f"{RESTORE}, or run ingest"} or (
        fault is heads_gone
    )
    with pytest.raises(PipelineError, match="BAD_LAKE") as caught:
        prove(lake)
    assert caught.value.cause.startswith(f"{lake.path}/{lines[0]}")
    assert ("`tandemq pipeline verify" in caught.value.cause) == (len(found) > 1)
    assert caught.value.next_step == found[0][2]


@pytest.mark.parametrize("at", [0, 0.2, 0.4, 0.6, 0.8, 0.999])
def test_a_bit_of_a_file_of_the_lakes_own_counts(lake: Lake, at: float) -> None:
    """Any bit: see test_sealed."""
    manifest = stretch(lake, 0).path / "_manifest.json"
    for path in (manifest, lake.range_path("a"), lake.heads_path("a"), lake.path / "_lake.json"):
        flipped(path, int(path.stat().st_size * at))
        assert [where for where, _, _ in told(lake)] == [str(path.relative_to(lake.path))]
        flipped(path, int(path.stat().st_size * at))
    assert told(lake) == []


def test_digests_are_read_of_as_much_as_was_asked_the_newest_first(lake: Lake) -> None:
    flipped(stretch(lake, 0).path / "part-0.parquet")
    size = sum(each.stat().st_size for each in stretch(lake, 2).path.glob("*part*"))
    assert prove(lake, read_bytes=0).unread_bytes == 6 * size
    assert prove(lake, read_bytes=4 * size).unread_bytes == 2 * size
    seen: list[tuple[int, int]] = []
    assert len(examine(lake, on_progress=lambda done, of: seen.append((done, of))).findings) == 1
    assert seen[-1] == (6 * size, 6 * size)


def test_damage_is_not_put_together_with_what_is_right(lake: Lake) -> None:
    assert [each.rows for each in prove_stretches(lake.stretches("a"))] == [ROWS] * 3
    flipped(stretch(lake, 1).path / "part-0.parquet")
    with pytest.raises(PipelineError, match=f"BAD_LAKE: {lake.path}/{MIDDLE}/part-0.parquet is damaged"):
        prove_stretches(lake.stretches("a"))


def test_the_next_job_removes_no_stretch_on_the_word_of_one_that_is_damaged(lake: Lake) -> None:
    """1. Three stretches are put together. 2. The writer dies before he removes them. 3. The wide one is damaged."""
    narrow = lake.stretches("a")
    kept = lake.path.parent / "kept"
    shutil.copytree(lake.folder("a"), kept)
    with lake.locked():
        wide = lake.replace("a", narrow, staged(lake, "wide"), rows=3 * ROWS)
    shutil.copytree(kept, lake.folder("a"), dirs_exist_ok=True)
    assert (told(lake), lake.paths()[0]) == ([], str(wide.path)), "what he left is no damage"
    flipped(wide.path / "part-0.parquet")
    with lake.locked():
        assert [each.path.exists() for each in narrow] == [True] * 3
        assert [path for path, _, _ in told(lake)] == [f"{A}/{name(1, 30)}/part-0.parquet"]
    flipped(wide.path / "part-0.parquet")
    with lake.locked():
        assert [each.path.exists() for each in narrow] == [False] * 3
    assert told(lake) == []


def test_a_copy_around_the_right_ones_removes_none_of_them(lake: Lake) -> None:
    stretch_doubled_around(lake)
    with lake.locked():
        assert (lake.path / MIDDLE / "part-0.parquet").exists()


class Moving(Lake):
    """In which an ingest puts stretches together while somebody looks."""

    at: int
    looks: int = 0

    def every(self, member: str) -> list[Stretch]:
        found = super().every(member)
        self.looks += 1
        if self.looks == self.at:
            other = Lake(self.path)
            other.replace(member, found, staged(other, "wide"), rows=3 * ROWS)
        return found


@pytest.mark.parametrize("at", range(1, 5))
def test_what_an_ingest_does_meanwhile_is_no_damage(lake: Lake, at: int) -> None:
    moving = Moving(lake.path)
    moving.at = at
    assert prove(moving).rows == 6 * ROWS
    assert moving.looks >= at


def test_nor_is_what_it_does_while_digests_are_read(lake: Lake) -> None:
    def on_progress(done: int, size: int) -> None:
        if len(stretches := lake.stretches("b")) > 1:
            lake.replace("b", stretches, staged(lake, "wide"), rows=3 * ROWS)

    assert prove(lake, on_progress=on_progress).rows == 6 * ROWS
    assert len(lake.stretches("b")) == 1


class Restless(Lake):
    """To which something is added whenever it is looked at."""

    looks: int = 0

    def every(self, member: str) -> list[Stretch]:
        self.looks += 1
        other = Lake(self.path)
        end = other.stretches(member)[-1].end.log_index
        other.publish(member, end, Place(end + 1, 3), staged(other), rows=1)
        return other.every(member)


def test_a_look_ends_however_much_moves(lake: Lake) -> None:
    damaged(lake)
    restless = Restless(lake.path)
    assert len(examine(restless).findings) == 1
    assert restless.looks == 2 * (3 * LOOKS_MAX - 2), "of two members: before, at and after each look; not for the last"


def test_a_stretch_whose_writer_died_before_he_said_so_is_taken(lake: Lake) -> None:
    before = lake.range_path("a").read_bytes()
    with lake.locked():
        publish(lake, "a", 40)
    lake.range_path("a").write_bytes(before)
    assert told(lake) == []
    with lake.locked():
        settle(lake, lambda _: None)
    assert lake.range("a").next == 40
    shutil.rmtree(lake.stretches("a")[-1].path)
    assert [what for _, what, _ in told(lake)] == ["has no records from 30 up to 40: the last stretches are gone"]


def test_a_job_that_goes_on_hides_nothing_of_what_was_done_before(lake: Lake) -> None:
    heads_gone(lake)
    last_gone(lake)
    with lake.locked():
        lake.publish("a", 20, Place(25, 3), staged(lake), rows=1)
    assert {f"{path} {what}" for path, what, _ in told(lake)} == {
        "_heads/a.json is gone",
        f"{A} has no records from 25 up to 30: the last stretches are gone",
    }


def test_nothing_is_clean_and_empty(tmp_path: Path) -> None:
    proof = examine(Lake(tmp_path / "nothing"))
    assert (proof.findings, proof.stretches, proof.of_before) == ([], 0, False)
    lake = Lake(tmp_path / "new")
    with lake.locked():
        lake.claim({})
        lake.save_heads("a", [])
    assert told(lake) == []


def test_a_lake_of_before_is_not_proven_and_a_hole_in_it_is_told(lake: Lake) -> None:
    of_before(lake)
    proof = prove(lake)
    assert (proof.of_before, proof.stretches, proof.findings) == (True, 0, [])
    shutil.rmtree(stretch(lake, 1).path)
    assert [path for path, _, _ in told(lake)] == [A]


def test_names_that_are_no_text_are_told(lake: Lake) -> None:
    (stretch(lake, 1).path / "x\udcff.parquet").touch()
    assert [path for path, _, _ in told(lake)] == [f"{MIDDLE}/x\\udcff.parquet"]


def test_a_long_check_says_how_far_it_is() -> None:
    lines: list[str] = []
    now = iter((0.0, 1.0, 2.0, 3.0, 4.5))
    on_progress = progress_to(lines.append, now.__next__)
    for done in range(1, 5):
        on_progress(done << 20, 4 << 20)
    assert lines == [f"the lake's files are checked: {done} of 4 MiB" for done in (2, 4)]
