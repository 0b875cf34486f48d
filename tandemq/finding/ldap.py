"""Carries out looking managers and exported queues up in an LDAP directory, and exporting queues into it.

Standard classes alone are used (applicationProcess of RFC 4519, labeledURIObject of RFC 2079), so no server has to
learn a schema of ours. Below the base:

    cn=orders,ou=managers,BASE      cn: orders, and further values as aliases
                                    labeledURI: tandemq://host:port,host:port priority=0
    cn=cf/hotline,ou=queues,BASE    cn: the queue's relative name
                                    seeAlso: the manager's entry
                                    labeledURI: only when the queue is to be reached elsewhere

Each question is a connection of its own in a thread: answers are remembered, so questions are rare.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tandemq.errors import error_of
from tandemq.finding.resolver import Answer, BadEntry, Exported, Manager, Registry, ResolverAway

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its imports of pyasn1 use names that have newer ones
    import ldap3
    import ldap3.core.exceptions
    import ldap3.utils.conv
    import ldap3.utils.dn

CONNECT_S = 1.5
ANSWER_S = 2  # within the directory's patience, for what is connected; the library takes whole seconds
WRITTEN_S = 30  # what is exported is synced by the directory before it answers
MANAGERS, QUEUES = "ou=managers", "ou=queues"
CLASSES = ("applicationProcess", "labeledURIObject")
SCHEME = "tandemq://"
OPTIONS = ("url", "base", "bind_dn", "password_file", "ca_file", "ttl_s")
NOT_THERE = "noSuchObject"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LdapOptions:
    """Where the directory is and who asks. Without `bind_dn` nobody in particular does."""

    url: str  # ldap://host:port or ldaps://host:port
    base: str  # the entry below which ours are
    bind_dn: str = ""
    password_file: str = ""
    ca_file: str = ""  # who vouches for an ldaps server; empty: whom this machine trusts
    ttl_s: float = 60.0


class LdapRegistry(Registry):
    """One directory, below one base."""

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self.source = f"{options.url}/{options.base}"
        try:
            ldap3.utils.dn.parse_dn(options.base)
        except ldap3.core.exceptions.LDAPException as error:
            raise BadEntry(f"base = {options.base!r}: is no distinguished name: {error}") from error
        if options.url.startswith("ldap://") and options.password_file and not _is_here(options.url):
            raise BadEntry(f"url = {options.url!r}: would send the password in the clear; use ldaps://")

    async def resolve(self, name: str) -> Answer | None:
        return await self._aside(lambda: self._resolve(name))

    async def resolve_queue(self, queue: str) -> Exported | None:
        return await self._aside(lambda: self._resolve_queue(queue))

    async def export(self, entry: Exported, manager: Manager) -> bool:
        return await self._aside(lambda: self._export(entry, manager))

    async def withdraw(self, queue: str, manager: str) -> bool:
        return await self._aside(lambda: self._withdraw(queue, manager))

    async def _aside(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.to_thread(work)
        except (ldap3.core.exceptions.LDAPException, OSError) as error:
            raise ResolverAway(_one_line(error)) from error

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _resolve(self, name: str) -> Answer | None:
        with self._connected() as connection:
            for entry in self._search(connection, MANAGERS, name, ["labeledURI"]):
                own = _rdn(entry["dn"])
                if own != name:
                    return Answer(alias_of=own, ttl_s=self._options.ttl_s)
                managers = tuple(_manager(own, uri) for uri in entry["attributes"]["labeledURI"])
                if managers:
                    return Answer(managers, ttl_s=self._options.ttl_s)
                raise BadEntry(f"entry {entry['dn']} has no labeledURI; give it {SCHEME}host:port,host:port")
        return None

    def _resolve_queue(self, queue: str) -> Exported | None:
        with self._connected() as connection:
            return self._queue(connection, queue)

    def _queue(self, connection: Any, queue: str) -> Exported | None:
        for entry in self._search(connection, QUEUES, queue, ["seeAlso", "labeledURI"]):
            owners = entry["attributes"]["seeAlso"]
            if not owners:
                raise BadEntry(f"entry {entry['dn']} has no seeAlso; let it name the manager's entry")
            uris = entry["attributes"]["labeledURI"]
            endpoints = _manager("it", uris[0]).endpoints if uris else ()
            return Exported(queue, _rdn(owners[0]), endpoints)
        return None

    def _export(self, entry: Exported, manager: Manager) -> bool:
        with self._connected() as connection:
            old = self._queue(connection, entry.queue)
            _waits_for_writes(connection)
            if old is not None and old.manager != entry.manager:
                raise error_of(
                    "CONFIG_MISMATCH",
                    f"{self.source}: queue {entry.queue!r} is exported for manager {old.manager!r}, not "
                    f"{entry.manager!r}; withdraw it there first (tandemq queue unexport), or rename it",
                )
            changed = self._export_manager(connection, manager)
            if old == entry:
                return changed
            uris = [SCHEME + ",".join(entry.endpoints)] if entry.endpoints else []
            owner = self._dn(MANAGERS, entry.manager)
            if old is not None:
                change = {"labeledURI": [(ldap3.MODIFY_REPLACE, uris)]}
                _done(connection, connection.modify(self._dn(QUEUES, entry.queue), change))
                return True
            self._folder(connection, QUEUES)
            attributes = {"cn": entry.queue, "seeAlso": owner} | ({"labeledURI": uris} if uris else {})
            _done(connection, connection.add(self._dn(QUEUES, entry.queue), CLASSES, attributes))
        return True

    def _export_manager(self, connection: Any, manager: Manager) -> bool:
        for entry in self._search(connection, MANAGERS, manager.name, ["labeledURI"]):
            known = {each for uri in entry["attributes"]["labeledURI"] for each in _manager("it", uri).endpoints}
            if not known >= set(manager.endpoints):
                raise error_of(
                    "CONFIG_MISMATCH",
                    f"{self.source}: manager {manager.name!r} stands there at {','.join(sorted(known))}, this one at "
                    f"{','.join(manager.endpoints)}; correct labeledURI of {entry['dn']}, or export under another name",
                )
            return False
        self._folder(connection, MANAGERS)
        uri = f"{SCHEME}{','.join(manager.endpoints)} priority={manager.priority}"
        attributes = {"cn": manager.name, "labeledURI": uri}
        _done(connection, connection.add(self._dn(MANAGERS, manager.name), CLASSES, attributes))
        return True

    def _withdraw(self, queue: str, manager: str) -> bool:
        with self._connected() as connection:
            old = self._queue(connection, queue)
            _waits_for_writes(connection)
            if old is None:
                return False
            if old.manager != manager:
                raise error_of(
                    "CONFIG_MISMATCH",
                    f"{self.source}: queue {queue!r} is exported for manager {old.manager!r}, not {manager!r}",
                )
            return _done(connection, connection.delete(self._dn(QUEUES, queue)), (NOT_THERE,))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        options = self._options
        tls = ldap3.Tls(validate=2, ca_certs_file=options.ca_file or None) if options.url.startswith("ldaps") else None
        server = ldap3.Server(options.url, connect_timeout=CONNECT_S, get_info=ldap3.NONE, tls=tls)
        password = _password(options.password_file) if options.password_file else None
        connection = ldap3.Connection(
            server,
            user=options.bind_dn or None,
            password=password,
            receive_timeout=ANSWER_S,
            raise_exceptions=False,
        )
        try:
            if not connection.bind():
                raise ResolverAway(f"does not let {options.bind_dn or 'anybody'} in: {_said(connection)}")
            yield connection
        finally:
            connection.unbind()
            if connection.socket is not None:  # of a server that did not show who it is
                connection.socket.close()

    def _search(self, connection: Any, folder: str, name: str, attributes: list[str]) -> list[dict[str, Any]]:
        """The entries called so, letter by letter: directories do not tell a from A, queues do."""
        wanted = f"(&(objectClass=applicationProcess)(cn={ldap3.utils.conv.escape_filter_chars(name)}))"
        connection.search(
            f"{folder},{self._options.base}", wanted, search_scope=ldap3.LEVEL, attributes=["cn", *attributes]
        )
        _done(connection, connection.result["result"] == 0, (NOT_THERE,))
        entries = [each for each in connection.response or () if each.get("type") == "searchResEntry"]
        texts = [{"dn": each["dn"], "attributes": _texts(each["raw_attributes"], attributes)} for each in entries]
        return [each for each in texts if name in each["attributes"]["cn"]]

    def _dn(self, folder: str, name: str) -> str:
        return f"cn={ldap3.utils.dn.escape_rdn(name)},{folder},{self._options.base}"

    def _folder(self, connection: Any, folder: str) -> None:
        _done(
            connection, connection.add(f"{folder},{self._options.base}", "organizationalUnit"), ("entryAlreadyExists",)
        )


def _waits_for_writes(connection: Any) -> None:
    connection.socket.settimeout(WRITTEN_S)


def make(options: Mapping[str, object]) -> LdapRegistry:
    """From a section with the keys `url` and `base`, and perhaps `bind_dn`, `password_file`, `ca_file`, `ttl_s`."""
    if unknown := options.keys() - set(OPTIONS):
        raise BadEntry(f"unknown key {min(unknown)}; known here: {', '.join(OPTIONS)}")
    texts = {}
    for key in OPTIONS[:-1]:
        value = options.get(key, "")
        if not isinstance(value, str):
            raise BadEntry(f"{key} = {value!r}: give a text in quotes")
        texts[key] = value
    if not texts["url"].startswith(("ldap://", "ldaps://")):
        raise BadEntry(f'url = {texts["url"]!r}: give one in quotes, for example url = "ldaps://ldap.example.com"')
    if not texts["base"]:
        raise BadEntry('base is missing; give an entry\'s name in quotes, for example base = "ou=tandemq,dc=example"')
    if bool(texts["bind_dn"]) != bool(texts["password_file"]):
        raise BadEntry("bind_dn and password_file belong together; give both, or none to ask as nobody in particular")
    ttl_s = options.get("ttl_s", 60.0)
    if not isinstance(ttl_s, int | float) or isinstance(ttl_s, bool) or ttl_s <= 0:
        raise BadEntry(f"ttl_s = {ttl_s!r}: give seconds, above 0")
    return LdapRegistry(LdapOptions(**texts, ttl_s=float(ttl_s)))


def _manager(name: str, uri: str) -> Manager:
    """From `tandemq://host:port,host:port priority=N`."""
    place, _, label = uri.partition(" ")
    if not place.startswith(SCHEME):
        raise BadEntry(f"labeledURI {uri!r}: begin it with {SCHEME}, as in {SCHEME}host:port,host:port priority=0")
    priority = 0
    for word in label.split():
        key, equals, value = word.partition("=")
        if key == "priority" and equals:
            if not (value.isascii() and value.isdecimal() and len(value) <= 5):
                raise BadEntry(f"labeledURI {uri!r}: priority is a whole number")
            priority = int(value)
    return Manager(name, tuple(place.removeprefix(SCHEME).split(",")), priority)


def _rdn(dn: str) -> str:
    """The value of the first part of an entry's name, without its escapes."""
    value: str = ldap3.utils.dn.parse_dn(dn)[0][1]
    return _plain(value) if "\\" in value else value


