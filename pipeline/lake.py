"""The lake on disk: which stretches of a member's journal it holds, and how another one gets in, whole or not at all.

    lake/journal/member=a/log-<from>-<to>-<epoch>/*.parquet    records from..to-1; epoch: of the last of them
                                                  _manifest.json    its files, with their digests
    lake/_ranges/a.json                                        how far the stretches of a member reach
    lake/_lake.json                                            what this lake is of, and of which history
    lake/_heads/a.json                                         where the member said it stood
    lake/_staging/                                             what is not published, or not any more
    lake/_lock                                                 held by the one job that writes

A stretch is published by renaming its directory, so its rows and the place where the next one begins become true in
the same instant. The lake is thereby the only checkpoint there is: a job that died is followed by one that goes on
from the last stretch. A stretch inside a wider one has been put together with others: it does not count any more.

Manifests are published by that same rename. The ranges follow it: they say what must be there, and a stretch behind
them is one whose writer died before it could say so. What is held against both is in `proving`.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pipeline import manifests
from pipeline.durable import BESIDE, make_folder, read_json, sync, unwritable, write_json
from pipeline.manifests import DamageError
from pipeline.problems import BAD_LAKE, LAKE_IN_USE, LAKE_SCHEMA, PipelineError
from pipeline.schema import BARE_JOURNAL, JOURNAL, VERSION, names

DIGITS = 20
_NAME = re.compile(rf"log-([0-9]{{{DIGITS}}})-([0-9]{{{DIGITS}}})-([0-9]+)")
MEMBER = "member="
FACTS = "_lake.json"
COLUMNS, ATTRIBUTES_FROM = "columns", "attributes_from"
HEADS, RANGES = "_heads", "_ranges"
MANIFESTS, MEMBERS = "manifests", "members"
"""In the facts: every stretch has a manifest, every member its range. A lake of an older version has not."""


class Place(NamedTuple):
    """Between two records: the log index of the next one, the epoch of the one before (0: there is none)."""

    log_index: int
    epoch: int


class Stretch(NamedTuple):
    """Records of one member's journal, from `start` up to and without `end.log_index`."""

    start: int
    end: Place
    path: Path

    @property
    def bytes(self) -> int:
        """Of its Parquet files."""
        return sum(file.stat().st_size for file in self.path.glob("*.parquet"))


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """What a lake holds of one member at least."""

    lake: str
    """The lake's name; empty: nobody has claimed it."""
    member: str
    first: int
    next: int
    """The first log index that may be missing."""
    heads: bool
    """Whether it has said where it stands (`save_heads`)."""


