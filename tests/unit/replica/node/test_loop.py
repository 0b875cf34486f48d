"""The loop of a member, where its rules are not the core's: who hears of a commit that fails."""

from __future__ import annotations

import pytest

from chaos.sim.kernel.loop import Process, make_loop
from storage.errors import StoreFailed
from storage.memory import MemoryStore
from tests.support.listening import quiet_node


def test_whoever_waits_for_a_commit_that_fails_is_told() -> None:
    """Not only the owner of the node: a start that waited for its first commit hung for ever."""
    told: list[str] = []

    async def story() -> None:
        store = MemoryStore()
        node = quiet_node(store)
        node.start()
        store.fail_next = StoreFailed("A commit failed: Input/output error", "test")
        for text in ("the batch that failed", "one that comes after it"):
            with pytest.raises(StoreFailed):
                await node.write(lambda batch: batch.meta.__setitem__("key", b"value"))
            told.append(text)
        assert isinstance(await node.failed, StoreFailed)

    loop = make_loop()
    task = loop.spawn(Process("a"), story())
    loop.run(60)
    assert task.done(), f"told so far: {told}"
    task.result()
