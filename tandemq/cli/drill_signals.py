"""Decides what signals do to a drill: the first ends it and has everything healed, the second is answered with what is
still under way, the third ends the healing too; what healing found is the player's to say.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from tandemq.cli.failure import Failure
from tandemq.cli.output import unread

if TYPE_CHECKING:
    from chaos.drill.playing import Player

STOPPED, NOT_HEALED = 2, 3  # exit codes of `tandemq drill run`
HEALING = "what was hurt is healed before it ends"
STILL = "it is still healing; one signal more ends it at once, and what is not healed by then stays hurt"
AT_ONCE = "the healing is given up"

Result = TypeVar("Result")


class StoppedError(Exception):
    """A signal ended the drill, and nothing else went wrong."""


class Signals:
    """Those that came while a drill ran, by name. `say` shows a line to whoever watches."""

    def __init__(self, say: Callable[[str], None], give_up: Callable[[], None]) -> None:
        self.came: list[str] = []
        self._say, self._give_up = say, give_up

    async def interrupt(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` comes to. Raises StoppedError when a signal ended it in order."""
        task = asyncio.ensure_future(work)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # taken back when the loop is closed
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, signal.Signals(number).name, task)
        try:
            return await task
        except asyncio.CancelledError as error:
            raise StoppedError from error

    def _on_signal(self, name: str, task: asyncio.Future[Any]) -> None:
        self.came.append(name)
        if name == "SIGHUP":
            _leave_the_terminal()
        match len(self.came):
            case 1:
                self._say(f"stopped by {name}: {HEALING}")
                task.cancel()
            case 2:
                self._say(f"{name}: {STILL}")
            case _:
                self._say(f"{name}: {AT_ONCE}")
                self._give_up()
                task.cancel()

    def failure(self, player: Player | None) -> Failure:
        """How a drill ends that a signal stopped: by what healing found, not by what was hoped."""
        cause = f"stopped by {self.came[0]}"
        if player is None:
            return Failure("INTERRUPTED", f"{cause}; nothing was sent and nothing was hurt", "", STOPPED)
        step = "see `tandemq pair status`; the next drill on a pair of `tandemq dev` heals it first"
        if player.healed is None:
            return Failure("NOT_HEALED", f"{cause}; it is not known what is still hurt", step, NOT_HEALED)
        if player.healed.left:
            return Failure("NOT_HEALED", f"{cause}; {player.healed.text}", step, NOT_HEALED)
        return Failure("INTERRUPTED", f"{cause}; {player.healed.text}", "", STOPPED)


def _leave_the_terminal() -> None:
    """It may be gone, with a connection of ssh for example: what cannot be written must keep nothing from healing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            os.write(stream.fileno(), b"")
        except OSError:
            unread(stream)
