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


def endpoints_of(links: Links) -> dict[str, list[str]]:
    """By the name of the manager."""
    found: dict[str, list[str]] = {}
    for name, _, endpoint in (each.partition("=") for each in links.managers):
        found.setdefault(name, []).append(endpoint)
    return found


def problem_of(links: Links, own: Collection[str]) -> str:
    """What is wrong with an entry, and what to do; empty: nothing. `own`: names of the manager itself."""
    for entry in links.managers:
        name, mark, endpoint = entry.partition("=")
        host, _, port = endpoint.rpartition(":")
        try:
            check_manager(name)
        except TandemqError:
            mark = ""
        if not mark or not host or not is_port(port):
            return f"links.managers = {entry!r}: write NAME=host:port, one for each endpoint"
        if name in own:
            return f"links.managers = {entry!r}: is this manager itself; name others only"
    return ""
