"""The lake on disk: which stretches of a member's journal it holds, and how another one gets in, whole or not at all.

    lake/journal/member=a/log-<from>-<to>-<epoch>/*.parquet    records from..to-1; epoch: of the last of them
    lake/_lake.json                                            what this lake is of, and of which history
    lake/_heads/a.json                                         where the member said it stood
    lake/_staging/                                             what is not published, or not any more
    lake/_lock                                                 held by the one job that writes

A stretch is published by renaming its directory, so its rows and the place where the next one begins become true in
the same instant. The lake is thereby the only checkpoint there is: a job that died is followed by one that goes on
from the last stretch. A stretch inside a wider one has been put together with others: it does not count any more.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.problems import BAD_LAKE, DISK_FULL, LAKE_IN_USE, LAKE_SCHEMA, PipelineError
from pipeline.schema import BARE_JOURNAL, JOURNAL, VERSION, names

DIGITS = 20
_NAME = re.compile(rf"log-([0-9]{{{DIGITS}}})-([0-9]{{{DIGITS}}})-([0-9]+)")
MEMBER = "member="
FACTS = "_lake.json"
COLUMNS, ATTRIBUTES_FROM = "columns", "attributes_from"


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
        return _counting(self._every(member))

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

    def _every(self, member: str) -> list[Stretch]:
        """Wider before narrower where they begin at one place."""
        found = []
        folder = self.journal / f"{MEMBER}{member}"
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
            _sync(self.path)
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
            for member in self.members():
                self._clear(member)
            yield

    def staging(self, name: str) -> Path:
        """A new path for something that is not published yet, on the same file system. Raises PipelineError."""
        _make(self._staging)
        return self._staging / f"{name}-{uuid.uuid4().hex}"

    def discard(self, staged: Path) -> None:
        """Remove something that was staged here. Nothing else is ever removed on somebody's word."""
        assert staged.parent == self._staging, f"{staged} is not in {self._staging}"
        shutil.rmtree(staged, ignore_errors=True)

    def publish(self, member: str, start: int, end: Place, staged: Path) -> Stretch:
        """Make a staged directory the records from start up to end. It is on the disk when this returns."""
        name = f"log-{start:0{DIGITS}}-{end.log_index:0{DIGITS}}-{end.epoch}"
        folder = self.journal / f"{MEMBER}{member}"
        _make(folder)
        try:
            for file in staged.iterdir():
                _sync(file)
            _sync(staged)
            staged.rename(folder / name)
            _sync(folder)
        except OSError as error:
            raise unwritable(folder / name, error) from error
        return Stretch(start, end, folder / name)

    def replace(self, member: str, merged: Sequence[Stretch], staged: Path) -> Stretch:
        """Publish one stretch instead of several that follow each other. Readers by `paths` see either."""
        wide = self.publish(member, merged[0].start, merged[-1].end, staged)
        self._clear(member)
        return wide

    def _clear(self, member: str) -> None:
        """Remove stretches that do not count any more.

        They are listed once. A micro-batch is published while stretches are put together, on a thread of its own: in a
        second listing it would be one that does not count in the first.
        """
        every = self._every(member)
        counts = {stretch.path for stretch in _counting(every)}
        for stretch in every:
            if stretch.path not in counts:
                shutil.rmtree(stretch.path, ignore_errors=True)

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
            write_json(path, wanted)
            return False
        self._check_known()
        found = read_json(path)
        before = found.get(COLUMNS) == list(names(BARE_JOURNAL))
        differing = [key for key in wanted if found.get(key) != wanted[key] and not (before and key == COLUMNS)]
        if differing:
            told = "; ".join(f"{key} is {found.get(key)!r} there, {wanted[key]!r} is wanted" for key in differing)
            raise PipelineError(LAKE_SCHEMA, f"{path}: {told}")
        if before:
            ends = [end.log_index for member in self.members() if (end := self.end(member)) is not None]
            write_json(path, {**found, COLUMNS: wanted[COLUMNS], ATTRIBUTES_FROM: max(ends, default=0)})
        return before

    def attributes_from(self) -> int:
        """From this log index on the rows of both members tell what stood beside bodies; before it, they may not."""
        path = self.path / FACTS
        found = read_json(path) if path.exists() else {}
        if found.get(COLUMNS) == list(names(BARE_JOURNAL)):
            return max((end.log_index for member in self.members() if (end := self.end(member))), default=0)
        return int(found.get(ATTRIBUTES_FROM, 0))

    def _check_known(self) -> None:
        path = self.path / FACTS
        found = read_json(path) if path.exists() else {}
        version, columns = found.get("version", VERSION), found.get(COLUMNS, [])
        unknown = [str(name) for name in columns if name not in names(JOURNAL)]
        if unknown or version != VERSION:
            told = f"it has columns that this version does not know: {', '.join(unknown)}" if unknown else ""
            told = told or f"it is of version {version!r}, and this one knows {VERSION}"
            raise PipelineError(LAKE_SCHEMA, f"{path}: {told}: a newer version of tandemq wrote it, use that one")

    def history_id(self) -> str:
        """Which history its rows are of; empty: an older version wrote them, or none was read yet. BAD_LAKE."""
        path = self.path / FACTS
        return str(read_json(path).get("history_id", "")) if path.exists() else ""

    def hold_to(self, history_id: str, member: str) -> bool:
        """Its rows are of this history, as `member` has it, and of no other one. True: it has just taken that over.

        Raises PipelineError with reason PAIR_CHANGED.
        """
        before = self.history_id()
        if before == history_id or not history_id:
            return False
        if before:
            text = f"{self.path} holds history {before}, and {member} has {history_id}"
            raise PipelineError("PAIR_CHANGED", f"{text}: another pair, or this one begun anew")
        path = self.path / FACTS
        write_json(path, {**read_json(path), "history_id": history_id})
        return True

    def name(self) -> str:
        """What no other lake is called. For who has claimed it; a copy of a lake has the same one."""
        path = self.path / FACTS
        found = read_json(path)
        if "name" not in found:
            found["name"] = f"lake-{uuid.uuid4().hex[:12]}"
            write_json(path, found)
        return str(found["name"])

    def save_heads(self, member: str, rows: list[dict[str, Any]]) -> None:
        """Where a member says that it stands (schema.HEADS), instead of what it said before."""
        _make(self.path / "_heads")
        write_json(self.path / "_heads" / f"{member}.json", {"rows": rows})

    def heads(self) -> list[dict[str, Any]]:
        """What every member said last; rows of schema.HEADS."""
        found = sorted((self.path / "_heads").glob("*.json"))
        return [row for path in found for row in read_json(path)["rows"]]


