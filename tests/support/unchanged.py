"""Fails the last test of a file when the file leaves a module of the product, or the process, other than it found it.

Looked at are the names of each module and class, in what order they stand in a table, and what lists, sets and tables
hold; and of the process what all its tests share: environment, directory, import path, collector, log, signals. What a
test changes and puts back at another place, or not at all, is found by whoever comes after it, and only in some orders.
A module that a test imports first is looked at from the end of that test's file on.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import NamedTuple

import pytest

PACKAGES = ("chaos", "failover", "replica", "storage", "tandemq")
GENERATED = ("_pb2", "_pb2_grpc")
_KEPT = pytest.StashKey["Kept"]()


class Is:
    """An object that is only compared with itself."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Is) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Names(NamedTuple):
    """A module or a class as it was."""

    owner: object
    values: dict[str, object]
    held: dict[str, object]
    """What its lists, sets and tables hold, by name."""


class Kept:
    """All modules of the product, as they were when they were last looked at."""

    def __init__(self, packages: tuple[str, ...] = PACKAGES) -> None:
        self._packages = packages
        self._names: dict[str, Names] = {}
        self._shared = shared()

    def changes(self) -> list[str]:
        """The names that have changed since it was last asked, each once."""
        now = shared()
        found = [f"{name} of the process" for name in now if now[name] != self._shared[name]]
        self._shared = now
        for path, owner in self._owners():
            before = self._names.get(path)
            if before is None:
                self._names[path] = names_of(owner)
            elif changed := [*changes_of(before, owner)]:
                found += [f"{path}.{name}" if name else path for name in changed]
                self._names[path] = names_of(owner)
        return found

    def _owners(self) -> Iterator[tuple[str, object]]:
        for path, module in [*sys.modules.items()]:
            if path.partition(".")[0] in self._packages and not path.endswith(GENERATED):
                yield path, module
                for name, value in [*vars(module).items()]:
                    if isinstance(value, type) and value.__module__ == path:
                        yield f"{path}.{name}", value


def shared() -> dict[str, object]:
    """What the tests of a process have in common, but for what pytest sets around each of them."""
    handlers = [handler for handler in logging.root.handlers if not type(handler).__module__.startswith("_pytest.")]
    return {
        "environment": {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "directory": Path.cwd(),
        "import path": [*sys.path],
        "collector": (gc.isenabled(), gc.get_threshold()),
        "log": (logging.root.level, handlers, logging.root.manager.disable),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals() - {signal.SIGALRM}},
    }


def names_of(owner: object) -> Names:
    values = dict(vars(owner))
    held = {name: copied(value) for name, value in values.items() if holds(name, value)}
    return Names(owner, values, held)


def changes_of(before: Names, owner: object) -> Iterator[str]:
    """Empty: the module or class itself is another one."""
    if owner is not before.owner:
        yield ""
        return
    values = vars(owner)
    if values != before.values:
        names = {*values, *before.values}
        yield from sorted(name for name in names if not internal(name) and differs(name, values, before.values))
    yield from (name for name, held in before.held.items() if name in values and copied(values[name]) != held)


def differs(name: str, now: Mapping[str, object], before: Mapping[str, object]) -> bool:
    """A package gets a name for each of its modules when that is first imported; that is no difference."""
    if name in before:
        return name not in now or now[name] is not before[name]
    return not isinstance(now[name], ModuleType)


def internal(name: str) -> bool:
    """Python's own: enumerations keep combinations of flags, modules their warnings."""
    return name.startswith("_") and name.endswith("_")


def holds(name: str, value: object) -> bool:
    return not internal(name) and isinstance(value, (dict, MappingProxyType, list, tuple, set, deque, bytearray))


def copied(value: object) -> object:
    """What compares equal as long as nothing in it is changed, added, removed or moved."""
    match value:
        case None | bool() | int() | str() | bytes():
            return value
        case dict() | MappingProxyType():
            return type(value), tuple((key, copied(each)) for key, each in value.items())
        case list() | tuple() | deque():
            return type(value), tuple(copied(each) for each in value)
        case set() | frozenset():
            return type(value), frozenset(value)
        case bytearray():
            return bytes(value)
        case _:
            return Is(value)


def pytest_collection_finish(session: pytest.Session) -> None:
    kept = session.config.stash[_KEPT] = Kept()
    kept.changes()


def accept(config: pytest.Config) -> None:
    """All is from here on as it is now: what was started lives as long as the run."""
    config.stash[_KEPT].changes()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    result = yield
    if nextitem is None or nextitem.path != item.path:
        changes = item.config.stash[_KEPT].changes()
        if changes:
            pytest.fail(f"{item.path.name} left changed: {', '.join(changes)}", pytrace=False)
    return result
