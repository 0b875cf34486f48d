"""What a sink keeps beside its checkpoint: found again, whole, and never guessed where it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq.client.places import JournalPosition
from tandemq.errors import InvalidRequest
from tandemq.spark.kept import FILE, Kept, folder_of, load, save

KEPT = Kept("w", "query", 57, JournalPosition(120, 3, history_id="ab" * 16))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "a b" / "offsets").mkdir(parents=True)
    return tmp_path / "a b"


def test_a_checkpoint_is_found_where_it_is_on_this_machine_and_was_begun(checkpoint: Path) -> None:
    assert (
        folder_of(str(checkpoint)) == folder_of(f"file:{checkpoint}") == folder_of(f"file://{checkpoint}") == checkpoint
    )
    for elsewhere in (f"hdfs://name{checkpoint}", "s3a://bucket/x", str(checkpoint / "none"), "relative"):
        assert folder_of(elsewhere) is None


def test_what_was_kept_is_found_again_by_its_writer_alone(checkpoint: Path) -> None:
    assert load(checkpoint, "w") is None
    save(checkpoint, KEPT)
    assert load(checkpoint, "w") == KEPT
    assert load(checkpoint, "other") is None
    later = KEPT._replace(batch=58)
    save(checkpoint, later)
    assert load(checkpoint, "w") == later
    assert [path.name for path in checkpoint.iterdir() if path.is_file()] == [FILE], "nothing is left beside it"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"writer": "w", "query_id": "q", "batch": "x"}'])
def test_what_cannot_be_read_is_named_and_not_taken_for_nothing(checkpoint: Path, text: str) -> None:
    (checkpoint / FILE).write_text(text)
    with pytest.raises(InvalidRequest, match=f"BAD_CHECKPOINT.*{FILE}"):
        load(checkpoint, "w")


def test_what_cannot_be_written_is_named(checkpoint: Path) -> None:
    (checkpoint / FILE).mkdir()
    with pytest.raises(InvalidRequest, match=f"BAD_CHECKPOINT.*{FILE}"):
        save(checkpoint, KEPT)
