"""Plants what is wrong with what clients were told; part of the table of `faults`."""

from __future__ import annotations

from bench.audit.evidence import Evidence
from bench.audit.faults import BEYOND, FAULTS, Named, fault
from chaos.journals import (
    ACK_LOST,
    DELIVERY_ORDER,
    EPOCH_TOLD,
    GHOST,
    LOST,
    REAL_TIME_ORDER,
    RECEIVED_AFTER_ACK,
    RECEIVED_LOST,
    UNSENT,
)

__all__ = ["FAULTS"]  # with those of this file: whoever plants imports it from here


def other_id(message_id: bytes, ordinal: int = 999) -> bytes:
    """Of the same record, one that stored fewer."""
    return message_id[:14] + ordinal.to_bytes(2, "big")


@fault
def told_that_it_is_not_stored(run: Evidence, at: int) -> list[Named]:
    for each in run.told_of("send", at):
        each.update(outcome="fail", index=None, id=None, epoch=None)
    return [Named(GHOST, at)]


@fault
def sent_by_nobody(run: Evidence, at: int) -> list[Named]:
    gone = run.told_of("send", at)
    run.told = [each for each in run.told if each not in gone]
    return [Named(UNSENT, at)]


@fault
def sent_after_a_later_one_was_stored(run: Evidence, at: int) -> list[Named]:
    end = max(each["complete_ns"] for each in run.told if each["complete_ns"])
    for each in run.told_of("send", at):
        each.update(invoke_ns=end + 1, complete_ns=end + 2)
    return [Named(REAL_TIME_ORDER, at)]


@fault
def told_another_epoch(run: Evidence, at: int) -> list[Named]:
    for each in run.told_of("send", at):
        each["epoch"] += 3
    return [Named(EPOCH_TOLD, at)]


@fault
def told_another_id(run: Evidence, at: int) -> list[Named]:
    for each in run.told_of("send", at):
        each["id"] = other_id(each["id"])
    return [Named(LOST, at)]


@fault
def received_under_another_id(run: Evidence, at: int) -> list[Named]:
    for each in run.told_of("recv", at):
        each["id"] = other_id(each["id"])
    return [Named(RECEIVED_LOST, at)]


@fault
def received_and_never_stored(run: Evidence, at: int) -> list[Named]:
    (came,) = run.told_of("recv", at)
    run.told.append({**came, "index": 2 * BEYOND + at, "id": None})
    return [Named(RECEIVED_LOST, 2 * BEYOND + at)]


@fault
def acknowledged_under_another_id(run: Evidence, at: int) -> list[Named]:
    for each in run.told_of("ack", at):
        each["id"] = other_id(each["id"])
    return [Named(ACK_LOST, at)]


@fault
def acknowledged_and_never_stored(run: Evidence, at: int) -> list[Named]:
    (done,) = run.told_of("ack", at)
    run.told.append({**done, "index": 2 * BEYOND + at, "id": None})
    return [Named(ACK_LOST, 2 * BEYOND + at)]


@fault
def received_after_its_acknowledgement(run: Evidence, at: int) -> list[Named]:
    (came,), end = run.told_of("recv", at), max(each["complete_ns"] for each in run.told if each["complete_ns"])
    epochs = run.of("ACKED", at)[0]["epoch"] - run.of("ENQUEUED", at)[0]["epoch"]
    for step in range(1 + epochs):
        run.told.append({**came, "invoke_ns": end + 10 * step + 1, "complete_ns": end + 10 * step + 2})
    return [Named(RECEIVED_AFTER_ACK, at)]


@fault
def received_out_of_order(run: Evidence, at: int) -> list[Named]:
    (first,), (after,) = run.told_of("recv", at), run.told_of("recv", at + 1)
    first.update(invoke_ns=after["complete_ns"] + 1, complete_ns=after["complete_ns"] + 2)
    return [Named(DELIVERY_ORDER, at)]
