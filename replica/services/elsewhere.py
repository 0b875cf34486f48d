"""Decides whether a full name is of a queue here, and what becomes of messages for a queue of another manager: they
enter the transmission queue for it (X2). Sends nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.duration_pb2 import Duration

from replica.core.messages.copies import HOPS, ORIGIN_QUEUE, REASON, TO, hops_of
from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, QueueDone
from replica.machine import QueueCall, Refused
from replica.machine.plan.dead_letters import HOPS_MAX
from replica.machine.state.system_names import DEAD, Destination, dead_queue, kept_queue, xmit_queue
from replica.node.members import LOCAL
from replica.services.answers import FutureWaiter
from tandemq.errors import TandemqError
from tandemq.finding.names import FullName, is_full, parse_queue
from tandemq.peer.v1.record_pb2 import QueueAction
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.outcomes import Moved
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import Message

DEDUP_ID = "tq_dedup_id"
"""Kept for the queue that the message is for: in the transmission queue it would meet those of others."""
LOOP_LIMIT = "LOOP_LIMIT"


class Onward(NamedTuple):
    """A queue of another manager."""

    target: Destination
    full_name: str

    @property
    def through(self) -> str:
        """The transmission queue."""
        return xmit_queue(self.target)


def onward_of(members: Members, name: str) -> Onward | str:
    """Where messages for it go: on, or into the queue here that is called so. Raises Refused (BAD_NAME)."""
    if not is_full(name):
        return name
    try:
        full = parse_queue(name)
    except TandemqError as error:
        raise Refused(Reason.REASON_BAD_NAME, error.message, error.metadata) from error
    if full.manager in (members.pair, members.member, members.peer) and full.manager:
        _check_domain(members, full)
        return full.queue
    if not full.manager:
        text = f"{name}: a manager sends on what names its manager; write //manager/queue"
        raise Refused(Reason.REASON_BAD_NAME, text, {"queue": name})
    return Onward(Destination(full.manager, full.domain), str(full))


def _check_domain(members: Members, full: FullName) -> None:
    """Of a queue here: a domain that the name gives must be its own."""
    if not full.domain:
        return
    if full.domain not in members.by_name:
        raise no_domain(members, full.domain)
    domain = members.of_queue(full.queue)
    machine = domain.shared.machine
    if domain.shared.name != full.domain and machine is not None and machine.knows(full.queue):
        text = f"{full}: queue {full.queue} is in domain {domain.shared.name}; leave {full.domain} out"
        raise Refused(Reason.REASON_CROSS_DOMAIN, text, {"queue": full.queue})


def in_other_domain(members: Members, queue: str, wanted: str) -> str:
    """Why what is asked for in one domain is none for that queue, and by which name messages are sent on to it."""
    there = members.of_queue(queue).shared.name
    if there == LOCAL:
        return f"queue {queue} is a member's own, to which no other manager sends on, and not in domain {wanted}"
    way = FullName(members.pair or members.member, queue, there)
    return f"queue {queue} is in domain {there}, and not in {wanted}; other managers send on to it by {way}"


def full_name_of(members: Members, queue: str) -> str:
    """By which other managers send on to a queue here."""
    there = members.of_queue(queue).shared.name
    plain = there in (members.home().shared.name, LOCAL)  # for a member's own there is none: it fails as it is
    return str(FullName(members.pair or members.member, queue, "" if plain else there))


def no_domain(members: Members, name: str) -> Refused:
    """Who names a domain that is not here."""
    known = ", ".join(sorted(members.by_name))
    text = f"there is no domain {name!r} here, only {known}; list it under [manager] domains on both members"
    return Refused(Reason.REASON_CONFIG_ERROR, text, {"domain": name})


def stamp(row: Message, onward: Onward) -> str:
    """Writes into the message where it goes; says into which queue here it enters.

    One that has come through too many managers goes no further: their resolvers lead in a circle (X5).
    """
    if hops_of(row) >= HOPS_MAX:
        row.properties[REASON].text = LOOP_LIMIT
        row.properties[ORIGIN_QUEUE].text = onward.full_name
        if not row.HasField("persistent"):
            row.persistent = True  # as it is on its way (X7)
        return DEAD
    row.properties[TO].text = onward.full_name
    if row.dedup_id:
        row.properties[DEDUP_ID].text = row.dedup_id
        row.ClearField("dedup_id")
    return onward.through


def next_hop(row: Message) -> None:
    """It is about to leave for another manager."""
    row.properties[HOPS].integer = hops_of(row) + 1


def letters_of(members: Members, domain: Domain) -> str:
    """The queue for dead letters of that domain."""
    return dead_queue("" if domain is members.home() else domain.shared.name)


async def ensure(
    members: Members, domain: Domain, name: str, target: Destination | None = None
) -> Failed | Moved | None:
    """Makes a queue of the manager's own where it is not there yet, at the serving master. `target`: where messages in
    it go; a manager that nobody knows gets no queue (MANAGER_NOT_FOUND).
    """
    machine = domain.shared.machine
    if machine is not None and machine.queue_id(name) is not None:
        return None
    if target and (problem := await problem_of_target(members, target)) is not None:
        return problem
    return await _make(members, domain, name, xmit_config(members, domain) if target else config_of(members, domain))


async def ensure_kept(members: Members, domain: Domain, queue: str) -> Failed | Moved | None:
    """Makes the queue of the reactions that are kept for one, where it is not there yet and that one allows reactions
    (V11). Nobody but the manager puts anything in, and nobody takes it out: it is read by browsing.
    """
    machine = domain.shared.machine
    queue_id = machine.queue_id(queue) if machine is not None else None
    if machine is None or queue_id is None:
        return None
    target = machine.queue(queue_id)
    if not target.config.reactions_enabled or machine.queue_id(kept_queue(target.name)) is not None:
        return None
    config = config_of(members, domain)
    kind = admin_pb2.QueueConfig(
        persistence=admin_pb2.PERSISTENCE_PERSISTENT,
        queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY,
        overflow=admin_pb2.OVERFLOW_REJECT,
        max_bytes=0,
        dead_letter_queue="",
        enqueue_enabled=False,
        dequeue_enabled=False,
        require_two=target.config.require_two,
        owner=target.config.owner,
        empty_idle_expiry=Duration(),
    )
    config.MergeFrom(kind)
    return await _make(members, domain, kept_queue(target.name), config)


async def _make(members: Members, domain: Domain, name: str, config: admin_pb2.QueueConfig) -> Failed | Moved | None:
    local = domain.shared.name == LOCAL
    holders = [members.member] if local else sorted({members.member, members.peer} - {""})
    call = QueueCall(QueueAction.QUEUE_ACTION_CREATE, name, config=config, members=holders, open_members=holders)
    node, waiter = members.node, FutureWaiter()
    domain.submit(PendingCall(waiter, call), node.clock.now_ms())
    node.dispatch(domain)
    result = await waiter.future
    if isinstance(result, Failed) and result.reason == Reason.REASON_QUEUE_EXISTS:
        return None  # somebody else's first message, or reaction
    assert not isinstance(result, QueueDone) or result.queue == name
    return None if isinstance(result, QueueDone) else result  # type: ignore[return-value]  # Failed or Moved


def config_of(members: Members, domain: Domain) -> admin_pb2.QueueConfig:
    """Of a queue that a manager makes for itself."""
    local = domain.shared.name == LOCAL
    return admin_pb2.QueueConfig(
        domain=domain.shared.name,
        replication=admin_pb2.REPLICATION_NONE if local else admin_pb2.REPLICATION_FULL,
        persistence=admin_pb2.PERSISTENCE_CONDITIONAL,  # X7: as the message says, and persistent where it says nothing
        max_message_bytes=members.node.limits.batch_bytes_max,
    )


def xmit_config(members: Members, domain: Domain) -> admin_pb2.QueueConfig:
    """Of a transmission queue: what waits in it can be cancelled and changed until it leaves (V17)."""
    config = config_of(members, domain)
    config.reactions_enabled = True
    return config


async def problem_of_target(members: Members, target: Destination) -> Failed | None:
    """Why no message can be kept for that manager: nobody knows it, or the one that sends on to it (MANAGER_NOT_FOUND).
    Whether it has the domain it alone knows, and may be away: messages for one that it has not wait.
    """
    assert members.directory is not None, "a member that serves clients has one"
    try:
        await members.directory.find(members.reached_by(target.manager))
    except TandemqError as error:
        return Failed(_reason(error), error.message, dict(error.metadata), None)
    return None


def _reason(error: TandemqError) -> Reason:
    known = Reason.DESCRIPTOR.values_by_name.get(f"REASON_{error.reason}")
    return known.number if known is not None else Reason.REASON_INTERNAL  # type: ignore[return-value]  # enum number
