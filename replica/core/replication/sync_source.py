"""The master's view of its peer: where the two logs part, what to send next, what the peer holds durably. Never decides
who is master.

Phases: IDLE -> COMPARE (a digest is asked for) -> ASIDE (the peer needs everything, and is left out of the in-sync set
before it is sent) -> CHECK (all that a transfer sends is read once, before a peer gives its copy up for it) -> FULL (a
transfer is under way) -> DELTA (records up to a target, then SYNC_END) -> LIVE.
A lost connection goes back to IDLE from anywhere; nothing of a session outlives its connection (P13). A full transfer
outlives an epoch in which this member goes on as master (P22).
"""

from __future__ import annotations

from array import array
from enum import Enum
from typing import TYPE_CHECKING

from failover.marks import DataMark, Link
from replica.core.replication.op_frame import Carried, OpFrame
from replica.core.state.durable import data_of
from replica.core.state.effects import CheckTransfer, QueueTransfer, StartTransfer, StopTransfer
from replica.machine.plan.time import plan_volatile_lost
from storage.records import is_bare
from tandemq.peer.v1.peer_service_pb2 import DigestQuery, EpochBoundary, PeerFrame, SyncBegin, SyncEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.state.log import Entry
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import DigestReply, DomainHello, OpAck, OpenAck

FRAME_BYTES_MAX = 2 << 20
"""Records in one frame; below gRPC's message limit with room for one whole batch more."""
WINDOW_BYTES_MAX = 32 << 20
"""Bytes sent and not acknowledged; beyond it records wait in the log, where they cost nothing."""
PROVEN_MAX = 50
"""Newest epochs whose first record is named by its digest too: a point read each, where it is not in memory."""


class Phase(Enum):
    """How far the peer has come."""

    IDLE = "idle"
    COMPARE = "compare"
    ASIDE = "aside"
    CHECK = "check"
    FULL = "full"
    DELTA = "delta"
    LIVE = "live"


