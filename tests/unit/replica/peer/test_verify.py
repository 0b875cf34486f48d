"""Comparisons of two domains at once keep their numbers apart; a flood of questions is not answered without end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import replica.peer.verify
from replica.core.domain import Domain
from replica.machine import Limits
from replica.node.recovery import open_shared
from replica.peer.verify import QUERIES_MAX, Digest, Verifier
from tandemq.peer.v1.peer_service_pb2 import VerifyQuery
from tandemq.v1.pair_service_pb2 import VerifyResponse
from tests.support.domains import domain_over
from tests.support.listening import quiet_node
from tests.unit.replica.node.test_salvage import DOMAIN, filled


def verifier() -> tuple[Verifier, Domain, Domain]:
    node = quiet_node(filled("enqueue"))
    domains = []
    for number in (DOMAIN, DOMAIN + 1):
        shared = open_shared(node.store, number, f"d{number}", "a", "b", 1, Limits())
        node.domains[number] = domain_over(node.store, shared)
        domains.append(node.domains[number])
    return Verifier(node, lambda *_: None, lambda _why: None), domains[0], domains[1]


async def test_the_result_bears_the_number_of_its_own_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.peer.verify, "ANSWER_S", 0.01)
    subject, one, two = verifier()
    for domain in (one, two):
        with pytest.raises(replica.peer.verify.CannotVerify):
            await subject.ask(domain, [], 1, 1)
    await subject._conclude(one, VerifyResponse(equal=False, difference="1 to 1: other records"))
    sent = subject.node.outbox
    assert [frame.verify_query.verify_id for frame in sent[:2]] == [1, 2]
    assert sent[2].verify_done.verify_id == 1


async def test_a_flood_of_queries_is_dropped_and_said(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    subject, domain, _ = verifier()
    go = asyncio.Event()

    async def slow(*_: object) -> Digest:
        await go.wait()
        return Digest(0, b"", [])

    monkeypatch.setattr(subject, "digest", slow)
    for number in range(1, QUERIES_MAX + 3):
        subject._queue(domain, VerifyQuery(verify_id=number, first_index=1, last_index=1), 0)
    assert caplog.text.count("is dropped") == 2
    go.set()
    await asyncio.gather(*subject.node._tasks)
    assert subject._queries == 0
    assert len(subject.node.outbox) == QUERIES_MAX
