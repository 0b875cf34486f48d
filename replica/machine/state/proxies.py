"""What the state keeps of proxies: names here that lead to queues of other managers. Values; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tandemq.v1 import macro_service_pb2, queue_admin_service_pb2

PROXY_TARGET = "proxy_target"
"""In the metadata of a refusal: the name is a proxy, and of which queue."""


@dataclass(frozen=True, slots=True)
class Proxy:
    name: str
    queue_id: int  # one of the numbers of the queues
    target: str  # //manager/queue
    relationship: macro_service_pb2.Relationship  # unset: sent to and received from
    expected: queue_admin_service_pb2.QueueConfig  # of the queue that it leads to; what is unset may be anything
    created_ms: int


class Proxies:
    """The proxies of a domain."""

    def __init__(self) -> None:
        self.by_name: dict[str, Proxy] = {}
        self.by_id: dict[int, Proxy] = {}
        self.changes = 0  # since this object was made; no part of the state

    def add(self, proxy: Proxy) -> None:
        self.changes += 1
        self.by_name[proxy.name] = self.by_id[proxy.queue_id] = proxy

    def remove(self, proxy: Proxy) -> None:
        self.changes += 1
        del self.by_name[proxy.name], self.by_id[proxy.queue_id]