class NeedRead:
    """The next records are not in memory: the shell reads them from the store and calls `frame_of_stored`."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


class Aside(Enum):
    """Whether commits stop waiting for a peer before it is sent everything."""

    IS_ASIDE = "they do not wait for it"
    POSSIBLE = "it can be left out of the in-sync set"
    IMPOSSIBLE = "it cannot: the register does not answer, or there is none"


class SyncSource:
    """One session of sending to the peer."""

    def __init__(self, shared: Shared, aside: Callable[[], Aside]) -> None:
        self.shared = shared
        self.aside = aside
        """Asked before everything is sent."""
        self.phase = Phase.IDLE
        self.sync_id = shared.incarnation << 20
        """Never one of an earlier start: what the peer still writes for that one must not pass for this one's."""
        self.cursor = 0
        """Next log index to send."""
        self.target = 0
        self.sent = 0
        self.commit_sent = 0
        self.whole_up_to = 0
        """Records up to here are sent with their body even if the peer said that it holds it (it asked for them)."""
        self.in_flight: list[tuple[int, int]] = []
        self.in_flight_bytes = 0
        self.held_open = 0
        """Up to there are records whose commit the peer is to hear of at once: requests that it holds, and all of them
        while a process acts there on what is committed (`prompt`).
        """
        self.prompt = False
        """A process is served at the peer's side of a queue: it is given nothing before its member knows the commit."""
        self.held = False
        """A claim is under way that this transfer outlives: no record leaves between the two epochs."""
        self._reads = False
        """The shell reads records for us; what it read for the epoch before is not sent in this one."""
        self.peer_durable = 0
        self.compared = 0
        self.peer_floor = 0
        self.peer_has_copy = False
        """There is something that a full transfer takes away."""
        self.peer_is_good = False
        """Its copy is not an older one, nor taken away by a full transfer that did not end, connected or not."""
        self.hello: DomainHello | None = None
        """What this session was started from."""
        self.is_wish = False
        """Everything is sent by an operator's word alone: the peer's copy is good, and a delta would do."""
        self.filling = False
        """A full transfer has started, and the peer has not said yet that it has all of it."""

    @property
    def goes_on(self) -> bool:
        """What is under way outlives an epoch that its master begins: a full transfer, and the look before it."""
        return self.phase is Phase.CHECK or self.filling

    def stop(self) -> None:
        """The connection or the mastership is gone."""
        if self.phase is Phase.FULL:
            self.shared.outbox.add(StopTransfer())
        self.phase = Phase.IDLE
        self.filling = False
        self.release()
        self.peer_durable = 0
        self.in_flight.clear()
        self.in_flight_bytes = 0
        self.held_open = 0
        self.prompt = False

    def on_side_moved(self) -> None:
        """The peer's side of a queue goes on, so a process is served there: see `prompt`."""
        self.prompt = True

    def trust_copy(self, *, is_good: bool) -> None:
        """What a member that did not serve knows of its peer's copy: whether the epoch that it claims counts it in."""
        self.peer_is_good = is_good

    def refused(self) -> None:
        """The peer has DIVERGED: it takes nothing from us, and is not asked again before it says another HELLO."""
        self.stop()
        self.shared.set_link(Link.HANDSHAKE)

    # -- where the logs part -------------------------------------------------------------------------------------

    def begin(self, hello: DomainHello) -> None:
        """Compare logs with a peer that says where it stands (P11)."""
        self.stop()
        self.sync_id += 1
        self.shared.set_link(Link.SYNC_SRC)
        mark = data_of(hello.data_state)
        self.peer_has_copy = mark not in (DataMark.EMPTY, DataMark.SYNCING)
        self.peer_is_good = mark.is_good
        self.hello = hello
        needed = not self.peer_has_copy or mark is DataMark.DAMAGED
        self.is_wish = hello.wants_full and not needed
        if needed or self.is_wish:
            self._begin_full()
        else:
            self._compare(hello)

    def _compare(self, hello: DomainHello) -> None:
        log = self.shared.log
        common = self._candidate(hello)
        self.peer_floor = hello.volatile_floor
        if common is None or common < max(log.base_index, self.shared.state.kept_from - 1):
            self._begin_full()
        elif common == hello.last_index:
            self.judge_point(common, hello.digest)
        else:
            self.phase = Phase.COMPARE
            self.compared = common
            self.shared.outbox.send(digest_query=DigestQuery(index=common))

    def _candidate(self, hello: DomainHello) -> int | None:
        """Highest index at which both logs are in the same epoch; whether they are equal there only the digest says."""
        boundaries = list(hello.history)
        for position in range(len(boundaries) - 1, -1, -1):
            mine = self.shared.log.end_of_epoch(boundaries[position].epoch)
            if mine is None:
                continue
            later = boundaries[position + 1 :]
            theirs = later[0].first_index - 1 if later else hello.last_index
            return min(mine, theirs)
        return None

    def on_digest_reply(self, reply: DigestReply) -> None:
        """The peer's digest at the compared index."""
        if self.phase is Phase.COMPARE and reply.index == self.compared:
            if reply.epoch == 0:
                self._begin_full()
            else:
                self.judge_point(reply.index, reply.digest)

    def judge_point(self, common: int, digest: bytes) -> None:
        """Both are in one epoch there; only equal digests say that they hold the same up to there (P11)."""
        mine = self.shared.log.digest_at(common)
        if mine is None or mine[1] != digest or self._lacks_volatile(common):
            self._begin_full()
        else:
            self.begin_delta(common, full=False)

    def _lacks_volatile(self, common: int) -> bool:
        """Whether the peer's restart lost bodies of live volatile messages: a delta does not bring them."""
        machine = self.shared.machine
        assert machine is not None
        missing = min(common, self.peer_floor)
        return plan_volatile_lost(machine.state, 0, lambda log_index: log_index > missing) is not None

    # -- the two ways to bring the peer up ------------------------------------------------------------------------

    def _boundaries(self) -> list[EpochBoundary]:
        log = self.shared.log
        said = [EpochBoundary(epoch=b.epoch, first_index=b.first_index) for b in log.history]
        for boundary in said[-PROVEN_MAX:]:
            found = log.digest_at(boundary.first_index)
            boundary.digest = found[1] if found is not None else b""
        return said

    def _begin_full(self) -> None:
        aside = self.aside()
        if aside is Aside.POSSIBLE:
            self.phase = Phase.ASIDE
        elif aside is Aside.IMPOSSIBLE and self.is_wish:
            self._compare_instead()  # a wish is not worth that everybody waits
        elif self.peer_has_copy and (queues := self._live()):
            self.phase = Phase.CHECK
            self.shared.outbox.add(CheckTransfer(self.sync_id, queues))
        else:
            self._send_full()

    def _compare_instead(self) -> None:
        assert self.hello is not None
        self.is_wish = False
        self.sync_id += 1
        self.phase = Phase.IDLE
        self._compare(self.hello)

    def look_again(self) -> None:
        """The peer was to be left out first: what is possible may be another thing by now."""
        if self.phase is Phase.ASIDE and self.aside() is not Aside.POSSIBLE:
            self._begin_full()

    def on_not_whole(self, sync_id: int) -> bool:
        """What a full transfer reads from the disk is damaged. True: nobody needs it, and the logs are compared; False:
        the session ends.
        """
        if self.phase is Phase.CHECK and sync_id == self.sync_id and self.is_wish:
            self._compare_instead()
            return True
        return False

    def _live(self) -> dict[int, array[int]]:
        """By queue, the records that a full transfer sends."""
        queues: dict[int, array[int]] = {}
        for owner, log_index in self.shared.machine.live_log_indexes() if self.shared.machine is not None else ():
            queues.setdefault(owner, array("Q")).append(log_index)
        return queues

    def on_checked(self, sync_id: int) -> None:
        """What a full transfer reads from the disk is whole: the peer may give its copy up."""
        if self.phase is Phase.CHECK and sync_id == self.sync_id:
            self._send_full()

    def _send_full(self) -> None:
        shared = self.shared
        machine, log = shared.machine, shared.log
        assert machine is not None
        self.phase = Phase.FULL
        self.filling, self.is_wish = True, False
        self.peer_has_copy = self.peer_is_good = False
        self.target = log.last_index
        shared.progress.on_sent(log.last_index)
        queues, transfers = self._live(), []
        for name in machine.names():
            queue_id = machine.queue_id(name)
            assert queue_id is not None
            info = machine.queue_info(name, shared.member)
            transfers.append(QueueTransfer(queue_id, name, info.length, info.last_index, queues.get(queue_id, ())))
        shared.outbox.send(
            sync_begin=SyncBegin(
                sync_id=self.sync_id,
                full=True,
                base_index=log.last_index,
                base_digest=log.digest,
                target_index=log.last_index,
                history=self._boundaries(),
            )
        )
        shared.outbox.note_transfer(f"sends everything up to log index {log.last_index}", full="true")
        shared.outbox.add(StartTransfer(self.sync_id, log.last_index, log.digest, machine.snapshot(), transfers))

    def begin_delta(self, common: int, *, full: bool) -> None:
        """Send records from there on; `full`: what is below was sent as a whole."""
        shared = self.shared
        self.phase = Phase.DELTA
        self.cursor = common + 1
        self.sent = 0
        self.target = shared.log.last_index
        self.commit_sent = 0
        self.whole_up_to = self.target
        if not full:
            found = shared.log.digest_at(common)
            assert found is not None
            shared.outbox.send(
                sync_begin=SyncBegin(
                    sync_id=self.sync_id,
                    full=False,
                    base_index=common,
                    base_digest=found[1],
                    target_index=self.target,
                    history=self._boundaries(),
                )
            )

    # -- what the peer says ----------------------------------------------------------------------------------------

    def on_op_ack(self, ack: OpAck) -> None:
        """The peer's durable index."""
        self.peer_durable = max(self.peer_durable, ack.durable_index)
        while self.in_flight and self.in_flight[0][0] <= self.peer_durable:
            self.in_flight_bytes -= self.in_flight.pop(0)[1]
        self.peer_is_good |= self.phase in (Phase.FULL, Phase.DELTA, Phase.LIVE) and self.peer_durable >= self.target
        if self.phase is Phase.FULL and ack.durable_index == self.target:
            self.begin_delta(self.target, full=True)

    def on_open_ack(self, ack: OpenAck) -> bool:
        """True when the peer has verified the transfer; a refusal starts a full one, but for two histories."""
        if ack.sync_id != self.sync_id or self.phase is Phase.IDLE:
            return False
        if ack.done:
            self.peer_durable = max(self.peer_durable, ack.durable_index)
            self.peer_has_copy = self.peer_is_good = True
            self.filling = False
            return self.phase is Phase.LIVE
        if ack.diverged:
            self.refused()
            return False
        self.stop()
        self.sync_id += 1
        self._begin_full()
        return False

    def on_fetch(self, indexes: list[int]) -> None:
        """The peer lacks bodies: send again from the first one, whole."""
        if self.phase in (Phase.DELTA, Phase.LIVE) and indexes:
            self.cursor = min(self.cursor, *indexes)
            self.whole_up_to = max(self.whole_up_to, self.shared.log.last_index)

    # -- what goes next --------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Nothing is sent until `release`: the epoch in force is about to end."""
        self.held = True
        self._reads = False

    def release(self) -> None:
        """Go on, in the epoch that is in force now."""
        self.held = False

    def has_more(self) -> bool:
        """Whether `pull` would give anything now."""
        if self.held:
            return False
        if self.phase is Phase.LIVE:
            shared = self.shared
            answers = self.held_open and self.commit_sent < shared.progress.commit_index
            return bool(self.cursor <= shared.log.last_index or answers) and self.in_flight_bytes <= WINDOW_BYTES_MAX
        return self.phase is Phase.DELTA and self.in_flight_bytes <= WINDOW_BYTES_MAX

    def pull(self) -> list[PeerFrame | OpFrame] | NeedRead:
        """The next frames for the Data stream; empty when there is nothing to send now."""
        if not self.has_more():
            return []
        log = self.shared.log
        frames: list[PeerFrame | OpFrame] = []
        if self.cursor <= log.last_index and not self._at_target():
            limit = self.target if self.phase is Phase.DELTA else log.last_index
            entries = log.tail_from(self.cursor, FRAME_BYTES_MAX)
            if not entries:
                self._reads = True
                return NeedRead(self.cursor, limit)
            carried = [self._carried(entry) for entry in entries if entry.log_index <= limit]
            frames.append(self._op_frame(carried, sum(len(entry.record) for entry in entries[: len(carried)])))
        elif self.phase is Phase.LIVE and self.held_open and self.commit_sent < self.shared.progress.commit_index:
            frames.append(self._op_frame([], 0))
        if self._at_target():
            frames.append(self._end())
        return frames

    def frame_of_stored(self, records: list[tuple[int, bytes]]) -> list[PeerFrame | OpFrame]:
        """A frame of records that were read from the store; volatile bodies are put back."""
        asked, self._reads = self._reads, False
        if not asked or self.phase not in (Phase.DELTA, Phase.LIVE) or not records or records[0][0] != self.cursor:
            return []
        bodies = self.shared.volatile.bodies
        carried = []
        for index, record in records:
            body = bodies.get(index, b"")
            carried.append(Carried(record + body if body and is_bare(record) else record))
        frames: list[PeerFrame | OpFrame] = [self._op_frame(carried, sum(len(record) for _, record in records))]
        if self._at_target():
            frames.append(self._end())
        return frames

    def _at_target(self) -> bool:
        return self.phase is Phase.DELTA and self.cursor > self.target

    def _carried(self, entry: Entry) -> Carried:
        held = entry.held
        if held is None or entry.log_index <= self.whole_up_to:
            return Carried(entry.record)
        self.held_open = max(self.held_open, entry.log_index)
        return Carried(entry.record[: entry.head_len], held)

    def _op_frame(self, carried: list[Carried], size: int) -> OpFrame:
        """It leaves: move the cursor, and count what is under way."""
        shared = self.shared
        self.cursor += len(carried)
        self.sent += len(carried)
        shared.progress.on_sent(self.cursor - 1)
        if self.prompt and carried:
            self.held_open = self.cursor - 1
        self.commit_sent = shared.progress.commit_index
        if self.held_open and self.held_open <= self.commit_sent:
            self.held_open = 0
        if size:
            self.in_flight.append((self.cursor - 1, size))
            self.in_flight_bytes += size
        return OpFrame(shared.domain, shared.state.epoch, self.commit_sent, carried)

    def _end(self) -> PeerFrame:
        found = self.shared.log.digest_at(self.target)
        assert found is not None
        self.phase = Phase.LIVE
        end = SyncEnd(sync_id=self.sync_id, last_index=self.target, count=self.sent, digest=found[1])
        return PeerFrame(domain=self.shared.domain, epoch=self.shared.state.epoch, sync_end=end)
