"""Two states compared in all that they hold, not only in what a snapshot says of them; one with everything in it.

What a machine remembers for speed alone, or of what is over, is compared by what it answers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import Message as ProtobufMessage

from replica.machine import (
    BatchCall,
    EnqueueCall,
    Fresh,
    Limits,
    Machine,
    MacroCall,
    ProxyCall,
    PublishCall,
    PublishWeightsCall,
    QueuePut,
    ReaderPlace,
    RegisterCall,
    ReplyCall,
    RightCall,
    StageCall,
    UnitCall,
    UnitIdentity,
    Window,
    columns_of,
)
from replica.machine.features.batches import plan_batch
from replica.machine.features.macros import ADD, CREATE, plan_macro
from replica.machine.features.proxies import CREATE as PROXY
from replica.machine.features.proxies import plan_proxy
from replica.machine.features.readers import plan_lose, plan_register
from replica.machine.features.rights import plan_right
from replica.machine.features.weights import plan_publish_weights
from replica.machine.plan.deal import plan_deal
from replica.machine.plan.lock import LockCall, plan_lock
from replica.machine.plan.names import AliasCall, DefaultsCall, plan_alias, plan_defaults
from replica.machine.plan.react import Copies, DeniedHit, ReactCall, plan_deny, plan_keep, plan_react
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.selecting import plan_select
from replica.machine.plan.sides import next_given, plan_given, plan_lost, plan_passed, plan_side
from replica.machine.plan.stage import plan_publish, plan_stage, plan_staged
from replica.machine.plan.time import next_due_ms
from replica.machine.plan.unit import plan_unit
from replica.machine.sets.pages import PagedSet
from replica.machine.sets.ranges import RangeSet
from replica.machine.sets.spans import Spans
from replica.machine.state.completions import Deadlines
from replica.machine.state.lockstep import SideOf
from replica.machine.state.requests import Requests
from replica.machine.state.segments import Segments
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.peer.v1.record_pb2 import KEPT_BY_GROUP, KEPT_BY_ID, KEPT_BY_SELECTOR, KeptKey, ReactionCounts
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2
from tandemq.v1.macro_service_pb2 import (
    MACRO_POLICY_ROUND_ROBIN,
    RELATIONSHIP_CONSUMER,
    RELATIONSHIP_PRODUCER,
)
from tests.unit.replica.machine.driver import ACK, REJECT, Driver, batch_of, ranges_of

# Caches, callbacks and what another member may have seen more or less of.
LEFT_OUT = {
    "row",
    "_owner",
    "_limits",
    "limits",
    "changes",
    "listening",
    "heard",
    "visible_index",
    "pending",
    "selecting",
    "idle",
} | {"in_force"}
SCHEDULES = (
    "early_ends",
    "other_ends",
    "lease_ends",
    "message_ends",
    "reply_ends",
    "completion_ends",
    "delay_ends",
    "enabling",
    "stage_ends",
    "group_ends",
)
FAR_MS = 1 << 62
BILLING = "principal/billing"


def plain(value: Any) -> Any:
    """Numbers, texts, lists and dicts."""
    match value:
        case RangeSet() | PagedSet():
            return list(value.edges())
        case Spans():
            return list(value)
        case Segments():
            columns, extras = value.columns()
            return [list(column) for column in columns], {
                place: tuple(map(list, extra)) for place, extra in extras.items()
            }
        case Deadlines():
            return [list(column) for column in value.columns()]
        case Requests():
            return value.dump()
        case ProtobufMessage():
            return value.SerializeToString(deterministic=True)
        case OrderedDict():
            return [(plain(key), plain(each)) for key, each in value.items()]
        case Mapping():
            return {plain(key): plain(each) for key, each in value.items()}
        case set() | frozenset():
            return sorted(map(plain, value))
        case list() | tuple() | deque():
            return tuple(map(plain, value))
        case int() | float() | str() | bytes() | None:
            return value
    if hasattr(value, "typecode"):
        return list(value)
    return {name: plain(getattr(value, name)) for name in names_of(value)}


def names_of(value: Any) -> Iterator[str]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names += list(getattr(value, "__dict__", ()))
    assert names, f"what is a {type(value)}?"
    return (name for name in names if name not in LEFT_OUT)


def waiting(state: State) -> dict[str, Any]:
    """What is due one day, whatever entries the schedules have for it."""

    def indexes(runs: Any) -> set[int]:
        return {index for low, high in runs for index in range(low, high)}

    found: dict[str, Any] = {"next": next_due_ms(state)}
    found["leases"] = {(due.when_ms, due.ident) for due in state.lease_ends.due(FAR_MS)}
    found["expiries"] = {
        (due.when_ms, due.queue_id, index)
        for due in state.message_ends.due(FAR_MS)
        for index in indexes(state.expired_runs(due))
    }
    found["requests"] = {
        (due.when_ms, due.queue_id, index)
        for due in state.reply_ends.due(FAR_MS)
        for index in indexes(state.late_requests(due))
    }
    found["delays"] = {
        (due.when_ms, due.queue_id, index)
        for due in state.delay_ends.due(FAR_MS)
        for index in indexes([state.matured_run(due) or (0, 0)])
    }
    for name in ("completion_ends", "enabling", "stage_ends", "group_ends"):
        found[name] = {tuple(due) for due in getattr(state, name).due(FAR_MS)}
    found["idle"] = {queue.queue_id for queue in state.idle.due(FAR_MS, 1 << 30)}
    return found


def state_of(machine: Machine) -> dict[str, Any]:
    """All that it holds, and what it answers."""
    state = machine.state
    held = {name: plain(value) for name, value in vars(state).items() if name not in (*LEFT_OUT, *SCHEDULES)}
    answers = {
        queue_id: (
            [(part.first, part.count) for part in machine.browse(queue_id, 0, 0)],
            machine.has_ready(queue_id),
            machine.queue_info(queue.name, "a").SerializeToString(deterministic=True),
        )
        for queue_id, queue in state.queues.items()
    }
    return {"held": held, "waiting": waiting(state), "answers": answers, "live": list(machine.live_log_indexes())}


def everything() -> Driver:
    """Something of everything that a domain can hold."""
    driver = Driver(Limits(stages_max=10))
    driver.order(
        record_pb2.RecordHeader(time_ms=driver.now_ms, role=record_pb2.RoleOp(owner="a", history_id=b"h" * 16))
    )
    driver.create("gone")
    driver.send(3, queue="gone")
    driver.queue(record_pb2.QUEUE_ACTION_DELETE, "gone")
    order(driver, plan_defaults, DefaultsCall(admin_pb2.QueueConfig(annotation="of new ones"), (), 0, b"d" * 16, 1))
    for fill in (messages, lines_and_lives, requests, beside, stage, unit, reaction, sides):
        fill(driver)
    return driver


def order(driver: Driver, plan: Any, call: Any) -> None:
    driver.order(driver.plan(lambda: plan(driver.master.state, driver.now_ms, call)))


def messages(driver: Driver) -> None:
    """Ready, delayed, dying, settled; with priorities, times and dedup ids, on their way to become persistent."""
    driver.create(
        "plain",
        persistence=admin_pb2.PERSISTENCE_CONDITIONAL,
        max_message_bytes=20,
        max_deliveries=2,
        owner=BILLING,
    )
    order(driver, plan_alias, AliasCall("another", "plain", b"", 0))
    driver.enqueue(
        batch_of(
            [1, 21, 3, 4, 5],
            priorities=[1, 2, 3, 4, 9],
            persistence=[1, 1, 2, 1, 2],
            ttls_ms=[0, 0, 90_000, 0, 50_000],
            dedup_ids=["one", "two", "three", "four", "five"],
            queue="plain",
        )
    )
    driver.enqueue(batch_of([2, 2], dedup_ids=["three", "new"], queue="plain"), client_id=b"another")
    driver.enqueue(batch_of([2], queue="plain", delays_ms=[5_000]), request_id=b"r" * 16, request_hash=3)
    lease_id, indexes = driver.lease(3, name="plain", duration_ms=10)
    settle(driver, "plain", ACK, lease_id, indexes[0])
    driver.now_ms += 11
    driver.expire()
    lease_id, indexes = driver.lease(2, name="plain")
    settle(driver, "plain", REJECT, lease_id, indexes[0])
    driver.queue(
        record_pb2.QUEUE_ACTION_UPDATE,
        "plain",
        config=admin_pb2.QueueConfig(persistence=admin_pb2.PERSISTENCE_PERSISTENT),
        mask=["persistence"],
    )


def lines_and_lives(driver: Driver) -> None:
    """Groups of messages; queues that wait to be deleted, enabled or configured, and one that a member has not."""
    driver.create("lines", group_mode=admin_pb2.GROUP_MODE_ORDERED)
    driver.enqueue(
        batch_of([1] * 6, group_ids=["a", "a", "b", "", "b", "a"], queue="lines", delays_ms=[0, 0, 0, 0, 9, 0])
    )
    driver.lease(1, name="lines")
    driver.create("whole", group_mode=admin_pb2.GROUP_MODE_COMPLETE)
    driver.enqueue(
        batch_of(
            [1] * 5,
            group_ids=["a", "a", "b", "b", "c"],
            group_sequences=[2, 1, 1, 2, 2],
            lasts_in_group=[True, False, False, True, False],
            queue="whole",
            delays_ms=[0, 0, 9, 0, 0],
        )
    )
    driver.lease(1, name="whole")
    driver.create(
        "idle", empty_idle_expiry={"seconds": 90}, enqueue_enabled=False, enqueue_enabled_at={"seconds": 9_000}
    )
    driver.now_ms += 1_500
    driver.queue(record_pb2.QUEUE_ACTION_CLOSE, "idle", member="b")
    driver.queue(record_pb2.QUEUE_ACTION_CREATE, "new", config=admin_pb2.QueueConfig(), configuring=True)
    driver.queue(record_pb2.QUEUE_ACTION_DESTROY, "lines", member="b")


def requests(driver: Driver) -> None:
    """Answered, open and rejected ones; copies of answers that are owed."""
    driver.create("requests", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    batch = batch_of([1] * 5, queue="requests")
    batch.messages.reply_tos.extend(["", "plain", "plain", "lines", ""])
    driver.enqueue(batch)
    lease_id, _ = driver.lease(4, name="requests")
    for index, to in ((1, ""), (2, "plain"), (4, "lines")):
        driver.now_ms += 700
        header = driver.plan(
            lambda at=index: plan_reply(driver.master.state, driver.now_ms, ReplyCall("requests", lease_id, at, 1))
        )
        header.reply.reply_to, header.reply.correlation_id = to, f"c{index}" if to else ""
        driver.order(header)
    settle(driver, "requests", REJECT, lease_id, 3)


def beside(driver: Driver) -> None:
    """Readers, a numbered batch, weights, macro queues, a proxy."""
    for name in ("reader", "lost"):
        order(driver, plan_register, RegisterCall(name, ReaderPlace(3, 1, 2), 60_000, False, b"", 0))
    driver.order(driver.plan(lambda: plan_lose(driver.master.state, driver.now_ms, "lost", 5, "of a test")))
    order(driver, plan_batch, BatchCall("plain", "consumer", 4, 1, 1 << 40, 60_000))
    weights = [("plain", 0.5), ("lines", 2.0)]
    for right, pattern in ((1, "orders/**"), (5, "")):
        order(driver, plan_right, RightCall("billing", right, pattern, False, None, "principal/ops", b"", 0))
    order(driver, plan_publish_weights, PublishWeightsCall("t", weights, 0, 9_000, None, "me", Window(1, 2), b"", 0))
    for name, relationship in (("spread", RELATIONSHIP_PRODUCER), ("all", RELATIONSHIP_CONSUMER)):
        policy = MACRO_POLICY_ROUND_ROBIN
        order(driver, plan_macro, MacroCall(CREATE, name, b"", 0, relationship=relationship, policy=policy))
        order(driver, plan_macro, MacroCall(ADD, name, b"", 0, queue="plain", priority=3))
    order(driver, plan_proxy, ProxyCall(PROXY, "afar", b"", 0, target="//west/orders"))
    call = EnqueueCall("spread", b"p", 1, columns_of(batch_of([5], queue="spread", dedup_ids=["d"])), "a")
    dealt = plan_deal(driver.master.state, driver.now_ms, driver.master.state.macros.by_name["spread"], call)
    assert isinstance(dealt, Fresh)
    driver.order(dealt.header)


def settle(driver: Driver, name: str, outcome: queue_service_pb2.Outcome, lease_id: int, index: int) -> None:
    settlement = queue_service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of((index, index)), outcome=outcome)
    settlement.reason = "of a test" if outcome == REJECT else ""
    assert driver.settle(settlement, name=name)[0].settled == 1


def stage(driver: Driver) -> None:
    """A batch that is published, one of which a part has entered, one that waits for it, and rows that are staged."""
    state = driver.master.state

    def staged(number: int, part: int, name: str) -> None:
        columns = columns_of(batch_of([number] * 2, queue=name))
        call = StageCall(bytes([number]) * 16, part, name, columns, 50_000, number * 10 + part, "a")
        driver.order(driver.plan(lambda: plan_stage(state, driver.now_ms, call)))

    def publish(batch: int) -> None:
        call = PublishCall("writer", "query", batch, [bytes([batch]) * 16], "a")
        driver.order(driver.plan(lambda: plan_publish(state, driver.now_ms, call)).header)

    for number in (1, 2, 3, 4):
        driver.now_ms += 10
        for part, name in ((1, "target"), (2, "second"), (3, "target")):
            if state.ids.get(name) is None:
                driver.create(name)
            staged(number, part, name)
    publish(1)
    for _ in range(3):
        columns = columns_of(batch_of([1, 1]))
        driver.order(driver.plan(lambda columns=columns: plan_staged(state, driver.now_ms, columns)))
    publish(2)
    columns = columns_of(batch_of([2, 2]))
    driver.order(driver.plan(lambda: plan_staged(state, driver.now_ms, columns)))
    publish(3)
    driver.send(1, queue="target")


def unit(driver: Driver) -> None:
    """Messages of two queues in one record, of which an open unit has locked one."""
    for name in ("left", "right"):
        driver.create(name)
    columns = columns_of(batch_of([1, 2, 3], priorities=[1, 2, 3]))
    puts = [QueuePut("left", columns.part(0, 1)), QueuePut("right", columns.part(1, 2))]
    order(driver, plan_unit, UnitCall((), puts, "a", b"u" * 16, 1, UnitIdentity("writer of units", "query", 3, 0, 5)))
    driver.lease(1, name="right", unit=b"o" * 16, until_ms=driver.now_ms + 5_000)
    driver.enqueue(batch_of([1, 1], queue="left", delays_ms=[0, 5_000]))
    lock = LockCall([1, 3], b"o" * 16, b"client", driver.now_ms + 5_000)
    driver.order(driver.plan(lambda: plan_lock(driver.master.state, driver.now_ms, queue_of(driver, "left"), lock)))


def queue_of(driver: Driver, name: str) -> Any:
    queue_id = driver.master.queue_id(name)
    assert queue_id is not None
    return driver.master.queue(queue_id)


def sides(driver: Driver) -> None:
    """A queue with two sides, and, as in a member's own domain, a side: it was given messages and has leased some."""
    driver.create("both", replication=admin_pb2.REPLICATION_PRODUCER)
    driver.send(4, queue="both")
    state = driver.master.state
    queue = state.named("both")
    driver.order(driver.plan(lambda: plan_passed(state, driver.now_ms, queue, {"a": 3, "b": 1})))
    driver.order(driver.plan(lambda: plan_side(state, driver.now_ms, SideOf(7, b"h" * 16, queue.queue_id), queue, "b")))
    side = state.named("SYSTEM.SIDE/both")
    given = next_given(queue, side)
    assert given is not None
    driver.order(driver.plan(lambda: plan_given(state, driver.now_ms, side, given)))
    driver.lease(2, name="SYSTEM.SIDE/both")
    driver.create("chosen", replication=admin_pb2.REPLICATION_PRODUCER, lockstep=admin_pb2.LOCKSTEP_SELECTED)
    driver.enqueue(batch_of([1] * 5, queue="chosen", priorities=[4, 4, 9, 4, 1]))
    chosen = state.named("chosen")
    for until in (2, 4):
        driver.order(driver.plan(lambda until=until: plan_select(state, driver.now_ms, chosen, until, None)))
    driver.order(driver.plan(lambda: plan_passed(state, driver.now_ms, chosen, {"a": 3, "b": 1})))
    for name in ("one", "two"):
        driver.create(name, replication=admin_pb2.REPLICATION_PRODUCER)
        driver.send(2, queue=name)
        one = state.named(name)
        driver.order(driver.plan(lambda one=one: plan_passed(state, driver.now_ms, one, {"a": 2, "b": 1})))
        driver.order(driver.plan(lambda one=one: plan_lost(state, driver.now_ms, one, {"b": "it was away"})))
    driver.queue(record_pb2.QUEUE_ACTION_RESTART_SIDE, "two", member="b")
    of = SideOf(7, b"h" * 16, state.named("two").queue_id, 5)
    driver.order(driver.plan(lambda: plan_side(state, driver.now_ms, of, state.named("two"), "b")))


