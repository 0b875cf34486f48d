"""What the doctor says of a machine: each level is reached by what should reach it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tandemq.cli.doctor import machine
from tandemq.cli.doctor.finding import Level, counts

MOUNTS = r"""
22 28 0:20 / /proc rw - proc proc rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 28 0:40 / /srv/nfs\040share rw - nfs4 filer:/export rw
41 28 0:41 / /run rw - tmpfs tmpfs rw
42 28 0:42 / /containers rw - overlay overlay rw
43 28 8:2 / /srv rw - xfs /dev/sdb1 rw
44 28 0:44 / /smb rw - smb3 //host/share rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "type_", "level"),
    [
        ("/var/lib/tandemq", "ext4", Level.OK),
        ("/srv/a", "xfs", Level.OK),
        ("/srv/nfs share/a", "nfs4", Level.FAIL),
        ("/smb", "smb3", Level.FAIL),
        ("/run/a", "tmpfs", Level.WARN),
        ("/containers/a", "overlay", Level.WARN),
        ("/srvelse", "ext4", Level.OK),
    ],
)
def test_the_filesystem_of_a_path_is_the_innermost_mount(path: str, type_: str, level: Level) -> None:
    mount = machine.mount_of(Path(path), MOUNTS)
    assert mount is not None
    assert mount.type == type_
    assert machine.judge_filesystem(Path(path), mount, "member a").level is level


def test_without_a_table_of_mounts_nothing_is_said_of_the_filesystem(tmp_path: Path) -> None:
    assert machine.filesystem(tmp_path, "", "member a").level is Level.SKIPPED


@pytest.mark.parametrize(
    ("times", "level"),
    [
        ([0.0004] * 15 + [0.003], Level.OK),
        ([0.03] * 16, Level.WARN),
        ([0.0004] * 15 + [0.9], Level.WARN),
        ([0.7] * 5, Level.FAIL),
    ],
)
def test_fsync_is_judged_by_its_middle_and_its_worst(times: list[float], level: Level) -> None:
    found = machine.fsync(Path("/d"), times, "member a")
    assert found.level is level
    assert bool(found.do) is (level is not Level.OK)


def test_fsync_is_really_measured_and_leaves_nothing(tmp_path: Path) -> None:
    times = machine.measure_fsync(tmp_path)
    assert len(times) > 0
    assert all(took > 0 for took in times)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "may_grow", "level"),
    [(90 << 30, 1 << 30, Level.OK), (90 << 30, 95 << 30, Level.WARN), (5 << 30, 0, Level.WARN), (1, 0, Level.FAIL)],
)
def test_free_space_is_held_to_what_the_store_may_become(free: int, may_grow: int, level: Level) -> None:
    assert machine.free_space(Path("/d"), 100 << 30, free, may_grow, "member a").level is level


def test_a_directory_that_cannot_be_written_is_told() -> None:
    found = {each.check: each for each in machine.disk(Path("/proc"), 1 << 20, "member a")}
    assert found["fsync"].level is Level.FAIL
    assert "/proc: nothing can be written" in found["fsync"].what


def test_a_directory_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path) -> None:
    found = machine.disk(tmp_path / "not" / "yet", 1 << 20, "member a")
    assert [each.check for each in found] == ["filesystem", "free-space", "fsync"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("3.0.0", ">=3.0,<3.1", True),
        ("3.1", ">=3.0,<3.1", False),
        ("2.9.9", ">=3.0,<3.1", False),
        ("1.85.1", ">=1.76,<2", True),
        ("0.1.1", "==0.1.1", True),
        ("0.1.10", "==0.1.1", False),
        ("1.2rc1", ">=1.2", True),
        ("7", "", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, holds: bool) -> None:
    assert machine.fits(version, wanted) is holds


def test_packages_that_are_missing_or_of_another_version_are_named() -> None:
    assert machine.packages().level is Level.OK
    found = machine.packages(["lmdb>=99", "no-such-package>=1", "ldap4>=1; extra == 'ldap'"])
    assert found.level is Level.FAIL
    assert "lmdb is" in found.what
    assert "wanted is >=99" in found.what
    assert "no-such-package is missing" in found.what
    assert "ldap4" not in found.what


def test_interpreter_and_open_files() -> None:
    assert machine.python_version((3, 10, 9)).level is Level.FAIL
    assert machine.python_version((3, 12, 0)).level is Level.OK
    levels = [machine.open_files(soft, "member a").level for soft in (None, 65536, 1024, 64)]
    assert levels == [Level.OK, Level.OK, Level.WARN, Level.FAIL]
    assert machine.open_files_of(os.getpid()) == machine.own_open_files()


def test_each_level_is_counted() -> None:
    found = [machine.open_files(soft, "x") for soft in (None, 64)]
    assert counts(found) == {"ok": 1, "warn": 0, "fail": 1, "skipped": 0}
