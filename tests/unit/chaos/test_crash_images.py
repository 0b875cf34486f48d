"""Crash images: the trace is read right, an image is what a power loss may leave, and a planted fault is found."""

from __future__ import annotations

import copy
import os
import random
import signal
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import storage.mark
from chaos.sim.images import member
from chaos.sim.images import run as runner
from chaos.sim.images.__main__ import main, row_of
from chaos.sim.images.disk import Disk, Kept, Loss
from chaos.sim.images.judges import HALF, INVALID, JUDGES, LOST, PROVEN, SILENT, SOMETIMES, UNNOTICED, Finding, Moment
from chaos.sim.images.lying import FALSE
from chaos.sim.images.run import LYING, NAMES, Count, Run, look, look_at_all, trace
from chaos.sim.images.shots import Shot, choose, moments
from chaos.sim.images.story import Story
from chaos.sim.images.trace import (
    Event,
    Named,
    NamesSynced,
    Renamed,
    Resize,
    Said,
    Synced,
    TraceError,
    Unnamed,
    Write,
    read_trace,
)
from failover.marks import DataMark
from replica.peer.transfer import Receiver
from storage.errors import CorruptRecord
from storage.store import Append


def hexed(text: str) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def traced(*lines: str) -> list[Event]:
    """`'...'` stands for a string as strace writes it."""
    text = []
    for line in lines:
        parts = line.split("'")
        text.append("".join(hexed(part) if at % 2 else part for at, part in enumerate(parts)))
    return read_trace(text, "/r", "/told")


OPEN = "1 openat(AT_FDCWD, '/r/f', O_RDWR|O_CREAT, 0600) = 3"


def test_writes_syncs_and_names_are_read_in_order() -> None:
    assert traced(
        "1 mkdir('/r/d', 0700)  = 0",
        "1 mkdir('/r/d', 0700)  = -1 EEXIST (File exists)",
        "1 openat(AT_FDCWD, '/etc/x', O_RDONLY) = 3",
        "1 close(3)   = 0",
        "1 openat(AT_FDCWD, '/r/d/f', O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3",
        "1 pwrite64(3, 'abcd', 4, 8) = 4",
        "1 lseek(3, 2, SEEK_SET) = 2",
        "1 writev(3, [{iov_base='xy', iov_len=2}, {iov_base='z', iov_len=1}], 2) = 3",
        "1 write(3, '!', 1) = 1",
        "1 write(2, 'to a terminal', 13) = 13",
        "1 fdatasync(3) = 0",
        "1 openat(AT_FDCWD, '/r/d/f', O_WRONLY|O_DSYNC|O_CLOEXEC) = 4",
        "1 pwrite64(4, 'm', 1, 0) = 1",
        "1 ftruncate(3, 2) = 0",
        "1 rename('/r/d/f', '/r/d/g') = 0",
        "1 openat(AT_FDCWD, '/r/d', O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 5",
        "1 fsync(5) = 0",
        "1 unlink('/r/d/g') = 0",
        "1 +++ exited with 0 +++",
    ) == [
        Named("/r/d", None),
        Named("/r/d/f", 0),
        Write(0, 1, 8, b"abcd"),
        Write(0, 2, 2, b"xyz"),
        Write(0, 3, 5, b"!"),
        Synced(0, 0, 3),
        Write(0, 4, 0, b"m"),
        Synced(0, 4, 4),
        Resize(0, 5, 2),
        Renamed("/r/d/f", "/r/d/g", 0),
        NamesSynced("/r/d"),
        Unnamed("/r/d/g"),
    ]


def test_an_interrupted_write_counts_from_its_beginning_and_a_sync_covers_what_came_before_it() -> None:
    events = traced(
        OPEN,
        "1 openat(AT_FDCWD, '/told', O_WRONLY|O_CREAT|O_APPEND, 0600) = 9",
        "1 write(3, 'a', 1) = 1",
        "1 fsync(3 <unfinished ...>",
        "2 write(3, 'b', 1 <unfinished ...>",
        "3 write(9, 'done 1\n', 7) = 7",
        "1 <... fsync resumed>) = 0",
        "2 <... write resumed>) = 1",
    )
    assert events[1:] == [Write(0, 1, 0, b"a"), Write(0, 2, 1, b"b"), Said("done 1"), Synced(0, 0, 1)]


