"""Proxies in the state: which may be made, what a record does, and that a snapshot has them (M11)."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import Limits, ProxyCall, Refused
from replica.machine.features.proxies import (
    CREATE,
    DELETE,
    named_proxy,
    page_of_proxies,
    plan_proxy,
    proxies_of,
    proxy_rows,
    target_of,
)
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1.macro_service_pb2 import RELATIONSHIP_PRODUCER
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tests.unit.replica.machine.driver import Driver

TARGET = "//west/orders"


def change(driver: Driver, action: record_pb2.ProxyAction, name: str = "p", **fields: Any) -> record_pb2.ProxyOp:
    call = ProxyCall(action, name, fields.pop("request_id", b""), fields.pop("request_hash", 0), **fields)
    header = driver.plan(lambda: plan_proxy(driver.master.state, driver.now_ms, call))
    driver.order(header)
    op: record_pb2.ProxyOp = header.proxy
    return op


def refused(driver: Driver, action: record_pb2.ProxyAction, name: str = "p", **fields: Any) -> Refused:
    with pytest.raises(Refused) as found:
        change(driver, action, name, **fields)
    return found.value


def test_it_is_made_as_asked_and_goes() -> None:
    driver = Driver()
    expected = QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY)
    change(driver, CREATE, target=TARGET, relationship=RELATIONSHIP_PRODUCER, expected=expected)
    proxy = named_proxy(driver.master.state, "p")
    assert (proxy.target, proxy.relationship, proxy.expected) == (TARGET, RELATIONSHIP_PRODUCER, expected)
    assert target_of(proxy) == ("west", "orders")
    assert driver.create("q") == proxy.queue_id + 1, "numbers are never used again"
    assert driver.master.knows("p")
    change(driver, DELETE)
    assert not driver.master.knows("p")
    assert refused(driver, DELETE).reason == common_pb2.REASON_QUEUE_NOT_FOUND


def test_a_name_has_one_meaning() -> None:
    """M1, in both directions."""
    driver = Driver()
    driver.create("q")
    assert refused(driver, CREATE, "q", target=TARGET).reason == common_pb2.REASON_QUEUE_EXISTS
    change(driver, CREATE, target=TARGET)
    assert refused(driver, CREATE, target=TARGET).reason == common_pb2.REASON_QUEUE_EXISTS
    with pytest.raises(Refused, match="is a proxy of //west/orders"):
        driver.create("p")
    with pytest.raises(Refused, match="connect to that manager"):
        driver.master.state.named("p")


def test_more_than_the_limit_are_refused() -> None:
    driver = Driver(limits=Limits(proxies_max=1))
    change(driver, CREATE, target=TARGET)
    assert refused(driver, CREATE, "other", target=TARGET).reason == common_pb2.REASON_QUOTA_EXCEEDED


def test_a_bad_relationship_is_refused() -> None:
    assert refused(Driver(), CREATE, target=TARGET, relationship=9).reason == common_pb2.REASON_CONFIG_ERROR


def test_pages_are_by_name_and_rows_bring_all_back() -> None:
    driver = Driver()
    for name in ("b", "c", "a"):
        change(driver, CREATE, name, target=TARGET, expected=QueueConfig(max_length=7))
    state = driver.master.state
    page, following = page_of_proxies(state, "", 2)
    assert ([each.name for each in page], following) == (["a", "b"], "b")
    page, following = page_of_proxies(state, "b", 2)
    assert ([each.name for each in page], following) == (["c"], "")
    again = proxies_of(proxy_rows(state))
    assert again.by_name == state.proxies.by_name
    assert again.by_id == state.proxies.by_id
