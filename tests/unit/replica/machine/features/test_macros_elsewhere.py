"""Members of macro queues that are proxies: which may be added, what a record does, and whose turn it is (M7, M12)."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import Refused
from replica.machine.features import proxies
from replica.machine.features.macros import ADD, ADD_PROXY, DELETE, REMOVE, macro_rows, macros_of, shown_macro
from replica.machine.plan.fan_in import FarHead, asked_among
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of
from tests.unit.replica.machine.features.test_macros import CONSUMER, PRODUCER, change, made, plan_sent
from tests.unit.replica.machine.features.test_proxies import change as change_proxy

TARGET = "//west/orders"


def consumer(policy: pb.MacroPolicy, *queues: str) -> tuple[Driver, int]:
    """A macro queue `m` with these queues and, behind them, proxy `p`; and the number of that."""
    driver = made(policy, *(queues or ("q1",)), relationship=CONSUMER)
    change_proxy(driver, proxies.CREATE, "p", target=TARGET)
    assert change(driver, ADD, queue="p", priority=7).action == ADD_PROXY, "an older version stops there"
    return driver, driver.master.state.proxies.by_name["p"].queue_id


def shown(driver: Driver) -> list[tuple[str, int, str]]:
    found = shown_macro(driver.master.state, "m").members
    return [(each.queue, each.priority, each.target) for each in found]


def test_a_proxy_is_added_by_its_name_or_by_what_it_leads_to() -> None:
    driver, proxy_id = consumer(pb.MACRO_POLICY_UNSPECIFIED, "q1")
    assert shown(driver) == [("q1", 0, ""), ("p", 7, TARGET)]
    again = macros_of(macro_rows(driver.master.state)).by_name["m"]
    assert list(again.members) == [driver.master.state.ids["q1"], proxy_id]
    change(driver, REMOVE, queue=TARGET)
    assert shown(driver) == [("q1", 0, "")]
    change(driver, ADD, queue=TARGET, priority=3)
    assert shown(driver) == [("q1", 0, ""), ("p", 3, TARGET)]
    change(driver, REMOVE, queue="p")
    change(driver, ADD, queue="p")
    change(driver, DELETE)
    assert driver.master.knows("p")


@pytest.mark.requirement("R076", "R090")
def test_a_proxy_that_goes_leaves_by_the_same_record() -> None:
    """M12."""
    driver, _ = consumer(pb.MACRO_POLICY_UNSPECIFIED, "q1")
    version = driver.master.state.macros.by_name["m"].version
    change_proxy(driver, proxies.DELETE, "p")
    assert shown(driver) == [("q1", 0, "")]
    assert driver.master.state.macros.by_name["m"].version == version + 1


def test_what_does_not_fit_is_refused_by_the_members_name() -> None:
    driver, _ = consumer(pb.MACRO_POLICY_UNSPECIFIED)
    change_proxy(driver, proxies.CREATE, "sends", target="//west/in", relationship=pb.RELATIONSHIP_PRODUCER)
    for queue, reason, text in (
        ("p", common_pb2.REASON_CONFIG_ERROR, "p is a member of macro queue m already.* 7"),
        (TARGET, common_pb2.REASON_CONFIG_ERROR, "is a member of macro queue m already"),
        ("sends", common_pb2.REASON_RELATIONSHIP_MISMATCH, "sends of //west/in is a PRODUCER"),
        ("//west/none", common_pb2.REASON_QUEUE_NOT_FOUND, "no proxy of this domain leads to //west/none"),
    ):
        with pytest.raises(Refused, match=text) as caught:
            change(driver, ADD, queue=queue)
        assert (caught.value.reason, caught.value.metadata["member"]) == (reason, queue)
    with pytest.raises(Refused, match="0 to 9"):
        change(driver, ADD, queue="//west/none", priority=10)


WAY = "SYSTEM.XMIT/west/orders"


def producer(policy: pb.MacroPolicy, *queues: str) -> Driver:
    """A macro queue `m` with these queues; proxy `p`, and a way to what that leads to, no member yet."""
    driver = made(policy, *(queues or ("q1",)), relationship=PRODUCER)
    change_proxy(driver, proxies.CREATE, "p", target=TARGET)
    driver.create(WAY)
    return driver


@pytest.mark.parametrize("name", [TARGET, "p", WAY])
def test_a_producer_deals_to_a_way_that_leads_to_one_queue_elsewhere(name: str) -> None:
    """M4: added and removed by any of its names, shown with the queue that it leads to, and dealt to as any queue."""
    driver = producer(pb.MACRO_POLICY_ROUND_ROBIN, "q1")
    assert change(driver, ADD, queue=name, priority=2).action == ADD, "a queue of the domain, as any"
    assert shown(driver) == [("q1", 0, ""), (WAY, 2, TARGET)]
    driver.order(plan_sent(driver, 3).header)
    assert [driver.master.state.named(each).length for each in ("q1", WAY)] == [2, 1]
    with pytest.raises(Refused, match=rf"{name} is a member of macro queue m already") as caught:
        change(driver, ADD, queue=name)
    assert caught.value.metadata["member"] == name
    change(driver, REMOVE, queue=name)
    assert shown(driver) == [("q1", 0, "")]
    with pytest.raises(Refused, match=f"no member '{name}'"):
        change(driver, REMOVE, queue=name)


def test_a_proxy_that_goes_leaves_the_way_that_it_named() -> None:
    driver = producer(pb.MACRO_POLICY_ROUND_ROBIN, "q1")
    change(driver, ADD, queue="p")
    change_proxy(driver, proxies.DELETE, "p")
    assert shown(driver) == [("q1", 0, ""), (WAY, 0, TARGET)]


def test_what_does_not_fit_a_producer_is_refused_by_the_members_name() -> None:
    driver = producer(pb.MACRO_POLICY_ROUND_ROBIN, "q1")
    driver.create("SYSTEM.XMIT/west")
    for queue, reason, text in (
        ("SYSTEM.XMIT/west", common_pb2.REASON_CONFIG_MISMATCH, "the manager's own"),
        ("//west/none", common_pb2.REASON_QUEUE_NOT_FOUND, "there is no queue 'SYSTEM.XMIT/west/none'"),
    ):
        with pytest.raises(Refused, match=text) as caught:
            change(driver, ADD, queue=queue)
        assert (caught.value.reason, caught.value.metadata["member"]) == (reason, queue)
    consuming = made(pb.MACRO_POLICY_PRIORITIZED, "q1", relationship=CONSUMER)
    consuming.create(WAY)
    with pytest.raises(Refused, match="the manager's own"):
        change(consuming, ADD, queue=WAY)


@pytest.mark.parametrize("way_first", [True, False])
def test_no_answer_comes_back_from_a_member_elsewhere(*, way_first: bool) -> None:
    driver = producer(pb.MACRO_POLICY_ROUND_ROBIN)
    change(driver, REMOVE, queue="q1")
    driver.create("asks", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    first, then = ("p", "asks") if way_first else ("asks", TARGET)
    change(driver, ADD, queue=first)
    with pytest.raises(Refused, match=rf"{then if way_first else WAY} cannot be a member.*no answer comes back"):
        change(driver, ADD, queue=then)


def order(driver: Driver, far: dict[int, FarHead], *, last: int = 0, **entered_ms: int) -> list[str]:
    """Who is asked in turn. `entered_ms`: when the first message of each queue entered."""
    state = driver.master.state
    queues = {state.queues[state.ids[name]]: at_ms for name, at_ms in entered_ms.items()}
    logs = {next(queue.segments.parts(1, 2)).log_index: at_ms for queue, at_ms in queues.items()}
    asked: Any = asked_among(
        state, state.macros.by_name["m"], driver.now_ms, far, logs.__getitem__, immediate=False, last=last
    )
    return [("p" if each.messages else "p?") if isinstance(each, FarHead) else each.queue.name for each in asked]


def sent(driver: Driver, *queues: str) -> None:
    for queue in queues:
        driver.enqueue(batch_of([10], queue=queue))


def test_the_member_priority_says_who_is_asked_first() -> None:
    driver, p = consumer(pb.MACRO_POLICY_PRIORITIZED, "q1", "q2")
    sent(driver, "q1", "q2")
    assert order(driver, {p: FarHead(p, 4, 0, 1)}) == ["p", "q1", "q2"]
    assert order(driver, {p: FarHead(p, 4, 0, 0)}) == ["p?", "q1", "q2"], "nobody is asked behind it yet"
    assert order(driver, {}) == ["q1", "q2"], "what is away holds up nobody"


def test_the_turn_goes_on_behind_a_member_elsewhere() -> None:
    driver, p = consumer(pb.MACRO_POLICY_ROUND_ROBIN, "q1", "q2")
    sent(driver, "q1", "q2")
    far = {p: FarHead(p, 4, 0, 1)}
    assert order(driver, far) == ["q1", "q2", "p"]
    assert order(driver, far, last=driver.master.state.ids["q2"]) == ["p", "q1", "q2"]
    assert order(driver, far, last=p) == ["q1", "q2", "p"]


def test_ages_are_compared_by_the_time_of_entry() -> None:
    driver, p = consumer(pb.MACRO_POLICY_CHRONOLOGICAL, "q1", "q2")
    sent(driver, "q1", "q2")
    for at_ms, wanted in ((5, ["p", "q1", "q2"]), (15, ["q1", "p", "q2"]), (20, ["q1", "q2", "p"])):
        assert order(driver, {p: FarHead(p, 4, at_ms, 1)}, q1=10, q2=20) == wanted
    assert order(driver, {p: FarHead(p, 4, 0, 0)}, q1=10, q2=20)[0] == "p?"


def test_priorities_are_compared_before_ages() -> None:
    driver, p = consumer(pb.MACRO_POLICY_MESSAGE_PRIORITY, "q1")
    sent(driver, "q1")
    assert order(driver, {p: FarHead(p, 9, 99, 1)}, q1=10) == ["p", "q1"]
    assert order(driver, {p: FarHead(p, 4, 9, 1)}, q1=10) == ["p", "q1"]
    assert order(driver, {p: FarHead(p, 3, 9, 1)}, q1=10) == ["q1", "p"]
