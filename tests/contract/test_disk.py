"""What only a disk can do: belong to somebody, be in use, be damaged, fill up, survive its writer."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import lmdb
import pytest

from storage.compaction import compact
from storage.directory import begin_restoring
from storage.disk import DiskStore, open_disk, open_to_read
from storage.environment import open_environment
from storage.errors import CorruptRecord, DirectoryInUse, NewerFormat, RestoreUnfinished, StoreFailed, WrongPair
from storage.records import verify
from storage.store import Append, WriteBatch
from tests.support.until import OUTER_S

ROOT = Path(__file__).resolve().parents[2]
BALLAST = 64 << 10


def open_here(directory: Path, *, pair="p", member="a", ballast_bytes=0, **options) -> DiskStore:
    return open_disk(directory, pair=pair, member=member, ballast_bytes=ballast_bytes, **options)


def put_meta(directory: Path, key: bytes, value: bytes | None) -> None:
    """Behind the store's back."""
    with lmdb.open(str(directory), max_dbs=2, lib_version=0) as env, env.begin(write=True) as txn:
        meta = env.open_db(b"meta", txn=txn)
        if value is None:
            assert txn.delete(key, db=meta)
        else:
            txn.put(key, value, db=meta)


def start(
    script: str, *arguments: object, under: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [*under, sys.executable, "-c", PREAMBLE + script, *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
    )


def run(script: str, *arguments: object, under: tuple[str, ...] = ()) -> str:
    with start(script, *arguments, under=under) as process:
        out, error = process.communicate(timeout=OUTER_S)
    assert process.returncode == 0, error
    return out


PREAMBLE = """
import errno, os, resource, signal, sys
from pathlib import Path
from storage.disk import open_disk
from storage.errors import *
from storage.records import *
from storage.store import *
directory = Path(sys.argv[1])
"""


def test_only_its_owner_can_look_into_a_store(tmp_path):
    directory = tmp_path / "data" / "a"
    open_here(directory).close()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


def test_a_directory_that_was_there_is_closed_to_others(tmp_path):
    (tmp_path / "a").mkdir(mode=0o755)
    open_here(tmp_path / "a").close()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_every_directory_is_an_instance_of_its_own(tmp_path):
    instances = set()
    for name in ("x", "y", "x"):
        store = open_here(tmp_path / name)
        instances.add(store.get_meta("instance"))
        store.close()
    assert len(instances) == 2


@pytest.mark.parametrize(("pair", "member"), [("p", "b"), ("q", "a")])
def test_a_directory_of_somebody_else_is_refused(tmp_path, pair, member):
    open_here(tmp_path).close()
    with pytest.raises(WrongPair, match=f"belongs to member a of pair p, this is member {member} of pair {pair}"):
        open_here(tmp_path, pair=pair, member=member)
    open_here(tmp_path).close()  # neither locked nor changed


def test_a_newer_format_is_refused_whoever_it_belongs_to(tmp_path):
    open_here(tmp_path).close()
    put_meta(tmp_path, b"format", b"3")
    with pytest.raises(NewerFormat, match="format 3, this version reads up to 2"):
        open_here(tmp_path, member="b")


def test_a_file_of_the_newer_engine_is_refused(tmp_path):
    lmdb.open(str(tmp_path), lib_version=1).close()
    with pytest.raises(NewerFormat, match="newer LMDB"):
        open_here(tmp_path)


@pytest.mark.parametrize("key", [b"format", b"pair", b"member", b"instance"])
def test_a_directory_that_does_not_know_whose_it_is_is_refused(tmp_path, key):
    open_here(tmp_path).close()
    put_meta(tmp_path, key, None)
    with pytest.raises(CorruptRecord, match="does not say"):
        open_here(tmp_path)


def test_other_data_is_refused(tmp_path):
    with lmdb.open(str(tmp_path / "lmdb"), lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"some", b"thing")
    with pytest.raises(CorruptRecord, match="not Tandemq's"):
        open_here(tmp_path / "lmdb")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.mdb").write_bytes(b"something else" * 1000)
    with pytest.raises(CorruptRecord, match="cannot read this file"):
        open_here(tmp_path / "other")


def test_an_environment_in_which_nothing_was_committed_is_a_new_one(tmp_path):
    """The process may die between making the file and writing whose it is."""
    lmdb.open(str(tmp_path), lib_version=0).close()
    store = open_here(tmp_path)
    assert store.get_meta("member") == b"a"
    store.close()


def test_a_second_store_of_this_process_is_refused(tmp_path):
    store = open_here(tmp_path)
    with pytest.raises(DirectoryInUse, match=f"process {os.getpid()} .*Stop that process"):
        open_here(tmp_path)
    store.commit(WriteBatch(meta={"still": b"works"}))
    store.close()
    open_here(tmp_path).close()


def test_a_directory_that_is_half_restored_is_refused_and_stays_as_it_is(tmp_path):
    making = begin_restoring(tmp_path)
    for opens in (open_here, open_to_read, compact):
        with pytest.raises((RestoreUnfinished, StoreFailed)) as refused:
            opens(tmp_path)
        assert opens is compact or refused.type is RestoreUnfinished
    assert making.is_dir()
    assert not (tmp_path / "data.mdb").exists()


@pytest.mark.process
@pytest.mark.slow
def test_a_directory_in_use_names_the_process_and_is_free_once_that_is_killed(tmp_path):
    script = "store = open_disk(directory, pair='p', member='a', ballast_bytes=0); print('open', flush=True); input()"
    with start(script, tmp_path) as process:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(DirectoryInUse, match=f"process {process.pid} "):
            open_here(tmp_path)
        process.kill()
    open_here(tmp_path).close()


KILLED = """
store = open_disk(directory, pair='p', member='a', ballast_bytes=0)
log_index, digest = store.bounds(1)[1] if store.bounds(1) else 0, ZERO_DIGEST
if log_index:
    digest = read_prefix(store.read(1, log_index)).digest
while True:
    batch = WriteBatch(meta={'last': str(log_index + 3).encode()}, drops={1: [max(log_index - 200, 0)]})
    for log_index in range(log_index + 1, log_index + 4):
        body = b'b' * (log_index * 37 % 9000)
        head, digest = build_head(flags=0, domain=1, epoch=1, log_index=log_index, header=b'h', body=body,
                                  previous_digest=digest)
        batch.appends.append(Append(1, log_index, assemble(head, body)))
    store.commit(batch)
    os.write(1, b'%d\\n' % log_index)
"""


@pytest.mark.process
@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_reported(tmp_path):
    """Ten lives of one writer; each begins where the one before was killed, at no particular instruction."""
    for life in range(10):
        with start(KILLED, tmp_path) as process:
            for _ in range(20 + 13 * life):
                line = process.stdout.readline()
                assert line, process.stderr.read()
            process.kill()
            # Lines that were on their way count: they were written after their commit.
            reported = int([line, *process.stdout.read().split()][-1])
        store = open_here(tmp_path)
        lowest, highest = store.bounds(1)
        assert highest >= reported > 0
        assert int(store.get_meta("last")) == highest, "half a batch"
        records = store.read_many(1, range(max(lowest, highest - 190), highest + 1))
        digest = None
        for record in records:
            digest = verify(record, previous_digest=digest).digest
        store.close()


@pytest.mark.process
@pytest.mark.slow
def test_a_forked_child_cannot_use_the_store(tmp_path):
    script = """
store = open_disk(directory, pair='p', member='a', ballast_bytes=0)
store.commit(WriteBatch(meta={'a': b'1'}))
child = os.fork()
if not child:
    for use in (lambda: store.get_meta('a'), lambda: store.commit(WriteBatch())):
        try:
            use()
        except AssertionError:
            continue
        os._exit(1)
    store.close()  # leaves the parent's store alone
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
store.commit(WriteBatch(meta={'b': b'2'}))
print(store.get_meta('a'), store.get_meta('b'))
"""
    assert run(script, tmp_path) == "b'1' b'2'\n"


def test_what_is_left_to_the_parent_is_neither_used_nor_closed(tmp_path):
    """As in a forked child, which has every descriptor of its parent, and the lock with them."""
    store = open_here(tmp_path)
    store.commit(WriteBatch(appends=[Append(1, 1, b"1")], meta={"a": b"1"}))
    store.leave_to_parent()
    for use in (
        lambda: store.get_meta("a"),
        lambda: store.meta_items(""),
        lambda: store.scan(1, 0),
        lambda: store.read(1, 1),
        store.view,
        store.usage,
        store.reader_check,
        lambda: store.commit(WriteBatch(meta={"b": b"2"})),
    ):
        with pytest.raises(AssertionError, match="forked child"):
            use()
    store.close()
    with pytest.raises(DirectoryInUse):
        open_here(tmp_path)
    store._is_parents = False  # the parent's own, which has heard nothing of it
    assert store.meta_items("")[-1:] != [("b", b"2")]
    store.commit(WriteBatch(meta={"b": b"2"}))
    assert (store.get_meta("a"), store.get_meta("b")) == (b"1", b"2")
    store.close()


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("found", "kind", "says"),
    [
        ("a file in place of its directory", StoreFailed, "cannot open this directory"),
        ("a directory in place of its file", StoreFailed, "cannot open this directory"),
        ("other data", CorruptRecord, "cannot read this file"),
    ],
)
def test_what_keeps_an_environment_from_being_opened_is_damage_only_where_there_are_bytes_of_no_environment(
    tmp_path, found, kind, says, readonly
):
    """Who hears of damage empties the directory; what the system refuses is mended otherwise, and nothing is lost."""
    where = tmp_path / "data"
    if found.startswith("a file"):
        where.touch()
    else:
        where.mkdir()
        if found.startswith("a directory"):
            (where / "data.mdb").mkdir()
        else:
            (where / "data.mdb").write_bytes(b"no environment" * 1_000)
    with pytest.raises(kind, match=says) as caught:
        open_environment(where, 1 << 20, 1, readonly=readonly)
    assert type(caught.value) is kind


