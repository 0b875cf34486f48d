"""Decides how what a client is connected to is written: endpoints, or a name that resolvers know.

Which one is used when none is named is decided in `tandemq/finding/default.py`. It never connects.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandemq.finding.resolver import Manager

TARGET_VARIABLE = "TANDEMQ_TARGET"
HOME_VARIABLE = "TANDEMQ_CONFIG_HOME"
CONTEXT_FILE = "context.toml"
PORT_DEFAULT = 7600
UNIX = "unix:"  # what an endpoint on this host begins with, in gRPC's spelling; an absolute path follows
INSIDE = "inproc:"  # ... and one in this process; no target names it


class NoTarget(ValueError):  # noqa: N818 - reads well where it is caught
    """No endpoint was named anywhere, or what was named cannot be read; the message says where we looked."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the members of a pair serve clients, or by which name that is found out."""

    endpoints: tuple[
        str, ...
    ]  # host:port or unix:/path, in the order they are tried; empty: look it up by what follows
    source: str  # what named them, for messages to people
    pair: str = ""  # from the context; empty when unknown
    data_dir: str = ""  # from the context; empty when unknown
    manager: str = ""  # the name by which it was asked for; empty when endpoints were given
    queue: str = ""  # relative; what else the name said
    candidates: tuple[Manager, ...] = ()  # the first one that can be reached is used

    def __str__(self) -> str:
        if self.endpoints:
            return ",".join(self.endpoints)
        if self.candidates:
            return " or ".join(f"//{manager.name}" for manager in self.candidates)
        return f"//{self.manager}" if self.manager else f"///{self.queue}"


def context_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The file that names the current context; it need not exist."""
    home = environment.get(HOME_VARIABLE)
    return (Path(home) if home else Path.home() / ".config" / "tandemq") / CONTEXT_FILE


def resolve_target(target: str | None = None, *, environment: Mapping[str, str] = os.environ) -> Target:
    """What to connect to: `target`, else the first source that names something; see docs/CLIENTS.md.

    A target is "host:port,host:port", "//manager", "//manager/queue" or "///queue". The sources after the argument are
    $TANDEMQ_TARGET, $MOS_DFLT_QUEMGR_NAME, the current context, and the user's, the host's and the site's file of
    managers. Raises NoTarget, which says where we looked.
    """
    from tandemq.finding import default

    return default.resolve(target, environment)


def is_local(endpoint: str) -> bool:
    """Whether it is reached without a network."""
    return endpoint.startswith((UNIX, INSIDE))


def is_port(text: str) -> bool:
    """Whether it is a port, in digits that every program reads alike."""
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536


def parse_endpoints(text: str) -> tuple[str, ...]:
    """Endpoints from a comma separated list, each once, port 7600 unless given. IPv6 addresses stand in brackets.

    A socket on this host is `unix:` and its absolute path, which has no comma.
    """
    endpoints: dict[str, None] = {}
    for part in text.split(","):
        if part.strip().startswith(UNIX):
            if not part.strip().startswith(f"{UNIX}/"):
                raise NoTarget(f"{part.strip()!r}: write the absolute path of the socket, as in unix:/run/tandemq.sock")
            endpoints[part.strip()] = None
            continue
        host, colon, port = part.strip().rpartition(":")
        if part.strip().endswith("]") or not colon:  # no port, perhaps an IPv6 address
            host, port = part.strip(), str(PORT_DEFAULT)
        if not host or not is_port(port):
            raise NoTarget(f"{part.strip()!r} is not host:port (in {text!r})")
        if ":" in host and not host.startswith("["):
            raise NoTarget(f"{part.strip()!r}: write an IPv6 address in brackets")
        endpoints[f"{host}:{port}"] = None
    return tuple(endpoints)
