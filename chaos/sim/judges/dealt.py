"""Judges by two pairs' logs what was dealt to a queue elsewhere: it is there once, in order, nothing else is (M4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.judges import logs
from chaos.sim.judges.proxy_points import DEALT, LANDED
from chaos.sim.pair.run import FAR
from replica.machine.state.system_names import way_to
from tandemq.peer.v1 import record_pb2 as pb
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chaos.sim.pair.members import Pair

NAME = "what is dealt to another pair is there once"
WAY = way_to(f"//{FAR}/{LANDED}")


def broken(near: Pair, far: Pair) -> Iterator[str]:
    """At the end of a run, when everything has arrived."""
    here, there = _log(near), _log(far)
    if here is None or there is None:
        return
    sent, arrived = _entered(here, WAY), _entered(there, LANDED)
    if sent and arrived == sent:
        near.run.sometimes(DEALT)
    for place, payload in enumerate(arrived):
        if payload in arrived[:place]:
            yield f"{payload!r} arrived twice"
        if payload not in sent:
            yield f"{payload!r} arrived, and nobody has dealt it there"
    for payload in sent:
        if payload not in arrived:
            yield f"{payload!r} was dealt there, and has not arrived"
    if arrived != sent:
        yield f"arrived as {arrived}, and was dealt as {sent}"


def _log(pair: Pair) -> list[logs.Stored] | None:
    for member in pair.members.values():
        if member.is_serving:
            return logs.read(member.machine.disk, pair.members[member.peer].machine.disk)
    return None


def _entered(stored: Iterable[logs.Stored], queue: str) -> list[bytes]:
    """Payloads, in the order of the queue."""
    found, queue_id = list[bytes](), 0
    for _, header, body in stored:
        if header.queue.action == pb.QUEUE_ACTION_CREATE and header.queue.name == queue:
            queue_id = header.queue.queue_id
        every: list[pb.EnqueueOp] = [header.enqueue, *header.txn.enqueues]
        ops = [op for op in every if op.count and op.queue_id == queue_id]
        payloads = EnqueueBatch.FromString(body).messages.payloads if ops else ()
        for op in ops:
            out = {each.ordinal for each in op.refusals} | {each.ordinal for each in op.duplicates}
            places = op.ordinals or range(op.first_ordinal, op.first_ordinal + op.count)
            found += [payloads[place] for ordinal, place in enumerate(places) if ordinal not in out]
    return found
