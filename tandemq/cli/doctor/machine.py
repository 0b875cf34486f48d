"""Checks of the machine that the command runs on: interpreter, packages, disk, limits; it asks no member."""

from __future__ import annotations

import re
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tandemq.cli.doctor.finding import Check, Finding
from tandemq.edge.descriptors import LIMIT_MIN

HERE = "this machine"
PYTHON_MIN = (3, 11)
PACKAGE = "tandemq"

PYTHON = Check("python", "an older interpreter cannot run this version")
PACKAGES = Check("packages", "other versions of the libraries were not tested, and some cannot read our files or calls")
FILESYSTEM = Check(
    "filesystem", "the store is a file that is mapped into memory and locked, which network filesystems do not do alike"
)
SPACE = Check("free-space", "a member whose disk is full acknowledges nothing")
FSYNC = Check("fsync", "whatever is acknowledged waits for this on both members")
FILES = Check("open-files", "each client is an open file; at the limit new ones are turned away")

NETWORK_TYPES = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
        *("ocfs2", "gfs2", "virtiofs", "davfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs"),
        *("fuse.gcsfuse", "fuse.rclone"),
    )
)
VOLATILE_TYPES = frozenset(("tmpfs", "ramfs"))
LAYERED_TYPES = frozenset(("overlay", "overlayfs", "aufs"))

FSYNC_COUNT, FSYNC_BYTES = 16, 4096
FSYNC_TOTAL_S = 3.0  # a disk that is slower than this all together has been measured enough
FSYNC_WARN_S, FSYNC_FAIL_S = 0.020, 0.500
FREE_BYTES_MIN = 256 << 20
FREE_SHARE_WARN = 0.10
FILES_WARN, FILES_FAIL = 4096, LIMIT_MIN


def python_version(version: Sequence[int] = sys.version_info[:3]) -> Finding:
    """The interpreter that runs this."""
    text = ".".join(map(str, version))
    if tuple(version[:2]) < PYTHON_MIN:
        return PYTHON.fail(HERE, f"Python {text}", "install Python 3.11 or newer")
    return PYTHON.ok(HERE, f"Python {text}", version=text)


# -- packages ----------------------------------------------------------------------------------------------------------

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*((?:[<>=!~]=?[^,;\s]+,?)*)\s*(;.*)?")
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)([0-9][^,]*)")


def packages(requirements: Iterable[str] | None = None) -> Finding:
    """The libraries of the installed package, held to what it asks for."""
    if requirements is None:
        try:
            requirements = metadata.requires(PACKAGE) or ()
        except metadata.PackageNotFoundError:
            return PACKAGES.skipped(HERE, f"{PACKAGE} is not installed as a package: it runs from a directory")
    found: dict[str, str] = {}
    wrong: list[str] = []
    for line in requirements:
        match = _REQUIREMENT.match(line)
        if match is None or "extra ==" in (match[3] or ""):
            continue
        name, wanted = match[1], match[2]
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if not fits(found[name], wanted):
            wrong.append(f"{name} is {found[name]}, wanted is {wanted}")
    if wrong:
        return PACKAGES.fail(HERE, "; ".join(wrong), "install them: python -m pip install --upgrade tandemq", **found)
    versions = ", ".join(f"{name} {found[name]}" for name in ("grpcio", "protobuf", "lmdb", "msgspec") if name in found)
    return PACKAGES.ok(HERE, versions or "none is needed", **found)


def fits(version: str, wanted: str) -> bool:
    """Whether a version is in a range such as `>=3.0,<3.1`. What is no number in it is not compared."""
    has = _numbers(version)
    for operator, text in _CLAUSE.findall(wanted):
        bound = _numbers(text)
        width = max(len(has), len(bound))
        left, right = has + (0,) * (width - len(has)), bound + (0,) * (width - len(bound))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            ">": left > right,
        }
        if not holds[operator]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


# -- disk --------------------------------------------------------------------------------------------------------------


class Mount(NamedTuple):
    """Where a filesystem is mounted."""

    point: str
    type: str
    source: str


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """The filesystem of a path, from the text of /proc/self/mountinfo; the last line of the longest match counts."""
    best: Mount | None = None
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if not separator or len(fields) < 5 or len(kinds) < 2:
            continue
        point = _unescaped(fields[4])
        inside = path == Path(point) or Path(point) in path.parents
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(point, kinds[0], _unescaped(kinds[1]))
    return best


