"""The keys by which one member believes tokens, from a file or an address, exchanged while it runs.

What cannot be used never comes into force: the last good ones stay, and the log, an event and a metric say so. It
judges no token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from replica.tokens.fetching import TOTAL_S, fetch
from replica.tokens.keys import KEYS_BYTES_MAX, BadKeys, TokenKey, read_keys
from tandemq.ambient import monotonic_s
from tandemq.config import ConfigError
from tandemq.config_tokens import HTTPS
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tandemq.config_tokens import Tokens

FILE_LOOK_S = 1.0
AGAIN_S = 10.0
"""Between two questions to an address that did not answer, or for a key that nobody has heard of."""
FAULT = PairEventKind.PAIR_EVENT_KIND_FAULT

log = logging.getLogger("tandemq.tokens")

Spawn: TypeAlias = "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]"
_Mark = tuple[int, int, int]


class BelievedKeys:
    """Of one manager; belongs to its event loop."""

    def __init__(self, tokens: Tokens, note: Callable[[int, str], object], spawn: Spawn = asyncio.create_task) -> None:
        """`spawn`: keeps a task until it ends. Raises ConfigError for a file of no use; an address may answer later."""
        self.where = tokens.keys
        self._authority, self._refresh_s, self._note = tokens.keys_authority, float(tokens.refresh_seconds), note
        self._spawn = spawn
        self._far = self.where.startswith(HTTPS)
        self.keys: tuple[TokenKey, ...] = ()
        """Empty: an address has not answered yet."""
        self.generation = 0
        """Grows with each exchange."""
        self.refused = ""
        """Why what is there now is not in force; empty: it is."""
        self._mark: _Mark | None = None
        self._next_s = 0.0
        self._asked_s = -AGAIN_S
        self._asking: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[bytes] | None = None
        """Of the thread that asks, which may go on for longer than anybody waits for it."""
        if not self._far:
            try:
                self._read_file()
            except BadKeys as error:
                raise ConfigError(f"tokens.keys = {self.where!r}: {error}") from error

    def look(self, _now_ms: int) -> None:
        """At each tick of the node; a file is looked at once a second, an address asked as configured."""
        if monotonic_s() < self._next_s:
            return
        if self._far:
            self._ask()
            return
        self._next_s = monotonic_s() + FILE_LOOK_S
        try:
            self._read_file()
        except BadKeys as error:
            self._on_refused(str(error))

    async def newer(self) -> bool:
        """For a token whose key nobody here knows: asks the address again, unless that was just done. Whether there are
        others since.
        """
        before = self.generation
        if self._far and monotonic_s() >= self._asked_s + AGAIN_S:
            self._ask()
        if self._asking is not None:
            await asyncio.shield(self._asking)
        return self.generation != before

    def _ask(self) -> None:
        if self._asking is None and (self._answer is None or self._answer.done()):
            self._asked_s = monotonic_s()
            self._next_s = self._asked_s + self._refresh_s
            self._asking = self._spawn(self._fetch())

    async def _fetch(self) -> None:
        self._answer = _in_thread(lambda: fetch(self.where, self._authority))
        try:
            async with asyncio.timeout(TOTAL_S):  # whoever sends its answer's head byte by byte holds the thread alone
                data = await asyncio.shield(self._answer)
            self._take(read_keys(data))
        except TimeoutError:
            self._on_failed(f"did not answer within {TOTAL_S:g} s")
        except BadKeys as error:
            self._on_failed(str(error))
        finally:
            self._asking = None

    def _on_failed(self, why: str) -> None:
        self._next_s = monotonic_s() + AGAIN_S
        self._on_refused(why)

    def _read_file(self) -> None:
        try:
            with open(self.where, "rb") as file:  # noqa: PTH123 - with its own descriptor's marks
                found = os.fstat(file.fileno())
                mark = (found.st_mtime_ns, found.st_size, found.st_ino)
                if mark == self._mark and not self.refused:
                    return
                data = file.read(KEYS_BYTES_MAX + 1)
        except OSError as error:
            raise BadKeys(f"cannot be read: {error.strerror}") from error
        self._take(read_keys(data))
        self._mark = mark

    def _take(self, keys: tuple[TokenKey, ...]) -> None:
        if self.refused:
            self.refused = ""
            self._note(FAULT, f"the keys of tokens in {self.where} can be used again")
        if keys != self.keys:
            self.keys = keys
            self.generation += 1
            log.warning("%d keys of tokens are in force, from %s", len(keys), self.where)

    def _on_refused(self, why: str) -> None:
        if why == self.refused:
            return
        self.refused = why
        rest = "those that were in force stay" if self.keys else "no token is believed until then"
        log.error("the keys of tokens at %s %s; %s", self.where, why, rest)
        self._note(FAULT, f"the keys of tokens at {self.where} {why}; {rest}")


def _in_thread(work: Callable[[], bytes]) -> asyncio.Future[bytes]:
    """A daemon's: whoever ends the process waits for no address that does not answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    answer.add_done_callback(lambda done: done.exception())  # perhaps nobody waits any more

    def settle(data: bytes, error: BadKeys | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(data)

    def run() -> None:
        data, failed = b"", None
        try:
            data = work()
        except BadKeys as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, data, failed)

    threading.Thread(target=run, name="tandemq-token-keys", daemon=True).start()
    return answer
