"""Finds what stands behind the members of a macro queue: queues of this domain, proxies, and transmission queues that
lead to one queue of another manager; changes nothing.

A member is a number of the queues' numbers, never used again, with its member priority, in the order of adding
(`MacroQueue.members`). Whoever wants the queue of one asks here, and meets only those that are of this domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica.machine.state.macros import MacroQueue
from replica.machine.state.proxies import Proxy
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.machine.state.system_names import FULL, target_of, way_to


def queues_of(state: State, members: Iterable[int]) -> Iterator[QueueState]:
    """In the order of these numbers, each when it is asked for; what is no queue of this domain is left out."""
    queues = state.queues
    return (queues[each] for each in members if each in queues)


def proxy_named(state: State, name: str) -> Proxy | None:
    """By its own name, or by the full name that it leads to: the oldest one of those."""
    if name.startswith(FULL):
        return next((each for each in state.proxies.by_id.values() if each.target == name), None)
    return state.proxies.by_name.get(name)


def proxy_member(state: State, macro: MacroQueue, name: str) -> Proxy | None:
    """The one that is a member, by either name."""
    if not name.startswith(FULL):
        proxy = state.proxies.by_name.get(name)
        return proxy if proxy is not None and proxy.queue_id in macro.members else None
    proxies = (state.proxies.by_id.get(each) for each in macro.members)
    return next((each for each in proxies if each is not None and each.target == name), None)


def far_name(state: State, name: str) -> str:
    """The full name of the queue of another manager that it means, by itself or by its proxy's name; empty: it means
    none.
    """
    if name.startswith(FULL):
        return name
    proxy = state.proxies.by_name.get(name)
    return proxy.target if proxy is not None else ""


def queue_meant(state: State, macro: MacroQueue, name: str) -> str:
    """Where messages for that member enter: of a macro queue that is sent to, a transmission queue that leads to that
    one queue of another manager (M4).
    """
    full_name = far_name(state, name) if macro.is_producer else ""
    return way_to(full_name) if full_name else name


def is_way(queue: QueueState) -> bool:
    """Whether what enters it goes to one queue of another manager."""
    target = target_of(queue.name)
    return target is not None and target.queue != ""
