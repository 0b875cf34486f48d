"""Knows where a queue's dead letters go, and refuses names that would bring them back; moves nothing.

A message dies when a consumer rejects it, or when it was delivered too often. Where there is no dead-letter queue, a
rejected message is removed, and no number of failed deliveries ends a message: a crash never loses one.
"""

from __future__ import annotations

from replica.machine.state.errors import Refused, Unseen
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

SUFFIX = ".dead"
OF_PRODUCERS = "a queue with replication PRODUCER takes messages of producers alone"
HOPS_MAX = 8  # moves by the manager that one message may have behind it
REASON_BYTES_MAX = 1_024


def name_of(queue: str, config: admin_pb2.QueueConfig) -> str:
    """Empty: there is none."""
    return config.dead_letter_queue if config.HasField("dead_letter_queue") else queue + SUFFIX


def dead_letter_name(queue: QueueState) -> str:
    return name_of(queue.name, queue.config)


def deliveries_max(queue: QueueState) -> int:
    """0: no limit."""
    limit = queue.config.max_deliveries
    return limit if limit and dead_letter_name(queue) else 0


def check_way(state: State, name: str, config: admin_pb2.QueueConfig) -> None:
    """Refused: dead letters would go where none may enter, or come back to where they died, for ever, or until the
    limit of hops.
    """
    way = [name]
    following = name_of(name, config)
    if why := _why_not_into(state, following):
        text = f"dead_letter_queue: {following} {why}; name another one, or none (empty)"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, {"attribute": "dead_letter_queue"})
    while following and len(way) <= HOPS_MAX:
        queue_id = state.ids.get(following)
        if queue_id is not None:
            following = state.queues[queue_id].name  # it may have been named by an alias
        way.append(following)
        if following == name:
            advice = "name another dead_letter_queue, or none (empty)"
            raise Refused(
                common_pb2.REASON_CONFIG_ERROR,
                f"dead letters would come back: {' -> '.join(way)}; {advice}",
                unseen=Unseen(tuple(way), f"dead letters would come back to {name}; {advice}"),
            )
        following = "" if queue_id is None else dead_letter_name(state.queues[queue_id])


def _why_not_into(state: State, name: str) -> str:
    taking = state.queues.get(state.ids.get(name, 0))
    if taking is not None and taking.passed is not None:
        return "has replication PRODUCER and takes messages of producers alone"
    if name in state.macros.by_name:
        return "is a macro queue, and dead letters go to one queue"
    if (proxy := state.proxies.by_name.get(name)) is not None:
        return f"is a proxy of {proxy.target}, and dead letters stay with their manager"
    return ""


def check_taken(state: State, name: str, what: str) -> None:
    """Refused: what is to have that name takes no dead letters, and those of a queue go there.

    `what`: for people, what it is and why it takes none.
    """
    whose = next((each.name for each in state.queues.values() if dead_letter_name(each) == name), None)
    if whose is not None:
        text = (
            f"dead letters of queue {whose} go to {name}, and {what}; choose another name, or name another "
            f"dead_letter_queue for {whose}"
        )
        unseen = Unseen((whose,), f"dead letters of another queue go to {name}, and {what}; choose another name")
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, {"queue": whose}, unseen=unseen)


def check_alias(state: State, alias: str, queue: QueueState) -> None:
    """Refused: with this name for the queue its dead letters, or those that reach it, would come back."""
    way = [queue.name]
    following = dead_letter_name(queue)
    while following and following != alias and len(way) <= HOPS_MAX:
        queue_id = state.ids.get(following)
        way.append(following)
        following = "" if queue_id is None else dead_letter_name(state.queues[queue_id])
    if following == alias:
        text = (
            f"dead letters would come back: {' -> '.join(way)} -> {alias}, which is to be {queue.name}; choose another "
            f"alias, or name another dead_letter_queue for {way[-1]}"
        )
        unseen = Unseen(tuple(way), f"dead letters would come back by {alias}, which is to be {queue.name}")
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, {"queue": way[-1]}, unseen=unseen)


def dead_letter_config(source: admin_pb2.QueueConfig) -> admin_pb2.QueueConfig:
    """Of a dead-letter queue that is made when first needed: what died keeps its persistence and does not die again."""
    persistent = source.persistence == admin_pb2.PERSISTENCE_PERSISTENT
    return admin_pb2.QueueConfig(
        persistence=admin_pb2.PERSISTENCE_PERSISTENT if persistent else admin_pb2.PERSISTENCE_CONDITIONAL,
        replication=source.replication,
        domain=source.domain,
        max_length=source.max_length,
        max_bytes=source.max_bytes,
        max_message_bytes=source.max_message_bytes,
        queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY_QUEUED_ACK,
        overflow=admin_pb2.OVERFLOW_REJECT,
        group_mode=admin_pb2.GROUP_MODE_NONE,
        default_settle=service_pb2.SETTLE_MODE_LEASE,
        default_ttl={"seconds": 0},
        enqueue_enabled=True,
        dequeue_enabled=True,
        max_deliveries=0,
        dead_letter_queue="",
        empty_idle_expiry={"seconds": 0},
        owner=source.owner,
    )
