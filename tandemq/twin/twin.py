"""Runs one of two processes that do the same: inputs of its own member's side, each output once, a state that outlives
the process. What an input comes to is its handler's; who is master, the pair's.

An input is settled once its outputs are in their queues and a snapshot behind it is on this process's disk. So whoever
begins again has a state, and is given every input behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Generic, Self

from tandemq.client import aio
from tandemq.client.calls import PAIR_SERVICE
from tandemq.client.consumer import Consumer
from tandemq.client.delivery import DeliveryBatch
from tandemq.errors import AlreadyExists, NotFound
from tandemq.twin.digests import NONE, shown, state_digest
from tandemq.twin.faults import InputMissing, StateMissing, TwinFault, TwinsDiffer, TwinVersion
from tandemq.twin.handling import JSON, Codec, Handler, Output, State, TwinInput
from tandemq.twin.meeting import MARKS_KEPT, SNAPSHOT_BYTES_MAX, Asked, Meeting, latest, logged, mark, marks
from tandemq.twin.outputs import Compared, OutputCounts, Outputs
from tandemq.twin.snapshots import SnapshotCutError, Snapshots, TwinSnapshot, snapshot_from
from tandemq.v1 import pair_service_pb2
from tandemq.v1.queue_admin_service_pb2 import REPLICATION_PRODUCER, QueueInfo

AWAY_S = 24 * 3600.0
"""How long the own member may be away before the twin gives up."""
TAKEN_S, TAKEN_EVERY_S = 5.0, 0.1
"""How long a process that was killed may still have the side, as its member sees it."""
SETTLED_S = 5.0
"""How long an end waits for the member to hear what is settled."""
LEASE = timedelta(hours=1)
"""Of inputs that wait for a snapshot. Those whose lease ends come again, and are known."""
log = logging.getLogger("tandemq.twin")


class OnDivergence(enum.StrEnum):
    """What becomes of twins that differ. What entered first counts in each case."""

    LOG = "log"
    """Both go on."""
    STOP_LATER = "stop-later"
    """The one that came second stops."""
    STOP_BOTH = "stop-both"
    KEEP = "keep"
    """The one at the member that is named (`keep`) goes on, and the other one stops."""


class TwinEnd(enum.Enum):
    """Why `Twin.run` has returned."""

    STOPPED = enum.auto()
    RESTART = enum.auto()
    """It was asked to begin again, perhaps as a new version."""


@dataclass(frozen=True, slots=True)
class TwinOptions:
    """What both twins have in common but `side` and `directory`."""

    inputs: str
    """A queue with PRODUCER replication."""
    side: str
    """host:port of the member whose side this process takes."""
    directory: Path
    """Of its snapshots; its alone."""
    target: str = ""
    """The pair, for outputs; empty: through the same member."""
    version: str = "1"
    allow: Sequence[str] = ()
    """Other versions that do the same."""
    on_divergence: OnDivergence = OnDivergence.STOP_LATER
    keep: str = ""
    """With KEEP: a member."""
    mark_every: int = 1_000
    """Inputs between two digests of the state."""
    snapshot_every: int = 10_000
    """Inputs between two snapshots, at most."""
    snapshot_s: float = 1.0
    """Seconds between two snapshots while anything is new, at most."""
    state_wait_s: float = 60.0
    """For how long the other twin is waited for when it is asked for its snapshot."""
    credentials: str | None = None

    def __post_init__(self) -> None:
        if min(self.mark_every, self.snapshot_every) < 1 or self.snapshot_s <= 0:
            raise ValueError("mark_every and snapshot_every are at least 1, and snapshot_s is above 0")
        if (self.on_divergence is OnDivergence.KEEP) != bool(self.keep):
            raise ValueError("on_divergence KEEP needs a member in `keep`, and nothing else does")


@dataclass(slots=True)
class _At:
    """Names the input at which a handler has raised."""

    queue: str
    index: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"at input {self.index} of {self.queue}; its twin comes to the same")


@dataclass(slots=True)
class _Saving:
    """What is on this process's disk."""

    index: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    unsettled: deque[tuple[int, DeliveryBatch]] = field(default_factory=deque)
    """Their last inputs, and the inputs."""


