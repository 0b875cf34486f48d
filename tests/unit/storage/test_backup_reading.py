"""A backup is read as any store is: each question has the answer that a store with the same records gives."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from struct import Struct

import google_crc32c
import msgspec
import pytest

from storage.backup import (
    FOOT,
    HEAD,
    MAGIC,
    META,
    RECORDS,
    VERSION,
    BackupFile,
    DamagedBackup,
    Packer,
    open_backup,
)
from storage.errors import CorruptRecord, StoreFailed
from storage.memory import MemoryStore
from storage.records import ZERO_DIGEST, assemble, build_head
from storage.store import RESERVED_META, Append, WriteBatch
from tests.unit.storage.test_backup import HEAD as HEAD_OF
from tests.unit.storage.test_backup import opened, packed

FRAME = Struct(">IIB")


def records(domain: int, *log_indexes: int) -> list[tuple[int, bytes]]:
    found, digest = [], ZERO_DIGEST
    for log_index in log_indexes:
        head, digest = build_head(
            flags=0,
            domain=domain,
            epoch=1,
            log_index=log_index,
            header=b"h" * (log_index % 5),
            body=b"b" * (log_index % 7),
            previous_digest=digest,
        )
        found.append((log_index, assemble(head, b"b" * (log_index % 7))))
    return found


ROWS = {1: records(1, 2, 3, 5, 8, 9, 12, 20), 7: records(7, 1)}
VALUES = {"a/1": b"1", "a/2": b"", "b": b"3"}


@pytest.fixture
def backup(tmp_path: Path) -> BackupFile:
    packer = Packer()
    parts = [packer.begin(HEAD_OF), packer.meta([("b", b"3"), ("a/2", b"")]), packer.meta([("a/1", b"1")])]
    parts += [packer.records(1, ROWS[1][:3]), packer.records(1, ROWS[1][3:4]), packer.records(1, ROWS[1][4:])]
    parts += [packer.records(7, ROWS[7])]
    return opened(tmp_path, b"".join([*parts, packer.end()]))


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    made.commit(
        WriteBatch(appends=[Append(domain, *row) for domain, rows in ROWS.items() for row in rows], meta=dict(VALUES))
    )
    return made


def test_each_question_has_the_stores_answer(backup: BackupFile, store: MemoryStore) -> None:
    for domain in (1, 2, 7):
        assert backup.bounds(domain) == store.bounds(domain)
        for first in range(22):
            assert backup.read(domain, first) == store.read(domain, first)
            assert backup.scan_prefixes(domain, first) == store.scan_prefixes(domain, first)
            assert backup.scan_heads(domain, first) == store.scan_heads(domain, first)
            assert backup.scan_indexes(domain, first) == store.scan_indexes(domain, first)
            for limit in (0, 1, 2, 99):
                assert backup.scan(domain, first, limit_records=limit) == store.scan(domain, first, limit_records=limit)
                assert backup.scan_prefixes(domain, first, limit=limit) == store.scan_prefixes(
                    domain, first, limit=limit
                )
                assert backup.scan_heads(domain, first, limit=limit) == store.scan_heads(domain, first, limit=limit)
                assert backup.scan_indexes(domain, first, limit=limit) == store.scan_indexes(domain, first, limit=limit)
            for limit in (0, 60, 61, 130, 1 << 20):
                assert backup.scan(domain, first, limit_bytes=limit) == store.scan(domain, first, limit_bytes=limit)
        assert backup.read_many(domain, range(22)) == store.read_many(domain, range(22))
    for prefix in ("", "a/", "b", "c"):
        assert backup.meta_items(prefix) == [each for each in store.meta_items(prefix) if each[0] not in RESERVED_META]
    assert [backup.get_meta(key) for key in ("b", "c")] == [b"3", None]
    assert (backup.domains(), list(backup.doubts), backup.reader_check()) == ([1, 7], [], 0)
    size = backup.path.stat().st_size
    usage = backup.usage()
    assert (usage.used_bytes, usage.map_bytes, usage.file_bytes, backup.bytes) == (size, size, size, size)
    assert backup.head.records == 5
    backup.close()


def test_it_is_read_alone(backup: BackupFile) -> None:
    for use in (lambda: backup.commit(WriteBatch()), backup.view):
        with pytest.raises(StoreFailed):
            use()
    backup.close()


def test_a_record_under_a_key_that_is_not_its_own_is_found_out(tmp_path: Path) -> None:
    packer = Packer()
    data = b"".join([packer.begin(HEAD_OF), packer.records(1, [(4, ROWS[1][0][1])]), packer.end()])
    with closing(opened(tmp_path, data)) as backup, pytest.raises(CorruptRecord, match="says 1, 2"):
        backup.scan_prefixes(1, 0)


def test_progress_is_told_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_bytes(packed())
    told: list[tuple[int, int]] = []
    open_backup(path, lambda done, size: told.append((done, size))).close()
    size = path.stat().st_size
    assert {each for _, each in told} == {size}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (size, size)
    assert len(told) == 6, "each frame but head and foot, and the end"


def test_a_packer_counts_and_proves_what_it_made() -> None:
    packer = Packer()
    assert (packer.count, packer.bytes) == (0, 0)
    data = packer.begin(HEAD_OF) + packer.records(1, ROWS[1])
    assert (packer.count, packer.bytes) == (7, len(data))
    before = packer.digest()
    data += packer.end()
    assert packer.bytes == len(data)
    assert packer.digest() != before
    assert len(before) == 32


def frame(kind: int, data: bytes) -> bytes:
    crc = google_crc32c.extend(google_crc32c.value(bytes([kind])), data)
    return FRAME.pack(len(data), crc, kind) + data


def file_of(*frames: bytes, version: int = VERSION) -> bytes:
    return MAGIC + bytes([version]) + b"".join(frames)


WHOLE_HEAD = frame(HEAD, msgspec.msgpack.encode(HEAD_OF))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (file_of(version=0), "has format 0"),
        (file_of(frame(META, b"")), "first frame is of kind 2, not the head"),
        (file_of(frame(HEAD, b"\xc1")), "Its head cannot be read"),
        (file_of(frame(HEAD, msgspec.msgpack.encode({"pair": "p"}))), "Its head cannot be read"),
        (file_of(WHOLE_HEAD, frame(9, b"")), "is of kind 9, which does not exist"),
        (file_of(WHOLE_HEAD, frame(HEAD, b"")), "is of kind 1, which does not exist"),
        (file_of(WHOLE_HEAD, frame(FOOT, b"\x01")), "Its foot cannot be read"),
        (file_of(WHOLE_HEAD, frame(META, b"\x00")), "holds no named values"),
        (file_of(WHOLE_HEAD, frame(META, b"\x00\x01k\x00\x00")), "holds no named values"),
        (file_of(WHOLE_HEAD, frame(META, b"\x00\x01\xff\x00\x00\x00\x00")), "holds no named values"),
        (file_of(WHOLE_HEAD, frame(META, b"\x00\x01k\x00\x00\x00\x02v")), "ends within the value of 'k'"),
        (file_of(WHOLE_HEAD, frame(RECORDS, b"\x00")), "holds no records"),
        (file_of(WHOLE_HEAD, frame(RECORDS, bytes(4))), "holds no record"),
        (file_of(WHOLE_HEAD, frame(RECORDS, bytes(5))), "holds no records"),
        (file_of(WHOLE_HEAD, frame(RECORDS, bytes(15) + b"\x02v")), "ends within record 0"),
        (file_of(WHOLE_HEAD, frame(RECORDS, bytes(4) + (bytes(11) + b"\x00") * 2)), "record 0 of domain 0x0 follows 0"),
        (file_of(WHOLE_HEAD), "without its foot"),
        (MAGIC, "It ends after 7 bytes"),
        (b"TQ", "It ends after 2 bytes"),
        (b"", "It ends after 0 bytes"),
    ],
)
def test_frames_that_are_whole_and_say_nothing_are_refused(tmp_path: Path, data: bytes, what: str) -> None:
    with pytest.raises(DamagedBackup, match=what):
        opened(tmp_path, data)


def test_a_value_that_ends_its_frame_is_whole(tmp_path: Path) -> None:
    packer = Packer()
    data = b"".join([packer.begin(HEAD_OF), packer.meta([("k", b"v")]), packer.records(0, [(0, b"")]), packer.end()])
    with closing(opened(tmp_path, data)) as backup:
        assert (backup.get_meta("k"), backup.scan(0, 0), backup.bounds(0)) == (b"v", [(0, b"")], (0, 0))


@pytest.mark.parametrize("change", ["records", "size", "digest"])
def test_a_foot_that_describes_other_bytes_is_refused(tmp_path: Path, change: str) -> None:
    packer = Packer()
    data = packer.begin(HEAD_OF) + packer.records(1, ROWS[1])
    foot = {"records": 7, "size": len(data), "digest": packer.digest()}
    good = data + frame(FOOT, msgspec.msgpack.encode(foot))
    opened(tmp_path, good).close()
    foot[change] = bytes(32) if change == "digest" else foot[change] + 1  # type: ignore[operator]  # an int
    with pytest.raises(DamagedBackup, match="describes other bytes"):
        opened(tmp_path, data + frame(FOOT, msgspec.msgpack.encode(foot)))


def test_a_frame_is_read_once_for_its_neighbours(backup: BackupFile) -> None:
    class Counting(io.BytesIO):
        reads = 0

        def read(self, *size: int | None) -> bytes:
            self.reads += 1
            return super().read(*size)

    counting = Counting(backup.path.read_bytes())
    backup._file.close()
    backup._file = counting
    reads: list[int] = []
    for log_index in (2, 3, 9, 2):
        before = counting.reads
        assert backup.read(1, log_index) is not None
        reads.append(counting.reads - before)
    assert (reads[:2], reads[2] > 0, reads[3] > 0) == ([2, 0], True, True)
    backup.close()