def _unescaped(text: str) -> str:
    """Spaces and the like stand in octal there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def existing(directory: Path) -> Path:
    """The directory, or the nearest one above it that is there."""
    return next(each for each in (directory, *directory.parents) if each.is_dir())


def filesystem(directory: Path, mountinfo: str, about: str) -> Finding:
    """What the store lies on."""
    mount = mount_of(existing(directory), mountinfo)
    if mount is None:
        return FILESYSTEM.skipped(about, f"{directory}: the type of its filesystem is not known here")
    return judge_filesystem(directory, mount, about)


def judge_filesystem(directory: Path, mount: Mount, about: str) -> Finding:
    """Whether a store may lie on this kind."""
    text = f"{directory} is on {mount.type} ({mount.source} at {mount.point})"
    facts = mount._asdict()
    if mount.type in NETWORK_TYPES or mount.type.startswith(("nfs", "smb")):
        return FILESYSTEM.fail(about, text, "move manager.data_dir to a disk of this machine", **facts)
    if mount.type in VOLATILE_TYPES:
        return FILESYSTEM.warn(about, text, "it is gone with the power: use a disk, unless this is a test", **facts)
    if mount.type in LAYERED_TYPES:
        return FILESYSTEM.warn(about, text, "it is gone with its container: mount a volume there", **facts)
    return FILESYSTEM.ok(about, text, **facts)


def free_space(directory: Path, total: int, free: int, may_grow: int, about: str) -> Finding:
    """`may_grow`: what the store may still become larger by, up to its own limit."""
    text = f"{directory}: {_size(free)} free of {_size(total)}"
    facts = {"free_bytes": free, "total_bytes": total, "store_may_grow_bytes": may_grow}
    if free < FREE_BYTES_MIN:
        return SPACE.fail(about, text, "make room there now, or move manager.data_dir", **facts)
    if free < may_grow:
        step = f"make room, or lower limits.map_bytes: the store may still grow by {_size(may_grow)}"
        return SPACE.warn(about, text, step, **facts)
    if free < FREE_SHARE_WARN * total:
        return SPACE.warn(about, text, "make room before it is needed", **facts)
    return SPACE.ok(about, text, **facts)


def measure_fsync(directory: Path) -> list[float]:
    """Seconds that real fsyncs of a file without a name take there. Raises OSError; leaves nothing."""
    import os
    import tempfile

    times: list[float] = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        file.write(bytes(FSYNC_BYTES))
        os.fsync(file.fileno())  # the first one makes room for the file itself
        while len(times) < FSYNC_COUNT and sum(times) < FSYNC_TOTAL_S:
            file.write(bytes(FSYNC_BYTES))
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return times


def fsync(directory: Path, times: Sequence[float], about: str) -> Finding:
    """What was measured."""
    ordered = sorted(times)
    middle, worst = ordered[len(ordered) // 2], ordered[-1]
    text = f"{directory}: p50 {middle * 1000:.2f} ms, worst {worst * 1000:.2f} ms of {len(times)}"
    facts = {"p50_ms": round(middle * 1000, 3), "worst_ms": round(worst * 1000, 3), "count": len(times)}
    if middle >= FSYNC_FAIL_S:
        return FSYNC.fail(about, text, "look for errors of the disk, or for who else writes to it", **facts)
    if middle >= FSYNC_WARN_S or worst >= FSYNC_FAIL_S:
        return FSYNC.warn(about, text, "use a faster disk, or take other writers away from it", **facts)
    return FSYNC.ok(about, text, **facts)


def disk(directory: Path, map_bytes: int, about: str) -> list[Finding]:
    """All about where a member keeps its data. Makes no directory and leaves no file."""
    import shutil

    there = existing(directory)
    found = [filesystem(directory, mountinfo(), about)]
    try:
        usage = shutil.disk_usage(there)
        used = sum(path.stat().st_blocks * 512 for path in [directory / "data.mdb"] if path.exists())
        found.append(free_space(directory, usage.total, usage.free, max(0, map_bytes - used), about))
    except OSError as error:
        found.append(SPACE.fail(about, f"{directory}: {error.strerror}", "let this user read it"))
    try:
        found.append(fsync(directory, measure_fsync(there), about))
    except OSError as error:
        step = f"run this as the user of the member, who must be able to write to {there}"
        found.append(FSYNC.fail(about, f"{there}: nothing can be written: {error.strerror}", step))
    return found


def mountinfo() -> str:
    """Empty where there is none."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# -- limits ------------------------------------------------------------------------------------------------------------


def open_files(soft: int | None, about: str) -> Finding:
    """`soft`: how many files a process may have open; None: without a limit."""
    if soft is None:
        return FILES.ok(about, "no limit")
    text, step = f"at most {soft:,}", "raise it: LimitNOFILE=65536 in the unit, or `ulimit -n 65536`"
    if soft < FILES_FAIL:
        return FILES.fail(about, text, step, soft=soft)
    if soft < FILES_WARN:
        return FILES.warn(about, text, step, soft=soft)
    return FILES.ok(about, text, soft=soft)


def own_open_files() -> int | None:
    """The limit of this process, which a member that is started from here would have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def open_files_of(pid: int) -> int | None:
    """The limit of a process here. Raises OSError when it is not ours to look at, ValueError when it has none."""
    for line in Path(f"/proc/{pid}/limits").read_text(encoding="ascii").splitlines():
        if line.startswith("Max open files"):
            word = line.removeprefix("Max open files").split()[0]
            return None if word == "unlimited" else int(word)
    raise ValueError(f"/proc/{pid}/limits does not say")


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