def _counting(every: Sequence[Stretch]) -> list[Stretch]:
    """Of all that are there, in the order of `_every`, those that count: see Lake.stretches."""
    found: list[Stretch] = []
    for each in every:
        if found and each.end.log_index <= found[-1].end.log_index:
            continue  # inside the wider one before it
        if found and each.start != found[-1].end.log_index:
            raise PipelineError(BAD_LAKE, f"after {found[-1].path} comes {each.path}: what is between is missing")
        found.append(each)
    return found


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all."""
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        beside.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        _sync(beside)
        beside.rename(path)
        _sync(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def read_json(path: Path) -> dict[str, Any]:
    """Raises PipelineError with reason BAD_LAKE."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PipelineError(BAD_LAKE, f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise PipelineError(BAD_LAKE, f"{path} is not what a lake has there")
    return found


def unwritable(path: Path, error: OSError) -> PipelineError:
    """Why nothing can be written there."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return PipelineError(DISK_FULL if full else BAD_LAKE, f"{path} cannot be written: {error.strerror or error}")


def _make(folder: Path) -> None:
    """A directory of the lake, which is there after a loss of power if anything in it is. Raises PipelineError."""
    try:
        if not folder.is_dir():
            folder.mkdir()
            _sync(folder.parent)
    except OSError as error:
        raise unwritable(folder, error) from error


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
