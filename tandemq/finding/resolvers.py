"""Decides which resolvers there are: shipped kinds, those of installed packages, and the ones that files ask for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

from tandemq.finding import default, profile
from tandemq.finding.profile import BadProfile, Place, ResolverSpec
from tandemq.finding.resolver import Answer, BadEntry, Exported, Manager, Registry, Resolver
from tandemq.finding.target import Target

GROUP = "tandemq.resolvers"
# Each is made from the options of its section; nothing is imported for a kind that nobody asks for.
SHIPPED = MappingProxyType(
    {
        "static": "tandemq.finding.resolvers:static",
        "file": "tandemq.finding.file_registry:make",
        "dns": "tandemq.finding.dns:make",
        "ldap": "tandemq.finding.ldap:make",
    }
)
FILE_TTL_S = 5.0  # reading it again costs next to nothing
STATIC_TTL_S = 3600.0

Factory = Callable[[Mapping[str, object]], Resolver]


class StaticResolver(Resolver):
    """What a program or a file lists: `{"orders": "host:port,host:port", "my_qmgr": "//orders"}`."""

    def __init__(
        self,
        managers: Mapping[str, str | Sequence[str] | Manager],
        queues: Mapping[str, str] | None = None,
        *,
        source: str = "static list",
    ) -> None:
        """Managers by name: endpoints, or `//other` for an alias. `queues`: exported ones, each with its manager."""
        self.source = source
        self._answers = {name: _answer(name, value) for name, value in managers.items()}
        self._queues = {queue: Exported(queue, manager) for queue, manager in (queues or {}).items()}

    async def resolve(self, name: str) -> Answer | None:
        return self._answers.get(name)

    async def resolve_queue(self, queue: str) -> Exported | None:
        return self._queues.get(queue)


def _answer(name: str, value: str | Sequence[str] | Manager) -> Answer:
    if isinstance(value, Manager):
        return Answer((value,), ttl_s=STATIC_TTL_S)
    if isinstance(value, str) and value.startswith("//"):
        return Answer(alias_of=value.removeprefix("//"), ttl_s=STATIC_TTL_S)
    endpoints = value.split(",") if isinstance(value, str) else value
    return Answer((Manager(name, tuple(endpoints)),), ttl_s=STATIC_TTL_S)


def static(options: Mapping[str, object]) -> Resolver:
    """From a section with a table `managers`, and perhaps a table `queues`."""
    tables: dict[str, dict[str, str]] = {}
    for key in ("managers", "queues"):
        table = options.get(key, {})
        if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
            raise BadEntry(f"{key} = {table!r}: write a table of words in quotes")
        tables[key] = table
    if unknown := options.keys() - tables.keys():
        raise BadEntry(f"unknown key {min(unknown)}; known here: managers, queues")
    return StaticResolver(tables["managers"], tables["queues"])


class FileResolver(Resolver):
    """A file of managers; read anew for each question, so that an edit holds at once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.source = f"{place.kind} file {place.path}"

    async def resolve(self, name: str) -> Answer | None:
        found = await self.profile()
        if found is None:
            return None
        if alias_of := found.aliases.get(name):
            return Answer(alias_of=alias_of, ttl_s=FILE_TTL_S)
        manager = found.managers.get(name)
        return None if manager is None else Answer((manager,), ttl_s=FILE_TTL_S)

    async def resolve_queue(self, queue: str) -> Exported | None:
        found = await self.profile()
        return None if found is None else found.queues.get(queue)

    async def profile(self) -> profile.Profile | None:
        """What it says now; None when there is no such file."""
        return await asyncio.to_thread(profile.read_place, self.place)  # its disk may be another machine's


def make(spec: ResolverSpec) -> Resolver:
    """The resolver that a file asks for. Raises BadProfile, which names the section and what to do."""
    factory = _factory(spec)
    try:
        return factory(spec.options)
    except BadEntry as error:
        raise BadProfile(f"{spec.where}: {error}") from error


