"""QueueAdminService.RestoreQueue: puts back what a queue held in a backup, as new messages that both members order.

Each message has a place in the backup, and that place is the sequence of a producer that is named after the request:
what was put back before a call broke off is known again, here and at the next master, and nothing enters twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c
import grpc

from replica.core.messages.bodies import read_stored
from replica.core.state.calls import PendingCall, PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed, Moved, QueueDone
from replica.machine import EnqueueCall, QueueCall, Refused, columns_of
from replica.node.members import LOCAL, MAIN
from replica.offline.refill import QueueSource, open_queue
from replica.rpc.refusals import refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, parse
from replica.services import forward
from replica.services.answers import Answered, FutureWaiter, header_of
from replica.services.checks import problem_of_sides
from storage.errors import CorruptRecord, NewerFormat, StorageError
from storage.records import verify_stored
from tandemq.peer.v1.record_pb2 import QueueAction
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.offline.refill import Batch
    from replica.rpc.handlers import Method

AHEAD = 4
"""Batches that are ordered and not committed yet."""
AGAIN_MS = 5_000
SOURCE_CHARS_MAX = 1_000
METHOD = "QueueAdminService/RestoreQueue"


class RestoreHandlers:
    """The handler of one method. `directory`: the only one from which backups are read."""

    def __init__(self, members: Members, directory: Path) -> None:
        self.members = members
        self.directory = directory
        self.running = ""
        """The queue that is being put back."""

    def methods(self) -> dict[str, Method]:
        """Its part of QueueAdminService; requests and replies are bytes."""
        return {"RestoreQueue": grpc.unary_unary_rpc_method_handler(self.restore)}

    async def restore(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.RestoreQueue."""
        asked = await parse(pb.RestoreQueueRequest, request, context)
        await check_request_id(asked.request_id, context)

        async def local(domain: Domain) -> Answered:
            if self.running:
                text = (
                    f"queue {self.running} is being restored at {self.members.member}; one at a time, repeat it later"
                )
                return Failed(Reason.REASON_QUOTA_EXCEEDED, text, {}, AGAIN_MS)
            self.running = asked.name
            try:
                return await (self._from_backup(domain, asked) if asked.source else self._from_own(domain, asked.name))
            except Refused as refused:
                return Failed(refused.reason, refused.message, dict(refused.metadata), refused.retry_after_ms)
            except StorageError as error:
                return _problem(error)
            except OSError as error:
                text = f"{self.directory}: {asked.source}: {error.strerror}; put the backup there, at {self._me()}"
                return refusal(Reason.REASON_BAD_REQUEST, text)
            finally:
                self.running = ""

        return await forward.unary(
            self.members, METHOD, request, context, lambda: self.members.of_queue(asked.name), local
        )

    def _me(self) -> str:
        return f"{self.members.member}, which is the master" if self.members.peer else self.members.member

    # -- its own store ---------------------------------------------------------------------------------------------

    async def _from_own(self, domain: Domain, name: str) -> Answered:
        """What a member has on disk is in its queues: there is nothing to put back, but each message can be read."""
        machine = domain.shared.machine
        assert machine is not None
        queue_id = machine.queue_id(name)
        if queue_id is None:
            text = f"queue {name} is not in this member's own store any more; name a backup that holds it"
            return refusal(Reason.REASON_QUEUE_NOT_FOUND, text)
        if (problem := _may_not(domain, name)) is not None:
            return problem
        slices = machine.segments_of(queue_id, machine.browse(queue_id, 0, 0), delivered=False)
        shared, store = domain.shared, self.members.node.store

        def check() -> tuple[int, int]:
            present = lost = 0
            for part in slices:
                record = store.read(shared.domain, part.log_index)
                if record is not None:
                    verify_stored(record)
                readable = read_stored(store, shared, part.log_index) is not None
                if not readable and machine.live(part.log_index, queue_id):
                    lost += part.count
                elif readable:
                    present += part.count
            return present, lost

        present, lost = await asyncio.to_thread(check)
        return self._answer(domain, name, pb.RestoreQueueResponse(present=present, lost=lost, duplicate=True))

    # -- a backup --------------------------------------------------------------------------------------------------

    async def _from_backup(self, domain: Domain, asked: pb.RestoreQueueRequest) -> Answered:
        path = self._inside(asked.source)
        if path is None:
            text = f"{asked.source[:80]!r} is not in {self.directory}: name a file in there (manager.backup_dir)"
            return refusal(Reason.REASON_BAD_REQUEST, text)
        if not path.is_file():
            text = f"there is no file {asked.source!r} in {self.directory} at {self._me()}"
            return refusal(Reason.REASON_BAD_REQUEST, text)
        source = await asyncio.to_thread(open_queue, path, asked.name)
        if source is None:
            return refusal(Reason.REASON_QUEUE_NOT_FOUND, f"there is no queue {asked.name} in backup {asked.source}")
        try:
            return await self._fill(domain, asked, source)
        finally:
            source.close()

    def _inside(self, source: str) -> Path | None:
        """Where the file is; None: elsewhere than it may be, links followed."""
        if len(source) > SOURCE_CHARS_MAX:
            return None
        try:
            path = (self.directory / source).resolve()
        except (ValueError, OSError, RuntimeError):  # a null byte; a name too long; links in a circle
            return None
        return path if path.is_relative_to(self.directory.resolve()) else None

    async def _fill(self, domain: Domain, asked: pb.RestoreQueueRequest, source: QueueSource) -> Answered:
        name, request_id = asked.name, bytes(asked.request_id)
        client_id = b"restore/" + request_id
        mark = fingerprint(b"restore", name.encode(), source.backup.foot.digest)
        machine = domain.shared.machine
        assert machine is not None
        if machine.queue_id(name) is None:
            made = await self._create(domain, asked, source, mark)
            if not isinstance(made, QueueDone):
                return made
            domain = self.members.of_queue(name)
            machine = domain.shared.machine
            assert machine is not None
        elif not machine.last_sequence(name, client_id) and (
            (problem := _may_not(domain, name) or _no_room(domain, source)) is not None
        ):
            return problem
        before = machine.last_sequence(name, client_id)
        result = pb.RestoreQueueResponse(duplicate=True)
        waiting: deque[tuple[FutureWaiter, int]] = deque()
        batches = source.batches()
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            if not domain.shared.serving or domain.shared.draining:
                return Moved("the mastership moved while the queue was restored; repeat the call")
            if batch.first + len(batch.ordinals) - 1 <= before:
                result.restored += len(batch.ordinals)
                continue
            waiting.append((self._put(domain, batch, client_id, mark), len(batch.ordinals)))
            while len(waiting) >= AHEAD:
                if (stop := await _take(*waiting.popleft(), result)) is not None:
                    return stop
        for waiter, count in waiting:
            if (stop := await _take(waiter, count, result)) is not None:
                return stop
        result.lost = source.lost
        if not await _committed(domain):
            return Moved("the mastership moved while the queue was restored; repeat the call")
        return self._answer(domain, name, result)

    async def _create(
        self, domain: Domain, asked: pb.RestoreQueueRequest, source: QueueSource, mark: int
    ) -> QueueDone | Failed | Moved:
        """The queue as it was, closed: nobody sends or receives before everything is in it."""
        members = self.members
        name = source.domain if members.peer and source.domain in members.by_name else MAIN if members.peer else LOCAL
        at = members.by_name[name]
        if not at.shared.serving:
            text = (
                f"queue {asked.name} belongs to domain {name}, whose master is another one than {domain.shared.name}'s"
            )
            return refusal(Reason.REASON_INVALID_STATE, f"{text}; create it there, close it, and repeat the call")
        config = _config_in(name, source.config)
        if (problem := problem_of_sides(members, at, asked.name, config)) is not None:
            return problem
        holders = [members.member] if name == LOCAL else sorted({members.member, members.peer} - {""})
        machine = at.shared.machine
        assert machine is not None
        if machine.find_request(bytes(asked.request_id), mark) is not None:
            text = f"this call restored queue {asked.name} before, and it was deleted since; use a new request id"
            return refusal(Reason.REASON_INVALID_STATE, text)
        waiter = FutureWaiter()
        call = QueueCall(
            QueueAction.QUEUE_ACTION_CREATE,
            asked.name,
            config=config,
            members=holders,
            open_members=(),
            request_id=bytes(asked.request_id),
            request_hash=mark,
        )
        at.submit(PendingCall(waiter, call), members.node.clock.now_ms())
        members.node.dispatch(at)
        done = await waiter.future
        assert isinstance(done, QueueDone | Failed | Moved)
        return done

    def _put(self, domain: Domain, batch: Batch, client_id: bytes, mark: int) -> FutureWaiter:
        waiter = FutureWaiter()
        call = EnqueueCall(
            batch.batch.queue,
            client_id,
            batch.first,
            columns_of(batch.batch),
            self.members.member,
            request_hash=google_crc32c.value(mark.to_bytes(8, "big") + batch.data),
            left_out=_present(domain, batch),
        )
        node = self.members.node
        domain.submit(PendingEnqueue(waiter, call, batch.data), node.clock.now_ms())
        node.dispatch(domain)
        return waiter

    def _answer(self, domain: Domain, name: str, result: pb.RestoreQueueResponse) -> bytes:
        machine = domain.shared.machine
        assert machine is not None
        result.queue.CopyFrom(machine.queue_info(name, self.members.member))
        result.header.CopyFrom(header_of(self.members, domain))
        return result.SerializeToString()


