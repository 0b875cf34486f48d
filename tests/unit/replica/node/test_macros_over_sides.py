"""A macro queue that is sent to over queues with PRODUCER replication: each member has one order for the processes at
both members of the pair, whatever the policy is and whoever is master (M10, R104, R106).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replica.machine import EnqueueCall, Fresh, Refused, columns_of
from replica.machine.features.macros import ADD
from replica.machine.plan.deal import plan_deal
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK
from tests.support.clients import create
from tests.unit.replica.core.delivery.test_fan_in import PRODUCER, begun, dealt
from tests.unit.replica.core.delivery.test_fan_in import change as change_at_pair
from tests.unit.replica.machine.driver import Driver, batch_of
from tests.unit.replica.machine.features.test_macros import CONSUMER, change, made, members
from tests.unit.replica.machine.features.test_proxies import change as change_proxy
from tests.unit.replica.node.side_member import Member, a_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

SIDED = {"replication": admin_pb2.REPLICATION_PRODUCER}


def over_sides(policy: pb.MacroPolicy) -> Driver:
    """Macro queue m over q and q2, both of which have sides."""
    driver = a_pair()
    change(driver, record_pb2.MACRO_ACTION_CREATE, relationship=PRODUCER, policy=policy)
    driver.create("q2", **SIDED)
    for name in ("q", "q2"):
        change(driver, ADD, queue=name)
    return driver


def send(driver: Driver, count: int, *, groups: Sequence[str] = (), priorities: Sequence[int] = ()) -> None:
    """A batch to the macro queue."""
    batch = batch_of([10] * count, priorities, queue="m", group_ids=groups)
    call = EnqueueCall("m", b"p", driver.master.last_sequence("m", b"p") + 1, columns_of(batch), "a")
    state = driver.master.state
    plan = driver.plan(lambda: plan_deal(state, driver.now_ms, state.macros.by_name["m"], call))
    assert isinstance(plan, Fresh)
    driver.order(plan.header)


@pytest.mark.requirement("R104", "R106")
@pytest.mark.parametrize(
    ("policy", "indexes"),
    [
        (pb.MACRO_POLICY_ROUND_ROBIN, 3),
        (pb.MACRO_POLICY_DUPLICATE, 6),
        (pb.MACRO_POLICY_FIRST_AVAILABLE, 6),
        (pb.MACRO_POLICY_SHORTEST_QUEUE, 3),
    ],
)
async def test_both_processes_of_a_member_get_what_it_was_dealt_in_one_order(
    policy: pb.MacroPolicy, indexes: int
) -> None:
    driver = over_sides(policy)
    at = [Member(driver, name) for name in ("a", "b")]
    processes = [member.consume()[0] for member in at]
    for _ in range(2):
        send(driver, 3)
        driver.replica.commit(driver.log_index)
        for member in at:
            member.commit()
    assert [process.indexes for process in processes] == [list(range(1, indexes + 1))] * 2
    first = at[0]
    for lease_id, given in list(processes[0].given):
        first.settle(processes[0], lease_id, given[0], OUTCOME_ACK, last=given[-1])
    first.flush()
    assert driver.master.state.named("q").length == indexes, "the other side has not passed them"


def test_the_dealing_goes_on_after_a_takeover_and_a_repetition_finds_it() -> None:
    pair = begun(PRODUCER, pb.MACRO_POLICY_ROUND_ROBIN)
    for name in ("one", "two"):
        create(pair, name, **SIDED)
        change_at_pair(pair, ADD, queue=name)
    assert dealt(pair, pair.b, 1) == ("one", False, 1)
    assert dealt(pair, pair.a, 2) == ("two", False, 1)
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(200)
    assert pair.master is pair.b
    assert [dealt(pair, pair.b, sequence) for sequence in (1, 2)] == [("one", True, 1), ("two", True, 1)]
    assert dealt(pair, pair.b, 3) == ("one", False, 2)


def test_what_one_member_could_not_give_both_sides_in_one_order_enters_none() -> None:
    """K3: with lockstep PLAIN message k is the one with index k."""
    driver = over_sides(pb.MACRO_POLICY_ROUND_ROBIN)
    with pytest.raises(Refused, match="lockstep PLAIN") as caught:
        send(driver, 2, priorities=[4, 9])
    assert (caught.value.reason, caught.value.metadata) == (common_pb2.REASON_BAD_ATTRIBUTE, {"attribute": "priority"})
    assert [driver.master.state.named(name).length for name in ("q", "q2")] == [0, 0]


def test_one_group_has_one_member_here_too() -> None:
    driver = over_sides(pb.MACRO_POLICY_BY_GROUP)
    send(driver, 6, groups=list("abcdef"))
    before = [driver.master.state.named(name).length for name in ("q", "q2")]
    assert sum(before) == 6
    assert min(before) > 0
    send(driver, 6, groups=list("abcdef"))
    assert [driver.master.state.named(name).length for name in ("q", "q2")] == [2 * each for each in before]


def test_members_have_one_order_for_both_sides_or_all_have_none() -> None:
    driver = over_sides(pb.MACRO_POLICY_ROUND_ROBIN)
    driver.create("plain")
    driver.create("selected", lockstep=admin_pb2.LOCKSTEP_SELECTED, **SIDED)
    driver.create("asks", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY, **SIDED)
    change_proxy(driver, record_pb2.PROXY_ACTION_CREATE, "far", target="//west/orders")
    driver.create("SYSTEM.XMIT/west/orders")
    for queue, text in (
        ("plain", "either all members have PRODUCER replication or none has, and q is not like it"),
        ("selected", "all members have one lockstep, and that of q is another"),
        ("asks", "PRODUCER replication and is TWO_WAY"),
        ("far", "either all members have PRODUCER replication or none has"),
    ):
        with pytest.raises(Refused, match=text) as caught:
            change(driver, ADD, queue=queue)
        assert (caught.value.reason, caught.value.metadata["member"]) == (common_pb2.REASON_CONFIG_MISMATCH, queue)
    assert [name for name, _ in members(driver)] == ["q", "q2"]


def test_who_receives_is_sent_to_the_members_own_names() -> None:
    """Decision 0111: two orders of two sides over several members would be none."""
    driver = made(pb.MACRO_POLICY_PRIORITIZED, "other", relationship=CONSUMER)
    driver.create("twins", **SIDED)
    text = "twins cannot be a member.*consumed at its own member, by the queue's own name; a macro queue over such"
    with pytest.raises(Refused, match=text):
        change(driver, ADD, queue="twins")
    assert members(driver) == [("other", 0)]
