"""Notifies a service manager that a process is ready, alive and stopping, as sd_notify(3) has it; says nothing where
nobody listens, and never decides whether the process is well.

What it proves is that the event loop turns: the sign of life comes from a task on it. A disk that hangs is not seen
here; the manager itself gives up on that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Self

log = logging.getLogger("tandemq.cli")

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
BEATS_A_PERIOD = 3  # one or two may come late


class Notifier:
    """`address` None: nobody listens. `beat_s` None: nobody waits for signs of life."""

    def __init__(self, address: str | None = None, beat_s: float | None = None) -> None:
        self._address, self.beat_s = address, beat_s

    @classmethod
    def take(cls, environ: MutableMapping[str, str] | None = None, pid: int | None = None) -> Self:
        """Of the environment, from which it is taken: what this process starts must not speak for it."""
        environ = os.environ if environ is None else environ
        address, period = environ.pop(SOCKET, None), environ.pop(WATCHDOG_US, "")
        whose = environ.pop(WATCHDOG_PID, "")
        ours = not whose or whose == str(os.getpid() if pid is None else pid)
        beat_s = int(period) / 1e6 / BEATS_A_PERIOD if ours and period.isdecimal() and int(period) else None
        return cls(address or None, beat_s)

    def say(self, *lines: str) -> None:
        """For example READY=1. What cannot be said is logged: it is no reason to stop."""
        if self._address is None:
            return
        # A leading @ stands for the zero byte of Linux's abstract names.
        path = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.sendto("\n".join(lines).encode(), path)
        except OSError as error:
            log.warning("cannot notify the service manager of %s: %s", lines[0], error)

    async def beat(self) -> None:
        """Signs of life until it is cancelled."""
        while self.beat_s is not None:
            self.say("WATCHDOG=1")
            await asyncio.sleep(self.beat_s)
