"""The steps of administrators: queues come, change, open, close and go, and get other names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from google.protobuf.message import Message as Proto

from tandemq.client.calls import ADMIN_SERVICE
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1 import queue_service_pb2 as service_pb2
from tests.support.listed import model
from tests.support.listed.messages import ALIASES, ASIDE, NAMES, target
from tests.support.listed.model import SIZE_MAX, Attributes, Queue, Refusal
from tests.support.listed.reaction_model import KEPT, end_kept
from tests.support.listed.run import Asked, Run, different, picture, view
from tests.support.listed.steps import Step

FURTHER = "q2"
FOREVER_S = 10 * 86_400
"""How long ids and ends are remembered: longer than any run."""
CONFIGS = (
    Attributes(max_deliveries=2),
    Attributes(kind=model.TWO_WAY, dead_letters=False, reply_ms=9_000),
    Attributes(kind=model.ONE_WAY_ACK, max_deliveries=1, max_length=6),
    Attributes(max_length=4, drops=True, retry_ms=(2_000, 3_000)),
    Attributes(dedup_max=3, lease_ms=5_500, dead_letters=False),
    Attributes(kind=model.ONE_WAY_ACK, max_length=4, drops=True, immediate=True),
    Attributes(kind=model.ONE_WAY_ACK, ttl_ms=8_000, max_deliveries=3, retry_ms=(2_500, 2_500)),
)
CONFIG_ASIDE = Attributes(max_length=14, dead_letters=False)


def config_of(wanted: Attributes) -> pb.QueueConfig:
    config = pb.QueueConfig(
        queue_type=f"QUEUE_TYPE_{wanted.kind}",
        max_length=wanted.max_length,
        max_message_bytes=SIZE_MAX,
        overflow=pb.OVERFLOW_DROP_HEAD if wanted.drops else pb.OVERFLOW_REJECT,
        max_deliveries=wanted.max_deliveries,
        dedup_max=wanted.dedup_max,
        dedup_window={"seconds": FOREVER_S},
        completion_retention={"seconds": FOREVER_S},
        enqueue_enabled=wanted.enqueue_enabled,
        dequeue_enabled=wanted.dequeue_enabled,
        reactions_enabled=wanted.reactions,
    )
    if not wanted.dead_letters:
        config.dead_letter_queue = ""
    if wanted.immediate:
        config.default_settle = service_pb2.SETTLE_MODE_IMMEDIATE
    times = {
        "lease_duration": wanted.lease_ms,
        "default_ttl": wanted.ttl_ms,
        "reply_timeout": wanted.reply_ms,
        "retry_delay_min": wanted.retry_ms[0],
        "retry_delay_max": wanted.retry_ms[1],
    }
    for name, ms in times.items():
        if ms:
            getattr(config, name).FromMilliseconds(ms)
    return config


def _change(
    run: Run, step: Step, method: str, request: Proto, reply: type[Proto], text: str, do: Callable[[], Queue | None]
) -> Asked | None:
    """A call that changes a queue, carried out by `do`; None: it was refused. Says afterwards what the queue is."""
    call = ADMIN_SERVICE + method, request, reply
    asked = run.ask(step.via, *call, text)
    try:
        queue = do()
    except Refusal as refusal:
        run.refused(asked, refusal)
        return None
    run.answered(asked)
    if not run.struck:
        run.equal("a repetition", asked.reply.duplicate, False)
    if queue is not None:
        run.touched.add(queue.name)
        _check_told(run, asked, queue)

    def check(again: Asked) -> None:
        run.answered(again)
        run.equal("a repetition", again.reply.duplicate, True)
        run.equal("how many were removed", removed_of(again), removed_of(asked))

    # It says what the queue is now, so the name must still lead to it.
    run.record(call, text, check, lambda: queue is None or run.model.find(getattr(request, "name", "")) is queue)
    return asked


def removed_of(asked: Asked) -> int:
    return int(getattr(asked.reply, "removed", 0))


def _check_told(run: Run, asked: Asked, queue: Queue) -> None:
    """A reply that says what the queue is now."""
    if "queue" in asked.reply.DESCRIPTOR.fields_by_name and not run.struck:
        run.equal("what is told of it", *different(view(asked.reply.queue), picture(queue)))


def create(run: Run, step: Step) -> None:
    which, kind, how = step.numbers
    # Mostly a further one; the two that there are get a successor when they are deleted.
    name = (FURTHER, FURTHER, FURTHER, *NAMES, ALIASES[0], ASIDE)[which % 7]
    make(run, step, name, kind, configuring=how % 2 == 1)


def make(run: Run, step: Step, name: str, kind: int, *, configuring: bool = False) -> None:
    wanted = CONFIG_ASIDE if name == ASIDE else CONFIGS[kind % len(CONFIGS)]
    request = pb.CreateQueueRequest(
        name=name, request_id=run.request_id(), config=config_of(wanted), configuring=configuring
    )

    def do() -> Queue:
        run.model.check_free(name)
        queue = Queue(name, replace(wanted), state="CONFIGURING" if configuring else "OPEN")
        run.model.queues[name] = queue
        return queue

    _change(run, step, "CreateQueue", request, pb.CreateQueueResponse, f"create {name}, {wanted}", do)


def delete(run: Run, step: Step) -> None:
    of, if_empty, rare = step.numbers
    name = target(run, of)
    # A queue that is gone is one about which little can be asked: mostly one comes after it.
    request = pb.DeleteQueueRequest(name=name, request_id=run.request_id(), if_empty=bool(if_empty % 3))
    removed = 0

    def do() -> None:
        nonlocal removed
        queue = run.model.named(name)
        if request.if_empty and queue.messages:
            raise Refusal("NOT_EMPTY")
        removed = len(queue.messages)
        end_kept(run.model, queue)
        run.touched.add(KEPT + queue.name)
        del run.model.queues[queue.name]

    text = f"delete {name}{' if it is empty' if request.if_empty else ''}"
    asked = _change(run, step, "DeleteQueue", request, pb.DeleteQueueResponse, text, do)
    if asked is not None:
        run.equal("how many were removed", removed_of(asked), removed)
        if name in NAMES and rare % 4:
            make(run, step._replace(fault=None), name, rare, configuring=rare % 5 == 1)


def purge(run: Run, step: Step) -> None:
    of, kept, _ = step.numbers
    name = target(run, of)
    if kept % 3 == 0 and KEPT + name in run.model.queues:
        name = KEPT + name  # what is kept ends so
    request = pb.PurgeQueueRequest(name=name, request_id=run.request_id())
    removed = 0

    def do() -> Queue:
        nonlocal removed
        queue = run.model.named(name)
        gone = queue.unleased()
        removed = len(gone)
        queue.totals.purged += removed
        for index in gone:
            queue.end(index, "PURGED")
        return queue

    asked = _change(run, step, "PurgeQueue", request, pb.PurgeQueueResponse, f"purge {name}", do)
    if asked is not None:
        run.equal("how many were removed", removed_of(asked), removed)


def _toggled(queue: Queue | None, name: str) -> bool:
    return queue is None or not getattr(queue.config, name)


def _is_on(queue: Queue) -> bool:
    return queue.config.enqueue_enabled and queue.config.dequeue_enabled


def update(run: Run, step: Step) -> None:
    """One attribute; now and then of another version than the queue's, or one that is fixed."""
    of, what, how = step.numbers
    name = target(run, of)
    still = [queue.name for queue in run.model.queues.values() if not _is_on(queue) and not queue.name.startswith(KEPT)]
    if still and how % 4:
        name = still[0]
    known = run.model.find(name)
    changes: tuple[tuple[str, Any], ...] = (
        ("max_length", 3 + how % 6),
        ("enqueue_enabled", _toggled(known, "enqueue_enabled")),
        ("dequeue_enabled", _toggled(known, "dequeue_enabled")),
        ("drops", _toggled(known, "drops")),
        ("lease_ms", 5_000 + 500 * (how % 9)),
        ("max_deliveries", how % 4),
        ("reactions", _toggled(known, "reactions")),
        ("kind", model.TWO_WAY),
    )
    # What is off is soon on again.
    off = [
        change for change in (*changes[1:3], changes[6]) if known is not None and not getattr(known.config, change[0])
    ]
    attribute, value = off[0] if off and how % 3 else changes[what % len(changes)]
    version = known.version if known is not None else 1
    expected = (0, 0, version, version, version + 1)[how % 5]
    request = pb.UpdateQueueRequest(name=name, request_id=run.request_id(), expected_version=expected)
    request.config.CopyFrom(_only(attribute, value))

    def do() -> Queue:
        queue = run.model.named(name)
        if expected not in (0, queue.version):
            raise Refusal("VERSION_MISMATCH")
        if attribute == "kind":
            if queue.state != "CONFIGURING":
                raise Refusal("READ_ONLY")
            raise Refusal("BAD_ATTRIBUTE")  # see below
        setattr(queue.config, attribute, value)
        queue.version += 1
        return queue

    if attribute == "kind" and known is not None and known.state == "CONFIGURING":
        run.tell("   its type could be changed: not tried")
        return
    text = f"update {name}: {attribute} {value}, version {expected}"
    _change(run, step, "UpdateQueue", request, pb.UpdateQueueResponse, text, do)


