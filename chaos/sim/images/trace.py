"""Reads what strace saw a process do to the files under one directory; judges nothing, and knows no product.

Only what a power loss can undo is kept: bytes written, sizes, names, and the calls that make them durable. A process
that opens its files, writes and syncs by other calls than those in CALLS would be misread: hence a write to a
descriptor whose file is unknown, a call that was cut short in the trace, or anything else that is not understood
raises TraceError rather than being passed over.

A line is `PID call("\\x2f...", 3) = 0`; one that is interrupted by another thread ends with `<unfinished ...>` and
is taken up by `PID <... call resumed>) = 0`. A write counts from its beginning, everything else from its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

CALLS = (
    *("open", "openat", "creat", "close", "dup", "dup2", "dup3", "lseek"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate"),
    *("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link", "linkat"),
)
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+|\?)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
_NOT_UNDERSTOOD = ("dup", "dup2", "dup3", "truncate", "sync", "syncfs", "msync", "sync_file_range", "link", "linkat")


class TraceError(ValueError):
    """The trace says something that this reader does not understand; nothing may be concluded from it."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes handed to the system. `number` rises by one from write to write and resize to resize."""

    file: int
    number: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """The file has this size now."""

    file: int
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Synced:
    """What of this file has a number from `first` to `last` is durable."""

    file: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Named:
    """A path came into being: of a file, or of a directory (None)."""

    path: str
    file: int | None


