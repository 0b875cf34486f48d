"""Decides what the section [custom] of a configuration means: whom reactions may ask about messages."""

from __future__ import annotations

import re
import shlex

import msgspec

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MS_MAX = 60_000


class Custom(msgspec.Struct, frozen=True, kw_only=True):
    """Plug-ins and commands of custom reactions; times in milliseconds."""

    plugins: tuple[str, ...] = ()  # names of entry points in group tandemq.reactions
    commands: tuple[str, ...] = ()  # NAME=command and its arguments, quoted as in a shell; no shell runs it
    call_ms: int = 100  # for an answer about one message; then a command's process group is killed
    total_ms: int = 10_000  # for all messages of one call


def commands_of(custom: Custom) -> dict[str, list[str]]:
    """Argument lists by name. Raises ValueError for quotes that are open."""
    return {name: shlex.split(line) for name, _, line in (each.partition("=") for each in custom.commands)}


def problem_of_custom(custom: Custom) -> str:
    """What is wrong, and what to do; empty: nothing."""
    for entry in custom.commands:
        name, mark, line = entry.partition("=")
        try:
            empty = not shlex.split(line)
        except ValueError as error:
            return f"custom.commands = {entry!r}: {error}; quote as in a shell"
        if not mark or empty or not NAME.fullmatch(name):
            return f"custom.commands = {entry!r}: write NAME=command; a name is up to 64 of A-Z a-z 0-9 . _ -"
    for name in custom.plugins:
        if not NAME.fullmatch(name):
            return f"custom.plugins = {name!r}: a name is up to 64 of A-Z a-z 0-9 . _ -"
    names = [*custom.plugins, *(entry.partition("=")[0] for entry in custom.commands)]
    for name in names:
        if names.count(name) > 1:
            return f"custom: {name!r} is there twice; a name has one plug-in or one command"
    if not 0 < custom.call_ms <= custom.total_ms <= MS_MAX:
        told = (custom.call_ms, custom.total_ms)
        return f"custom.call_ms, custom.total_ms = {told}: must be 0 < call_ms <= total_ms <= {MS_MAX}"
    return ""
