"""Each call that brings messages is counted by them, in whatever they are wrapped."""

from __future__ import annotations

import asyncio
from typing import Any

from replica.node.access import Access
from replica.node.quotas import REFUSAL_MS, REFUSALS_AT_ONCE, Quotas
from replica.services.guard import row_of
from replica.services.needs import NEEDS
from replica.services.quoted import HELD_BYTES_MAX, SENT, Quoted, _count
from tandemq.config_quotas import Quota
from tandemq.v1 import transaction_service_pb2 as pb
from tests.support import virtual_time

BY_BYTES = {"StageService/Stage"}
"""Their messages are in columns, and count as bytes."""


def test_no_call_brings_messages_that_are_not_counted() -> None:
    bringing = {path for path, needs in NEEDS.items() if any("messages." in need.path for need in needs)}
    assert bringing == set(SENT) | BY_BYTES


def test_the_messages_of_all_units_of_a_call_are_counted() -> None:
    put = {"queue": "q", "messages": [{"payload": b"x"}, {"payload": b"y"}]}
    request = pb.TransactManyRequest(units=[{"puts": [put, put]}, {"puts": [put]}, {}])
    path = "TransactionService/TransactMany"
    assert _count(row_of(f"/tandemq.v1.{path}").skim.read(request.SerializeToString()), *SENT[path]) == 6


class Call:
    """As far as its quota looks at it."""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def invocation_metadata(self) -> tuple[Any, ...]:
        return ()


def refused_after_s(count: int, size: int) -> list[float]:
    """Calls of one principal, all at once, behind one that has used up what it may for a year."""

    async def asked() -> list[float]:
        quoted = Quoted(Access("member/p/a", "", (), lambda: None), Quotas({"*": Quota(bytes=1)}))  # type: ignore[arg-type,return-value]  # no right is asked about
        assert await quoted.problem_of("principal/flooder", Call(), 1 << 30) is None

        async def refused() -> float:
            assert await quoted.problem_of("principal/flooder", Call(), size) is not None
            return asyncio.get_running_loop().time()

        return sorted(await asyncio.gather(*(refused() for _ in range(count))))

    return virtual_time.run(asked())


def test_who_is_refused_again_and_again_hears_of_it_at_a_bounded_pace() -> None:
    """3,000 calls a second of which each was refused took the loop from everybody else."""
    found = refused_after_s(REFUSALS_AT_ONCE + 50, 100)
    assert found[REFUSALS_AT_ONCE - 1] == 0.0
    assert found[-1] >= 45 * REFUSAL_MS / 1_000


def test_what_takes_memory_does_not_wait_for_its_refusal() -> None:
    assert refused_after_s(REFUSALS_AT_ONCE + 50, HELD_BYTES_MAX + 1)[-1] == 0.0
