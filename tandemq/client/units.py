"""Settles what was taken and sends what was made of it as one unit of work; see docs/CLIENTS.md. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tandemq.client.delivery import MessageBatch
from tandemq.client.identity import new_request_id
from tandemq.client.links import Link, Linked
from tandemq.client.outgoing import Outgoing, rows_of
from tandemq.client.receipts import Receipts, receipts_of
from tandemq.client.settling import Act, to_settlement
from tandemq.errors import error_of
from tandemq.finding.names import is_full, parse_queue
from tandemq.v1 import queue_service_pb2
from tandemq.v1 import transaction_service_pb2 as pb


class UnitReceipts(dict[str, Receipts]):
    """The receipts of a unit, by queue.

    They are empty where the unit is known by its number alone: it was done, and its first answer is not kept.
    """

    duplicate = False
    """It was done before, by its request id or by its number."""
    differs = False
    """Its number was of other messages: what was sent now is nowhere."""
    last_number = 0
    """With a writer: the last number of it."""
    digest = 0
    """A duplicate by its number: what it was compared by."""
    known_digest: int | None = None
    """What the unit of that number was compared by; None: it was passed over, or is too old."""


async def transact(
    client: Linked,
    taken: Iterable[MessageBatch] = (),
    puts: Mapping[str, Iterable[bytes | Outgoing]] | None = None,
    *,
    min_copies: int = 0,
    request_id: bytes | None = None,
    writer: str = "",
    number: int = 0,
    after: int = 0,
    query_id: str = "",
    digest: int = 0,
    forward: bool = False,
) -> UnitReceipts:
    """Acknowledges all messages of `taken` and sends those of `puts`, by queue: all of it happens, or nothing does.

    Whoever serves after a crash has all of it or nothing, and a call that is repeated, as this one does by itself
    until it is answered, has one effect. All queues are of one domain of one manager. The receipts come by queue,
    as `puts` names them.

    Units that tasks or threads of one client ask for at the same time go together by few calls, each for itself.

    A message for `//manager/queue` of another manager than the one whose messages are settled, or with `forward`
    than one's own, enters a transmission queue with the unit, and is sent on from there: once, later, in order.

    Nothing was done when it raises: LeaseLost when a lease holds its messages no more, so somebody else may do the
    work; ResourceExhausted (QUEUE_FULL) when one message has no room, for a unit never waits; InvalidRequest
    (TXN_TOO_LARGE) beyond 10,000 messages, 4 MiB or 100 queues; Refused (CROSS_DOMAIN). All of it was done when
    NOT_ENOUGH_COPIES says that it is stored. TimedOut and InDoubt say that it is not known: repeat it then with the
    same `request_id` (16 bytes; None: a new one).

    A request id is known for ten minutes, a number of a `writer` for as long as its name is: one at or below
    the writer's last is a duplicate, which executes nothing, settlements included. Numbers rise from 1, gaps are
    allowed, and `after` is the number before it (0: there is none): else Refused (SEQUENCE_GAP), and nothing was
    done. A writer belongs to the `query_id` that came first (WRITER_TAKEN); see `writer_state`, `release_writer`.
    Units of one number are compared by `digest`, 64 bits that the caller chooses (0: by their messages): `differs`.
    """
    settles: dict[str, list[queue_service_pb2.Settlement]] = {}
    for batch in taken:
        if batch.lease_id and batch:
            act = Act(batch.lease_id, queue_service_pb2.OUTCOME_ACK)
            settles.setdefault(batch.queue, []).append(to_settlement(act, batch.ranges()))
    rows = {queue: rows_of(messages) for queue, messages in (puts or {}).items()}
    named = list(rows)
    rows = {queue: messages for queue, messages in rows.items() if messages}
    queues = [*settles, *rows]
    if not queues and not writer:
        return UnitReceipts({queue: Receipts(0, (), {}) for queue in named})
    if not queues:
        raise error_of("BAD_REQUEST", f"unit {number} of writer {writer} settles and sends nothing; leave it out")
    link, names = _one_link(client, settles, rows, forward=forward)
    request = pb.TransactRequest(
        request_id=request_id or new_request_id(),
        settles=[pb.QueueSettlements(queue=names[queue], settlements=each) for queue, each in settles.items()],
        puts=[pb.QueueMessages(queue=names[queue], messages=each) for queue, each in rows.items()],
        min_copies=min_copies,
        epoch=client.links.epoch_of(queues[0]),
        writer=writer,
        number=number,
        after=after,
        query_id=query_id,
        digest=digest,
    )
    there = next((name for name in names.values() if not is_full(name)), "")
    reply = await client.links.unit_calls(link).ask(request, there)
    return _receipts(reply, rows, named)


def _receipts(reply: pb.TransactResponse, sent: Iterable[str], named: Iterable[str]) -> UnitReceipts:
    results = {queue: put.results for queue, put in zip(sent, reply.puts, strict=bool(reply.puts))}
    done = UnitReceipts(
        {queue: receipts_of(reply.header, results.get(queue, ()), duplicate=reply.duplicate) for queue in named}
    )
    done.duplicate, done.differs, done.last_number = reply.duplicate, reply.differs, reply.last_number
    done.digest = reply.digest
    done.known_digest = reply.known_digest if reply.HasField("known_digest") else None
    return done


def _one_link(
    client: Linked, settled: Iterable[str], sent: Iterable[str], *, forward: bool
) -> tuple[Link, dict[str, str]]:
    """The connection for all of them, and each one's name there: that of what is sent on is its full name."""
    taken = {queue: client.links.at(queue) for queue in settled}
    found = taken | {queue: client.links.at(queue, may_go_on=True) for queue in sent}
    to_domain = {queue for queue in found if is_full(queue) and parse_queue(queue).domain}
    at = {id(link): link for link, _ in taken.values()}
    if len(at) > 1:
        raise error_of("CROSS_DOMAIN", f"a unit of work settles at one manager, not {', '.join(taken)}")
    links = {id(link): link for link, _ in found.values()}
    goes_on = forward or to_domain
    home = next(iter((at or links).values())) if at or (len(links) == 1 and not goes_on) else client.links.own
    return home, {
        queue: name if link is home and queue not in to_domain else str(parse_queue(queue))
        for queue, (link, name) in found.items()
    }