def test_appending_ignores_where_the_descriptor_stands() -> None:
    events = traced(
        "1 openat(AT_FDCWD, '/r/f', O_RDWR|O_CREAT|O_APPEND, 0600) = 3",
        "1 write(3, 'ab', 2) = 2",
        "1 lseek(3, 0, SEEK_SET) = 0",
        "1 write(3, 'cd', 2) = 1",
    )
    assert events[1:] == [Write(0, 1, 0, b"ab"), Write(0, 2, 2, b"c")]  # the second one was cut short


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1 pwrite64(3, 'ab'..., 900, 0) = 900", "larger -s"),
        ("1 dup(3) = 4", "not understood"),
        ("1 sync() = 0", "not understood"),
        ("1 openat(AT_FDCWD, '/r/unseen', O_RDWR) = 4", "nothing made it"),
        ("1 rename('/elsewhere', '/r/f') = 0", "not known"),
        ("1 <... fsync resumed>) = 0", "never began"),
        ("1 what is this", "not a system call"),
    ],
)
def test_what_is_not_understood_is_refused(line: str, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        traced(OPEN, line)


def disk_of(*events: Event) -> Disk:
    disk = Disk("/r")
    for event in (Named("/r/f", 0), NamesSynced("/r"), *events):
        disk.apply(event)
    return disk


DRAW = random.Random(7)


def test_what_is_synced_stays_and_all_else_may_go() -> None:
    disk = disk_of(Write(0, 1, 0, b"aa"), Synced(0, 0, 1), Write(0, 2, 1, b"bb"))
    assert disk.image(disk.keep(Loss.ALL, DRAW)) == {"f": b"aa"}
    assert disk.image(disk.keep(Loss.NOTHING, DRAW)) == {"f": b"abb"}
    disk.apply(Synced(0, 2, 2))
    assert disk.is_clean
    assert disk.image(disk.keep(Loss.ALL, DRAW)) == {"f": b"abb"}


def test_a_later_write_may_stay_where_an_earlier_one_is_lost() -> None:
    disk = disk_of(Write(0, 1, 0, b"a"), Write(0, 2, 3, b"d"), Resize(0, 3, 2))
    assert disk.image(Kept(frozenset({(2, 0)}), 0)) == {"f": b"\0\0\0d"}
    seen = {disk.image(disk.keep(Loss.WRITES, DRAW))["f"] for _ in range(300)}
    assert seen == {b"", b"a", b"a\0", b"\0\0", b"a\0\0d", b"\0\0\0d"}


@pytest.mark.parametrize(("loss", "size"), [(Loss.WRITES, 8192), (Loss.PAGES, 4096), (Loss.SECTORS, 512)])
def test_torn_writes_tear_between_pages_or_sectors(loss: Loss, size: int) -> None:
    disk = disk_of(Write(0, 1, 0, bytes(8192)), Synced(0, 0, 1), Write(0, 2, 0, b"x" * 8192))
    seen = set()
    for _ in range(200):
        data = disk.image(disk.keep(loss, DRAW))["f"]
        assert data is not None
        pieces = [data[at : at + size] for at in range(0, 8192, size)]
        assert all(len(set(piece)) == 1 for piece in pieces)
        seen.add(data)
    assert len(seen) > 200 // 2 if loss is Loss.SECTORS else len(seen) == 2 ** (8192 // size)


def test_names_go_from_the_last_one_back_until_their_directory_is_synced() -> None:
    disk = Disk("/r")
    for event in (
        Named("/r/d", None),
        Named("/r/d/f", 0),
        Write(0, 1, 0, b"a"),
        Synced(0, 0, 1),
        Renamed("/r/d/f", "/r/d/g", 0),
    ):
        disk.apply(event)
    images = [disk.image(Kept(frozenset(), names)) for names in range(4)]
    assert images == [{}, {"d": None}, {"d": None, "d/f": b"a"}, {"d": None, "d/g": b"a"}]
    disk.apply(NamesSynced("/r/d"))  # its own name is its parent's affair
    assert disk.image(Kept(frozenset(), 0)) == {}
    disk.apply(NamesSynced("/r"))
    assert disk.image(Kept(frozenset(), 0)) == images[3]


def test_images_are_chosen_at_every_write_and_differ() -> None:
    events = [Named("/r/f", 0), NamesSynced("/r"), Said("ready")]
    for number in range(1, 6):
        events += [
            Said(f"doing {number}"),
            Write(0, 2 * number, 0, bytes(9000)),
            Write(0, 2 * number + 1, 0, b"!" * 600),
        ]
        events += [Synced(0, 0, 2 * number + 1), Said(f"done {number}")]
    shots = choose(events, "/r", wanted=100, seed=1)
    assert len(shots) == len({shot.sight for shot in shots}) == 100
    assert {at for at, event in enumerate(events) if isinstance(event, Write)} <= {shot.at for shot in shots}
    assert shots == choose(events, "/r", wanted=100, seed=1) != choose(events, "/r", wanted=100, seed=2)
    last = shots[-1]
    assert (last.moment.ready, last.moment.done, last.moment.doing) == (True, 5, 5)


# -- real files --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trace("store", tmp_path_factory.mktemp("store"), control=False, seed=1, images=1)


def some(run: Run, count: int) -> list:
    """Of its images, evenly spread; the last one is among them."""
    step = max(1, len(run.shots) // count)
    return run.shots[::-1][::step][::-1]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(  # the phase `crash-images` has every image of all of them
    "scenario",
    [pytest.param(name, marks=pytest.mark.promise if name == "store" else pytest.mark.long) for name in NAMES],
)
def test_nothing_promised_is_lost_and_without_sync_that_would_be_seen(scenario: str, tmp_path: Path) -> None:
    for control in (False, True):
        directory = tmp_path / str(control)
        directory.mkdir()
        rare = control and scenario == LYING  # most of its holes are refused
        wanted = 300 if rare else 40
        run = trace(scenario, directory, control=control, seed=3, images=wanted if control else 500)
        assert len(run.shots) >= (wanted if control else 200)  # 500 are asked for; of `events` 238 differ
        count = Count()
        for _, shot, seen in look_at_all([replace(run, shots=some(run, wanted))], jobs=1):
            count.add(run, shot, seen)
        assert count.images >= wanted
        assert bool(count.bad) is control, count.examples[:3]


def changed(run: Run, events: list[Event]) -> Run:
    return replace(run, events=events, shots=choose(events, run.root, wanted=1, seed=1))


@pytest.mark.process
@pytest.mark.slow
def test_a_planted_loss_is_found(store_run: Run) -> None:
    """The disk lies about one sync of a page that makes a commit valid."""
    metas = [at for at, e in enumerate(store_run.events) if isinstance(e, Synced) and e.first == e.last]
    events = [event for at, event in enumerate(store_run.events) if at != metas[-1]]
    count = look(changed(store_run, events), changed(store_run, events).shots[-3:])
    assert set(count.kinds) == {LOST}
    assert "was promised" in count.examples[0]


@pytest.mark.process
@pytest.mark.slow
def test_a_commit_log_that_is_not_synced_is_found(store_run: Run) -> None:
    """Each promise that rests on the log alone is broken where the power fails right after it; the database is synced
    as ever.
    """
    log = next(event.file for event in store_run.events if isinstance(event, Named) and "commit.log" in event.path)
    events, resting = [], []
    disk, synced, made = Disk(store_run.root), set[int](), False
    for event, moment in zip(store_run.events, moments(store_run.events), strict=True):
        if isinstance(event, Synced) and event.file == log and made:
            synced.add(log)
            continue
        made |= isinstance(event, Synced) and event.file == log  # the first sync made the file
        disk.apply(event)
        events.append(event)
        match event:
            case Synced(file):
                synced.add(file)  # of the database, by the commit itself or by a fold beside it
            case Said(text) if text.startswith("doing"):
                synced.clear()
            case Said(text) if text.startswith("done") and synced == {log}:
                resting.append(Shot(len(events) - 1, disk.keep(Loss.ALL, DRAW), moment, disk.version))
    assert resting
    run = replace(store_run, events=events, shots=resting)
    assert look(run, resting).kinds == {LOST: len(resting)}
    assert not look(store_run, some(store_run, 60)).bad


@pytest.mark.process
@pytest.mark.slow
def test_a_planted_damage_is_found(store_run: Run) -> None:
    valid = max(at for at, e in enumerate(store_run.events) if isinstance(e, Synced) and e.first == e.last)
    committed = enumerate(store_run.events[:valid])  # what comes later, no commit of the last image has
    at = max(at for at, event in committed if isinstance(event, Write) and event.offset > 8192)
    damaged = store_run.events[at]
    assert isinstance(damaged, Write)
    events = list(store_run.events)
    events[at] = Write(damaged.file, damaged.number, damaged.offset, b"\xff" * len(damaged.data))
    count = look(changed(store_run, events), changed(store_run, events).shots[-1:])
    assert set(count.kinds) == {INVALID}
    assert "the file is damaged" in count.examples[0]


@pytest.mark.process
@pytest.mark.slow
def test_a_planted_half_batch_is_found(store_run: Run) -> None:
    """One record more was promised with the last batch than is on the disk."""
    story: Story = store_run.judge.story
    longer = copy.deepcopy(story.steps[-1])
    longer.appends.append(Append(3, 1 << 40, b"never written"))
    judge = JUDGES["store"](Story([*story.steps[:-1], longer], story.facts))
    count = look(replace(store_run, judge=judge), store_run.shots[-1:])
    assert set(count.kinds) == {HALF}


@pytest.fixture(scope="module")
def replica_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trace("replica", tmp_path_factory.mktemp("replica"), control=False, seed=1, images=1)


def in_transfer(run: Run) -> Run:
    """With the images alone that were taken between the records of the second full transfer."""
    marks = run.judge.marks
    shots = [shot for shot in run.shots if marks[shot.moment.done] is DataMark.SYNCING and shot.moment.done > 20]
    return replace(run, shots=shots)


@pytest.mark.promise
@pytest.mark.process
@pytest.mark.slow
def test_a_half_done_transfer_that_votes_is_found(replica_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run = in_transfer(replica_run)
    assert look(run, run.shots[:2]).seen[SILENT] == 2
    monkeypatch.setattr(DataMark, "is_good", property(lambda _mark: True))
    count = look(run, run.shots[:2])
    assert count.kinds == {HALF: 2}
    assert "that is SYNCING claims the mastership" in count.examples[0]


@pytest.mark.process
@pytest.mark.slow
def test_a_transfer_that_does_not_begin_anew_is_found(replica_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_receiver: Receiver, _frame: object) -> bool:
        raise CorruptRecord("planted")

    monkeypatch.setattr(Receiver, "on_frame", broken)
    monkeypatch.setattr(member, "OUTER_S", 5.0)
    run = in_transfer(replica_run)
    count = look(run, run.shots[:1])
    assert count.kinds == {HALF: 1}
    assert "the next transfer does not succeed" in count.examples[0]


@pytest.mark.process
@pytest.mark.slow
def test_a_cut_without_its_salvage_file_is_found(replica_run: Run) -> None:
    events = [event for event in replica_run.events if not (isinstance(event, Renamed) and "salvage" in event.new)]
    run = changed(replica_run, events)
    count = look(run, run.shots[-1:])
    assert count.kinds == {LOST: 1}
    assert "are cut, and no salvage file" in count.examples[0]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["witness", "journal", "store"])
def test_a_file_whose_name_is_never_synced_is_found(scenario: str, tmp_path: Path) -> None:
    run = trace(scenario, tmp_path, control=False, seed=1, images=1)
    run = changed(run, [event for event in run.events if not isinstance(event, NamesSynced)])
    done = [shot for shot in run.shots if shot.moment.done]
    assert LOST in look(run, done[:4]).kinds


class Killer:
    """Looks at images and dies of the second, hangs at the third, and goes round in circles at the fifth."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def find(self, _directory: Path, moment: Moment) -> list[Finding]:
        if moment.done == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        if moment.done == 2:
            threading.Event().wait()
        while moment.done == 4:
            pass
        return []


@pytest.mark.process
@pytest.mark.slow
def test_an_image_that_sends_whoever_opens_it_round_in_circles_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_CPU_S", 0)
    shots = [Shot(at, Kept(frozenset(), 0), Moment(True, at + 3, at + 3), 0) for at in range(3)]
    run = Run("store", False, [Said("ready"), Said("done 4"), Said("done 5")], "/r", shots, Killer())
    found = {shot.at: look.findings for _, shot, look in look_at_all([run], jobs=1)}
    assert [found[0], found[2]] == [[], []]
    assert [(kind, text[-3:]) for kind, text in found[1]] == [(INVALID, str(-signal.SIGXCPU))]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_image_that_kills_or_hangs_whoever_opens_it_is_invalid(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_S", 0.5)
    events: list[Event] = [Said("ready"), Said("done 1"), Said("done 2"), Said("done 3")]
    shots = [Shot(at, Kept(frozenset(), 0), Moment(True, at, at), 0) for at in range(4)]
    run = Run("store", False, events, "/r", shots, Killer())
    found = {shot.at: look.findings for _, shot, look in look_at_all([run], jobs)}
    assert sorted(found) == [0, 1, 2, 3]
    assert [found[0], found[3]] == [[], []]
    assert [(kind, text[-2:]) for at in (1, 2) for kind, text in found[at]] == [(INVALID, "15"), (INVALID, "-9")]


# -- a device that lies ----------------------------------------------------------------------------------------------


def test_a_lie_takes_the_last_durable_writes_and_nothing_before_them() -> None:
    disk, draw = Disk("/r"), random.Random(1)
    disk.apply(Named("/r/f", 0))
    disk.apply(NamesSynced("/r"))
    for number, letter in enumerate(b"abcde"):
        disk.apply(Write(0, number, number, bytes([letter])))
        disk.apply(Synced(0, number, number))
    disk.apply(Write(0, 5, 5, b"f"))

    def left(count: int, *, control: bool = False) -> bytes | None:
        return disk.image(Kept(frozenset(), 0, disk.lie(count, draw, torn=False, keep_last=control)))["f"]

    assert [left(count) for count in range(4)] == [b"abcde", b"abcd", b"abc", b"ab"]
    assert [left(count, control=True) for count in (1, 2)] == [b"abc\0e", b"ab\0\0e"]


def test_a_torn_lie_leaves_sectors_of_the_earliest_write_alone() -> None:
    disk, draw = Disk("/r"), random.Random(1)
    for number in range(2):
        disk.apply(Write(0, number, number * 4096, b"x" * 4096))
        disk.apply(Synced(0, number, number))
    lied = disk.lie(2, draw, torn=True)
    assert {place for number, place in lied if number == 1} == set(range(8))
    assert 0 < len([place for number, place in lied if number == 0]) < 8


@pytest.fixture(scope="module")
def lying_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trace("lying", tmp_path_factory.mktemp("lying"), control=False, seed=1, images=80)


@pytest.mark.process
@pytest.mark.slow
def test_what_a_lying_device_left_is_a_prefix_or_refused(lying_run: Run) -> None:
    count = Count()
    for _, shot, seen in look_at_all([lying_run], jobs=1):
        count.add(lying_run, shot, seen)
    assert not count.bad, count.examples
    assert count.seen[PROVEN]
    assert count.seen[UNNOTICED]


@pytest.mark.process
@pytest.mark.slow
def test_a_proof_of_a_loss_that_never_was_is_found(lying_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark names a write before it is made."""
    real = storage.mark.Mark.read
    monkeypatch.setattr(
        storage.mark.Mark, "read", lambda mark: real(mark)._replace(transaction=real(mark).transaction + 9)
    )
    honest = [shot for shot in lying_run.shots if not shot.kept.lied]
    assert FALSE in look(lying_run, honest).kinds


# -- the command -------------------------------------------------------------------------------------------------------


def test_a_control_that_passes_fails_the_experiment() -> None:
    good, bad = Count(images=9, seen=Counter(SOMETIMES["store"])), Count(images=9, kinds=Counter([LOST]))
    assert row_of("store", {("store", False): good, ("store", True): bad})["ok"]
    assert not row_of("store", {("store", False): good, ("store", True): good})["ok"]
    assert not row_of("store", {("store", False): bad, ("store", True): bad})["ok"]
    unmet = row_of("store", {("store", False): Count(images=9), ("store", True): bad})
    assert (unmet["ok"], unmet["missed"]) == (False, list(SOMETIMES["store"]))


def test_without_strace_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(main, ["--scenario", "store"])
    assert result.exit_code == 1
    assert "strace is not on PATH; on Debian or Ubuntu: apt-get install strace" in result.output


@pytest.mark.parametrize("arguments", [["--images", "0"], ["--scenario", "nonsense"]])
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2
