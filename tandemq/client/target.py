"""Decides how endpoints are written; asks nobody and never connects.

Which ones are used when none are named is decided in `tandemq/finding/default.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TARGET_VARIABLE = "TANDEMQ_TARGET"
HOME_VARIABLE = "TANDEMQ_CONFIG_HOME"
CONTEXT_FILE = "context.toml"
PORT_DEFAULT = 7600
UNIX = "unix:"  # what an endpoint on this host begins with, in gRPC's spelling; an absolute path follows
INSIDE = "inproc:"  # ... and one in this process; no target names it


class NoTarget(ValueError):  # noqa: N818 - reads well where it is caught
    """No endpoint was named anywhere, or what was named cannot be read; the message says where we looked."""


def context_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The file that names the current context; it need not exist."""
    home = environment.get(HOME_VARIABLE)
    return (Path(home) if home else Path.home() / ".config" / "tandemq") / CONTEXT_FILE


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