def _config_in(domain: str, source: pb.QueueConfig) -> pb.QueueConfig:
    """The attributes that the queue had, in that domain. One of a pair keeps its sides; a member alone has one copy."""
    config = pb.QueueConfig()
    config.CopyFrom(source)
    config.domain = domain
    if domain == LOCAL:
        config.replication = pb.REPLICATION_NONE
        config.ClearField("lockstep")
    elif config.replication != pb.REPLICATION_PRODUCER:
        config.replication = pb.REPLICATION_FULL
    return config


def _may_not(domain: Domain, name: str) -> Failed | None:
    """R155: only a queue that is closed or empty."""
    machine = domain.shared.machine
    assert machine is not None
    queue = machine.queue(machine.queue_id(name) or 0)
    if not queue.length or not queue.open_members:
        return None
    text = f"queue {name} is open and holds {queue.length} messages; close it at every member, or purge it, then repeat"
    return refusal(Reason.REASON_NOT_EMPTY, text, {"length": str(queue.length)})


def _no_room(domain: Domain, source: QueueSource) -> Failed | None:
    """Before anything enters: half a queue is worse than none."""
    machine = domain.shared.machine
    assert machine is not None
    queue = machine.queue(machine.queue_id(source.name) or 0)
    config = queue.config
    fits = source.messages <= config.max_length and (not config.max_bytes or source.bytes <= config.max_bytes)
    if queue.length or fits:  # what a closed queue holds may be the same messages
        return None
    text = (
        f"the backup has {source.messages} messages of {source.bytes} bytes for queue {source.name}, which may hold "
        f"{config.max_length} of {config.max_bytes or 'any number of'} bytes; raise its limits"
    )
    return refusal(Reason.REASON_QUEUE_FULL, text)


