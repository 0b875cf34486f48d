"""Decides what a file of managers says: names, endpoints, priorities, aliases, exported queues, further resolvers.

Three files may be there: the user's, the host's and the site's. Every refusal names the file, the key, the value, and
what to do. It never writes one (`file_registry.py` does) and never connects.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandemq.client.target import NoTarget, context_path
from tandemq.errors import TandemqError
from tandemq.finding.names import check_manager
from tandemq.finding.resolver import BadEntry, Exported, Manager

USER_FILE = "managers.toml"  # beside the user's context
HOST_VARIABLE, SITE_VARIABLE = "TANDEMQ_HOST_FILE", "TANDEMQ_SITE_FILE"
HOST_FILE, SITE_FILE = Path("/etc/tandemq/managers.toml"), Path("/etc/tandemq/site.toml")
FILE_BYTES_MAX = 4 << 20
RESOLVERS_MAX = 16


class BadProfile(NoTarget):
    """A file of managers that cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class ResolverSpec:
    """A resolver that a file asks for; `options` are what its kind takes."""

    kind: str
    options: Mapping[str, object]
    where: str  # for messages
    name: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """What one file says."""

    path: Path
    managers: Mapping[str, Manager] = field(default_factory=dict)
    by_name_only: frozenset[str] = frozenset()  # never used when no manager is named
    aliases: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[str, Exported] = field(default_factory=dict)
    resolvers: tuple[ResolverSpec, ...] = ()

    @property
    def defaults(self) -> tuple[Manager, ...]:
        """Those to use when no manager is named, best first; equal priorities in the order of the file."""
        usable = (manager for name, manager in self.managers.items() if name not in self.by_name_only)
        return tuple(sorted(usable, key=lambda manager: manager.priority))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file may be."""

    kind: str  # user, host or site
    path: Path
    named_by: str  # the variable that names the file; empty: its usual place


def places(environment: Mapping[str, str] = os.environ) -> tuple[Place, ...]:
    """The user's file, the host's, the site's: the order in which they are asked."""

    def place(kind: str, variable: str, usual: Path) -> Place:
        named = environment.get(variable, "")
        return Place(kind, Path(named) if named else usual, variable if named else "")

    return (
        Place("user", context_path(environment).parent / USER_FILE, ""),
        place("host", HOST_VARIABLE, HOST_FILE),
        place("site", SITE_VARIABLE, SITE_FILE),
    )


def read_place(place: Place) -> Profile | None:
    """What the file says; None when there is none in the usual place. One that a variable names has to be there."""
    found = read(place.path)
    if found is None and place.named_by:
        raise BadProfile(f"{place.path}: no such file; ${place.named_by} names it: correct the variable, or unset it")
    return found


def read(path: Path) -> Profile | None:
    """What the file says; None when it is not there. Raises BadProfile."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadProfile(f"{path}: cannot be read: {error.strerror}; let its readers read it, or remove it") from error
    if len(data) > FILE_BYTES_MAX:
        raise BadProfile(f"{path}: has more than {FILE_BYTES_MAX} bytes; move a part of it to a directory (ldap, dns)")
    try:
        return parse(path, data.decode())
    except UnicodeDecodeError as error:
        raise BadProfile(f"{path}: is no text in UTF-8: {error}") from error


def parse(path: Path, text: str) -> Profile:
    """What a file with this text says. Raises BadProfile."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadProfile(f"{path}: is not TOML: {error}") from error
    _only(path, "", document, ("managers", "aliases", "queues", "resolvers"))
    managers: dict[str, Manager] = {}
    by_name_only: set[str] = set()
    aliases: dict[str, str] = {}
    for name, body in _table(path, "managers", document.get("managers", {})).items():
        manager, own_aliases, default = _manager(path, name, body)
        managers[name] = manager
        if not default:
            by_name_only.add(name)
        for alias in own_aliases:
            _alias(path, f"managers.{name}.aliases", alias, name, aliases)
    for alias, target in _table(path, "aliases", document.get("aliases", {})).items():
        if not isinstance(target, str):
            raise _wrong(path, f"aliases.{alias}", target, "give the name of a manager in quotes")
        _alias(path, f"aliases.{alias}", alias, target, aliases)
    for alias in aliases.keys() & managers.keys():
        raise _wrong(path, "aliases", alias, "is a manager's name in the same file; rename one of the two")
    queues = {
        name: _queue(path, name, body) for name, body in _table(path, "queues", document.get("queues", {})).items()
    }
    specs = _resolvers(path, document.get("resolvers", []))
    return Profile(path, managers, frozenset(by_name_only), aliases, queues, specs)