@dataclass(frozen=True, slots=True)
class Renamed:
    """`new` is what `old` was, this file; whatever was `new` is gone."""

    old: str
    new: str
    file: int


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A path is gone."""

    path: str


@dataclass(frozen=True, slots=True)
class NamesSynced:
    """The names in this directory are durable."""

    directory: str


@dataclass(frozen=True, slots=True)
class Said:
    """The process said something to whoever watches it."""

    text: str


Event = Write | Resize | Synced | Named | Renamed | Unnamed | NamesSynced | Said


@dataclass(slots=True)
class _Open:
    path: str
    file: int | None
    durable: bool
    append: bool
    position: int = 0


class _Reader:
    def __init__(self, root: str, said: str) -> None:
        self.root = root.rstrip("/")
        self.said = said
        self.events: list[Event | None] = []
        self.number = 0
        self._files: dict[str, int | None] = {self.root: None}
        self._sizes: list[int] = []
        self._open: dict[int, _Open] = {}
        self._waiting: dict[str, tuple[str, int]] = {}
        """Of each thread in an interrupted call: its text, and where its write stands or what came before its sync"""

    def line(self, line: str) -> None:
        pid, _, text = line.partition(" ")
        text = text.strip()
        if text.startswith(("+++", "---")):
            return
        if text.endswith(_UNFINISHED):
            head = text.removesuffix(_UNFINISHED)
            place = self.number
            if head.split("(", 1)[0] in _WRITES:
                place = len(self.events)
                self.events.append(None)
            self._waiting[pid] = (head, place)
            return
        at: int | None = None
        if resumed := _RESUMED.fullmatch(text):
            if pid not in self._waiting:
                raise TraceError(f"a call is taken up that never began: {text[:200]}")
            head, at = self._waiting.pop(pid)
            text = head + resumed[2]
        found = _CALL.match(text)
        if found is None:
            raise TraceError(f"not a system call: {text[:200]}")
        name, arguments, result = found[1], found[2], found[3]
        if result != "?" and int(result) >= 0:
            self._call(name, arguments, int(result), at)

    def _call(self, name: str, arguments: str, result: int, at: int | None) -> None:
        strings: list[bytes] = []

        def take(match: re.Match[str]) -> str:
            if match[2]:
                raise TraceError(f"{name}: the trace holds a part of what was written; strace needs a larger -s")
            strings.append(bytes.fromhex(match[1].replace("\\x", "")))
            return f"${len(strings) - 1}"

        values = _STRING.sub(take, arguments).split(", ")
        if name in _WRITES:
            self._write(name, values, b"".join(strings)[:result], at)
        elif name in ("open", "openat", "creat"):
            self._opened(name, values, strings[0].decode(), result)
        elif name in ("rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"):
            self._name(name, values, [string.decode() for string in strings])
        elif name in _NOT_UNDERSTOOD:
            if not strings or self._is_ours(strings[0].decode()):
                self._refuse(name, values)
        elif (handle := self._open.get(int(values[0]))) is not None:
            self._on_handle(name, values, result, handle, at)

    def _refuse(self, name: str, values: list[str]) -> None:
        if (
            name in ("sync", "msync")
            or (values[0].isdigit() and int(values[0]) in self._open)
            or name.startswith("link")
        ):
            raise TraceError(f"{name}({', '.join(values)[:100]}) is not understood")

    def _on_handle(self, name: str, values: list[str], result: int, handle: _Open, at: int | None) -> None:
        if name == "close":
            del self._open[int(values[0])]
        elif name == "lseek":
            handle.position = result
        elif name in ("fsync", "fdatasync"):
            if handle.file is None:
                self.events.append(NamesSynced(handle.path))
            else:
                self.events.append(Synced(handle.file, 0, self.number if at is None else at))
        elif handle.file is not None:
            size = int(values[1])
            if name == "fallocate":
                size = max(self._sizes[handle.file], int(values[2]) + int(values[3]))
            self._resize(handle.file, size)

    def _is_ours(self, path: str) -> bool:
        return path == self.root or path.startswith(f"{self.root}/")

    def _opened(self, name: str, values: list[str], path: str, fd: int) -> None:
        self._open.pop(fd, None)
        if not path.startswith("/") or not (self._is_ours(path) or path == self.said):
            return
        flags = values[{"open": 1, "openat": 2}.get(name, 1)].split("|")
        if path not in self._files:
            if "O_CREAT" not in flags and name != "creat":
                raise TraceError(f"{path} is opened, but nothing made it")
            self._files[path] = len(self._sizes)
            self._sizes.append(0)
            if path != self.said:
                self.events.append(Named(path, self._files[path]))
        file = self._files[path]
        durable = not {"O_DSYNC", "O_SYNC"}.isdisjoint(flags)
        self._open[fd] = _Open(path, file, durable, "O_APPEND" in flags)
        if file is not None and ("O_TRUNC" in flags or name == "creat") and self._sizes[file]:
            self._resize(file, 0)

    def _resize(self, file: int, size: int) -> None:
        if self._sizes[file] != size:
            self.number += 1
            self._sizes[file] = size
            self.events.append(Resize(file, self.number, size))

    def _write(self, name: str, values: list[str], data: bytes, at: int | None) -> None:
        handle = self._open.get(int(values[0]))
        events: list[Event] = []
        if handle is not None and handle.path == self.said:
            events = [Said(line) for line in data.decode().splitlines()]
        elif handle is not None and handle.file is not None:
            offset = handle.position
            if handle.append:
                offset = self._sizes[handle.file]
            elif name in ("pwrite64", "pwritev", "pwritev2"):
                offset = int(values[3 if name == "pwrite64" else -1 if name == "pwritev" else -2])
            if not name.startswith("p"):
                handle.position = offset + len(data)
            self._sizes[handle.file] = max(self._sizes[handle.file], offset + len(data))
            self.number += 1
            events = [Write(handle.file, self.number, offset, data)]
            if handle.durable:
                events.append(Synced(handle.file, self.number, self.number))
        if at is None:
            self.events += events
        elif events:
            self.events[at] = events[0]
            self.events += events[1:]

    def _name(self, name: str, values: list[str], paths: list[str]) -> None:
        if not any(self._is_ours(path) for path in paths):
            if any(not path.startswith("/") for path in paths) and "AT_FDCWD" not in values:
                raise TraceError(
                    f"{name}({', '.join(paths)}): a path that begins at an open directory is not understood"
                )
            return
        if name.startswith("rename"):
            old, new = paths
            if old not in self._files or not self._is_ours(new):
                raise TraceError(f"{old} is renamed to {new}, and one of them is not known")
            file = self._files.pop(old)
            if file is None:
                raise TraceError(f"{old} is a directory; renaming one is not understood")
            self._files[new] = file
            self.events.append(Renamed(old, new, file))
        elif name.startswith("mkdir"):
            self._files[paths[0]] = None
            self.events.append(Named(paths[0], None))
        else:
            self._files.pop(paths[0], None)
            self.events.append(Unnamed(paths[0]))


def read_trace(lines: Iterable[str], root: str, said: str) -> list[Event]:
    """What happened under `root`, in order, and what was written to the file `said`. Paths stay absolute.

    The directory `root` is there, durable and empty, when the trace begins. Raises TraceError.
    """
    reader = _Reader(str(PurePosixPath(root)), said)
    for line in lines:
        if line.strip():
            reader.line(line.rstrip("\n"))
    return [event for event in reader.events if event is not None]