def _only(attribute: str, value: Any) -> pb.QueueConfig:
    if attribute == "drops":
        return pb.QueueConfig(overflow=pb.OVERFLOW_DROP_HEAD if value else pb.OVERFLOW_REJECT)
    if attribute == "kind":
        return pb.QueueConfig(queue_type=f"QUEUE_TYPE_{value}")
    if attribute == "lease_ms":
        config = pb.QueueConfig()
        config.lease_duration.FromMilliseconds(value)
        return config
    return pb.QueueConfig(**{"reactions_enabled" if attribute == "reactions" else attribute: value})


def alias(run: Run, step: Step) -> None:
    of, which, how = step.numbers
    other = ALIASES[which % len(ALIASES)]
    there = sorted(name for queue in run.model.queues.values() for name in queue.aliases)
    if how % 9 == 0 or (there and how % 3):
        _delete_alias(run, step, there[which % len(there)] if there and how % 3 else other)
        return
    name = target(run, of)
    request = pb.CreateAliasRequest(alias=other, request_id=run.request_id(), name=name)

    def do() -> Queue:
        run.model.check_free(other)
        queue = run.model.named(name)
        if queue.name != name:
            raise Refusal("BAD_NAME")
        queue.aliases.add(other)
        return queue

    _change(run, step, "CreateAlias", request, pb.CreateAliasResponse, f"{other} is another name of {name}", do)


