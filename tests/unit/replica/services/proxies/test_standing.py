"""How a proxy stands: what opens and fails it, and when it is asked again. No clock, no network."""

from __future__ import annotations

import pytest

from replica.machine.state.proxies import Proxy
from replica.services.proxies.standing import (
    AGAIN_FIRST_MS,
    AGAIN_MAX_MS,
    FAILED,
    LOOK_MS,
    OPEN,
    OPENING,
    ProxyFault,
    ProxyStanding,
    goes_with,
    misfit,
)
from tandemq.errors import Unreachable, error_of
from tandemq.v1.common_pb2 import ResponseHeader
from tandemq.v1.macro_service_pb2 import RELATIONSHIP_UNSPECIFIED
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_ONE_WAY, QUEUE_TYPE_TWO_WAY, QueueConfig

AWAY = ProxyFault("MANAGER_UNREACHABLE", "nobody answers")
HEADER = ResponseHeader(pair="west", member="a")


def proxy(expected: QueueConfig | None = None) -> Proxy:
    return Proxy("p", 1, "//west/orders", RELATIONSHIP_UNSPECIFIED, expected or QueueConfig(), 0)


@pytest.mark.requirement("R066")
def test_it_opens_fails_and_opens_again() -> None:
    standing = ProxyStanding(proxy(), 1_000)
    assert (standing.state, standing.due_ms) == (OPENING, 1_000)
    assert not standing.on_opened(HEADER, 1_010), "it had not failed"
    assert (standing.state, standing.since_ms, standing.due_ms) == (OPEN, 1_010, 1_010 + LOOK_MS)
    assert standing.on_failed(AWAY, 2_000)
    assert not standing.on_failed(AWAY, 2_100), "said once"
    assert (standing.state, standing.since_ms, standing.why) == (FAILED, 2_000, AWAY)
    assert standing.on_opened(HEADER, 3_000)
    assert (standing.state, standing.since_ms, standing.why, standing.reopened) == (OPEN, 3_000, None, 1)
    assert not standing.on_opened(HEADER, 4_000)
    assert (standing.since_ms, standing.reopened) == (3_000, 1)


def test_it_is_asked_again_ever_later() -> None:
    standing, waits = ProxyStanding(proxy(), 0), []
    for _ in range(9):
        standing.on_failed(AWAY, 0)
        waits.append(standing.due_ms)
    assert waits == [100, 200, 400, 800, 1_600, 3_200, AGAIN_MAX_MS, AGAIN_MAX_MS, AGAIN_MAX_MS]
    standing.on_opened(HEADER, 0)
    standing.on_failed(AWAY, 0)
    assert standing.due_ms == AGAIN_FIRST_MS, "an opening begins anew"


def test_all_proxies_of_a_manager_are_lost_where_another_one_answers_for_it() -> None:
    lost, other = ProxyStanding(proxy(), 0), ProxyStanding(proxy(), 0)
    lost.reached, other.reached = ResponseHeader(domain="main"), ResponseHeader(domain="billing")
    assert goes_with(other, lost, error_of("WRONG_PAIR", "this is east"))
    assert not goes_with(other, lost, error_of("NO_MASTER", "of main"))


def test_calls_that_are_not_answered_have_an_open_one_looked_at_and_no_failed_one() -> None:
    standing = ProxyStanding(proxy(), 0)
    standing.on_opened(HEADER, 0)
    standing.doubt(10)
    assert standing.due_ms == 10
    for _ in range(7):
        standing.on_failed(AWAY, 10)
    standing.doubt(20)
    assert standing.due_ms == 10 + AGAIN_MAX_MS


@pytest.mark.requirement("R021", "R067")
def test_what_is_expected_is_compared_and_nothing_else() -> None:
    has = QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY, max_length=5)
    assert misfit(proxy(), has) is None
    assert misfit(proxy(QueueConfig(max_length=5)), has) is None
    why = misfit(proxy(QueueConfig(queue_type=QUEUE_TYPE_ONE_WAY, max_length=5)), has)
    assert why is not None
    assert why.reason == "CONFIG_MISMATCH"
    assert "queue_type QUEUE_TYPE_TWO_WAY" in why.message
    assert "expects QUEUE_TYPE_ONE_WAY" in why.message


def test_what_is_lost_with_a_domain_there_leaves_proxies_into_others_open() -> None:
    lost, same, other = (ProxyStanding(proxy(), 0) for _ in range(3))
    for standing, domain in ((lost, "billing"), (same, "billing"), (other, "main")):
        standing.on_opened(ResponseHeader(pair="west", domain=domain), 0)
    for reason, goes in (("NO_MASTER", False), ("SUSPENDED", False), ("MANAGER_UNREACHABLE", True)):
        assert goes_with(same, lost, error_of(reason))
        assert goes_with(other, lost, error_of(reason)) is goes, reason
    assert goes_with(other, lost, Unreachable("UNREACHABLE", "connection refused")), "nobody of it has spoken"
