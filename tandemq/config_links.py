"""Decides what the section [links] of a configuration means: where other managers are, that messages are sent on to."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from tandemq.client.target import is_port
from tandemq.errors import TandemqError
from tandemq.finding.names import check_manager


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Other managers, beside those that the resolvers of this machine know."""

    managers: tuple[str, ...] = ()  # NAME=host:port; one entry for each endpoint, so a pair has two
    routes: tuple[str, ...] = ()  # NAME=MANAGER: messages for NAME go by MANAGER, which sends them on


def endpoints_of(links: Links) -> dict[str, list[str]]:
    """By the name of the manager."""
    found: dict[str, list[str]] = {}
    for name, _, endpoint in (each.partition("=") for each in links.managers):
        found.setdefault(name, []).append(endpoint)
    return found


def routes_of(links: Links) -> dict[str, str]:
    """By the name of the manager that messages are for: the one that they are given to."""
    return {name: gateway for name, _, gateway in (each.partition("=") for each in links.routes)}


def problem_of(links: Links, own: Collection[str]) -> str:
    """What is wrong with an entry, and what to do; empty: nothing. `own`: names of the manager itself."""
    for entry in links.managers:
        name, mark, endpoint = entry.partition("=")
        host, _, port = endpoint.rpartition(":")
        if not mark or not _is_manager(name) or not host or not is_port(port):
            return f"links.managers = {entry!r}: write NAME=host:port, one for each endpoint"
        if name in own:
            return f"links.managers = {entry!r}: is this manager itself; name others only"
    seen = set[str]()
    for entry in links.routes:
        name, _, gateway = entry.partition("=")
        if not (_is_manager(name) and _is_manager(gateway)) or name == gateway:
            return f"links.routes = {entry!r}: write NAME=MANAGER, the one that messages for NAME are given to"
        if name in own or gateway in own:
            return f"links.routes = {entry!r}: is this manager itself; name others only"
        if name in seen:
            return f"links.routes = {entry!r}: {name} has a route already; keep one"
        seen.add(name)
    return ""


def _is_manager(name: str) -> bool:
    try:
        check_manager(name)
    except TandemqError:
        return False
    return True
