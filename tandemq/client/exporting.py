"""Carries out exporting a client's queues, so that others find them, and finding them. It decides nothing."""

from __future__ import annotations

from typing import NamedTuple

from tandemq.client.calls import ADMIN_SERVICE, PAIR_SERVICE
from tandemq.client.links import Linked
from tandemq.errors import TandemqError, error_of
from tandemq.finding.names import FullName
from tandemq.finding.resolver import BadEntry, Exported, Manager, Registry, ResolverAway
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import queue_admin_service_pb2 as admin


class Export(NamedTuple):
    """What is registered now."""

    name: FullName
    endpoints: tuple[str, ...]  # where others will look for it
    changed: bool  # False: it was registered so already


async def find_queue(client: Linked, queue: str) -> FullName:
    """The full name of a queue that was exported. Raises MANAGER_NOT_FOUND, MANAGER_UNREACHABLE."""
    exported, _ = await client.links.directory.find_queue(queue)
    return FullName(exported.manager, exported.queue)


async def export_queue(
    client: Linked, queue: str, to: Registry, *, manager: str = "", endpoints: tuple[str, ...] = ()
) -> Export:
    """Registers an existing queue under its manager, which is registered too unless it is there.

    manager: the name to register; empty: the one by which this client found it, else what the pair calls itself.
    endpoints: where this queue is to be reached instead of at its manager's own; empty: its attribute `address`.
    Refuses (CONFIG_MISMATCH) what somebody registered otherwise. Repeating it changes nothing.
    """
    link, relative = client.links.at(queue)
    request = admin.GetQueueRequest(name=relative)
    found = await link.caller.call(ADMIN_SERVICE + "GetQueue", request, admin.GetQueueResponse, queue=relative)
    status = await link.caller.call(
        PAIR_SERVICE + "GetPairStatus", pair.GetPairStatusRequest(), pair.GetPairStatusResponse
    )
    name = manager or client.links.name_of(link) or found.header.pair
    own = tuple(each for each in (status.member.endpoint, status.peer_endpoint) if each)
    try:
        address = found.queue.config.address
        entry = Exported(relative, name, endpoints or ((address,) if address else ()))
        changed = await to.export(entry, Manager(name, own))
    except BadEntry as error:
        raise error_of("CONFIG_ERROR", str(error)) from error
    except (ResolverAway, OSError) as error:
        raise _away(to, error) from error
    return Export(FullName(name, relative), entry.endpoints or own, changed)


async def withdraw_queue(client: Linked, queue: str, source: Registry, *, manager: str = "") -> bool:
    """Takes an exported queue out, whether it still exists or not; False when it was not there.

    Refuses (CONFIG_MISMATCH) when it is registered for another manager than `manager`, or than this client's.
    """
    link, relative = client.links.at(queue)
    if not manager:
        await link.members.located()
    name = manager or client.links.name_of(link)
    if not name:
        status = await link.caller.call(
            PAIR_SERVICE + "GetPairStatus", pair.GetPairStatusRequest(), pair.GetPairStatusResponse
        )
        name = status.header.pair
    try:
        return await source.withdraw(relative, name)
    except BadEntry as error:
        raise error_of("CONFIG_ERROR", str(error)) from error
    except (ResolverAway, OSError) as error:
        raise _away(source, error) from error


def _away(registry: Registry, error: BaseException) -> TandemqError:
    why = str(error) or type(error).__name__
    return error_of("MANAGER_UNREACHABLE", f"{registry.source}: {why}; repeat it: what is done already stays as it is")
