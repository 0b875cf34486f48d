"""Reads a whole store, a backup or a data directory, and says what is in it, or what is wrong; changes nothing.

Every record's checksums, their places, the chain of digests where it is unbroken, the facts, the checkpoint, the
queues' state made anew from it, and that each message which the queues hold is there.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from failover.marks import DataMark
from replica.machine import Limits
from replica.node.recovery import open_shared, rebuild
from replica.offline.backup import states_in
from storage.errors import CorruptRecord
from storage.records import verify_stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.state.durable import DomainState
    from replica.machine import Machine
    from storage.backup import BackupHead
    from storage.store import Store


class QueueFacts(NamedTuple):
    name: str
    messages: int
    bytes: int
    last_index: int


class ExaminedDomain(NamedTuple):
    name: str
    epoch: int
    log_index: int
    digest: bytes
    data: str
    records: int
    queues: tuple[QueueFacts, ...]

    @property
    def messages(self) -> int:
        """In all its queues."""
        return sum(queue.messages for queue in self.queues)


class _Log(NamedTuple):
    indexes: array[int]
    epoch: int
    digest: bytes


def examine(
    store: Store, head: BackupHead | None, on_progress: Callable[[int], None] = lambda _records: None
) -> list[ExaminedDomain]:
    """The domains in the store. Raises CorruptRecord. `head`: what a backup says of itself must be so."""
    found = []
    done = 0
    for number, state in states_in(store.meta_items("")).items():
        log = _walk(store, number, state, done, on_progress)
        done += len(log.indexes)
        facts: tuple[QueueFacts, ...] = ()
        if state.data is not DataMark.SYNCING:  # else it is half a copy, and says so
            machine = _machine(store, number, state)
            _check_bodies(state, log.indexes, machine)
            queues = [machine.queue(queue) for name in machine.names() if (queue := machine.queue_id(name)) is not None]
            facts = tuple(QueueFacts(each.name, each.length, each.bytes, each.next_index - 1) for each in queues)
        last = max(log.indexes[-1] if log.indexes else 0, state.base_index)
        epoch = max(state.epoch, log.epoch)
        found.append(ExaminedDomain(state.name, epoch, last, log.digest, state.data.name, len(log.indexes), facts))
    if head is not None:
        _check_head(head, found)
    return found


def _walk(store: Store, number: int, state: DomainState, done: int, on_progress: Callable[[int], None]) -> _Log:
    """Every record of a domain; raises CorruptRecord where one is not what it should be, or missing."""
    indexes = array("Q")
    before, epoch, digest = state.base_index, state.base_epoch, state.base_digest
    at = 0
    while rows := store.scan(number, at):
        for log_index, record in rows:
            follows = log_index == before + 1
            prefix = verify_stored(record, previous_digest=digest if follows else None)
            if (prefix.domain, prefix.log_index) != (number, log_index):
                what = f"Domain {state.name}: the record at {log_index} says {prefix.domain:#x}, {prefix.log_index}"
                raise CorruptRecord(what)
            if not follows and log_index > max(state.base_index, state.kept_from):
                raise CorruptRecord(f"Domain {state.name}: record {before + 1} is missing, found {log_index}")
            indexes.append(log_index)
            if log_index > state.base_index:
                before, epoch, digest = log_index, prefix.epoch, prefix.digest
        at = rows[-1][0] + 1
        on_progress(done + len(indexes))
    return _Log(indexes, epoch, digest)


def _machine(store: Store, number: int, state: DomainState) -> Machine:
    """The queues at the end of the log."""
    shared = open_shared(store, number, state.name, "", "", 0, Limits())
    try:
        return asyncio.run(rebuild(store, shared, shared.log.last_index))
    except (DecodeError, AssertionError, LookupError) as error:
        raise CorruptRecord(f"Domain {state.name}: the queues cannot be made from the log: {error!r}") from error


def _check_bodies(state: DomainState, indexes: array[int], machine: Machine) -> None:
    for _, log_index in machine.live_log_indexes():
        at = bisect_left(indexes, log_index)
        if at == len(indexes) or indexes[at] != log_index:
            raise CorruptRecord(f"Domain {state.name}: a queue holds messages of record {log_index}, which is missing")


def _check_head(head: BackupHead, found: list[ExaminedDomain]) -> None:
    named = [(each.name, each.epoch, each.log_index, each.digest, each.records) for each in head.domains]
    there = [(each.name, each.epoch, each.log_index, each.digest, each.records) for each in found]
    if named != there:
        names = ", ".join(sorted({row[0] for row in {*named} ^ {*there}}))
        raise CorruptRecord(f"The head names other domains than there are: {names}")
