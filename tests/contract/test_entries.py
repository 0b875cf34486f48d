"""What lies in a directory under a store's names, and is no file: refused by name, and never waited for.

A store whose database is gone, or was cut to nothing, was taken for a new one: it served, and knew nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import pytest

from failover.register import Register, claim
from failover.wire import to_message
from failover.witness_store import StoreDamagedError, WitnessStore
from storage.commit_log import LOG_NAME
from storage.compaction import compact
from storage.directory import LOCK_NAME
from storage.disk import open_to_read
from storage.environment import DATA_FILE, LOCK_FILE
from storage.errors import CorruptRecord
from storage.mark import MARK_FILE
from storage.room import BALLAST_NAME
from tandemq.witness.v1 import witness_service_pb2 as pb
from tests.support.commit_logs import begin, killed, open_here


def _in_circles(path: Path) -> None:
    path.symlink_to(path.name)


INSTEAD = MappingProxyType(
    {
        "a directory": Path.mkdir,
        "a pipe": os.mkfifo,
        "a device": lambda path: path.symlink_to("/dev/zero"),
        "leads nowhere": lambda path: path.symlink_to("/nowhere/at/all"),
        "a link that leads nowhere": _in_circles,
    }
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = open_here(tmp_path / "a")
    begin(store)
    return killed(store)


@pytest.mark.parametrize("name", [LOCK_NAME, DATA_FILE, LOCK_FILE, LOG_NAME, BALLAST_NAME])
@pytest.mark.parametrize("what", INSTEAD)
def test_what_is_no_file_is_refused_by_its_name(directory: Path, name: str, what: str) -> None:
    (directory / name).unlink(missing_ok=True)
    instead: Callable[[Path], object] = INSTEAD[what]
    instead(directory / name)
    before = sorted(path.name for path in directory.iterdir())
    for opens in (open_here, open_to_read, compact):
        with pytest.raises(CorruptRecord, match=f"^{name} is ") as refused:
            opens(directory)
        assert what.removeprefix("a link that ") in str(refused.value)
    assert sorted(path.name for path in directory.iterdir()) == before


@pytest.mark.parametrize("name", [MARK_FILE, "events.jsonl"])
def test_a_pipe_of_any_other_name_is_refused_too(directory: Path, name: str) -> None:
    """Whoever opens it waits for ever."""
    (directory / name).unlink(missing_ok=True)
    os.mkfifo(directory / name)
    with pytest.raises(CorruptRecord, match=f"^{name} is a pipe"):
        open_here(directory)


def test_what_is_somebody_elses_and_cannot_be_looked_at_keeps_nobody_from_starting(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place for backups, for example, whose mount is broken."""
    looks = Path.stat

    def broken(path: Path, **how: bool) -> os.stat_result:
        if path.name in broken_names:
            raise OSError(errno.ENOTCONN, "not connected", str(path))
        return looks(path, **how)

    monkeypatch.setattr(Path, "stat", broken)
    broken_names = {"backups"}
    (directory / "backups").mkdir()
    open_here(directory).close()
    broken_names = {DATA_FILE}
    with pytest.raises(OSError, match="not connected"):
        open_here(directory)


def test_a_link_to_the_file_is_the_file(directory: Path, tmp_path: Path) -> None:
    shutil.move(directory / DATA_FILE, tmp_path / "elsewhere")
    (directory / DATA_FILE).symlink_to(tmp_path / "elsewhere")
    with closing(open_here(directory)) as store:
        assert store.bounds(1) is not None


@pytest.mark.parametrize("left", [LOG_NAME, MARK_FILE, LOCK_FILE])
def test_a_database_that_is_gone_is_not_made_anew_beside_what_was_made_after_it(directory: Path, left: str) -> None:
    for path in directory.iterdir():
        if path.name != left:
            path.unlink()
    for opens in (open_here, open_to_read):
        with pytest.raises(CorruptRecord, match=f"data.mdb is missing; {left}"):
            opens(directory)


def test_a_database_that_was_cut_to_nothing_is_no_new_one(directory: Path) -> None:
    os.truncate(directory / DATA_FILE, 0)
    with pytest.raises(CorruptRecord, match=r"data\.mdb is empty"):
        open_here(directory)