def _delete_alias(run: Run, step: Step, other: str) -> None:
    request = pb.DeleteAliasRequest(alias=other, request_id=run.request_id())

    def do() -> None:
        queue = run.model.named(other)
        if queue.name == other:
            raise Refusal("BAD_NAME")
        queue.aliases.remove(other)
        run.touched.add(queue.name)

    _change(run, step, "DeleteAlias", request, pb.DeleteAliasResponse, f"no other name {other}", do)


def state(run: Run, step: Step) -> None:
    """Configure, open or close: what the state does not expect is refused (R095)."""
    of, what, _ = step.numbers
    name = target(run, of)
    known = run.model.find(name)
    closed = [queue.name for queue in run.model.queues.values() if queue.state != "OPEN"]
    if run.model.find(FURTHER) is None and not what % 3:
        make(run, step._replace(fault=None), FURTHER, of, configuring=True)  # one that can be configured
        name = FURTHER
        known = run.model.find(name)
    elif closed and what % 4:
        name = closed[0]
        known = run.model.find(name)
    likely = {"CONFIGURING": "configure", "CONFIGURED": "open", "CLOSED": "open"}
    usual = likely.get(known.state, "close") if known is not None else "open"
    kind = (usual, usual, usual, usual, "open", "configure", "close")[what % 7]
    STATES[kind](run, step, name)


def _move(run: Run, step: Step, name: str, method: str, kind: str, moves: dict[str, str]) -> None:
    request = getattr(pb, f"{method}Request")(name=name, request_id=run.request_id())

    def do() -> Queue:
        queue = run.model.named(name)
        if queue.state not in moves:
            raise Refusal("INVALID_STATE")
        queue.state = moves[queue.state]
        return queue

    _change(run, step, method, request, getattr(pb, f"{method}Response"), f"{kind} {name}", do)


STATES: dict[str, Callable[[Run, Step, str], None]] = {
    "configure": lambda run, step, name: _move(
        run, step, name, "ConfigureQueue", "configure", {"CONFIGURING": "CONFIGURED"}
    ),
    "open": lambda run, step, name: _move(
        run, step, name, "OpenQueue", "open", {"CONFIGURED": "OPEN", "CLOSED": "OPEN"}
    ),
    "close": lambda run, step, name: _move(run, step, name, "CloseQueue", "close", {"OPEN": "CLOSED"}),
}


def look(run: Run, step: Step) -> None:
    """At one queue, through whichever member."""
    name = target(run, step.numbers[0])
    call = ADMIN_SERVICE + "GetQueue", pb.GetQueueRequest(name=name), pb.GetQueueResponse
    asked = run.ask(step.via, *call, f"look at {name}")
    queue = run.model.find(name)
    if queue is None:
        run.refused(asked, Refusal("QUEUE_NOT_FOUND"))
        return
    run.answered(asked)
    run.equal("what is told of it", *different(view(asked.reply.queue), picture(queue)))
