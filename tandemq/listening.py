"""Decides whether the ways into a manager that use no network can work as they are configured; opens none of them."""

from __future__ import annotations

import re
from typing import Protocol

PATH_BYTES_MAX = 90  # the system's 107, less what the name takes that the socket has while it is made
MODE = re.compile("0?[0-7]{3}")


class Local(Protocol):
    """The part of a manager's configuration that is about this host and this process."""

    @property
    def pair(self) -> str: ...
    @property
    def listen_unix(self) -> str: ...
    @property
    def listen_unix_mode(self) -> str: ...
    @property
    def server_required(self) -> bool: ...


def problem_of_local(config: Local) -> str | None:
    """What cannot work, and what to do; None: all of it can."""
    path = config.listen_unix
    if not config.server_required and (config.pair or path):
        other = "manager.pair" if config.pair else "manager.listen_unix"
        return f"manager.server_required = false opens no listener, but {other} needs one; remove one of them"
    if path and (not path.startswith("/") or "," in path or len(path.encode()) > PATH_BYTES_MAX):
        return (
            f"manager.listen_unix = {path!r}: write an absolute path, at most {PATH_BYTES_MAX} bytes, without a comma"
        )
    if not MODE.fullmatch(config.listen_unix_mode):
        return f"manager.listen_unix_mode = {config.listen_unix_mode!r}: write it in octal digits, as 0600 or 0660"
    return None
