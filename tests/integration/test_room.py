"""Failure matrix, disk or map full: refuse producers, allow consumers, and hand off when the replica has room."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from grpc.aio import AioRpcError

from tandemq.config import Limits
from tests.integration.support import new_name, raw_to, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process

SMALL, LARGE = 16 << 20, 256 << 20


async def test_a_master_whose_store_is_full_hands_off_to_a_replica_with_room(tmp_path: Path) -> None:
    cluster = patient(tmp_path / "pair", settings={"a": {"limits": Limits(map_bytes=SMALL)}})
    async with stopped_at_end(cluster):
        await cluster.start()
        async with raw_to(cluster.endpoint("a")) as (a,):
            queue, sent = new_name(), 0
            await a.create(queue)

            async def moved() -> bool:
                nonlocal sent
                try:
                    await a.send(queue, b"x" * (512 << 10))
                    sent += 1
                except AioRpcError as error:
                    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                        raise
                return (await cluster.status()).masters() == ["b"]  # nobody is, for a moment

            await until(moved, "b is master")
            assert sent * (512 << 10) > SMALL // 2
            # Its own limit would refuse this; the master's counts.
            await a.send(queue, b"y")
            view = await cluster.status()
            assert [member.domain("main").role for member in view.members] == ["REPLICA", "MASTER"]
