"""Watches queues for the client: one stream at a time, opened again at another member when it ends.

It decides nothing about depths. Each new stream says first what is there at its opening, so nothing that still holds is
missed; what was reported before may be reported again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum
from typing import NamedTuple

from tandemq import retry
from tandemq.client.calls import QUEUE_SERVICE, Attempts, Moved
from tandemq.client.links import Link, Linked
from tandemq.errors import TandemqError, TimedOut, error_of, to_error
from tandemq.v1 import queue_service_pb2 as pb


class WatchReason(StrEnum):
    """Why a queue is reported."""

    NOT_EMPTY = "not_empty"
    """It was empty, and is not any more."""
    DEPTH = "depth"
    """It had fewer messages than the watch's depth, and has as many now."""


class DepthEvent(NamedTuple):
    """A queue has as many messages as a watch waits for."""

    queue: str
    """As the caller named it."""
    depth: int
    """Messages that a consumer could have been given when it was counted."""
    reason: WatchReason
    at_opening: bool
    """It had them when the stream was opened, for the first time or again after a reconnect."""


async def watch(client: Linked, queues: str | Sequence[str], *, depth: int = 1) -> AsyncGenerator[DepthEvent, None]:
    """Says when messages gather in queues: at once where `depth` of them are there, then each time that a queue has so
    many anew after it had fewer. Ends when the caller closes it.

    Only messages count that a consumer could be given now: not delayed, blocked or leased ones. What consumers take at
    once is not reported. Events of one queue that come faster than they are read are one, with the last depth.

    queues: one name or up to 1,000, all of one domain of one manager. depth: 1 means "not empty any more".
    After a takeover it watches at the new master, and reports again what holds there. Raises QUEUE_NOT_FOUND, also when
    a queue is deleted meanwhile; CROSS_DOMAIN, BAD_REQUEST, TOO_MANY_WAITERS; what is raised when no member answers.
    """
    names = [queues] if isinstance(queues, str) else list(queues)
    if not names or depth < 1:
        text = f"{len(names)} queues at depth {depth}; a watch has one or more, at a depth of 1 or more"
        raise error_of("BAD_REQUEST", text)
    places = [client.links.at(name) for name in names]
    link = places[0][0]
    if any(place is not link for place, _ in places):
        raise error_of("BAD_NAME", "the queues are at different managers; watch those of one at a time")
    request = pb.WatchQueuesRequest(watches=[pb.WatchedQueue(queue=local, depth=depth) for _, local in places])
    reason = WatchReason.DEPTH if depth > 1 else WatchReason.NOT_EMPTY
    local = places[0][1]
    attempts = Attempts(link.members, client.links.policy, link.members.masters.domain_of(local) or "main")
    while True:
        try:
            async with contextlib.aclosing(_session(link, local, request, attempts)) as reached:
                async for each in reached:
                    yield DepthEvent(names[each.watch], each.depth, reason, each.at_opening)
        except TandemqError as error:
            if retry.failure_of(error) is None:
                raise
            delay_s = attempts.failed(error)
            if attempts.exhausted:
                raise
            await asyncio.sleep(delay_s)


async def _session(
    link: Link, queue: str, request: pb.WatchQueuesRequest, attempts: Attempts
) -> AsyncGenerator[pb.DepthReached, None]:
    """One stream, until it ends, which is raised."""
    members = link.members
    endpoint = await attempts.located()
    request.epoch = members.masters.epoch(attempts.domain)
    source = link.caller.stream(endpoint, QUEUE_SERVICE + "WatchQueues", request, pb.WatchQueuesResponse, None)
    is_open = False
    async with contextlib.aclosing(source):
        while True:
            try:
                # A member that is silent before the stream is open is left; afterwards it may be silent for days.
                async with asyncio.timeout(None if is_open else min(attempts.policy.attempt_s, attempts.remaining_s)):
                    response = await anext(source)
            except TimeoutError as error:
                text = f"{endpoint} did not open the watch in time"
                raise TimedOut("DEADLINE_EXCEEDED", text, retryable=True) from error
            except StopAsyncIteration as error:
                raise Moved("", f"{endpoint} ended the watch") from error
            except TandemqError:
                if is_open:
                    attempts.progress()  # it was open, for however long nothing happened
                raise
            if response.HasField("goaway"):
                ended = to_error(response.goaway.error)
                if not ended.retryable:
                    raise ended
                members.masters.learn(attempts.domain, response.goaway.epoch, response.goaway.master_endpoint)
                raise Moved(members.master(attempts.domain), ended.message)
            is_open = True
            members.learn(response.header, queue)
            attempts.progress()
            for each in response.reached:
                yield each