def test_a_directory_that_was_left_before_its_database_was_there_is_a_new_one(tmp_path: Path) -> None:
    directory = tmp_path / "a"
    (directory / f"{DATA_FILE}.making").mkdir(parents=True)
    (directory / LOCK_NAME).write_text("1\n")
    with closing(open_here(directory)) as store:
        assert store.bounds(1) is None


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    with closing(WitnessStore(tmp_path)) as store:
        for pair in ("p", "q"):
            desired = claim(Register(), member="a", epoch=1, members=frozenset("a"), nonce=b"n")
            store.compare_and_set(
                pb.CompareAndSetRequest(
                    pair=pair, domain="main", expected=to_message(Register()), desired=to_message(desired), member="a"
                )
            )
        assert len(store) == 2
    return tmp_path


@pytest.mark.parametrize("name", [LOCK_NAME, f"registers/{DATA_FILE}", f"registers/{LOCK_FILE}"])
@pytest.mark.parametrize("what", INSTEAD)
def test_a_witness_says_by_name_what_is_no_file(witness: Path, name: str, what: str) -> None:
    (witness / name).unlink()
    INSTEAD[what](witness / name)
    with pytest.raises(StoreDamagedError, match=f"^{Path(name).name} is "):
        WitnessStore(witness)


def test_a_witness_begins_no_new_registers_in_place_of_those_that_are_gone(witness: Path) -> None:
    """Before, it answered that it had never heard of the pair."""
    data = witness / "registers" / DATA_FILE
    os.truncate(data, 0)
    with pytest.raises(StoreDamagedError, match=r"data\.mdb is empty"):
        WitnessStore(witness)
    data.unlink()
    with pytest.raises(StoreDamagedError, match=r"data\.mdb is missing"):
        WitnessStore(witness)
    shutil.rmtree(witness / "registers")
    (witness / "registers").touch()
    with pytest.raises(StoreDamagedError, match="registers is no directory"):
        WitnessStore(witness)


def flip(file: Path, at: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << bit
    file.write_bytes(data)


def test_a_register_under_a_name_that_was_damaged_is_not_another_pairs(witness: Path) -> None:
    """The name has no checksum: the register of the pair was gone, and the witness began a new one."""
    data = witness / "registers" / DATA_FILE
    places = [at for at in _places(data.read_bytes(), b"p\x00main") if data.read_bytes()[at - 1] == 0]
    registers = 0
    for at in places:
        kept = data.read_bytes()
        flip(data, at + 3, bit=5)
        try:
            with closing(WitnessStore(witness)) as store:
                assert {pair + domain for pair, domain, _ in store.registers()} == {"pmain", "qmain"}
        except StoreDamagedError:
            registers += 1
        data.write_bytes(kept)
    assert registers, places


def test_a_database_of_the_witness_under_another_name_is_not_a_new_one(witness: Path) -> None:
    data = witness / "registers" / DATA_FILE
    kept = data.read_bytes()
    refused = 0
    for at in _places(kept, b"registers"):
        flip(data, at + 8)
        try:
            with closing(WitnessStore(witness)) as store:
                assert len(store) == 2
        except StoreDamagedError:
            refused += 1
        data.write_bytes(kept)
    assert refused


def test_a_witness_does_not_go_on_from_an_older_moment(witness: Path) -> None:
    """A meta page that says less than it did: LMDB goes on from the other one, and the last answer is forgotten."""
    data = witness / "registers" / DATA_FILE
    head = data.read_bytes()
    newer = max((0, 4096), key=lambda page: int.from_bytes(head[page + 144 : page + 152], "little"))
    flip(data, newer + 144, bit=3)
    with pytest.raises(StoreDamagedError, match="do not follow each other"):
        WitnessStore(witness)


def test_what_lmdb_cannot_read_is_damage(witness: Path) -> None:
    (witness / "registers" / DATA_FILE).write_bytes(bytes(range(256)) * 64)
    with pytest.raises(StoreDamagedError, match="LMDB cannot read the registers"):
        WitnessStore(witness)


def _places(data: bytes, text: bytes) -> list[int]:
    found, at = [], data.find(text)
    while at >= 0:
        found.append(at)
        at = data.find(text, at + 1)
    return found
