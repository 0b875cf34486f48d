"""Follows a pair: status at an interval, events as they happen, from every member that answers; it changes nothing.

A member that is away is asked again at the next look, and its events go on after the last one that was seen.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import deque
from typing import TYPE_CHECKING

from tandemq.cli.opening import open_channel
from tandemq.cli.output import console, print_line
from tandemq.cli.pair_history import event_table, happening
from tandemq.cli.view import CHANNEL_OPTIONS, look

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from tandemq.cli.explain import Happening
    from tandemq.cli.view import PairView

SHOWN = 12
"""Events below the table."""


class Follower:
    """The events of every member, each from its own stream."""

    def __init__(self) -> None:
        self.new: deque[Happening] = deque(maxlen=10_000)
        self._next: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def follow(self, view: PairView) -> None:
        """Open a stream to each member that answers and has none."""
        for member in view.members:
            task = self._tasks.get(member.endpoint)
            if member.reachable and (task is None or task.done()):
                self._tasks[member.endpoint] = asyncio.create_task(self._read(member.endpoint))

    async def _read(self, endpoint: str) -> None:
        import grpc.aio

        from tandemq.v1 import pair_service_pb2, pair_service_pb2_grpc

        try:
            async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
                stub = pair_service_pb2_grpc.PairServiceStub(channel)
                if endpoint not in self._next:
                    listed = await stub.ListEvents(pair_service_pb2.ListEventsRequest(limit=1), timeout=5)
                    self._next[endpoint] = listed.next_number
                request = pair_service_pb2.WatchEventsRequest(from_number=self._next[endpoint])
                async for answer in stub.WatchEvents(request):
                    self._next[endpoint] = answer.event.number + 1
                    self.new.append(happening(answer.event))
        except grpc.aio.AioRpcError:
            return  # away: the status says so, and the next look tries again

    async def close(self) -> None:
        """End every stream."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def keep_looking(
    endpoints: list[str], timeout_s: float, interval_s: float, count: int | None, *, output: str, with_events: bool
) -> None:
    """Until `count` looks are done, or for ever."""
    follower = Follower()
    live = _live() if output == "table" and sys.stdout.isatty() else None
    kept: deque[Happening] = deque(maxlen=SHOWN)
    try:
        for number in itertools.count(1):
            view = await look(endpoints, timeout_s)
            if with_events:
                follower.follow(view)
            news = [follower.new.popleft() for _ in range(len(follower.new))]
            kept.extend(news)
            if live is not None:
                live.update(_screen(view, kept, live.console), refresh=True)
            else:
                _print(view, news, output)
            if number == count:
                return
            await asyncio.sleep(interval_s)
    finally:
        if live is not None:
            live.stop()
        await follower.close()


def _live() -> Live:
    from rich.live import Live

    live = Live(console=console(), auto_refresh=False)
    live.start()
    return live


def _screen(view: PairView, events: deque[Happening], out: Console) -> Group:
    from rich.console import Group

    from tandemq.cli.pair_table import notes, status_table

    return Group(status_table(view, out), *notes(view), event_table(events))


def _print(view: PairView, news: list[Happening], output: str) -> None:
    import msgspec

    from tandemq.cli.pair_table import show

    if output == "jsonl":
        for event in news:
            print_line({"event": msgspec.to_builtins(event)})
    elif news:
        console().print(event_table(news))
    show(view, output)
    sys.stdout.flush()
