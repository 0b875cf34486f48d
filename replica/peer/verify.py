"""Compares the stored records of both members, range by range, and has a copy that differs taken anew; repairs nothing.

The master asks, the replica answers; each reads its records from the store once more, in a thread, and checks every
checksum. Dense is what both keep every record of; below that only records with live messages are compared, one by one.
A copy that differs or is damaged is left out of the in-sync set where the register allows it, marks itself DAMAGED,
durably, and takes a full transfer. Damage at the master is said aloud: the way out is a handoff to the replica.

Costs: one thread that reads and hashes, and rests for three times as long as it worked; nothing of the data path waits.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from failover.marks import Role
from replica.core.replication.sync_source import Phase
from storage.errors import CorruptRecord
from storage.records import verify_stored
from tandemq.peer.v1.peer_service_pb2 import PeerFrame, VerifyDone, VerifyQuery, VerifyReply
from tandemq.v1.pair_service_pb2 import PairEventKind, VerifyResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from replica.core.domain import Domain
    from replica.node.loop import Node
    from storage.store import Store

log = logging.getLogger("tandemq.verify")

RANGE_RECORDS, RANGE_RECORDS_MAX = 4_096, 65_536
SLICE_RECORDS = 256
DAMAGED_MAX = 100
ANSWER_S = 30.0
QUERIES_MAX = 4
"""Of the master, answered or waiting at once: it asks one a domain at a time; a flood is dropped, and said."""
TRIES = 5
"""Of one range, while trimming moves what both keep."""
REST = 3.0
"""Times the work before it."""

K = PairEventKind


class CannotVerify(Exception):  # noqa: N818  # an answer to the operator
    """It does not begin, or ends before its end; nothing was found wrong by that."""


class Digest(NamedTuple):
    """What one member holds of a range."""

    records: int
    digest: bytes
    damaged: list[int]


@dataclass(slots=True)
class VerifyCounts:
    """For metrics, by domain where it is a dict."""

    ranges: int = 0
    runs: dict[str, int] = field(default_factory=dict)
    differences: dict[str, int] = field(default_factory=dict)


def digest_of(store: Store, domain: int, indexes: Sequence[int], first: int, last: int) -> Digest:
    """Of these records, and of every record from `first` to `last`. Reads the store; for a thread."""
    chain = hashlib.blake2b(digest_size=16)
    count = 0
    damaged: list[int] = []
    for log_index, record in _records(store, domain, indexes, first, last):
        try:
            prefix = verify_stored(record)
            if prefix.log_index != log_index or prefix.domain != domain:
                raise CorruptRecord(f"record {prefix.log_index} lies where {log_index} should")
        except CorruptRecord:
            damaged.append(log_index)
            continue
        count += 1
        chain.update(log_index.to_bytes(8, "big"))
        chain.update(prefix.head_crc.to_bytes(4, "big") + prefix.body_crc.to_bytes(4, "big"))
    return Digest(count, chain.digest(), damaged[:DAMAGED_MAX])


def _records(store: Store, domain: int, indexes: Sequence[int], first: int, last: int) -> Iterator[tuple[int, bytes]]:
    for at in range(0, len(indexes), SLICE_RECORDS):
        part = indexes[at : at + SLICE_RECORDS]
        for log_index, record in zip(part, store.read_many(domain, part), strict=True):
            if record is not None:
                yield log_index, record
    while first <= last and (rows := store.scan(domain, first, limit_records=SLICE_RECORDS)):
        for log_index, record in rows:
            if log_index > last:
                return
            yield log_index, record
        first = rows[-1][0] + 1


class Verifier:
    """One member's part in it, as master and as replica."""

    def __init__(
        self, node: Node, note: Callable[[int, str, Domain], object], reconnect: Callable[[str], None]
    ) -> None:
        self.node = node
        self.note = note
        self.reconnect = reconnect
        self.counts = VerifyCounts()
        self._running: set[int] = set()
        self._asked: dict[int, asyncio.Future[VerifyReply]] = {}
        self._next_id = 0
        self._queries = 0
        self._last_id: dict[int, int] = {}
        """As master: domain, and its query that was sent last; the result of a run bears its number."""
        self._answered: dict[int, int] = {}
        """As replica: domain, and the query that was answered last."""

    # -- the master ------------------------------------------------------------------------------------------------

    async def run(self, hours: int) -> None:
        """Compare every domain that is mastered here, once in so many hours; 0: never."""
        while hours:
            await asyncio.sleep(hours * 3600)
            for domain in self.node.paired():
                try:
                    async for _ in self.compare(domain):
                        pass
                except CannotVerify as why:
                    log.info(
                        "domain %s: the copies are not compared now: %s",
                        domain.shared.name,
                        why,
                        extra=domain.shared.tags,
                    )

    def check(self, domain: Domain, epoch: int = 0) -> None:
        """Raises CannotVerify unless this member is master with its replica in step, in this epoch if one is given."""
        shared = domain.shared
        name = shared.name
        if not domain.shared.serving:
            raise CannotVerify(f"{shared.member} is {shared.role.name} in {name}: ask the master, {shared.peer}")
        if domain.source.phase is not Phase.LIVE or shared.peer not in domain.mastership.commit.required:
            raise CannotVerify(f"{shared.peer} is not in step in {name}: wait until the pair is whole")
        if epoch and epoch != shared.state.epoch:
            raise CannotVerify(f"epoch {epoch} of {name} has ended meanwhile: ask again")

    async def compare(self, domain: Domain, range_records: int = RANGE_RECORDS) -> AsyncIterator[VerifyResponse]:
        """One answer a range, the last one says the result; acts upon it before that. Raises CannotVerify."""
        shared = domain.shared
        self.check(domain)
        if shared.domain in self._running:
            raise CannotVerify(f"a comparison of {shared.name} is under way here")
        self._running.add(shared.domain)
        try:
            result = VerifyResponse(equal=True, last=True, end_index=shared.progress.commit_index)
            async for answer in _Comparison(self, domain, range_records).ranges():
                self.counts.ranges += 1
                result.records += answer.records
                if not answer.equal:
                    result.equal = False
                    result.difference = result.difference or answer.difference
                yield answer
            self.counts.runs[shared.name] = self.counts.runs.get(shared.name, 0) + 1
            await self._conclude(domain, result)
            yield result
        finally:
            self._running.discard(shared.domain)

    async def _conclude(self, domain: Domain, result: VerifyResponse) -> None:
        shared = domain.shared
        if result.equal:
            text = f"both copies are equal up to {result.end_index}: {result.records} records"
            self.note(K.PAIR_EVENT_KIND_VERIFY, text, domain)
            return
        self.counts.differences[shared.name] = self.counts.differences.get(shared.name, 0) + 1
        log.error("domain %s: the copies differ: %s", shared.name, result.difference, extra=shared.tags)
        if f"damaged at {shared.member}" in result.difference:
            text = f"{result.difference}; hand off to {shared.peer}, and resync {shared.member} in full"
            self.note(K.PAIR_EVENT_KIND_FAULT, text, domain)
            return
        self.note(K.PAIR_EVENT_KIND_VERIFY, f"{result.difference}; {shared.peer} takes everything anew", domain)
        done = VerifyDone(verify_id=self._last_id[shared.domain], difference=result.difference)
        self.send(domain, verify_done=done)
        domain.mastership.leaving.leave_out(f"the copy of {shared.peer} differs")
        self.node.dispatch(domain)

    def send(self, domain: Domain, **frame: object) -> None:
        """On the Data stream, in the epoch in force."""
        shared = domain.shared
        self.node.outbox.append(
            PeerFrame(domain=shared.domain, epoch=shared.state.epoch, **frame)  # type: ignore[arg-type]  # oneof by keyword
        )
        self.node.send_wake.set()

    async def ask(self, domain: Domain, indexes: list[int], first: int, last: int) -> VerifyReply:
        """What the replica holds of a range."""
        self._next_id += 1
        number = self._last_id[domain.shared.domain] = self._next_id
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            query = VerifyQuery(verify_id=number, first_index=first, last_index=last, indexes=indexes)
            self.send(domain, verify_query=query)
            return await asyncio.wait_for(future, ANSWER_S)
        except TimeoutError:
            raise CannotVerify(f"{domain.shared.peer} has not answered for {ANSWER_S:g} s") from None
        finally:
            del self._asked[number]

    async def digest(self, domain: Domain, indexes: list[int], first: int, last: int) -> Digest:
        """What this member holds of a range; all that is committed is on disk."""
        work = asyncio.get_running_loop().run_in_executor
        return await work(None, digest_of, self.node.store, domain.shared.domain, indexes, first, last)

    # -- frames ----------------------------------------------------------------------------------------------------

    def on_frame(self, domain: Domain, frame: PeerFrame) -> None:
        """A frame of a comparison; of another epoch it is dropped, and asked for again by whoever wants to know."""
        if frame.epoch != domain.shared.state.epoch:
            return
        if frame.HasField("verify_reply"):
            future = self._asked.get(frame.verify_reply.verify_id)
            if future is not None and not future.done():
                future.set_result(frame.verify_reply)
        elif domain.shared.role is not Role.REPLICA or not domain.target.opened:
            return
        elif frame.HasField("verify_query"):
            self._queue(domain, frame.verify_query, frame.epoch)
        elif frame.verify_done.verify_id == self._answered.get(domain.shared.domain):
            self.node.spawn(self._begin_anew(domain, frame.verify_done.difference))

    def _queue(self, domain: Domain, query: VerifyQuery, epoch: int) -> None:
        if self._queries >= QUERIES_MAX:
            text = "domain %s: %d comparisons are asked for at once; query %d is dropped"
            log.warning(text, domain.shared.name, self._queries + 1, query.verify_id, extra=domain.shared.tags)
            return
        self._queries += 1
        task = self.node.spawn(self._answer(domain, query, epoch))
        task.add_done_callback(self._on_answered)

    def _on_answered(self, _task: asyncio.Task[None]) -> None:
        self._queries -= 1

    async def _answer(self, domain: Domain, query: VerifyQuery, epoch: int) -> None:
        shared = domain.shared
        if len(query.indexes) > RANGE_RECORDS_MAX or query.last_index - query.first_index >= RANGE_RECORDS_MAX:
            log.warning(
                "domain %s: a comparison of too many records was asked for, and is not answered",
                shared.name,
                extra=shared.tags,
            )
            return
        found = await self.digest(domain, list(query.indexes), query.first_index, query.last_index)
        if epoch != shared.state.epoch:
            return
        self._answered[shared.domain] = query.verify_id
        reply = VerifyReply(
            verify_id=query.verify_id,
            first_index=query.first_index,
            last_index=query.last_index,
            records=found.records,
            digest=found.digest,
            kept_from=shared.state.kept_from,
            damaged=found.damaged,
        )
        self.send(domain, verify_reply=reply)

    async def _begin_anew(self, domain: Domain, difference: str) -> None:
        why = f"this copy differs from the master's: {difference[:500]}"
        log.error("domain %s: %s", domain.shared.name, why, extra=domain.shared.tags)
        domain.mastership.copy_orders.mark_damaged(why)
        self.node.dispatch(domain)
        await self.node.flush()
        self.reconnect("this copy begins anew")