@pytest.mark.process
@pytest.mark.slow
def test_a_write_that_the_system_refuses_stops_the_store_for_good(tmp_path):
    script = """
store = open_disk(directory, pair='p', member='a', ballast_bytes=0)
store.commit(WriteBatch(appends=[Append(1, 1, b'1')]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for attempt in range(2):
    try:
        store.commit(WriteBatch(appends=[Append(1, 2, b'2' * 300_000)]))
    except StoreFailed as failure:
        print('failed', 'must stop' in str(failure))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
    assert run(script, tmp_path) == "failed True\n" * 2
    store = open_here(tmp_path)
    assert store.scan(1, 0) == [(1, b"1")]
    store.close()


def test_a_commit_is_durable_in_the_only_mode_that_survives_a_power_loss(tmp_path):
    """Killing a process shows nothing about power; these flags were judged by crash images."""
    store = open_here(tmp_path)
    flags = store._env.flags()
    assert (flags["sync"], flags["metasync"], flags["writemap"], flags["map_async"]) == (True, True, False, False)
    assert store._env.lib_version() < (1, 0)
    store.close()


def test_two_writers_at_once_are_a_broken_invariant(tmp_path):
    store = open_here(tmp_path)
    with store._writing, pytest.raises(AssertionError, match="two threads"):
        store.commit(WriteBatch())
    store.commit(WriteBatch())
    store.close()


def test_damage_in_the_file_is_reported_as_such(tmp_path):
    store = open_here(tmp_path)
    store.commit(WriteBatch(appends=[Append(1, index, b"x" * 300) for index in range(200)]))
    store.close()
    file = tmp_path / "data.mdb"
    data = bytearray(file.read_bytes())
    for page in range(2, len(data) // 4096):
        struct.pack_into("<H", data, page * 4096 + 10, 0)  # neither leaf nor branch
    file.write_bytes(data)
    with pytest.raises(CorruptRecord, match="empty one and let the member rejoin"):
        open_here(tmp_path)


# A file system of its own, small enough to fill; it ends with the process.
SMALL_DISK = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=8m none "$4" && exec "$@"', "sh")


def small_disks_work(directory: Path) -> bool:
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", str(directory)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("size", [1000, 30_000, 500_000])
def test_a_full_disk_refuses_producers_and_serves_consumers(tmp_path, size):
    """LMDB reports it as ENOSPC or, where part of a commit still fits, as EIO."""
    if not small_disks_work(tmp_path):
        pytest.skip("mounting a small disk is not allowed here")
    script = """
