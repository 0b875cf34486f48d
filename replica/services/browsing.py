"""Turns a Browse into pages, so that nothing is pinned between two frames. Reads none itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandemq.v1.queue_service_pb2 import BrowsePageRequest, BrowsePageResponse, BrowseRequest, BrowseResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from replica.rpc.requests import Context

BROWSE_PAGE_MAX = 1_000


async def browse_pages(
    asked: BrowseRequest, page_of: Callable[[bytes, Context], Awaitable[bytes]], context: Context
) -> None:
    """Writes what was asked for, page by page; `page_of` answers BrowsePage."""
    at, left = asked.from_index, asked.max_messages or (1 << 62)
    while left > 0:
        most = min(left, BROWSE_PAGE_MAX)
        request = BrowsePageRequest(queue=asked.queue, from_index=at, max_messages=most, filter=asked.filter)
        page = BrowsePageResponse.FromString(await page_of(request.SerializeToString(), context))
        await context.write(BrowseResponse(header=page.header, messages=page.messages).SerializeToString())
        left -= len(page.messages)
        at = page.next_index
        if not at:
            return