class _Comparison:
    """One run over one domain, at the master."""

    def __init__(self, verifier: Verifier, domain: Domain, range_records: int) -> None:
        self.verifier = verifier
        self.domain = domain
        self.range_records = range_records
        self.epoch = domain.shared.state.epoch
        self.end = domain.shared.progress.commit_index
        self.floor = 0
        """Both keep every record from here on."""
        self.live: list[tuple[int, int]] = []
        """(log index, queue) of records below the floor that held live messages when it was found."""

    async def ranges(self) -> AsyncIterator[VerifyResponse]:
        """Until the end of what was committed at the beginning."""
        shared = self.domain.shared
        self._raise_floor(shared.state.kept_from)
        at = 1
        while at <= self.end:
            following = self.verifier.node.store.scan_indexes(shared.domain, at, limit=1)
            if not following or following[0] > self.end:
                return
            at = max(at, min(following[0], self.floor))
            last = min(self.end, at + self.range_records - 1)
            began = time.monotonic()
            yield await self._range(at, last)
            at = last + 1
            await asyncio.sleep(REST * (time.monotonic() - began))

    def _raise_floor(self, floor: int) -> None:
        machine = self.domain.shared.machine
        if floor > self.floor and machine is not None:
            self.floor = floor
            self.live = sorted((index, queue) for queue, index in machine.live_log_indexes() if index < floor)

    def _live_in(self, first: int, end: int) -> list[int]:
        machine = self.domain.shared.machine
        assert machine is not None
        part = self.live[bisect_left(self.live, (first, 0)) : bisect_left(self.live, (end, 0))]
        return sorted({index for index, queue in part if machine.live(index, queue)})

    async def _range(self, first: int, last: int) -> VerifyResponse:
        shared, verifier = self.domain.shared, self.verifier
        answer = VerifyResponse(first_index=first, last_index=last, end_index=self.end)
        for _ in range(TRIES):
            verifier.check(self.domain, self.epoch)
            dense = max(first, self.floor)
            indexes = self._live_in(first, min(dense, last + 1))
            reply, own = await asyncio.gather(
                verifier.ask(self.domain, indexes, dense, last), verifier.digest(self.domain, indexes, dense, last)
            )
            answer.records = own.records
            answer.difference = _difference(shared.member, own, shared.peer, reply, first, last)
            answer.equal = not answer.difference
            floor = max(shared.state.kept_from, reply.kept_from)
            if answer.equal or own.damaged or reply.damaged:
                break
            # Trimmed meanwhile, here or there: what is still live decides.
            self._raise_floor(floor)
        return answer


def _difference(member: str, own: Digest, peer: str, reply: VerifyReply, first: int, last: int) -> str:
    """Empty: there is none."""
    for name, damaged in ((member, own.damaged), (peer, list(reply.damaged))):
        if damaged:
            listed = ", ".join(str(index) for index in damaged[:5])
            return f"{len(damaged)} records are damaged at {name}: {listed}"
    if own.records != reply.records:
        return f"{first} to {last}: {member} holds {own.records} records of them, {peer} {reply.records}"
    return "" if own.digest == reply.digest else f"{first} to {last}: other records at {peer} than at {member}"