class Twin(Generic[State]):
    """One of two processes of one name. `run` is called once."""

    def __init__(
        self,
        name: str,
        handler: Handler[State],
        options: TwinOptions,
        *,
        initial: Callable[[], State],
        codec: Codec[State] = JSON,
    ) -> None:
        self.name, self.options = name, options
        self._handler, self._codec = handler, codec
        self.state: State = initial()
        self.index = 0
        """The last input that the state has seen."""
        self.member = ""
        """Whose side it takes, once that is known."""
        self.counts = OutputCounts()
        self._snapshots = Snapshots(options.directory)
        self._saving = _Saving()
        self._own_marks: dict[int, int] = {}  # state digests, by input; the latest ones
        self._stop = asyncio.Event()
        self._restart = False
        self._given: asyncio.Queue[bytes] = asyncio.Queue(1)  # the latest snapshot of the other twin
        self._passed = 0  # inputs that are settled for certain at this member
        self._acted = False
        self._applied = asyncio.Event()
        self._differ: Compared | None = None
        self._differed = asyncio.Event()
        self._queue_id = self.other = ""
        self._at = _At(options.inputs)

    def stop(self) -> None:
        """Has `run` end in order: what was acted on is sent, saved and settled. From the loop's thread."""
        self._stop.set()

    async def run(self) -> TwinEnd:
        """Until it is stopped. Raises TwinFault, TandemqError, and whatever the handler raises."""
        options, credentials = self.options, self.options.credentials
        with self._snapshots.locked():
            async with (
                aio.connect(options.side, timeout=AWAY_S, follow_master=False, credentials=credentials) as at_side,
                aio.connect(options.target or options.side, credentials=credentials) as pair,
            ):
                meeting, outputs = await self._begin(at_side, pair)
                await self._work(at_side, meeting, outputs)
        return TwinEnd.RESTART if self._restart else TwinEnd.STOPPED

    # -- beginning ---------------------------------------------------------------------------------------------------

    async def _begin(self, at_side: aio.Client, pair: aio.Client) -> tuple[Meeting, Outputs]:
        options = self.options
        inputs = await pair.get_queue(options.inputs)
        self.member = await _member_at(at_side)
        self._check_sides(inputs)
        self._queue_id = f"{inputs.name} of {inputs.created_at.ToJsonString()}"
        self.other = next((member for member in inputs.open_members if member != self.member), "")
        meeting = Meeting(pair, self.name, self.member)
        await meeting.prepare(inputs)
        began = latest(await logged(pair, self.name), "began").get(self.other)
        if began is not None:
            self._check_version(began["version"], f"the twin at {self.other}")
        outputs = Outputs(pair, self.name, self._queue_id, self._on_differ)
        self.counts = outputs.counts
        self._passed = {side.member: side.passed for side in inputs.sides}.get(self.member, 0)
        snapshot = self._snapshots.newest()
        if snapshot is not None:
            self._take(snapshot)
        await outputs.begin(*_place_of(snapshot))
        await meeting.note("began", version=options.version, index=self.index, inputs=options.inputs)
        log.info("twin %s at %s begins behind input %d", self.name, self.member, self.index)
        return meeting, outputs

    def _check_sides(self, inputs: QueueInfo) -> None:
        if inputs.config.replication != REPLICATION_PRODUCER:
            text = (
                f"queue {inputs.name} has one consumption for both members; twins need one of their own each: create "
                "it with replication PRODUCER"
            )
            raise TwinFault("CONFIG_ERROR", text, queue=inputs.name)
        if self.options.keep and self.options.keep not in inputs.open_members:
            text = f"{self.options.keep!r} is to be kept, and {inputs.name} is open at {', '.join(inputs.open_members)}"
            raise TwinFault("CONFIG_ERROR", text)

    def _check_version(self, version: str, whose: str) -> None:
        if version != self.options.version and version not in self.options.allow:
            raise TwinVersion(self.name, self.options.version, version, whose)

    def _take(self, snapshot: TwinSnapshot) -> None:
        if (snapshot.name, snapshot.queue) != (self.name, self._queue_id):
            text = (
                f"the snapshots in {self.options.directory} are of twins {snapshot.name}, inputs {snapshot.queue}; "
                f"these are twins {self.name}, inputs {self._queue_id}: give them another directory"
            )
            raise StateMissing("TWIN_STATE_LOST", text)
        self._check_version(snapshot.version, f"the snapshot of input {snapshot.index}")
        self.state, self.index = self._codec.decode(snapshot.state), snapshot.index
        self._saving.index = snapshot.index

    async def _rejoin(self, first: int, meeting: Meeting, outputs: Outputs) -> None:
        """This process's state ends before the first input that its member still has: take the twin's (K10)."""
        wanted, waited_s = first - 1, self.options.state_wait_s
        why = f"the twin at {self.other} did not answer for {waited_s:.0f} s"
        with contextlib.suppress(TimeoutError, NotFound):
            async with asyncio.timeout(waited_s):
                await meeting.ask(self.other, "snapshot", index=wanted)
                while self.index < wanted:
                    given = await self._given.get()
                    try:
                        snapshot = snapshot_from(given)
                    except SnapshotCutError:
                        why = given.decode(errors="replace")
                        break
                    if snapshot.index >= wanted:
                        await self._adopt(snapshot, outputs)
        if self.index < wanted:
            text = (
                f"inputs {self.index + 1} to {wanted} of {self.options.inputs} were settled at {self.member}, and no "
                f"snapshot in {self.options.directory} has seen them; {why}. Start the other one, or put a snapshot of "
                "it there"
            )
            raise StateMissing("TWIN_STATE_LOST", text, first=str(first))
        log.warning("twin %s at %s goes on from its twin's state behind input %d", self.name, self.member, self.index)

    async def _adopt(self, snapshot: TwinSnapshot, outputs: Outputs) -> None:
        async with self._saving.lock:  # nobody saves half of the one and half of the other
            await outputs.begin(*_place_of(snapshot))
            await asyncio.to_thread(self._snapshots.write, snapshot)
            self._take(snapshot)

    # -- working -----------------------------------------------------------------------------------------------------

    async def _work(self, at_side: aio.Client, meeting: Meeting, outputs: Outputs) -> None:
        begin = asyncio.create_task
        acting = begin(self._act(at_side, meeting, outputs))
        parts = [
            acting,
            begin(outputs.run()),
            begin(self._save_now_and_then(outputs)),
            begin(self._answer(meeting, outputs)),
            begin(self._part_ways(meeting)),
        ]
        stopped = begin(self._stop.wait())
        try:
            await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
            _raise_first(parts)
            acting.cancel()  # it settles what was acted on, and gives back the rest
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            _raise_first(parts)
            counts = {"units": self.counts.units, "duplicates": self.counts.duplicates, "sent": self.counts.sent}
            await meeting.note("ended", version=self.options.version, index=self.index, **counts)
        finally:
            for part in (stopped, *parts):
                part.cancel()
            await asyncio.gather(stopped, *parts, return_exceptions=True)

    async def _act(self, at_side: aio.Client, meeting: Meeting, outputs: Outputs) -> None:
        if self._passed > self.index:
            await self._rejoin(self._passed + 1, meeting, outputs)
        credit, loop = 2 * self.options.snapshot_every, asyncio.get_running_loop()
        until_s = loop.time() + TAKEN_S
        while True:
            try:
                async with at_side.consumer(self.options.inputs, credit_messages=credit, lease=LEASE) as consumer:
                    try:
                        await self._consume(consumer, meeting, outputs)
                    except asyncio.CancelledError:
                        if self._stop.is_set():
                            await self._save(outputs)
                            with contextlib.suppress(TimeoutError):  # they come again, and are known
                                async with asyncio.timeout(SETTLED_S):
                                    await consumer.settled()
                        raise
            except AlreadyExists as error:
                if error.reason != "TWIN_TAKEN" or loop.time() > until_s:
                    raise
                await asyncio.sleep(TAKEN_EVERY_S)

    async def _consume(self, consumer: Consumer, meeting: Meeting, outputs: Outputs) -> None:
        async for batch in consumer.batches():
            ranges = batch.ranges()
            first, last = ranges[0][0], ranges[-1][0] + ranges[-1][1] - 1
            if first > self.index + 1 and not self._acted:
                await self._rejoin(first, meeting, outputs)
            with self._at:
                self._apply(batch, outputs)
            outputs.passed(self.index)
            self._acted = True
            self._applied.set()
            self._saving.unsettled.append((last, batch))
            if last <= self._saving.index:
                self._settle()  # it was acted on before this process began
            if outputs.is_full:
                await outputs.room()
            if self.index - self._saving.index >= self.options.snapshot_every:
                await self._save(outputs)

    def _apply(self, batch: DeliveryBatch, outputs: Outputs) -> None:
        handler, mark_every, index, at = self._handler, self.options.mark_every, self.index, self._at
        for part in batch.parts:
            for place in range(len(part.payloads)):
                number = part.index(place)
                if number <= index:
                    continue  # it came before: its lease ended, or this state is its twin's
                if number != index + 1:
                    text = f"input {number} of {self.options.inputs} came behind {index}: it is not acted on"
                    raise InputMissing("TWIN_SKIPPED", text, index=str(index + 1))
                at.index = number
                self.state, made = handler(self.state, TwinInput(part, place, number))
                self.index = index = number
                if number % mark_every == 0:
                    outputs.add(number, [*made, self._mark(number)])
                elif made and (listed := list(made)):
                    outputs.add(number, listed)

    def _mark(self, index: int) -> Output:
        digest = state_digest(self._codec.encode(self.state))
        self._own_marks[index] = digest
        while len(self._own_marks) > MARKS_KEPT:
            del self._own_marks[next(iter(self._own_marks))]
        return mark(self.name, index, digest)

    # -- saving ------------------------------------------------------------------------------------------------------

    async def _save_now_and_then(self, outputs: Outputs) -> None:
        while True:
            await asyncio.sleep(self.options.snapshot_s)
            await self._save(outputs)

    async def _save(self, outputs: Outputs) -> TwinSnapshot:
        """The state as it is now; when it returns, that is on the disk and its inputs are settled."""
        async with self._saving.lock:
            snapshot = TwinSnapshot(
                self.name,
                self.options.version,
                self._queue_id,
                self.index,
                outputs.chain,
                outputs.sent,
                self._codec.encode(self.state),
            )
            await outputs.done(snapshot.index)
            if snapshot.index > self._saving.index:
                await asyncio.to_thread(self._snapshots.write, snapshot)
                self._saving.index = snapshot.index
            self._settle()
            return snapshot

    def _settle(self) -> None:
        unsettled = self._saving.unsettled
        while unsettled and unsettled[0][0] <= self._saving.index:
            unsettled.popleft()[1].ack()

    # -- the other one -----------------------------------------------------------------------------------------------

    async def _answer(self, meeting: Meeting, outputs: Outputs) -> None:
        async for asked in meeting.asked():
            match asked.what:
                case "stop" | "restart":
                    log.warning("twin %s at %s is to %s", self.name, self.member, asked.what)
                    self._restart = asked.what == "restart"
                    self._stop.set()
                case "snapshot":
                    await self._give(asked, meeting, outputs)
                case "given":
                    if self._given.full():
                        self._given.get_nowait()
                    self._given.put_nowait(asked.body)
                case _:
                    log.warning("twin %s at %s was asked for %r", self.name, self.member, asked.what)

    async def _give(self, asked: Asked, meeting: Meeting, outputs: Outputs) -> None:
        while self.index < asked.index:
            self._applied.clear()
            await self._applied.wait()
        data = (await self._save(outputs)).to_bytes()
        if len(data) > SNAPSHOT_BYTES_MAX:
            text = (
                f"its state has {len(data)} bytes, and {SNAPSHOT_BYTES_MAX} go through a queue: copy the newest file "
                f"of {self.options.directory} from there"
            )
            data = text.encode()
        await meeting.ask(asked.sender, "given", index=self.index, body=data)

    def _on_differ(self, compared: Compared) -> None:
        self._differ = compared
        self._differed.set()

    async def _part_ways(self, meeting: Meeting) -> None:
        """K8, K9: once, for after the first difference all that follows differs."""
        await self._differed.wait()
        assert self._differ is not None, "said by _on_differ"
        number, own, other = self._differ
        where = await self._where(meeting)
        error = TwinsDiffer(self.name, number, own, other, where)
        log.error("%s", error)
        await meeting.note("differed", number=number, own=shown(own), other=shown(other), where=where)
        policy = self.options.on_divergence
        is_kept = policy is OnDivergence.KEEP and self.options.keep == self.member
        if self.other and (is_kept or policy is OnDivergence.STOP_BOTH):
            await meeting.ask(self.other, "stop")
        if not is_kept and policy is not OnDivergence.LOG:
            raise error
        await asyncio.Event().wait()

    async def _where(self, meeting: Meeting) -> str:
        """Whether the states differ, and since when."""
        theirs = await marks(meeting.client, self.name)
        for index, mine in sorted(self._own_marks.items()):
            if (there := theirs.get(index)) is not None and there != shown(mine):
                return f"; the states differ behind input {index}: {shown(mine)} here, {there} there"
        return ""


def _place_of(snapshot: TwinSnapshot | None) -> tuple[int, int, int]:
    return (snapshot.index, snapshot.chain, snapshot.sent) if snapshot is not None else (0, NONE, 0)


def _raise_first(parts: Iterable[asyncio.Task[None]]) -> None:
    for part in parts:
        if part.done() and not part.cancelled():
            part.result()


async def _member_at(client: aio.Client) -> str:
    path, request = PAIR_SERVICE + "GetPairStatus", pair_service_pb2.GetPairStatusRequest()
    reply = await client.links.own.caller.call(path, request, pair_service_pb2.GetPairStatusResponse)
    return reply.member.name
