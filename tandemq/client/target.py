"""Decides which endpoints a client talks to: the argument, else $TANDEMQ_TARGET, else the current context.

It reads one small file and the environment and never connects.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TARGET_VARIABLE = "TANDEMQ_TARGET"
HOME_VARIABLE = "TANDEMQ_CONFIG_HOME"
CONTEXT_FILE = "context.toml"
PORT_DEFAULT = 7600


class NoTarget(ValueError):  # noqa: N818 - reads well where it is caught
    """No endpoint was named anywhere, or what was named cannot be read; the message says where we looked."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the members of a pair serve clients."""

    endpoints: tuple[str, ...]  # host:port, at least one, in the order they are tried
    source: str  # what named them, for messages to people
    pair: str = ""  # from the context; empty when unknown
    data_dir: str = ""  # from the context; empty when unknown


def context_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The file that names the current context; it need not exist."""
    home = environment.get(HOME_VARIABLE)
    return (Path(home) if home else Path.home() / ".config" / "tandemq") / CONTEXT_FILE


def resolve_target(target: str | None = None, *, environment: Mapping[str, str] = os.environ) -> Target:
    """The endpoints to use: `target` ("host:port,host:port"), else $TANDEMQ_TARGET, else the context file.

    The context file is `$TANDEMQ_CONFIG_HOME/context.toml` or `~/.config/tandemq/context.toml`, with the keys `target`,
    and optionally `pair` and `data_dir`. Raises NoTarget.
    """
    if target:
        return Target(parse_endpoints(target), "argument")
    if named := environment.get(TARGET_VARIABLE):
        return Target(parse_endpoints(named), f"${TARGET_VARIABLE}")
    path = context_path(environment)
    try:
        context = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoTarget(f"no target given, ${TARGET_VARIABLE} is not set and {path} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise NoTarget(f"{path} cannot be read: {error}") from error
    named = context.get("target", "")
    if not isinstance(named, str) or not named:
        raise NoTarget(f'{path} has no `target = "host:port,..."`')
    return Target(
        parse_endpoints(named), str(path), pair=str(context.get("pair", "")), data_dir=str(context.get("data_dir", ""))
    )


def parse_endpoints(text: str) -> tuple[str, ...]:
    """Endpoints from a comma separated list, each once, port 7600 unless given. IPv6 addresses stand in brackets."""
    endpoints: dict[str, None] = {}
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if part.strip().endswith("]") or not colon:  # no port, perhaps an IPv6 address
            host, port = part.strip(), str(PORT_DEFAULT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise NoTarget(f"{part.strip()!r} is not host:port (in {text!r})")
        if ":" in host and not host.startswith("["):
            raise NoTarget(f"{part.strip()!r}: write an IPv6 address in brackets")
        endpoints[f"{host}:{port}"] = None
    return tuple(endpoints)
