"""What principals keep: counted by the queues that they made, equal at both members and after any copy, and bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.machine import (
    DefaultsCall,
    EnqueueCall,
    Fresh,
    Limits,
    Machine,
    MacroCall,
    PublishCall,
    Refused,
    Repeated,
    StageCall,
    UnitCall,
)
from replica.machine.features.macros import ADD, CREATE, plan_macro
from replica.machine.plan.dead_letters import dead_letter_config
from replica.machine.plan.deal import plan_deal
from replica.machine.plan.enqueue import EnqueuePlan
from replica.machine.plan.names import plan_defaults
from replica.machine.plan.react import Copies, ReactCall, plan_react
from replica.machine.plan.stage import plan_publish, plan_stage, plan_staged
from replica.machine.plan.unit import QueuePut, QueueSettling, plan_unit
from replica.machine.state.kept_quotas import KeptQuota, KeptQuotas
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1.macro_service_pb2 import (
    MACRO_POLICY_BY_GROUP,
    MACRO_POLICY_DUPLICATE,
    MACRO_POLICY_DUPLICATE_BEST_EFFORT,
    MACRO_POLICY_FASTEST_RESPONSE,
    MACRO_POLICY_FIRST_AVAILABLE,
    MACRO_POLICY_ROUND_ROBIN,
    MACRO_POLICY_SHORTEST_QUEUE,
    RELATIONSHIP_PRODUCER,
    MacroPolicy,
)
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.unit.replica.machine.driver import ACK, MEMBERS, Driver, batch_of, columns_of, ranges_of

BILLING, SHOP = "principal/billing", "principal/shop"
QUOTA_EXCEEDED = common_pb2.REASON_QUOTA_EXCEEDED
UPDATE, DELETE = record_pb2.QUEUE_ACTION_UPDATE, record_pb2.QUEUE_ACTION_DELETE
Kept = dict[str, tuple[int, int, int]]


def driver_of(everybody: KeptQuota | None = None, **billing: int) -> Driver:
    return Driver(Limits(kept_quotas=KeptQuotas({BILLING: KeptQuota(**billing)}, everybody)))


def make(driver: Driver, name: str, owner: str = BILLING, **attributes: object) -> None:
    config = QueueConfig(owner=owner, **attributes)  # type: ignore[arg-type]  # attributes by name
    driver.queue(
        record_pb2.QUEUE_ACTION_CREATE, name, config=config, request_id=b"%s %d" % (name.encode(), driver.log_index)
    )


def kept(state: State) -> Kept:
    return {
        name: (owned.queues, owned.bytes, len(owned.identities)) for name, owned in sorted(state.owners.by_name.items())
    }


def counted(state: State) -> Kept:
    """The same, counted anew from what it follows from."""
    found: Kept = {}
    window_ms = state.time_ms - state.limits.dedup_window_ms
    used = [(key, each.time_ms) for key, each in state.producers.dump() if each.time_ms >= window_ms]
    for queue in state.queues.values():
        if queue.config.owner:
            queues, size, senders = found.get(queue.config.owner, (0, 0, 0))
            senders += sum(key[0] == queue.queue_id for key, _ in used)
            found[queue.config.owner] = (queues + 1, size + queue.bytes, senders)
    return dict(sorted(found.items()))


def agree(driver: Driver) -> Kept:
    """Both members, and whoever reads a snapshot of one back."""
    again = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    wanted = counted(driver.master.state)
    for machine in (driver.master, driver.replica, again):
        for owned in machine.state.owners.by_name.values():
            window_ms = machine.state.time_ms - machine.state.limits.dedup_window_ms
            for key in [key for key, used_ms in owned.identities.items() if used_ms < window_ms]:
                del owned.identities[key]  # as the next batch would
        assert kept(machine.state) == wanted
    return wanted


def exceeded(refused: Refused, kind: str, limit: int, owner: str = BILLING) -> None:
    assert refused.reason == QUOTA_EXCEEDED
    assert refused.metadata == {"quota": kind, "limit": str(limit), "principal": owner}


def test_one_queue_more_is_refused_for_good_until_one_is_deleted() -> None:
    driver = driver_of(queues=2)
    make(driver, "one")
    make(driver, "two")
    with pytest.raises(Refused, match="has 2 queues and may have 2") as caught:
        make(driver, "three")
    exceeded(caught.value, "queues", 2)
    assert caught.value.retry_after_ms is None, "nobody knows when"
    make(driver, "three", SHOP)  # nobody else is held back
    driver.queue(DELETE, "one")
    make(driver, "four")
    assert agree(driver) == {BILLING: (2, 0, 0), SHOP: (1, 0, 0)}


def test_each_that_has_no_quota_of_its_own_has_that_of_everybody() -> None:
    driver = driver_of(KeptQuota(queues=1), queues=2)
    for name, owner in (("one", BILLING), ("two", BILLING), ("three", SHOP)):
        make(driver, name, owner)
    with pytest.raises(Refused) as caught:
        make(driver, "four", SHOP)
    exceeded(caught.value, "queues", 1, SHOP)
    make(driver, "five", "")
    make(driver, "six", "")


def test_what_the_manager_makes_for_itself_counts_and_is_not_held_back() -> None:
    driver = driver_of(queues=1)
    make(driver, "q", max_deliveries=1)
    driver.queue(record_pb2.QUEUE_ACTION_CREATE, "q.dead", config=QueueConfig(owner=BILLING))
    assert agree(driver) == {BILLING: (2, 0, 0)}


def test_a_queue_that_is_given_to_somebody_counts_there_with_all_in_it() -> None:
    driver = driver_of(queues=1)
    make(driver, "q", "")
    driver.enqueue(batch_of([10] * 3, queue="q"), client_id=b"one")
    driver.queue(UPDATE, "q", config=QueueConfig(owner=BILLING))
    given_to = agree(driver)
    assert given_to[BILLING][0] == 1
    assert given_to[BILLING][2] == 1, "who sends there"
    make(driver, "other", SHOP)
    with pytest.raises(Refused) as caught:
        driver.queue(UPDATE, "other", config=QueueConfig(owner=BILLING))
    exceeded(caught.value, "queues", 1)
    driver.queue(UPDATE, "q", config=QueueConfig(), mask=["owner"])
    assert agree(driver) == {SHOP: (1, 0, 0)}


def test_an_owner_is_a_principal_and_no_default() -> None:
    driver = driver_of()
    with pytest.raises(Refused, match="owner 'billing': write NAME"):
        make(driver, "q", "billing")
    call = DefaultsCall(QueueConfig(owner=BILLING), (), 0, b"", 0)
    refused = driver.refusal(lambda: plan_defaults(driver.master.state, driver.now_ms, call))
    assert (refused.reason, "no default" in refused.message) == (common_pb2.REASON_BAD_ATTRIBUTE, True)


def test_bytes_beyond_the_quota_are_refused_whole_and_let_in_when_some_have_left() -> None:
    driver = driver_of(stored=100)
    make(driver, "q")
    make(driver, "r")
    make(driver, "theirs", SHOP)
    driver.enqueue(batch_of([60], queue="q"), request_id=b"1")
    driver.enqueue(batch_of([40], queue="r"), request_id=b"2")
    with pytest.raises(Refused, match="hold 100 bytes and may hold 100") as caught:
        driver.enqueue(batch_of([1, 1], queue="r"), request_id=b"3")
    exceeded(caught.value, "stored", 100)
    assert caught.value.retry_after_ms == 1_000
    driver.enqueue(batch_of([500], queue="theirs"), request_id=b"4")
    driver.lease(1, name="q", immediate=True)
    driver.enqueue(batch_of([1, 1], queue="r"), request_id=b"3")
    assert agree(driver) == {BILLING: (2, 42, 0), SHOP: (1, 500, 0)}
    with pytest.raises(Refused, match="never fit") as caught:
        driver.enqueue(batch_of([101], queue="q"), request_id=b"5")
    assert caught.value.retry_after_ms is None


def test_a_repetition_is_answered_however_full_it_is() -> None:
    driver = driver_of(stored=100)
    make(driver, "q")
    driver.enqueue(batch_of([100], queue="q"), client_id=b"c", first_sequence=1)
    again = driver.plan_enqueue(batch_of([100], queue="q"), client_id=b"c", first_sequence=1)
    assert isinstance(again, Repeated)
    assert agree(driver) == {BILLING: (1, 100, 1)}


def test_a_queue_that_drops_its_head_lets_in_what_takes_the_place_of_others() -> None:
    driver = driver_of(stored=100)
    make(driver, "q", overflow="OVERFLOW_DROP_HEAD", max_length=2, max_message_bytes=100)
    driver.enqueue(batch_of([50, 50], queue="q"), request_id=b"1")
    driver.enqueue(batch_of([50], queue="q"), request_id=b"2")
    assert agree(driver) == {BILLING: (1, 100, 0)}


def unit(driver: Driver, puts: list[tuple[str, int]], settles: list[QueueSettling] | None = None) -> None:
    call = UnitCall(
        settles or [],
        [QueuePut(queue, columns_of(batch_of([size], queue=queue))) for queue, size in puts],
        "a",
        b"unit",
        0,
    )
    driver.order(driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, call)))


def test_a_unit_is_counted_whole_with_what_it_takes_out() -> None:
    driver = driver_of(stored=100)
    make(driver, "q")
    make(driver, "r")
    driver.enqueue(batch_of([60], queue="q"), request_id=b"1")
    with pytest.raises(Refused) as caught:
        unit(driver, [("q", 30), ("r", 30)])
    exceeded(caught.value, "stored", 100)
    lease_id, _ = driver.lease(1, name="q")
    settlement = queue_service_pb2.Settlement(lease_id=lease_id, outcome=ACK, ranges=ranges_of((1, 1)))
    unit(driver, [("q", 50), ("r", 50)], [QueueSettling("q", [settlement])])
    assert agree(driver) == {BILLING: (2, 100, 0)}


def macro_over(driver: Driver, policy: MacroPolicy, *members: str) -> Callable[[int], EnqueuePlan]:
    """What sends 60 bytes to it, by a number."""
    state = driver.master.state
    made = MacroCall(CREATE, "all", b"", 0, relationship=RELATIONSHIP_PRODUCER, policy=policy)
    for call in (made, *(MacroCall(ADD, "all", b"", 0, queue=name) for name in members)):
        driver.order(driver.plan(lambda call=call: plan_macro(state, driver.now_ms, call)))  # type: ignore[misc]

    def sent(number: int) -> EnqueuePlan:
        call = EnqueueCall("all", b"p", number, columns_of(batch_of([60], queue="all")), "a")
        plan: EnqueuePlan = driver.plan(lambda: plan_deal(state, driver.now_ms, state.macros.by_name["all"], call))
        return plan

    return sent


def test_what_a_macro_queue_deals_counts_at_its_members() -> None:
    driver = driver_of(stored=100)
    make(driver, "q")
    sent = macro_over(driver, MACRO_POLICY_ROUND_ROBIN, "q")
    plan = sent(1)
    assert isinstance(plan, Fresh)
    driver.order(plan.header)
    assert agree(driver) == {BILLING: (1, 60, 0)}
    exceeded(driver.refusal(lambda: sent(2)), "stored", 100)


@pytest.mark.parametrize(
    "policy",
    [
        MACRO_POLICY_ROUND_ROBIN,
        MACRO_POLICY_FIRST_AVAILABLE,
        MACRO_POLICY_SHORTEST_QUEUE,
        MACRO_POLICY_FASTEST_RESPONSE,
        MACRO_POLICY_DUPLICATE_BEST_EFFORT,
    ],
)
def test_a_member_whose_owner_may_store_no_more_is_passed_over(policy: MacroPolicy) -> None:
    driver = driver_of(KeptQuota(stored=250), stored=100)
    make(driver, "q")
    make(driver, "r")
    make(driver, "s", SHOP)
    sent = macro_over(driver, policy, "q", "r", "s")
    most = 4 if policy == MACRO_POLICY_DUPLICATE_BEST_EFFORT else 5
    for number in range(1, most + 1):
        plan = sent(number)
        assert isinstance(plan, Fresh)
        driver.order(plan.header)
    assert {name: size for name, (_, size, _) in agree(driver).items()} == {BILLING: 60, SHOP: 240}
    refused = driver.refusal(lambda: sent(most + 1))
    assert (refused.reason, refused.metadata["quota"]) == (QUOTA_EXCEEDED, "stored")


@pytest.mark.parametrize("policy", [MACRO_POLICY_DUPLICATE, MACRO_POLICY_BY_GROUP])
def test_what_is_for_the_one_member_or_for_all_is_refused_where_that_ones_owner_may_store_no_more(
    policy: MacroPolicy,
) -> None:
    driver = driver_of(stored=50)
    make(driver, "q")
    sent = macro_over(driver, policy, "q")
    exceeded(driver.refusal(lambda: sent(1)), "stored", 50)


def test_a_reaction_that_makes_messages_larger_finds_no_more_room_than_a_send() -> None:
    driver = driver_of(stored=100)
    make(driver, "q", reactions_enabled=True)
    driver.enqueue(batch_of([60], queue="q"), request_id=b"1")
    queue_id, state = driver.master.state.named("q").queue_id, driver.master.state

    def changed(size: int, request_id: bytes) -> record_pb2.RecordHeader:
        copies = Copies("q", columns_of(batch_of([size], queue="q")), (0,), (0,), (1,), queue_id)
        call = ReactCall(queue_id, (1,), record_pb2.ReactionCounts(applied=1), request_id, 0, (copies,))
        header: record_pb2.RecordHeader = driver.plan(lambda: plan_react(state, driver.now_ms, call))
        return header

    exceeded(driver.refusal(lambda: changed(101, b"2")), "stored", 100)
    driver.order(changed(100, b"3"))
    assert agree(driver) == {BILLING: (1, 100, 0)}


def test_who_has_sent_to_a_queue_that_is_gone_counts_no_more() -> None:
    driver = driver_of(identities=1)
    make(driver, "q")
    make(driver, "r")
    driver.enqueue(batch_of([1], queue="q"), client_id=b"one")
    driver.queue(DELETE, "q")
    assert agree(driver) == {BILLING: (1, 0, 0)}
    driver.enqueue(batch_of([1], queue="r"), client_id=b"two")
    assert agree(driver) == {BILLING: (1, 1, 1)}


def test_a_dead_letter_queue_has_the_owner_of_its_queue() -> None:
    assert dead_letter_config(QueueConfig(owner=BILLING)).owner == BILLING


def test_rows_are_counted_when_they_are_published() -> None:
    driver = driver_of(stored=100)
    make(driver, "q")
    columns = columns_of(batch_of([70], queue="q"))
    state = driver.master.state
    for number in (1, 2):
        stage_id = bytes([number]) * 16
        part = StageCall(stage_id, 1, "q", columns, 0, number, "a")
        driver.order(driver.plan(lambda part=part: plan_stage(state, driver.now_ms, part)))  # type: ignore[misc]
    call = PublishCall("w", "run", 1, [b"\1" * 16], "a")
    driver.order(driver.plan(lambda: plan_publish(state, driver.now_ms, call)).header)
    assert agree(driver)[BILLING][:2] == (1, 70)
    driver.order(driver.plan(lambda: plan_staged(state, driver.now_ms, columns)))
    assert agree(driver)[BILLING][:2] == (1, 70)
    refused = driver.refusal(lambda: plan_publish(state, driver.now_ms, PublishCall("w", "run", 2, [b"\2" * 16], "a")))
    exceeded(refused, "stored", 100)


def test_one_client_more_is_refused_until_one_has_been_silent_for_the_window() -> None:
    driver = driver_of(identities=2)
    make(driver, "q")
    make(driver, "r")
    start_ms = driver.now_ms
    driver.enqueue(batch_of([1], queue="q"), client_id=b"one", first_sequence=1)
    driver.now_ms += 1_000
    driver.enqueue(batch_of([1], queue="r"), client_id=b"one", first_sequence=1)
    with pytest.raises(Refused, match="use fewer client ids") as caught:
        driver.enqueue(batch_of([1], queue="q"), client_id=b"two", first_sequence=1)
    exceeded(caught.value, "identities", 2)
    window_ms = driver.limits.dedup_window_ms
    assert caught.value.retry_after_ms == start_ms + window_ms - driver.now_ms + 1
    driver.enqueue(batch_of([1], queue="r"), client_id=b"one", first_sequence=2)  # who is known goes on
    driver.enqueue(batch_of([1], queue="q"), request_id=b"unary")  # a call has no identity of its own
    assert agree(driver) == {BILLING: (2, 4, 2)}
    driver.now_ms = start_ms + window_ms + 1
    driver.enqueue(batch_of([1], queue="q"), client_id=b"two", first_sequence=1)
    assert agree(driver) == {BILLING: (2, 5, 2)}
    with pytest.raises(Refused):  # it is remembered still, and would be one more within the window
        driver.enqueue(batch_of([1], queue="q"), client_id=b"one", first_sequence=2)


def of_older_version() -> type[Message]:
    """QueueConfig as a version had it that knows no owner."""
    pool, added = descriptor_pool.DescriptorPool(), set[str]()

    def add(file: FileDescriptor) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for each in file.dependencies:
            add(each)
        made = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(made)
        for message in made.message_type:
            if message.name == "QueueConfig":
                place = [field.name for field in message.field].index("owner")
                del message.field[place]
        pool.AddSerializedFile(made.SerializeToString())

    add(QueueConfig.DESCRIPTOR.file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tandemq.v1.QueueConfig"))


def test_a_member_of_an_older_version_keeps_whose_it_is_and_has_the_same_digest() -> None:
    kind = of_older_version()
    config = QueueConfig(owner=BILLING, max_length=7, labels={"one": "1"}, lockstep="LOCKSTEP_PLAIN")
    older, copy = kind.FromString(config.SerializeToString()), kind()
    assert not hasattr(older, "owner")
    copy.CopyFrom(older)
    merged = kind()
    merged.MergeFrom(copy)
    merged.max_length = 8  # type: ignore[attr-defined]  # of a class that is made here
    config.max_length = 8
    assert merged.SerializeToString(deterministic=True) == config.SerializeToString(deterministic=True)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("make", "send", "take", "purge", "delete", "give", "wait")),
        st.integers(0, 2),
        st.sampled_from((BILLING, SHOP, "")),
        st.integers(0, 3),
    ),
    max_size=25,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_it_is_the_sum_of_what_it_follows_from_whatever_happens(steps: list[tuple[str, int, str, int]]) -> None:
    driver = Driver(Limits(dedup_window_ms=10_000, dedup_producers_max=3))
    for step, number, owner, amount in steps:
        name = f"q{number}"
        queue_id = driver.master.queue_id(name)
        if step == "wait":
            driver.now_ms += amount * 4_000
        elif queue_id is None:
            make(driver, name, owner)
        elif step == "send":
            driver.enqueue(batch_of([amount, 2], queue=name), client_id=b"c%d" % amount)
        elif step == "take":
            driver.lease(1, name=name, immediate=True)
        elif step == "purge":
            driver.queue(record_pb2.QUEUE_ACTION_PURGE, name)
        elif step == "delete":
            driver.queue(DELETE, name)
        elif step == "give":
            driver.queue(UPDATE, name, config=QueueConfig(owner=owner), mask=["owner"])
        agree(driver)