def _manager(path: Path, name: str, body: object) -> tuple[Manager, list[str], bool]:
    key = f"managers.{name}"
    table = _table(path, key, body)
    _only(path, key, table, ("endpoints", "priority", "aliases", "default"))
    endpoints = _strings(path, f"{key}.endpoints", table.get("endpoints", []))
    if not endpoints:
        raise BadProfile(f'{path}: {key}.endpoints is missing; write endpoints = ["host:port", "host:port"]')
    priority = table.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise _wrong(path, f"{key}.priority", priority, "give a whole number; the lowest is tried first")
    default = table.get("default", True)
    if not isinstance(default, bool):
        raise _wrong(path, f"{key}.default", default, "write true, or false to use it by its name only")
    try:
        manager = Manager(name, tuple(endpoints), priority)
    except BadEntry as error:
        raise BadProfile(f"{path}: {key}: {error}") from error
    return manager, _strings(path, f"{key}.aliases", table.get("aliases", [])), default


def _alias(path: Path, key: str, alias: str, target: str, aliases: dict[str, str]) -> None:
    for name in (alias, target):
        try:
            check_manager(name)
        except TandemqError as error:
            raise BadProfile(f"{path}: {key} = {name!r}: {error.message}") from error
    if aliases.setdefault(alias, target) != target:
        raise _wrong(path, key, alias, f"is an alias of {aliases[alias]} already; keep one of the two")


def _queue(path: Path, name: str, body: object) -> Exported:
    key = f'queues."{name}"'
    table = _table(path, key, body)
    _only(path, key, table, ("manager", "endpoints"))
    manager = table.get("manager")
    if not isinstance(manager, str):
        raise _wrong(path, f"{key}.manager", manager, "give the name of the manager that has the queue, in quotes")
    endpoints = _strings(path, f"{key}.endpoints", table.get("endpoints", []))
    try:
        return Exported(name, manager, tuple(endpoints))
    except BadEntry as error:
        raise BadProfile(f"{path}: {key}: {error}") from error


def _resolvers(path: Path, value: object) -> tuple[ResolverSpec, ...]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise _wrong(path, "resolvers", value, "write [[resolvers]] and its keys below")
    if len(value) > RESOLVERS_MAX:
        raise BadProfile(f"{path}: resolvers has {len(value)} entries; at most {RESOLVERS_MAX}")
    specs = []
    for place, table in enumerate(value):
        where = f"{path}: resolvers[{place}]"
        kind, name = table.get("kind"), table.get("name", "")
        if not isinstance(kind, str) or not kind:
            raise BadProfile(f'{where}.kind = {kind!r}: give one in quotes, for example kind = "ldap"')
        if not isinstance(name, str):
            raise BadProfile(f"{where}.name = {name!r}: give a word in quotes, or leave it out")
        options = {key: option for key, option in table.items() if key not in ("kind", "name")}
        specs.append(ResolverSpec(kind, options, where, name))
    return tuple(specs)


def _table(path: Path, key: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, key, value, f"write a section [{key}] and its keys below")
    return value


def _strings(path: Path, key: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _wrong(path, key, value, 'write a list in quotes: ["one", "two"]')
    return list(value)


def _only(path: Path, key: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for name in table:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(names)}"
            raise BadProfile(f"{path}: unknown key {f'{key}.{name}' if key else name} = {table[name]!r}; {advice}")


def _wrong(path: Path, key: str, value: object, advice: str) -> BadProfile:
    return BadProfile(f"{path}: {key} = {value!r}: {advice}")