class Lake:
    """One directory. Reading needs no lock; writing is for who holds `locked`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal"
        self._staging = path / "_staging"

    # -- what is there -------------------------------------------------------------------------------------------------

    def members(self) -> list[str]:
        """Whose journals it holds."""
        found = self.journal.glob(f"{MEMBER}*") if self.journal.is_dir() else ()
        return sorted(path.name.removeprefix(MEMBER) for path in found if path.is_dir())

    def stretches(self, member: str) -> list[Stretch]:
        """In order, gap-free. Raises PipelineError with reason BAD_LAKE where something is missing."""
        found, holes = counting(self.every(member))
        for before, after in holes:
            raise PipelineError(BAD_LAKE, f"after {before.path} comes {after.path}: what is between is missing")
        return found

    def end(self, member: str) -> Place | None:
        """From where the next stretch goes on; None when there is none yet."""
        found = self.stretches(member)
        return found[-1].end if found else None

    def paths(self) -> list[str]:
        """Of every stretch that counts: what a reader gives to Spark.

        Raises PipelineError with reason LAKE_SCHEMA where a newer version has written.
        """
        self._check_known()
        return [str(stretch.path) for member in self.members() for stretch in self.stretches(member)]

    def folder(self, member: str) -> Path:
        """Where its stretches are."""
        return self.journal / f"{MEMBER}{member}"

    def every(self, member: str) -> list[Stretch]:
        """Those that do not count too; wider before narrower where they begin at one place."""
        found = []
        folder = self.folder(member)
        for path in folder.iterdir() if folder.is_dir() else ():
            match = _NAME.fullmatch(path.name)
            if match:
                start, end, epoch = map(int, match.groups())
                found.append(Stretch(start, Place(end, epoch), path))
        return sorted(found, key=lambda each: (each.start, -each.end.log_index))

    # -- writing -------------------------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone with it until the block ends, however this process ends. What others left unpublished is removed.

        Raises PipelineError with reason LAKE_IN_USE, BAD_LAKE or DISK_FULL.
        """
        try:
            self.journal.mkdir(parents=True, exist_ok=True)
            sync(self.path)
            lock = (self.path / "_lock").open("a+b")
        except OSError as error:
            raise unwritable(self.path, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PipelineError(LAKE_IN_USE, f"another job writes to {self.path}") from error
            except OSError as error:
                raise unwritable(self.path, error) from error
            shutil.rmtree(self._staging, ignore_errors=True)
            for folder in (self.path, self.path / HEADS, self.path / RANGES):
                for left in folder.glob(BESIDE):
                    left.unlink(missing_ok=True)
            for member in self.members():
                self._clear(member, trusted=False)
            yield

    def staging(self, name: str) -> Path:
        """A new path for something that is not published yet, on the same file system. Raises PipelineError."""
        make_folder(self._staging)
        return self._staging / f"{name}-{uuid.uuid4().hex}"

    def discard(self, staged: Path) -> None:
        """Remove something that was staged here. Nothing else is ever removed on somebody's word."""
        assert staged.parent == self._staging, f"{staged} is not in {self._staging}"
        shutil.rmtree(staged, ignore_errors=True)

    def publish(self, member: str, start: int, end: Place, staged: Path, *, rows: int) -> Stretch:
        """Make a staged directory the records from start up to end. It is on the disk when this returns.

        1. What the member's stretches reach from is said, before the first of them. 2. The manifest is written into the
        staged directory. 3. The rename. 4. What they reach to is said.
        """
        self.begin_range(member, start)
        published = self._put(member, start, end, staged, rows=rows)
        self.reach(member, end.log_index)
        return published

    def replace(self, member: str, merged: Sequence[Stretch], staged: Path, *, rows: int) -> Stretch:
        """Publish one stretch instead of several that follow each other. Readers by `paths` see either.

        The range stays: micro-batches are published meanwhile, and move it.
        """
        wide = self._put(member, merged[0].start, merged[-1].end, staged, rows=rows, merged=merged)
        self._clear(member, trusted=True)
        return wide

    def add_manifest(self, member: str, each: Stretch, rows: int) -> None:
        """To a stretch of a lake of before. Raises PipelineError."""
        staged = self.staging("manifest")
        try:
            manifest = manifests.made(
                each.path, lake=self.known_name(), member=member, stretch=each.path.name, rows=rows
            )
            staged.write_text(manifest.text(), encoding="utf-8")
            sync(staged)
            staged.rename(each.path / manifests.NAME)
            sync(each.path)
        except OSError as error:
            raise unwritable(each.path, error) from error
        except DamageError as error:
            raise PipelineError(BAD_LAKE, str(error)) from error

    def begin_range(self, member: str, first: int) -> None:
        """Say where its stretches begin, unless that was said, and then that this lake is of that member too."""
        if not self.range_path(member).exists():
            self._say_range(member, first, first, heads=self.heads_path(member).exists())
        if self.facts() and member not in (known := self.known_members()):
            self._add_fact(MEMBERS, sorted({*known, member}))

    def known_members(self) -> list[str]:
        """Whose journals it says that it holds; one of an older version says so once it is written to. BAD_LAKE."""
        found = self.facts().get(MEMBERS, [])
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise PipelineError(BAD_LAKE, f"{self.path / FACTS}: {MEMBERS} is {found!r}, not a list of names")
        return found

    def reach(self, member: str, end: int) -> None:
        """Say that its stretches reach so far, unless they were said to reach farther."""
        there = self.range(member)
        heads = there.heads or self.heads_path(member).exists()
        if end > there.next or heads != there.heads:
            self._say_range(member, there.first, max(end, there.next), heads=heads)

    def range(self, member: str) -> Range:
        """What must be there of it. Raises PipelineError with reason BAD_LAKE."""
        path = self.range_path(member)
        try:
            return msgspec.convert(read_json(path, strict=True), Range)
        except msgspec.ValidationError as error:
            raise PipelineError(BAD_LAKE, f"{path} is damaged: {error}") from error

    def ranges(self) -> list[str]:
        """Members that have one."""
        return sorted(path.stem for path in (self.path / RANGES).glob("*.json"))

    def range_path(self, member: str) -> Path:
        """Where that is."""
        return self.path / RANGES / f"{member}.json"

    def _say_range(self, member: str, first: int, end: int, *, heads: bool) -> None:
        make_folder(self.path / RANGES)
        said = Range(lake=self.known_name(), member=member, first=first, next=end, heads=heads)
        write_json(self.range_path(member), msgspec.to_builtins(said))

    def _put(
        self,
        member: str,
        start: int,
        end: Place,
        staged: Path,
        *,
        rows: int,
        merged: Sequence[Stretch] = (),
    ) -> Stretch:
        name = f"log-{start:0{DIGITS}}-{end.log_index:0{DIGITS}}-{end.epoch}"
        folder = self.folder(member)
        make_folder(folder)
        inside = tuple(each.path.name for each in merged)
        try:
            manifest = manifests.made(
                staged, lake=self.known_name(), member=member, stretch=name, rows=rows, merged=inside
            )
            (staged / manifests.NAME).write_text(manifest.text(), encoding="utf-8")
            for file in staged.iterdir():
                sync(file)
            sync(staged)
            staged.rename(folder / name)
            sync(folder)
        except OSError as error:
            raise unwritable(folder / name, error) from error
        except DamageError as error:
            raise PipelineError(BAD_LAKE, str(error)) from error
        return Stretch(start, end, folder / name)

    def _clear(self, member: str, *, trusted: bool) -> None:
        """Remove stretches that were put together with others and do not count any more.

        Only what the wider one says it was made of; and unless it is `trusted`, because it was just written, only where
        its files are what its manifest says: it is the one copy then.

        They are listed once. A micro-batch is published while stretches are put together, on a thread of its own: in a
        second listing it would be one that does not count in the first.
        """
        every = self.every(member)
        counts, _ = counting(every)
        for wide in counts:
            inside = [each for each in every if each.path != wide.path and is_inside(each, wide)]
            if not inside:
                continue
            try:
                manifest = manifests.read(wide.path)
            except DamageError:
                continue
            gone = [each for each in inside if each.path.name in manifest.merged]
            if gone and (trusted or not any(manifests.differences(wide.path, manifest, digests=True))):
                for each in gone:
                    shutil.rmtree(each.path, ignore_errors=True)

    # -- what it is of -------------------------------------------------------------------------------------------------

    def claim(self, facts: dict[str, Any]) -> bool:
        """Say what this lake is of, or see that it was said: rows of two kinds do not go into one. True: it was kept by
        an older version, without attributes, and has just been taken over.

        Raises PipelineError with reason LAKE_SCHEMA, which names what differs.
        """
        wanted = {"version": VERSION, COLUMNS: list(names(JOURNAL)), **facts}
        path = self.path / FACTS
        if not path.exists():
            if self.members():
                raise PipelineError(LAKE_SCHEMA, f"{self.journal} has rows, and no {path.name} says what they are of")
            write_json(path, {**wanted, "name": _new_name(), MANIFESTS: manifests.VERSION})
            return False
        self._check_known()
        found = self.facts()
        before = found.get(COLUMNS) == list(names(BARE_JOURNAL))
        differing = [key for key in wanted if found.get(key) != wanted[key] and not (before and key == COLUMNS)]
        if differing:
            text = "; ".join(f"{key} is {found.get(key)!r} there, {wanted[key]!r} is wanted" for key in differing)
            raise PipelineError(LAKE_SCHEMA, f"{path}: {text}")
        if before:
            ends = [end.log_index for member in self.members() if (end := self.end(member)) is not None]
            write_json(path, {**found, COLUMNS: wanted[COLUMNS], ATTRIBUTES_FROM: max(ends, default=0)})
        return before

    def attributes_from(self) -> int:
        """From this log index on the rows of both members have what stood beside bodies; before it, they may not."""
        found = self.facts()
        if found.get(COLUMNS) == list(names(BARE_JOURNAL)):
            return max((end.log_index for member in self.members() if (end := self.end(member))), default=0)
        return int(found.get(ATTRIBUTES_FROM, 0))

    def _check_known(self) -> None:
        path, found = self.path / FACTS, self.facts()
        version, columns = found.get("version", VERSION), found.get(COLUMNS, [])
        unknown = [str(name) for name in columns if name not in names(JOURNAL)]
        if unknown or version != VERSION:
            text = f"it has columns that this version does not know: {', '.join(unknown)}" if unknown else ""
            text = text or f"it is of version {version!r}, and this one knows {VERSION}"
            raise PipelineError(LAKE_SCHEMA, f"{path}: {text}: a newer version of tandemq wrote it, use that one")

    def facts(self) -> dict[str, Any]:
        """What this lake is of; empty: nobody has said it. Raises PipelineError with reason BAD_LAKE."""
        path = self.path / FACTS
        if not path.exists():
            return {}
        found = read_json(path)
        return read_json(path, strict=True) if MANIFESTS in found else found

    def _add_fact(self, name: str, value: str | int | list[str] | dict[str, int]) -> None:
        write_json(self.path / FACTS, {**self.facts(), name: value})

    def history_id(self) -> str:
        """Which history its rows are of; empty: an older version wrote them, or none was read yet. BAD_LAKE."""
        return str(self.facts().get("history_id", ""))

    def hold_to(self, history_id: str, member: str) -> bool:
        """Its rows are of this history, as `member` has it, and of no other one. True: it has just taken that over.

        Raises PipelineError with reason PAIR_CHANGED.
        """
        before = self.history_id()
        if before == history_id or not history_id:
            return False
        if before:
            text = f"{self.path} holds history {before}, and {member} has {history_id}"
            raise PipelineError("PAIR_CHANGED", f"{text}: another pair, or this one formed anew")
        self._add_fact("history_id", history_id)
        return True

    def check_one_history(self) -> None:
        """What its members said last is of one history: rows of two differ in everything, and none of it is a fault.

        Raises PipelineError with reason PAIR_CHANGED. A member that has said nothing of it is of an older version.
        """
        known = {"this lake": self.history_id()} | {
            f"member {row['member']}": row.get("history_id") for row in self.heads()
        }
        ids = [(name, history_id) for name, history_id in known.items() if history_id]
        for name, history_id in ids[1:]:
            if history_id != ids[0][1]:
                text = f"{self.path}: {ids[0][0]} is of history {ids[0][1]}, and {name} of {history_id}"
                raise PipelineError("PAIR_CHANGED", f"{text}: two pairs, or one before and after it was formed anew")

    def every_record_from(self) -> dict[str, int]:
        """By member, the record from which on each one has a row: what has none is missing. Members whose rows were
        read by an older version, or without those of chosen queues, are not in it. BAD_LAKE.
        """
        path = self.path / FACTS
        found = self.facts().get("every_record_from", {})
        if not isinstance(found, dict) or not all(isinstance(each, int) for each in found.values()):
            raise PipelineError(BAD_LAKE, f"{path}: every_record_from is {found!r}, not a log index for each member")
        return found

    def note_every_record(self, member: str, start: int | None) -> None:
        """What is read of it from `start` on has a row of each record; None: it has not. For who has claimed it."""
        known = self.every_record_from()
        wanted = {name: first for name, first in known.items() if name != member}
        if start is not None:
            wanted[member] = known.get(member, start)
        if wanted != known:
            self._add_fact("every_record_from", wanted)

    def name(self) -> str:
        """What no other lake is called. For who has claimed it; a copy of a lake has the same one."""
        if not (found := self.known_name()):
            found = _new_name()
            self._add_fact("name", found)
        return found

    def known_name(self) -> str:
        """Empty: nobody has given it one. BAD_LAKE."""
        return str(self.facts().get("name", ""))

    def has_manifests(self) -> bool:
        """Whether a stretch without one is damage; False: an older version kept this lake. BAD_LAKE."""
        return MANIFESTS in self.facts() or not (self.path / FACTS).exists()

    def mark(self) -> None:
        """Say that every stretch has a manifest now, and every member its range."""
        self._add_fact(MANIFESTS, manifests.VERSION)

    def save_heads(self, member: str, rows: list[dict[str, Any]]) -> None:
        """Where a member says that it stands (schema.HEADS), instead of what it said before."""
        make_folder(self.path / HEADS)
        write_json(self.heads_path(member), {"rows": rows})

    def heads_path(self, member: str) -> Path:
        """Where that is."""
        return self.path / HEADS / f"{member}.json"

    def heads(self) -> list[dict[str, Any]]:
        """What every member said last; rows of schema.HEADS."""
        found = sorted((self.path / HEADS).glob("*.json"))
        return [row for path in found for row in read_json(path)["rows"]]


def counting(every: Sequence[Stretch]) -> tuple[list[Stretch], list[tuple[Stretch, Stretch]]]:
    """Of all that are there, in the order of `Lake.every`, those that count, and pairs of them with a hole between."""
    found: list[Stretch] = []
    holes = []
    for each in every:
        if found and each.end.log_index <= found[-1].end.log_index:
            continue  # inside the wider one before it
        if found and each.start != found[-1].end.log_index:
            holes.append((found[-1], each))
        found.append(each)
    return found, holes


def is_inside(each: Stretch, wide: Stretch) -> bool:
    """Whether all of its records are in the wide one."""
    return wide.start <= each.start and each.end.log_index <= wide.end.log_index


def _new_name() -> str:
    return f"lake-{uuid.uuid4().hex[:12]}"
