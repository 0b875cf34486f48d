"""Carries out exporting queues into a file of managers, one change at a time, all or nothing, comments kept.

It adds and takes out whole sections at the end of the file and never rewrites what a person wrote: when a change cannot
be made so, it is refused and says what to write by hand.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tandemq.errors import error_of
from tandemq.finding import profile
from tandemq.finding.profile import BadProfile, Place, Profile
from tandemq.finding.resolver import Answer, BadEntry, Exported, Manager, Registry
from tandemq.finding.resolvers import FileResolver

_HEADER = re.compile(r"\s*\[")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class FileRegistry(Registry):
    """A file of managers that may be written to; it is made when the first queue is exported into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = FileResolver(Place("export", path, ""))
        self.source = f"file {path}"

    async def resolve(self, name: str) -> Answer | None:
        return await self._reader.resolve(name)

    async def resolve_queue(self, queue: str) -> Exported | None:
        return await self._reader.resolve_queue(queue)

    async def export(self, entry: Exported, manager: Manager) -> bool:
        return await asyncio.to_thread(self._change, lambda text, found: _with(self.path, text, found, entry, manager))

    async def withdraw(self, queue: str, manager: str) -> bool:
        return await asyncio.to_thread(
            self._change, lambda text, found: _without(self.path, text, found, queue, manager)
        )

    def _change(self, edit: Callable[[str, Profile], str]) -> bool:
        """Applies the edit to what the file says now; whether that changed it."""
        path = Path(os.path.realpath(self.path))  # a link stays a link
        try:
            with _alone(path.parent):
                found = profile.read(path)
                text = path.read_text(encoding="utf-8") if found is not None else ""
                changed = edit(text, found or Profile(path))
                if changed == text:
                    return False
                _replace(path, changed)
        except BadProfile as error:
            raise error_of("CONFIG_ERROR", str(error)) from error
        except OSError as error:
            raise error_of(
                "CONFIG_ERROR",
                f"{self.path}: cannot be written: {error.strerror}; export as who may, or elsewhere",
            ) from error
        return True


def make(options: Mapping[str, object]) -> FileRegistry:
    """From a section with the key `path`."""
    path = options.get("path")
    if not isinstance(path, str) or not path:
        raise BadEntry(f'path = {path!r}: give the path of a file in quotes, for example path = "/srv/managers.toml"')
    if unknown := options.keys() - {"path"}:
        raise BadEntry(f"unknown key {min(unknown)}; known here: path")
    return FileRegistry(Path(path))


def _with(path: Path, text: str, found: Profile, entry: Exported, manager: Manager) -> str:
    """The text with the queue, and the manager, in it."""
    old = found.queues.get(entry.queue)
    if old is not None and old.manager != entry.manager:
        raise error_of(
            "CONFIG_MISMATCH",
            f"{path}: queue {entry.queue!r} is exported for manager {old.manager!r}, not {entry.manager!r}; withdraw "
            "it there first (tandemq queue unexport), or give the queue another name",
        )
    known = found.managers.get(manager.name)
    if known is not None and set(known.endpoints) != set(manager.endpoints):
        raise error_of(
            "CONFIG_MISMATCH",
            f"{path}: manager {manager.name!r} stands there at {','.join(known.endpoints)}, this one is at "
            f"{','.join(manager.endpoints)}; correct managers.{manager.name}.endpoints, or export under another name",
        )
    expected = tomllib.loads(text)
    if known is None and manager.name not in found.aliases:
        body: dict[str, Any] = {"endpoints": list(manager.endpoints), "default": False}
        text = _section(text, f"managers.{_key(manager.name)}", body)
        expected.setdefault("managers", {})[manager.name] = body
    if old != entry:
        body = {"manager": entry.manager} | ({"endpoints": list(entry.endpoints)} if entry.endpoints else {})
        header = f"queues.{_key(entry.queue)}"
        text = _section(_cut(text, ("queues", entry.queue)) if old is not None else text, header, body)
        expected.setdefault("queues", {})[entry.queue] = body
    return _checked(path, text, expected, f"[queues.{_key(entry.queue)}]")


def _without(path: Path, text: str, found: Profile, queue: str, manager: str) -> str:
    """The text without the queue."""
    old = found.queues.get(queue)
    if old is None:
        return text
    if old.manager != manager:
        raise error_of(
            "CONFIG_MISMATCH", f"{path}: queue {queue!r} is exported for manager {old.manager!r}, not {manager!r}"
        )
    expected = tomllib.loads(text)
    del expected["queues"][queue]
    if not expected["queues"]:
        del expected["queues"]
    return _checked(path, _cut(text, ("queues", queue)), expected, f"the section of queue {queue!r}")


def _section(text: str, header: str, body: Mapping[str, Any]) -> str:
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    lines = [f"[{header}]", *(f"{key} = {json.dumps(value)}" for key, value in body.items())]
    return f"{text}{gap}" + "\n".join(lines) + "\n"


def _cut(text: str, keys: tuple[str, ...]) -> str:
    """Without the section of these keys: from its header to the next one. The caller checks what comes out."""
    kept: list[str] = []
    within = False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            within = _keys_of(line) == keys
        if not within:
            kept.append(line)
    cut = "".join(kept)
    return cut.rstrip("\n") + "\n" if cut.strip() else ""


def _keys_of(line: str) -> tuple[str, ...]:
    """The keys of a section's header; none when the line is no header by itself."""
    keys: list[str] = []
    with suppress(tomllib.TOMLDecodeError):
        table: Any = tomllib.loads(line)
        while isinstance(table, dict) and len(table) == 1:
            key, table = next(iter(table.items()))
            keys.append(key)
    return tuple(keys)


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name)


def _checked(path: Path, text: str, expected: Mapping[str, Any], what: str) -> str:
    """Text edited by lines means what it should, or nothing is written."""
    try:
        means: Mapping[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        means = {"": None}
    if dict(means) != dict(expected):
        raise error_of(
            "CONFIG_ERROR", f"{path}: is written in a way that cannot be changed safely; edit {what} by hand"
        )
    profile.parse(path, text)
    return text


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One writer at a time in this folder; the kernel lets go when a process dies."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: Path, text: str) -> None:
    """All or nothing: who reads meanwhile sees the old file or the new one."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        else:
            Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