def _factory(spec: ResolverSpec) -> Factory:
    if spec.kind in SHIPPED:
        module, _, attribute = SHIPPED[spec.kind].partition(":")
        try:
            shipped: Factory = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise BadProfile(
                f"{spec.where}.kind = {spec.kind!r}: {error}; install it: pip install 'tandemq[{spec.kind}]'"
            ) from error
        return shipped
    from importlib.metadata import entry_points  # a tenth of the client's own import, and rarely needed

    found = list(entry_points(group=GROUP, name=spec.kind))
    if not found:
        known = ", ".join((*SHIPPED, *sorted(entry_points(group=GROUP).names)))
        raise BadProfile(
            f"{spec.where}.kind = {spec.kind!r}: no such resolver; known: {known}; install the package that offers it "
            f"as an entry point in group {GROUP}, or correct the name"
        )
    if len(found) > 1:
        offered = ", ".join(sorted(each.value for each in found))
        raise BadProfile(
            f"{spec.where}.kind = {spec.kind!r}: more than one package offers it: {offered}; uninstall one"
        )
    try:
        factory = found[0].load()
    except ImportError as error:
        raise BadProfile(f"{spec.where}.kind = {spec.kind!r}: {found[0].value} cannot be imported: {error}") from error
    if not callable(factory):
        raise BadProfile(f"{spec.where}.kind = {spec.kind!r}: {found[0].value} is no function of a section's options")

    def checked(options: Mapping[str, object]) -> Resolver:
        made = factory(options)
        if not isinstance(made, Resolver):
            raise BadEntry(f"{found[0].value} returned {type(made).__name__}, not a tandemq.finding.Resolver")
        return made

    return checked


def specs(environment: Mapping[str, str] = os.environ) -> Iterator[ResolverSpec]:
    """The resolvers that the user's, the host's and the site's file ask for."""
    for place in profile.places(environment):
        found = profile.read_place(place)
        yield from found.resolvers if found is not None else ()


def standard(environment: Mapping[str, str] = os.environ) -> list[Resolver]:
    """Who is asked for a name here: the current context, the three files, then the resolvers that the files ask for."""
    found: list[Resolver] = []
    context = _context(environment)
    if context is not None and context.pair:
        found.append(StaticResolver({context.pair: context.endpoints}, source=f"context {context.source}"))
    found += [FileResolver(place) for place in profile.places(environment)]
    found += [make(spec) for spec in specs(environment)]
    return found


def registry(where: str, environment: Mapping[str, str] = os.environ) -> Registry:
    """Where queues are exported to: `user`, `host`, `site`, a [[resolvers]] section's name, an LDAP URL, or a path.

    Raises BadProfile, which says what may stand there.
    """
    if where.startswith(("ldap://", "ldaps://")):
        return _writable(make(ResolverSpec("ldap", _ldap_options(where), where)), where)
    place = next((place for place in profile.places(environment) if place.kind == where), None)
    if place is not None:
        return _writable(make(ResolverSpec("file", {"path": str(place.path)}, where)), where)
    named = [spec for spec in specs(environment) if spec.name == where] if where else []
    if named:
        return _writable(make(named[0]), where)
    if "/" not in where and Path(where).suffix != ".toml":
        raise BadProfile(
            f"{where!r}: is no place to export to; give user, host or site, the name of a [[resolvers]] section in "
            "one of these files, ldap://HOST/BASE, or the path of a file"
        )
    return _writable(make(ResolverSpec("file", {"path": where}, where)), where)


def _ldap_options(url: str) -> dict[str, object]:
    """`ldap://host:port/BASE`, as RFC 4516 writes it; asks as nobody in particular."""
    scheme, _, rest = url.partition("://")
    host, _, base = rest.partition("/")
    return {"url": f"{scheme}://{host}", "base": unquote(base)}


def _writable(made: Resolver, where: str) -> Registry:
    if not isinstance(made, Registry):
        raise BadProfile(f"{where}: {made.source} can be asked and not written to; choose a file or an LDAP directory")
    return made


def _context(environment: Mapping[str, str]) -> Target | None:
    return default.context(environment)[2]
