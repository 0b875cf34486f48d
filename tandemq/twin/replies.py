"""Answers requests that are a twin's inputs, each once whichever twin comes first (K11). The manager compares the
answers; they enter no unit of outputs, and no digest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Unpack

from tandemq.client.outgoing import Attributes
from tandemq.errors import AlreadyExists, InDoubt, LeaseLost, ResourceExhausted, Unavailable
from tandemq.twin.digests import Compared
from tandemq.twin.faults import TwinFault
from tandemq.twin.handling import REPLY, Output
from tandemq.twin.outputs import WAIT_MAX_S, WAIT_S, OutputCounts

AT_ONCE = 100
"""Calls under way."""
PENDING_MAX = 1_000
"""That are not acknowledged; beyond it no further input is taken."""
PASSING = (ResourceExhausted, Unavailable, InDoubt)
"""Behind which all of them are sent again: equal answers are duplicates."""
log = logging.getLogger("tandemq.twin")


class Answering(Protocol):
    """The call of a client that is needed here."""

    async def reply(
        self, queue: str, lease_id: int, index: int, payload: bytes, **attributes: Unpack[Attributes]
    ) -> bool: ...


class _Made(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    reply: Output


class Replies:
    """Of one process. `on_differ` is called at each answer that differs from the twin's, which came first."""

    def __init__(
        self, client: Answering, requests: str, counts: OutputCounts, on_differ: Callable[[Compared], None]
    ) -> None:
        self._client, self._requests, self._counts, self._on_differ = client, requests, counts, on_differ
        self._pending: deque[_Made] = deque()
        self._is_held = False
        self._wake = asyncio.Event()
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def take(self, index: int, outputs: Sequence[Output]) -> Sequence[Output]:
        """The answer to that input, of all that its handler has made; the rest comes back. Raises TwinFault."""
        replies = [output for output in outputs if output.queue == REPLY]
        if not replies:
            return outputs
        if len(replies) > 1:
            raise TwinFault(
                "ALREADY_REPLIED", f"input {index} of {self._requests}: a handler makes one answer, not more"
            )
        self._pending.append(_Made(index, replies[0]))
        self._wake.set()
        return [output for output in outputs if output.queue != REPLY]

    async def done(self, index: int) -> None:
        """Until all requests up to there have their answers, by whichever twin."""
        if self._pending and self._pending[0].index <= index:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((index, future))
            await future

    async def room(self) -> None:
        """Until more may be made."""
        while len(self._pending) > PENDING_MAX:
            await self.done(self._pending[0].index)

    def hold(self) -> None:
        """Nothing more is sent; see `Outputs.hold`."""
        self._is_held = True

    async def run(self) -> None:
        """For ever. Raises what no repetition helps against."""
        wait_s = WAIT_S
        while True:
            while self._is_held or not self._pending:
                self._wake.clear()
                await self._wake.wait()
            part = [self._pending[place] for place in range(min(AT_ONCE, len(self._pending)))]
            results = await asyncio.gather(*(self._send(made) for made in part), return_exceptions=True)
            errors = [result for result in results if isinstance(result, BaseException)]
            if lasting := next((error for error in errors if not isinstance(error, PASSING)), None):
                raise lasting
            if errors:
                log.warning("answers to requests of %s wait: %s", self._requests, errors[0])
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, WAIT_MAX_S)
                continue
            wait_s = WAIT_S
            for _ in part:
                self._pending.popleft()
            self._release()

    async def _send(self, made: _Made) -> None:
        _, payload, attributes = made.reply
        try:
            if not await self._client.reply(self._requests, 0, made.index, payload, **attributes):
                self._counts.replies += 1
        except LeaseLost:  # nobody waits any more
            self._counts.late_replies += 1
        except AlreadyExists as error:
            own, other = (int(error.metadata[name], 16) for name in ("digest", "first_digest"))
            self._counts.divergences += 1
            self._on_differ(Compared(made.index, own, other, 0))  # answers before it may still be under way

    def _release(self) -> None:
        done = self._pending[0].index - 1 if self._pending else None
        left = []
        for index, future in self._watchers:
            if done is not None and index > done:
                left.append((index, future))
            elif not future.done():
                future.set_result(None)
        self._watchers = left
