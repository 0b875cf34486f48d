"""What the tests of the failure matrix share: a pair with wires that can be cut, its roles, the account at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from chaos import checker
from chaos.cluster import Cluster
from chaos.workload import Workload
from tandemq.cli.view import DomainView
from tandemq.errors import TandemqError, from_rpc_error
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import member_view, new_id, raw_to, stopped_at_end
from tests.support.clusters import quick
from tests.support.until import OUTER_S, until

AWAY = grpc.StatusCode.UNAVAILABLE
ASIDE = "aside"  # a queue beside the load
NO_MASTER = ("MASTER_SUSPENDED", "PROBE")
CUT_OFF_S = 3.0  # takeover from a master that is frozen or cut off (DESIGN.md section 6)


@asynccontextmanager
async def pair(data_dir: Path, **settings: Any) -> AsyncIterator[Cluster]:
    """Whole, a is the master, and every wire between the processes can be cut."""
    async with stopped_at_end(quick(data_dir, relayed=True, **settings)) as cluster:
        await cluster.start()
        async with raw_to(cluster.endpoint("a")) as [member]:
            await member.create(ASIDE)
        yield cluster


@asynccontextmanager
async def under_load(cluster: Cluster, *excused: checker.Check, **settings: Any) -> AsyncIterator[Workload]:
    """Light load while the block runs; then every invariant but the excused is checked over what was seen."""
    workload = Workload(cluster, **{"goes_on_s": OUTER_S, "drain_s": OUTER_S, **settings})
    async with workload.running():
        await workload.goes_on()
        yield workload
        await workload.goes_on()
    checks = [check for check in checker.CHECKS if check not in excused]
    if found := checker.broken(workload.history, checks):
        pytest.fail("\n".join(f"{name}: {line}" for name, lines in found.items() for line in lines))
    assert len(workload.history.acked) > 100, "too little traffic to say anything"


async def state(cluster: Cluster, name: str) -> DomainView | None:
    """What a member says of domain main; None when it does not answer."""
    view = await member_view(cluster, name)
    return view.domain("main") if view is not None and view.reachable else None


async def role(cluster: Cluster, name: str) -> str:
    found = await state(cluster, name)
    return found.role if found is not None else ""


async def becomes(cluster: Cluster, name: str, *roles: str, epoch: int = 0) -> DomainView:
    """Waits until a member has one of these roles (and this epoch)."""

    async def has() -> DomainView | None:
        found = await state(cluster, name)
        fits = found is not None and found.role in roles and (not epoch or found.epoch == epoch)
        return found if fits else None

    found: DomainView = await until(has, f"{name} becomes {' or '.join(roles)} of epoch {epoch or 'any'}")
    return found


async def status(cluster: Cluster, name: str) -> pb.MemberStatus:
    async with raw_to(cluster.endpoint(name)) as [member]:
        return (await member.pair.GetPairStatus(pb.GetPairStatusRequest(), timeout=OUTER_S)).member


async def refuses(cluster: Cluster, name: str) -> TandemqError:
    """A message that is sent to this member is not acknowledged; what it says instead."""
    request = service.EnqueueRequest(queue=ASIDE, request_id=new_id(), messages=[{"payload": b"never"}])
    async with raw_to(cluster.endpoint(name)) as [member], asyncio.timeout(OUTER_S):
        with pytest.raises(grpc.aio.AioRpcError) as info:
            await member.queue.Enqueue(request)  # with a deadline it would be parked for that long
    error = from_rpc_error(info.value)
    assert info.value.code() is AWAY, error
    return error


async def acknowledges_nothing(cluster: Cluster, name: str) -> None:
    """A message that is sent to this member is refused, or has no answer when its time is over."""
    request = service.EnqueueRequest(queue=ASIDE, request_id=new_id(), messages=[{"payload": b"never"}])
    async with raw_to(cluster.endpoint(name)) as [member]:
        with pytest.raises(grpc.aio.AioRpcError) as info:
            await member.queue.Enqueue(request, timeout=1)
    assert info.value.code() in (AWAY, grpc.StatusCode.DEADLINE_EXCEEDED), info.value