size, last = int(sys.argv[2]), 0
store = open_disk(directory, pair='p', member='a', ballast_bytes=1 << 19)
assert (directory / 'ballast').stat().st_size == 1 << 19
try:
    while True:
        store.commit(WriteBatch(appends=[Append(1, last + 1, b'x' * size)]))
        last += 1
        if (directory / 'ballast').exists():
            at_ballast = last
except StoreFull as full:
    assert 'disk' in str(full), full
assert not (directory / 'ballast').exists()
usage = store.usage()
assert usage.used_bytes > 0.8 * usage.map_bytes, usage
assert store.bounds(1) == (1, last)
assert at_ballast < last
store.commit(WriteBatch(drops={1: [1]})) if size > 4000 else None
store.close()
store = open_disk(directory, pair='p', member='a', ballast_bytes=1 << 19)
assert store.bounds(1)[1] == last
print('survived')
"""
    under = (*SMALL_DISK,)
    assert run(script, tmp_path, size, under=under) == "survived\n"


def test_the_ballast_is_no_room(tmp_path):
    with_ballast = open_here(tmp_path / "a", ballast_bytes=BALLAST)
    ballast = tmp_path / "a" / "ballast"
    assert ballast.stat().st_size == BALLAST
    assert with_ballast._room.give_way()
    assert not with_ballast._room.give_way()
    with_ballast.reader_check()  # each minute
    assert ballast.stat().st_size == BALLAST
    with_ballast.close()


def test_what_dead_readers_held_is_freed(tmp_path):
    script = """
import lmdb
env = lmdb.open(str(directory), max_dbs=9, lib_version=0)
txn = env.begin()
print('reading', flush=True)
input()
"""
    store = open_here(tmp_path)
    with start(script, tmp_path) as process:
        assert process.stdout.readline() == "reading\n", process.stderr.read()
        assert store.reader_check() == 0
        process.send_signal(signal.SIGKILL)
    assert store.reader_check() == 1
    store.close()
