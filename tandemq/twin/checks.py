"""Refuses at the beginning what cannot work: a queue without sides, a state ahead of its inputs; changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from tandemq.client import aio
from tandemq.client.calls import PAIR_SERVICE
from tandemq.twin.faults import InputMissing, TwinFault
from tandemq.twin.meeting import LOG, PREFIX, asked_queue
from tandemq.twin.options import TwinOptions
from tandemq.v1 import pair_service_pb2
from tandemq.v1.queue_admin_service_pb2 import REPLICATION_PRODUCER, QueueInfo

SILENT_S = 5.0
"""After so much time without an answer somebody should hear that a twin waits."""
log = logging.getLogger("tandemq.twin")


def check_sides(inputs: QueueInfo, options: TwinOptions) -> None:
    """Raises TwinFault (CONFIG_ERROR)."""
    if inputs.config.replication != REPLICATION_PRODUCER:
        text = (
            f"queue {inputs.name} has one consumption for both members; twins need one of their own each: create "
            "it with replication PRODUCER"
        )
        raise TwinFault("CONFIG_ERROR", text, queue=inputs.name)
    if options.keep and options.keep not in inputs.open_members:
        text = f"{options.keep!r} is to be kept, and {inputs.name} is open at {', '.join(inputs.open_members)}"
        raise TwinFault("CONFIG_ERROR", text)


def check_same(inputs: QueueInfo, at_side: QueueInfo, options: TwinOptions) -> None:
    """Raises TwinFault (CONFIG_ERROR): outputs would go to another pair than the inputs are of."""
    if inputs.created_at != at_side.created_at:
        text = (
            f"queue {inputs.name} at {options.side} is another one than at {options.target}: side and target belong to "
            "two pairs; name members of one"
        )
        raise TwinFault("CONFIG_ERROR", text, queue=inputs.name)


def check_name(queues: Iterable[QueueInfo], name: str, inputs: str, other: str) -> None:
    """Raises TwinFault (TWIN_MISMATCH): the process at member `other` has these inputs too, under another name, and so
    each output would enter under both. `queues`: in which twins meet.
    """
    by_name = {info.name: info for info in queues}
    for info in by_name.values():
        theirs = info.name.removeprefix(PREFIX).removesuffix(LOG)
        if not info.name.endswith(LOG) or theirs == name or info.config.labels.get("inputs") != inputs:
            continue
        listens = by_name.get(asked_queue(theirs, other))
        if listens is not None and listens.consumers:
            text = (
                f"queue {inputs} has inputs of twins {theirs}, whose process at {other} runs, and this one is of twins "
                f"{name}: each output would be sent under both names. Correct the name, or stop that process first"
            )
            raise TwinFault("TWIN_MISMATCH", text, own=name, other=theirs)


def check_seen(index: int, last: int, options: TwinOptions) -> None:
    """Raises InputMissing. Inputs that come under numbers which this state has seen, up to `index`, would be left out.
    `last`: of the queue.
    """
    if index > last:
        text = (
            f"the newest snapshot in {options.directory} has seen {index} inputs, and "
            f"{options.inputs} had {last}: an older copy of the pair was put back. Begin with new state, "
            "under another name"
        )
        raise InputMissing("TWIN_SKIPPED", text, index=str(last + 1))


def check_known(seen: bytes, given: bytes, index: int, options: TwinOptions) -> None:
    """Raises InputMissing: that input, the last one of the state, is another message than the one it has `seen`; empty:
    which that was is not known.
    """
    if seen and given != seen:
        text = (
            f"input {index} of {options.inputs} is another message than the one that the state has seen: an older copy "
            "of the pair was put back, and what has come since has the same numbers. Nothing of it is acted on, and "
            "nothing settled. Begin with new state, under another name"
        )
        raise InputMissing("TWIN_SKIPPED", text, index=str(index))


def check_marks(mark_every: int, log: Iterable[Mapping[str, Any]], own: str) -> None:
    """Raises TwinFault (CONFIG_ERROR). Digests of states are outputs: of two that send them behind other inputs, or of
    one that sends again what it had sent before it was killed, all outputs would differ. `log`: the oldest first.
    """
    begun: dict[str, int] = {}  # by member: of a run that has not ended in order; a release before says nothing of it
    for entry in log:
        if entry["what"] == "began":
            begun[entry["member"]] = entry.get("mark_every", mark_every)
        elif entry["what"] == "ended":
            begun.pop(entry["member"], None)
    for member, other in sorted(begun.items()):
        if other != mark_every:
            whose = "the run before this one" if member == own else f"the twin at {member}"
            text = (
                f"this process would compare its state each {mark_every} inputs, and {whose} did so each {other} and "
                "has not ended in order; begin with its number (mark_every), or stop both and begin both with another"
            )
            raise TwinFault("CONFIG_ERROR", text, member=member, mark_every=str(other))


async def member_at(client: aio.Client, side: str) -> str:
    """Name of the member that the client is connected to, at `side`. It is waited for as long as the client waits for
    any answer, which is said.
    """
    path, request = PAIR_SERVICE + "GetPairStatus", pair_service_pb2.GetPairStatusRequest()
    call = client.links.own.caller.call(path, request, pair_service_pb2.GetPairStatusResponse)
    asking = asyncio.ensure_future(call)
    try:
        if not (await asyncio.wait([asking], timeout=SILENT_S))[0]:
            log.warning("a twin waits for its member: nobody answers at %s; is that where it is?", side)
        return (await asking).member.name
    finally:
        asking.cancel()
