"""Proxies: made, shown and removed. Messages are sent through one, or received through it, as with any queue."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from tandemq.client.calls import PROXY_SERVICE
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.client.macros import Relationship
from tandemq.v1 import macro_service_pb2
from tandemq.v1 import proxy_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import QueueConfig


class ProxyState(StrEnum):
    """How the serving master reaches the queue that a proxy leads to."""

    OPENING = "OPENING"
    """It asks for the first time since it serves."""
    OPEN = "OPEN"
    """The queue was there, of that manager and as expected."""
    FAILED = "FAILED"
    """It is not; it asks again by itself, every 5 s at most."""


class Proxy(NamedTuple):
    """A proxy as the pair answered it."""

    name: str
    target: str
    """The queue that it leads to, //manager/queue."""
    relationship: str
    """CONSUMER, PRODUCER, or empty: both."""
    handle: int
    """Number in its domain, never used again."""
    created_at: datetime
    state: ProxyState
    why: str
    """FAILED: the reason and what was said; else empty."""
    since: datetime
    """Since when the state is so."""
    reopened: int
    """Times that it was opened after it had failed, by the master since it serves."""
    calls: int
    """Calls that it has carried, by the master since it serves."""
    reached: str
    """The member that answered last; empty: none has."""


async def create_proxy(
    client: Linked,
    name: str,
    target: str,
    *,
    relationship: Relationship | None = None,
    expected: QueueConfig | None = None,
    domain: str = "",
) -> Proxy:
    """Makes a name here that leads to a queue of another manager, `//manager/queue`.

    relationship: CONSUMER, it is received from alone; PRODUCER, sent to alone; None, both. expected: what the queue's
    attributes must be, those that are set.
    Raises Refused with reason QUEUE_EXISTS or CONFIG_ERROR (it would lead to this manager itself), InvalidRequest with
    BAD_NAME, NotFound with MANAGER_NOT_FOUND. Whether the queue is there its state says. A call that is in doubt is
    repeated by the client, and has one effect.
    """
    request = pb.CreateProxyRequest(
        request_id=new_request_id(),
        domain=domain,
        name=name,
        target=target,
        relationship=f"RELATIONSHIP_{relationship or 'UNSPECIFIED'}",
        expected=expected,
    )
    path = PROXY_SERVICE + "CreateProxy"
    return _proxy((await client.links.own.caller.call(path, request, pb.CreateProxyResponse)).proxy)


async def get_proxy(client: Linked, name: str) -> Proxy:
    """The proxy of that name, and how its master reaches what it leads to. Raises NotFound with reason
    QUEUE_NOT_FOUND.
    """
    path = PROXY_SERVICE + "GetProxy"
    return _proxy((await client.links.own.caller.call(path, pb.GetProxyRequest(name=name), pb.GetProxyResponse)).proxy)


async def list_proxies(client: Linked, domain: str = "") -> list[Proxy]:
    """All proxies of a domain, by name. Pages are read one after another."""
    found: list[Proxy] = []
    token = ""
    while True:
        request, path = pb.ListProxiesRequest(domain=domain, page_token=token), PROXY_SERVICE + "ListProxies"
        page = await client.links.own.caller.call(path, request, pb.ListProxiesResponse)
        found.extend(map(_proxy, page.proxies))
        token = page.next_page_token
        if not token:
            return found


async def delete_proxy(client: Linked, name: str) -> None:
    """Removes a proxy; the queue that it leads to stays as it is. Raises NotFound with reason QUEUE_NOT_FOUND."""
    request = pb.DeleteProxyRequest(request_id=new_request_id(), name=name)
    await client.links.own.caller.call(PROXY_SERVICE + "DeleteProxy", request, pb.DeleteProxyResponse)


def _proxy(found: pb.Proxy) -> Proxy:
    relationship = macro_service_pb2.Relationship.Name(found.relationship).removeprefix("RELATIONSHIP_")
    return Proxy(
        found.name,
        found.target,
        "" if relationship == "UNSPECIFIED" else relationship,
        found.handle,
        found.created_at.ToDatetime(UTC),
        ProxyState(pb.ProxyState.Name(found.state).removeprefix("PROXY_STATE_")),
        found.why,
        found.since.ToDatetime(UTC),
        found.reopened,
        found.calls,
        found.reached.member,
    )
