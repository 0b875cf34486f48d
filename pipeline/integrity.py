"""Holds a lake against its manifests and ranges, and says what is gone, added or damaged. It changes nothing.

Reading needs no lock: an ingest may publish and put together meanwhile. What is found while stretches come and go is
looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pipeline import manifests
from pipeline.durable import read_json
from pipeline.lake import FACTS, HEADS, MEMBER, Lake, Range, Stretch, counting, is_inside
from pipeline.manifests import DamageError, Fault, Manifest, unwatched
from pipeline.problems import BAD_LAKE, PipelineError

LOOKS_MAX = 5
"""While an ingest puts stretches together all the while."""
INGEST_BYTES = 4 << 30
"""So much of the newest stretches an ingest reads, for two to three CPU seconds. A job that reads rows reads all."""

RESTORE = (
    "restore it from a backup of the lake; without one keep this lake, and ingest anew from the pair into another "
    "directory (lake.path)"
)
REMOVE = "move it out of the lake: no job of the pipeline put it there"
RENAME = f"give it its name again, or {REMOVE}"
OF_BEFORE = (
    "The lake was kept by an older version and has no manifests, so what is gone, added or damaged in it is not seen: "
    "the next ingest makes them, and so does `tandemq pipeline verify --adopt`."
)


class Finding(NamedTuple):
    """One thing that is wrong with a lake."""

    path: str
    what: str
    next_step: str


@dataclass(slots=True)
class Proof:
    """What a lake was found to be. Without findings it is as it was published."""

    findings: list[Finding] = field(default_factory=list)
    stretches: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    unread_bytes: int = 0
    """Of files of which names and sizes were looked at alone."""
    of_before: bool = False
    """An older version kept it, and nothing proves it."""


Progress = Callable[[int, int], None]
"""Called with bytes that were read, and all that will be."""
REPORT_S = 2.0


def progress_to(notify: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> Progress:
    """For a job that says now and then how far it is."""
    reported_at = now()

    def on_progress(done: int, size: int) -> None:
        nonlocal reported_at
        if (at := now()) >= reported_at + REPORT_S:
            reported_at = at
            notify(f"the lake's files are checked: {done >> 20:,} of {size >> 20:,} MiB")

    return on_progress


def examine(lake: Lake, *, read_bytes: int | None = None, on_progress: Progress = unwatched) -> Proof:
    """Names and sizes of all files, and digests of those of the newest stretches: `read_bytes` of them, None is all."""
    for _ in range(LOOKS_MAX - 1):
        before = _listing(lake)
        proof = _looked(lake, read_bytes, on_progress)
        if not proof.findings or _listing(lake) == before:
            return proof
    return _looked(lake, read_bytes, on_progress)


def _looked(lake: Lake, read_bytes: int | None, on_progress: Progress) -> Proof:
    look = _Look(lake)
    try:
        look.at_all()
        look.at_bytes(read_bytes, on_progress)
    except OSError as error:
        text = f"cannot be read: {error.strerror or error}"
        look.proof.findings.append(Finding(printable(Path(str(error.filename or lake.path))), text, RESTORE))
    return look.proof


def prove(lake: Lake, *, read_bytes: int | None = None, on_progress: Progress = unwatched) -> Proof:
    """The same for a job that goes on only where nothing was found. Raises PipelineError with reason BAD_LAKE."""
    proof = examine(lake, read_bytes=read_bytes, on_progress=on_progress)
    if proof.findings:
        raise bad_lake(lake, proof.findings)
    return proof


def bad_lake(lake: Lake, findings: list[Finding]) -> PipelineError:
    """The first of them, and how many there are."""
    first = findings[0]
    more = f"; {len(findings) - 1:,} more: `tandemq pipeline verify {lake.path}` lists them" if findings[1:] else ""
    return PipelineError(BAD_LAKE, f"{first.path} {first.what}{more}", first.next_step)


def prove_stretches(stretches: Iterable[Stretch]) -> list[Manifest]:
    """These alone, with their digests, before they are read to be written anew. Raises PipelineError (BAD_LAKE)."""
    found = []
    for each in stretches:
        try:
            manifest = manifests.read(each.path)
        except DamageError as damaged:
            raise _refused(damaged.fault) from damaged
        for fault in manifests.differences(each.path, manifest, digests=True):
            raise _refused(fault)
        found.append(manifest)
    return found


def _refused(fault: Fault) -> PipelineError:
    found = _finding(fault)
    return PipelineError(BAD_LAKE, f"{found.path} {found.what}", found.next_step)


def _finding(fault: Fault) -> Finding:
    return Finding(printable(fault.path), fault.what, REMOVE if fault.added else RESTORE)


def printable(path: Path) -> str:
    """As it can be written anywhere: a name may be bytes that are no text."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _listing(lake: Lake) -> dict[str, list[Path]]:
    return {member: [each.path for each in lake.every(member)] for member in lake.members()}


