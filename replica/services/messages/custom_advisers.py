"""Runs the commands and plug-ins that reactions ask (V10). Decides nothing.

By the parts that classifiers are run with: none of them holds up the loop, and none outlives its limit where it can be
ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Protocol, TypeAlias

from failover.aside import NotLoadedError, load_aside, run
from failover.process import Process
from replica.services.messages.custom_answers import ANSWER_BYTES_MAX, of_command, of_plug_in, question_of, to_json
from tandemq.config import ConfigError
from tandemq.config_custom import commands_of
from tandemq.reacting import GROUP

if TYPE_CHECKING:
    from replica.core.messages.copies import FoundMessage
    from replica.core.ordering.reaction import Effect
    from tandemq.config_custom import Custom
    from tandemq.reacting import CustomReaction, Question
    from tandemq.v1 import reaction_service_pb2 as pb

COMMANDS_MAX = 2
"""Processes at once at one member."""


Said: TypeAlias = "Effect | str | None"
"""What is done with a message; None: it is left; a text: why there is no answer."""


class Adviser(Protocol):
    """Who says what becomes of messages."""

    async def ask(self, custom: pb.ReactionCustom, queue: str, found: FoundMessage, limit_s: float) -> Said:
        """About one message of that queue, whose body is here."""
        ...

    def close(self) -> None:
        """Ends what is kept running for it."""
        ...


class CommandAdviser:
    """A command, run without a shell, once a message."""

    def __init__(self, argv: list[str], places: asyncio.Semaphore) -> None:
        self.argv = argv
        self._places = places

    async def ask(self, custom: pb.ReactionCustom, queue: str, found: FoundMessage, limit_s: float) -> Said:
        """See Adviser. Then its process group is killed; its place is free when it has ended, whoever still waits."""
        await self._places.acquire()
        try:
            question = question_of(custom, queue, found)
            asked = await asyncio.to_thread(to_json, question)  # some ms for a large one
            process = Process(self.argv, asked, limit_s, stdout_bytes_max=ANSWER_BYTES_MAX, grace_s=0.0)
        except BaseException:
            self._places.release()
            raise
        ran = await run(process, "reaction-command", self._places.release)
        return await asyncio.to_thread(of_command, question, ran)

    def close(self) -> None:
        """Nothing is kept running."""


class PlugInAdviser:
    """A plug-in, on a loop in a thread of its own, one call at a time."""

    def __init__(self, name: str) -> None:
        """Blocks while its module is imported. Raises NotLoadedError."""
        self._aside, made = load_aside(GROUP, name, "custom reaction", _why_none)
        self._inner: CustomReaction = made  # type: ignore[assignment]  # _why_none has looked
        self._place = asyncio.Lock()
        self._ended = asyncio.Event()
        """Of the last call."""
        self._ended.set()
        self._is_stuck = False

    async def ask(self, custom: pb.ReactionCustom, queue: str, found: FoundMessage, limit_s: float) -> Said:
        """See Adviser. While a call that was to end still runs there is no other: what hangs takes one thread."""
        async with self._place:
            if not self._ended.is_set() and not self._is_stuck:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit_s):
                        await self._ended.wait()
            self._is_stuck = not self._ended.is_set()
            if self._is_stuck:
                return "an earlier call has not ended although it was asked to"
            return await self._ask(question_of(custom, queue, found), limit_s)

    async def _ask(self, question: Question, limit_s: float) -> Said:
        loop, ended, began = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def end() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(ended.set)

        def end_unless_begun() -> None:
            if not began.is_set():
                end()

        async def there() -> Said:
            began.set()
            try:
                return of_plug_in(await self._inner.decide(question))
            finally:
                end()

        self._ended = ended
        try:
            return await self._aside.call(there(), limit_s)
        finally:
            self._aside.soon(end_unless_begun)  # what was called off before it began never ends

    def close(self) -> None:
        """See Adviser."""
        self._aside.close()


def _why_none(made: object) -> str | None:
    if asyncio.iscoroutinefunction(getattr(made, "decide", None)):
        return None
    return "it has no method `async def decide`"


def all_of(config: Custom) -> dict[str, Adviser]:
    """By name. Blocks while modules are imported. Raises ConfigError."""
    places = asyncio.Semaphore(COMMANDS_MAX)
    found: dict[str, Adviser] = {name: CommandAdviser(argv, places) for name, argv in commands_of(config).items()}
    try:
        for name in config.plugins:
            found[name] = PlugInAdviser(name)
    except NotLoadedError as error:
        for each in found.values():
            each.close()
        raise ConfigError(f"custom.plugins: {error}") from error
    return found
