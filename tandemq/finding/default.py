"""Decides which manager is asked when none is named, and can say why: the first source that names one.

The order: the argument, $TANDEMQ_TARGET, $MOS_DFLT_QUEMGR_NAME, the user's current context, the user's file of
managers, the host's, the site's. It reads small files and the environment and never connects.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tandemq.client.target import TARGET_VARIABLE, NoTarget, context_path, parse_endpoints
from tandemq.errors import TandemqError
from tandemq.finding import names, profile
from tandemq.finding.target import Target

SEED_VARIABLE = "MOS_DFLT_QUEMGR_NAME"


class Considered(NamedTuple):
    """One source, and what came of it."""

    source: str
    says: str  # its value; empty when it has none
    outcome: str  # "decides", or why it does not


class Search(NamedTuple):
    """What was looked at, in order, and what was decided; `target` is None when no source names a manager."""

    considered: tuple[Considered, ...]
    target: Target | None


def resolve_target(target: str | None = None, environment: Mapping[str, str] = os.environ) -> Target:
    """What to connect to: `target`, else the first source that names something; see docs/CLIENTS.md.

    A target is "host:port,host:port", "//manager", "//manager/queue" or "///queue". The sources after the argument are
    $TANDEMQ_TARGET, $MOS_DFLT_QUEMGR_NAME, the current context, and the user's, the host's and the site's file of
    managers. Raises NoTarget, which says where we looked.
    """
    found = search(target, environment)
    if found.target is None:
        looked = "; ".join(f"{each.source} {each.outcome}" for each in found.considered)
        raise NoTarget(f"no target given: {looked}")
    return found.target


def search(argument: str | None, environment: Mapping[str, str] = os.environ) -> Search:
    """Looks at one source after the other until one names a manager; raises NoTarget for one that cannot be read."""
    considered: list[Considered] = []
    target: Target | None = None
    for source, says, found in _sources(argument, environment):
        if found is None:
            considered.append(Considered(source, "", says))
        else:
            considered.append(Considered(source, says, "decides"))
            target = found if found.credentials else found.with_credentials(_credentials(found, environment))
            break
    return Search(tuple(considered), target)


def from_text(text: str, source: str) -> Target:
    """`host:port,host:port`, `//manager`, `//manager/queue` or `///queue`. Raises NoTarget."""
    if not text.startswith("/"):
        return Target(parse_endpoints(text), source)
    try:
        name = names.parse_place(text)
    except TandemqError as error:
        raise NoTarget(error.message) from error
    if name.domain:
        plain = name._replace(domain="")
        raise NoTarget(f"{text!r} names a domain; one connects to a manager, which has all of its domains: {plain}")
    return Target((), source, manager=name.manager, queue=name.queue)


def _sources(argument: str | None, environment: Mapping[str, str]) -> Iterator[tuple[str, str, Target | None]]:
    """Each source with what it says and what follows, or with why nothing follows."""
    if argument:
        yield "argument", argument, from_text(argument, "argument")
        return
    yield "argument", "is not given", None
    if named := environment.get(TARGET_VARIABLE):
        yield f"${TARGET_VARIABLE}", named, from_text(named, f"${TARGET_VARIABLE}")
        return
    yield f"${TARGET_VARIABLE}", "is not set", None
    if named := environment.get(SEED_VARIABLE):
        yield f"${SEED_VARIABLE}", named, _by_seed(named)
        return
    yield f"${SEED_VARIABLE}", "is not set", None
    yield context(environment)
    for place in profile.places(environment):
        yield _place(place)


def _by_seed(named: str) -> Target:
    """The variable of the first design holds a manager's name; endpoints are taken too."""
    text = named if named.startswith("/") or ":" in named else names.MARK + named
    try:
        return from_text(text, f"${SEED_VARIABLE}")
    except NoTarget as error:
        raise NoTarget(f"${SEED_VARIABLE} = {named!r}: {error}") from error


def context(environment: Mapping[str, str]) -> tuple[str, str, Target | None]:
    """The user's current context: its file, what it says or why nothing follows, and the target."""
    path = context_path(environment)
    try:
        context = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return str(path), "does not exist", None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise NoTarget(f"{path} cannot be read: {error}") from error
    named = context.get("target", "")
    if not isinstance(named, str) or not named:
        raise NoTarget(f'{path} has no `target = "host:port,..."`')
    pair = str(context.get("pair", ""))
    data_dir, credentials = str(context.get("data_dir", "")), str(context.get("credentials", ""))
    target = Target(parse_endpoints(named), str(path), pair=pair, data_dir=data_dir, credentials=credentials)
    return str(path), named, target


def _credentials(target: Target, environment: Mapping[str, str]) -> str:
    """Those of the current context, where it is the same manager that somebody named, in his own words; empty: none.

    All endpoints of a target are of one manager. A context that cannot be read is no matter of who does not need it.
    """
    try:
        _, _, current = context(environment)
    except NoTarget:
        return ""
    if current is None or not current.credentials:
        return ""
    by_name = bool(target.manager) and target.manager == current.pair
    by_place = not set(map(_here, target.endpoints)).isdisjoint(map(_here, current.endpoints))
    return current.credentials if by_name or by_place else ""


def _here(endpoint: str) -> str:
    """This machine has several names for itself."""
    host, _, port = endpoint.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("localhost", "[::1]") else endpoint


def _place(place: profile.Place) -> tuple[str, str, Target | None]:
    source = f"{place.kind} file {place.path}"
    found = profile.read_place(place)
    if found is None:
        return source, "does not exist", None
    defaults = found.defaults
    if not defaults:
        return source, "names no default manager", None
    says = "; ".join(f"{manager} (priority {manager.priority})" for manager in defaults)
    if len(defaults) == 1:
        only = defaults[0]
        return source, says, Target(only.endpoints, source, manager=only.name)
    return source, says, Target((), source, candidates=defaults)