class _Look:
    """One look at a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.proof = Proof()
        self._name: str | None = None
        """As the lake says it is called; None: it does not."""
        self._known: list[tuple[Stretch, Manifest]] = []
        """With a manifest of their own."""

    def at_all(self) -> None:
        """Everything but what is in the data files."""
        lake = self._lake
        members = sorted({*lake.members(), *lake.ranges()})
        if not self._facts(members):
            return
        for member in self._said_members():
            if member not in members:
                self._find(lake.folder(member), f"is gone, with all that this lake says of member {member}", RESTORE)
        self._strangers(lake.journal, [lake.folder(member) for member in lake.members()])
        for member in members:
            every = lake.every(member)
            counts, holes = counting(every)
            for before, after in holes:
                self._hole(member, before, after)
            self._range(member, counts)
            self._strangers(lake.folder(member), [each.path for each in every])
            for each in counts:
                self._stretch(member, each)
            for each in sorted(set(every).difference(counts)):
                self._inner(each, counts)
        for path in sorted((lake.path / HEADS).glob("*.json")):
            self._heads(path)

    def at_bytes(self, read_bytes: int | None, on_progress: Progress) -> None:
        """What is in the data files, the newest stretches first."""
        chosen, size = [], 0
        for each, manifest in sorted(self._known, key=lambda pair: -pair[0].end.log_index):
            if read_bytes is not None and size + manifest.bytes > read_bytes:
                self.proof.unread_bytes += manifest.bytes
                continue
            chosen.append((each, manifest))
            size += manifest.bytes
        done = 0

        def on_bytes(count: int) -> None:
            nonlocal done
            done += count
            on_progress(done, size)

        known = set(self.proof.findings)
        for each, manifest in chosen:
            faults = manifests.differences(each.path, manifest, digests=True, on_bytes=on_bytes)
            self.proof.findings += [found for found in map(_finding, faults) if found not in known]

    def _facts(self, members: list[str]) -> bool:
        """Whether there is more to look at: what the lake is called, and that it has manifests."""
        lake = self._lake
        path = lake.path / FACTS
        if not path.exists():
            names = {found.lake for member in lake.ranges() if (found := self._read_range(member)) is not None}
            if members and names != {""}:
                self._find(path, "is gone", RESTORE)
            return bool(lake.ranges())
        try:
            self._name, self.proof.of_before = lake.known_name(), not lake.has_manifests()
        except PipelineError as error:
            self._report(path, error)
        if not self.proof.of_before:
            return True
        for member in members:
            for before, after in counting(lake.every(member))[1]:
                self._hole(member, before, after)
        return False

    def _said_members(self) -> list[str]:
        if self._name is None:
            return []  # that the facts cannot be read is reported
        try:
            return self._lake.known_members()
        except PipelineError as error:
            self._report(self._lake.path / FACTS, error)
            return []

    def _range(self, member: str, counts: list[Stretch]) -> None:
        """What must be there of a member is there."""
        lake = self._lake
        path, folder = lake.range_path(member), lake.folder(member)
        if not path.exists():
            if counts:
                self._find(path, "is gone", RESTORE)
            return
        try:
            said = lake.range(member)
        except PipelineError as error:
            self._report(path, error)
            return
        if said.member != member or (self._name is not None and said.lake != self._name):
            self._find(path, f"is of member {said.member} of lake {said.lake!r}, and not of this one", RESTORE)
            return
        first = counts[0].start if counts else said.next
        last = counts[-1].end.log_index if counts else said.first
        if first > said.first:
            self._find(folder, f"has no records from {said.first} up to {first}: the first stretches are gone", RESTORE)
        if first < said.first:
            self._find(counts[0].path, f"begins before {said.first}, where this lake begins", REMOVE)
        if counts and last < said.next:
            self._find(folder, f"has no records from {last} up to {said.next}: the last stretches are gone", RESTORE)
        if said.heads and not lake.heads_path(member).exists():
            self._find(lake.heads_path(member), "is gone", RESTORE)

    def _hole(self, member: str, before: Stretch, after: Stretch) -> None:
        if after.start < before.end.log_index:
            self._find(after.path, f"has records that {before.path.name} has too", REMOVE)
        else:
            text = f"has no records from {before.end.log_index} up to {after.start}: a stretch is gone"
            self._find(self._lake.folder(member), text, RESTORE)

    def _stretch(self, member: str, each: Stretch) -> None:
        if each.path.is_symlink():
            self._find(each.path, "is a symbolic link, not a directory of its own", RESTORE)
            return
        try:
            manifest = manifests.read(each.path)
        except DamageError as damaged:
            self.proof.findings.append(_finding(damaged.fault))
            return
        if (manifest.member, manifest.stretch) != (member, each.path.name):
            of = f"{MEMBER}{manifest.member}/{manifest.stretch}"
            self._find(each.path, f"has the manifest of {of}: it was copied or renamed", RENAME)
            return
        if self._name is not None and manifest.lake != self._name:
            self._find(each.path, f"is of lake {manifest.lake!r}, and this one is {self._name!r}", REMOVE)
            return
        self.proof.findings += map(_finding, manifests.differences(each.path, manifest, digests=False))
        self._known.append((each, manifest))
        self.proof.stretches += 1
        self.proof.files += len(manifest.files)
        self.proof.bytes += manifest.bytes
        self.proof.rows += manifest.rows

    def _inner(self, each: Stretch, counts: list[Stretch]) -> None:
        """One that does not count was put together with others, and its writer died before he removed it."""
        for wide in counts:
            if is_inside(each, wide):
                try:
                    manifest = manifests.read(wide.path)
                except DamageError:
                    return  # that is reported
                if manifest.stretch == wide.path.name and each.path.name not in manifest.merged:
                    self._find(each.path, f"has records that {wide.path.name} has too", REMOVE)
                return

    def _strangers(self, folder: Path, known: list[Path]) -> None:
        if folder.is_dir():
            for path in sorted(set(folder.iterdir()).difference(known)):
                self._find(path, "is in no manifest", REMOVE)

    def _heads(self, path: Path) -> None:
        try:
            rows = read_json(path, strict=True)["rows"]
        except PipelineError as error:
            self._report(path, error)
            return
        others = {str(row["member"]) for row in rows} - {path.stem}
        if others:
            self._find(path, f"is of member {', '.join(sorted(others))}: it was copied or renamed", RENAME)

    def _read_range(self, member: str) -> Range | None:
        try:
            return self._lake.range(member)
        except PipelineError:
            return None  # that is reported where it is held against the stretches

    def _report(self, path: Path, error: PipelineError) -> None:
        self._find(path, error.cause.removeprefix(f"{path} "), RESTORE)

    def _find(self, path: Path, what: str, next_step: str) -> None:
        self.proof.findings.append(Finding(printable(path), what, next_step))
