"""PairService.ListEvents and WatchEvents: reads the event log for callers; adds nothing to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Collection

    from replica.operations.events import EventLog
    from replica.rpc.handlers import Method

LIMIT, LIMIT_MAX = 100, 10_000
WATCHERS_MAX = 100


class EventHandlers:
    """A watcher has no queue of its own: it reads the log at its own pace, and is cut when it falls out of it."""

    def __init__(self, events: EventLog, domains: Collection[str]) -> None:
        self.events = events
        self.domains = domains

    def methods(self) -> dict[str, Method]:
        """For `service_failures.pair_handler`."""
        return {
            "ListEvents": grpc.unary_unary_rpc_method_handler(self.list_events),
            "WatchEvents": grpc.unary_stream_rpc_method_handler(self.watch),
        }

    async def _check_domain(self, domain: str, context: Context) -> None:
        if domain and domain not in self.domains:
            text = f"no domain is called {domain[:80]!r} here; there are {', '.join(sorted(self.domains))}"
            await abort(context, refusal(Reason.REASON_BAD_NAME, text))

    async def list_events(self, request: bytes, context: Context) -> bytes:
        """See PairService.ListEvents."""
        asked = await parse(pb.ListEventsRequest, request, context)
        await self._check_domain(asked.domain, context)
        if asked.limit > LIMIT_MAX:
            text = f"limit is {asked.limit}, at most {LIMIT_MAX}; ask again from next_number"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        limit = asked.limit or LIMIT
        if asked.from_number:
            found = [e for e in self.events.since(asked.from_number) if not asked.domain or _is_of(e, asked.domain)]
            found = found[:limit]
        else:
            found = self.events.last(limit, asked.domain)
        after = found[-1].number + 1 if found else self.events.next_number
        return pb.ListEventsResponse(events=found, next_number=after).SerializeToString()

    async def watch(self, request: bytes, context: Context) -> None:
        """See PairService.WatchEvents."""
        asked = await parse(pb.WatchEventsRequest, request, context)
        await self._check_domain(asked.domain, context)
        events = self.events
        if events.watchers >= WATCHERS_MAX:
            text = f"{WATCHERS_MAX} watches of events are open at this member; close one"
            await abort(context, refusal(Reason.REASON_QUOTA_EXCEEDED, text))
        events.watchers += 1
        try:
            await self._watch(asked.from_number or events.next_number, asked.domain, context)
        finally:
            events.watchers -= 1

    async def _watch(self, number: int, domain: str, context: Context) -> None:
        events = self.events
        number = max(number, events.oldest_number)
        while True:
            changed = events.changed
            for event in events.since(number):
                if not domain or _is_of(event, domain):
                    await context.write(pb.WatchEventsResponse(event=event).SerializeToString())
                number = event.number + 1
            if number < events.oldest_number:
                text = f"this watcher is too slow: event {number} is no longer kept; watch again from a newer number"
                await abort(context, refusal(Reason.REASON_QUOTA_EXCEEDED, text, {"from_number": str(number)}))
            await changed.wait()


def _is_of(event: pb.PairEvent, domain: str) -> bool:
    return event.domain in ("", domain)