def reaction(driver: Driver) -> None:
    """One that removed something, one that changed something, some that are kept, and what they came to."""
    driver.create("reactive", reactions_enabled=True, queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY_ACK)
    driver.send(3, queue="reactive")
    queue_id = driver.master.queue_id("reactive")
    assert queue_id is not None
    order(driver, plan_react, ReactCall(queue_id, [1], ReactionCounts(applied=1, locked=2), b"R" * 16, 1))
    copies = [Copies("reactive", columns_of(batch_of([2])), [0], [0], [2], queue_id)]
    order(driver, plan_react, ReactCall(queue_id, [2], ReactionCounts(applied=1), b"C" * 16, 1, copies))
    driver.create("SYSTEM.REACTIVE/reactive", enqueue_enabled=False, dequeue_enabled=False)
    queue = driver.master.queue(queue_id)
    for number, key in enumerate(
        (KeptKey(by=KEPT_BY_ID, hashes=[7, 8]), KeptKey(by=KEPT_BY_GROUP, hashes=[7]), KeptKey(by=KEPT_BY_SELECTOR))
    ):
        keeps = plan_keep(driver.master.state, driver.now_ms, queue, key, columns_of(batch_of([1])))
        found = ReactionCounts(kept=True)
        order(driver, plan_react, ReactCall(queue_id, [], found, b"K" * 15 + bytes([number]), 1, keeps=[keeps]))
    store_id = driver.master.state.named("SYSTEM.REACTIVE/reactive").queue_id
    driver.order(
        driver.plan(
            lambda: plan_deny(driver.master.state, driver.now_ms, queue, [DeniedHit(store_id, 1, [(3, 4)])], ())
        )
    )
