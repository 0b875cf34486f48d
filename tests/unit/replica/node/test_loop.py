"""The loop of a member, where its rules are not the core's: who hears of a failed commit, and what is written when."""

from __future__ import annotations

import pytest

from chaos.sim.kernel.loop import Process, make_loop
from replica.core.state.effects import Persist
from replica.machine import Limits
from replica.node.loop import TICK_S, Node
from replica.node.members import MAIN
from replica.node.recovery import open_shared
from storage.errors import StoreFailed
from storage.memory import MemoryStore
from tests.support.domains import domain_over
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


def test_what_nobody_waits_for_is_written_with_what_comes_after_it_or_at_the_next_tick() -> None:
    store, nodes = MemoryStore(), list[Node]()

    async def story() -> None:
        nodes.append(quiet_node(store))
        nodes[0].start()

    loop = make_loop()
    process = Process("a")
    loop.spawn(process, story())
    loop.run(TICK_S / 4)
    (node,) = nodes
    shared = open_shared(store, 7, MAIN, "a", "b", 1, Limits())
    domain = domain_over(store, shared)

    def ask(key: str, *, unhurried: bool) -> None:
        shared.outbox.add(Persist(meta={key: b"value"}, unhurried=unhurried))
        loop.at(loop.now, process, lambda: node.dispatch(domain))

    ask("first", unhurried=True)
    loop.run(TICK_S / 2)
    assert store.get_meta("first") is None
    loop.run(TICK_S * 1.5)
    assert (store.get_meta("first"), node.commits) == (b"value", 1), "a tick takes it along"
    ask("second", unhurried=True)
    ask("third", unhurried=False)
    loop.run(TICK_S * 1.8)
    assert (store.get_meta("second"), store.get_meta("third"), node.commits) == (b"value", b"value", 2)