def _plain(value: str) -> str:
    """Escapes of RFC 4514 taken back: our names need none, but a server may write some."""
    out = bytearray()
    place = 0
    while place < len(value):
        pair = value[place + 1 : place + 3]
        if value[place] == "\\" and len(pair) == 2 and all(each in "0123456789abcdefABCDEF" for each in pair):
            out.append(int(pair, 16))
            place += 3
        elif value[place] == "\\" and pair:
            out += pair[0].encode()
            place += 2
        else:
            out += value[place].encode()
            place += 1
    return out.decode(errors="replace")


def _texts(raw: Mapping[str, list[bytes]], names: list[str]) -> dict[str, list[str]]:
    """Values by name, whatever letters the server wrote the names in; an empty list for what is not there."""
    found = {name.lower(): values for name, values in raw.items()}
    return {name: [value.decode(errors="replace") for value in found.get(name.lower(), [])] for name in ("cn", *names)}


def _done(connection: Any, ok: bool, but: tuple[str, ...] = ()) -> bool:
    """Raises for a refusal, except for these; whether it was done."""
    if ok or connection.result["description"] in (*but, "success"):
        return bool(ok)
    raise error_of("CONFIG_ERROR", f"the directory refuses: {_said(connection)}; ask as who may (bind_dn)")


def _password(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadEntry(f"password_file = {path!r}: cannot be read: {error}") from error


def _said(connection: Any) -> str:
    result = connection.result
    return f"{result['description']}" + (f" ({result['message']})" if result.get("message") else "")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _is_here(url: str) -> bool:
    host = url.partition("://")[2].rpartition(":")[0] or url.partition("://")[2]
    return host in ("localhost", "127.0.0.1", "[::1]")