def _present(domain: Domain, batch: Batch) -> set[int]:
    """Places in the batch of messages that the queue holds still, under the ids that they have in the backup."""
    machine = domain.shared.machine
    assert machine is not None
    queue_id = machine.queue_id(batch.batch.queue)
    origin = batch.origin
    if queue_id is None or not machine.live(origin.log_index, queue_id):
        return set()
    if domain.shared.log.digest_at(origin.log_index) != (origin.epoch, origin.digest):
        return set()  # another record of that index: another history, or another pair's
    held: set[int] = set()
    for part in machine.segments_of(
        queue_id, machine.browse(queue_id, batch.first_index, len(batch.ordinals)), delivered=False
    ):
        if part.log_index == origin.log_index:
            held.update(part.ordinals or range(part.first_ordinal, part.first_ordinal + part.count))
    return {place for place, ordinal in enumerate(batch.ordinals) if ordinal in held}


async def _take(waiter: FutureWaiter, count: int, into: pb.RestoreQueueResponse) -> Failed | Moved | None:
    """Counts what became of a batch; what ends the call instead."""
    done = await waiter.future
    if isinstance(done, Failed | Moved):
        return done
    assert isinstance(done, EnqueueDone)
    into.present += len(done.refusals)
    into.restored += count - len(done.refusals)
    into.duplicate = into.duplicate and done.duplicate
    return None


async def _committed(domain: Domain) -> bool:
    """What an earlier call had ordered may not be on both members yet. False: it never will be, from here."""
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    shared = domain.shared
    if not domain.shared.serving:
        return False

    def answer(*, committed: bool) -> None:
        if not answered.done():
            answered.set_result(committed)

    domain.orders.when_committed(shared.log.last_index, lambda: answer(committed=True), lambda: answer(committed=False))
    return await answered


def _problem(error: StorageError) -> Failed:
    reasons: dict[type[StorageError], Reason] = {
        NewerFormat: Reason.REASON_NEWER_FORMAT,
        CorruptRecord: Reason.REASON_CORRUPT_STORE,
    }
    found = next((reason for kind, reason in reasons.items() if isinstance(error, kind)), Reason.REASON_INTERNAL)
    return refusal(found, str(error))
