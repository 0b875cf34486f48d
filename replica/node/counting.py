"""Waits until what is ordered counts: before that a record may be lost with its master, and nobody is told of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica.core.domain import Domain


async def until_committed(domain: Domain) -> bool:
    """All that is ordered at this serving master; False: the mastership moved, and some of it may be gone."""
    last_index = domain.shared.log.last_index
    if last_index <= domain.shared.progress.commit_index:
        return True
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def tell(counts: bool) -> None:
        if not told.done():
            told.set_result(counts)

    domain.orders.when_committed(last_index, lambda: tell(True), lambda: tell(False))
    return await told
