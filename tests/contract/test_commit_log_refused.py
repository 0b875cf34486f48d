"""What becomes of a commit log when the system refuses a write: of the log, or of the fold into the database."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from chaos.preload import Preload
from tests.contract.test_disk import SMALL_DISK, run, small_disks_work, start
from tests.support.commit_logs import append, open_here, pending

FULL_DISK = """
store = open_disk(directory, pair='p', member='a', ballast_bytes=0)
store._folder.stop()
filler = directory / 'filler'
if sys.argv[2] != 'restarted':
    store.commit(WriteBatch(appends=[Append(1, 1, b'1')]))
    store.commit(WriteBatch(meta={'k': b'1'}))
    for index in range(2, 30):
        store.commit(WriteBatch(appends=[Append(1, index, b'x' * 30_000)], meta={'k': b'%d' % index}))
    with open(filler, 'wb', buffering=0) as file:
        try:
            while file.write(b'f' * 4096) == 4096:
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC
if sys.argv[2] == 'restart':
    os.execv(sys.executable, [*sys.orig_argv[:-1], 'restarted'])  # another process, in the same file system
assert store._published.now.tails[1].end == 28, store._published.now
store._fold()
assert store._published.now.tails[1].end == 28
for attempt in range(2):
    try:
        store.commit(WriteBatch(appends=[Append(1, 30, b'y')]))
    except StoreFull as full:
        assert 'disk' in str(full), full
    else:
        assert False, 'it was taken'
assert store.bounds(1) == (1, 29) and store.read(1, 29) == b'x' * 30_000 and store.get_meta('k') == b'29'
filler.unlink()
store.commit(WriteBatch(drops={1: [1]}, appends=[Append(1, 30, b'y')]))
assert store.bounds(1) == (2, 30)
assert not store._published.now
store.commit(WriteBatch(appends=[Append(1, 31, b'y')]))
assert store._published.now
store.close()
print('survived')
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("then", ["go on", "restart"])
def test_a_fold_that_finds_no_room_loses_nothing_and_the_next_commit_is_told(tmp_path, then):
    if not small_disks_work(tmp_path):
        pytest.skip("mounting a small disk is not allowed here")
    under = tuple(part.replace("size=8m", "size=48m") for part in SMALL_DISK)
    assert run(FULL_DISK, tmp_path, then, under=under) == "survived\n"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("what", ["fold", "log"])
def test_a_write_that_the_system_refuses_stops_the_store_for_good(tmp_path, what):
    script = """
store = open_disk(directory, pair='p', member='a', ballast_bytes=0)
store._folder.stop()
store.commit(WriteBatch(appends=[Append(1, 1, b'1')]))
store.commit(WriteBatch(meta={'k': b'1'}))
store.commit(WriteBatch(appends=[Append(1, 2, b'2' * 30_000)]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
what = sys.argv[2]
resource.setrlimit(resource.RLIMIT_FSIZE, (8192 if what == 'fold' else 4096, resource.RLIM_INFINITY))
if what == 'fold':
    store._fold()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for attempt in range(2):
    try:
        store.commit(WriteBatch(appends=[Append(1, 3, b'3')]))
    except StoreFailed as failure:
        print('failed', 'must stop' in str(failure))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert store.bounds(1) == (1, 2)
store.close()
"""
    assert run(script, tmp_path, what) == "failed True\n" * 2
    with closing(open_here(tmp_path)) as store:
        assert store.bounds(1) == (1, 2)


REFUSED = """
store = open_disk(directory, pair='p', member='a', ballast_bytes=0)
store._folder.stop()
store.commit(WriteBatch(appends=[Append(1, 1, b'1')]))
store.commit(WriteBatch(meta={'k': b'1'}))
store.commit(WriteBatch(appends=[Append(1, 2, b'2')]))
print('ready', flush=True)
for index, line in enumerate(sys.stdin, 3):
    if line == 'fold\\n':
        store._fold()
        print('folded' if not store._published.now else 'not folded', flush=True)
        continue
    try:
        store.commit(WriteBatch(appends=[Append(1, index, b'%d' % index)]))
        said = 'pending' if store._published.now else 'done'
    except StoreFull as full:
        said = 'full'
    print(said, store.bounds(1), flush=True)
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("folded", [False, True])
def test_a_log_that_finds_no_room_is_left_for_the_database(tmp_path, folded):
    """As on a file system that copies what is written again. The number that was given up counts no more."""
    preload = Preload(tmp_path / "preload", ("a",))
    preload.prepare()
    with start(REFUSED, tmp_path / "a", environment=preload.environment("a")) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()

        def answer_to(line: str = "commit") -> str:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        assert answer_to() == "pending (1, 3)"
        assert not folded or answer_to("fold") == "folded"
        preload.hurt("a", full=True)
        assert answer_to() == "full (1, 3)"
        assert answer_to() == "full (1, 3)"
        preload.calm("a")
        last = 7 if folded else 6
        assert answer_to() == f"done (1, {last})"
        assert answer_to() == f"pending (1, {last + 1})"
        process.kill()
    with closing(open_here(tmp_path / "a")) as store:
        assert [index for index, _ in store.scan(1, 0)] == [1, 2, 3, last, last + 1]
        append(store, last + 2)
        assert pending(store) == [last + 1, last + 2]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_after_a_fold_that_failed_for_want_of_room_the_next_commit_goes_to_the_database(tmp_path):
    """Or the log would go on filling, and nobody would hear of it."""
    preload = Preload(tmp_path / "preload", ("a",))
    preload.prepare()
    with start(REFUSED, tmp_path / "a", environment=preload.environment("a")) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        preload.hurt("a", full=True)
        for line, answer in (("fold", "not folded"), ("commit", "done (1, 4)"), ("commit", "pending (1, 5)")):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == answer
            preload.calm("a")
        process.kill()
