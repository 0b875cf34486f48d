"""Runs one of two processes that do the same: inputs of its own member's side, each output once, a state that outlives
the process. What an input comes to is its handler's; who is master, the pair's.

An input is settled once its outputs are in their queues and a snapshot behind it is on this process's disk. So whoever
begins again has a state, and is given every input behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar

from tandemq.client import aio
from tandemq.client.consumer import Consumer
from tandemq.client.delivery import DeliveryBatch
from tandemq.client.parts import Part
from tandemq.client.sides import last_input
from tandemq.errors import AlreadyExists
from tandemq.twin.checks import check_known, check_marks, check_name, check_same, check_seen, check_sides, member_at
from tandemq.twin.codecs import JSON, Codec, check_json
from tandemq.twin.digests import NONE, Compared, OwnMarks, shown, state_digest
from tandemq.twin.faults import InputMissing, StateMissing, TwinsDiffer, TwinVersion
from tandemq.twin.handling import Handler, Output, State, TwinInput
from tandemq.twin.meeting import PREFIX, SNAPSHOT_BYTES_MAX, Meeting, latest, logged, mark, marks, only_logged
from tandemq.twin.options import OnDivergence, TwinEnd, TwinOptions
from tandemq.twin.outputs import OutputCounts, Outputs
from tandemq.twin.replies import Replies
from tandemq.twin.saving import Handling, Saving
from tandemq.twin.snapshots import MAGIC_OF_ALL, SnapshotCutError, Snapshots, TwinSnapshot, snapshot_from
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY

AWAY_S = 24 * 3600.0
"""How long the own member may be away before the twin gives up."""
TAKEN_S, TAKEN_EVERY_S = 5.0, 0.1
"""How long a process that was killed may still have the side, as its member sees it."""
ASK_EVERY_S = 2.0
"""Between two questions for the same snapshot: the other twin may be starting too, and not hear the first one."""
ENDED_S = 8.0
"""How long an end waits for outputs to be sent, and for the member to hear what is settled. What is not comes again."""
LEASE = timedelta(hours=1)
"""Of inputs that wait for a snapshot. Those whose lease ends come again, and are known."""
WHY_BYTES_MAX = 500
"""Of why the other twin gives no snapshot, as it says it."""
log = logging.getLogger("tandemq.twin")
Result = TypeVar("Result")


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
        if not name or "/" in name:
            raise ValueError(f"twins have a name without '/', which is part of the names of their queues; not {name!r}")
        self.name, self.options = name, options
        self._handler, self._codec = handler, codec
        self.state: State = initial()
        self.index = 0
        """The last input that the state has seen."""
        self.member = ""
        """Whose side it takes, once that is known."""
        self.counts = OutputCounts()
        self._snapshots = Snapshots(options.directory)
        self._handling = Handling(options.inputs)
        self._saving = Saving(self._snapshots, self._handling, options.snapshot_every)
        self._last_id = b""  # of the last input that the state has seen
        self._encoded_count = 0
        self._marks = OwnMarks()
        self._stop = asyncio.Event()
        self._restart = False
        self._given: asyncio.Queue[bytes] = asyncio.Queue(1)  # the latest snapshot of the other twin
        self._passed = 0  # inputs that are settled for certain at this member
        self._acted = False
        self._wanted: dict[str, int] = {}  # by member that asked: behind which input it wants a snapshot
        self._applied = asyncio.Event()
        self._differ: Compared | None = None
        self._differed = asyncio.Event()
        self._queue_id = self.other = ""
        self._outputs: Outputs | None = None
        self._replies: Replies | None = None  # where inputs are requests

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
                contextlib.AsyncExitStack() as stack,
            ):
                begun = await self._unless_stopped(self._begin(at_side, pair, stack))
                if begun is not None:
                    await self._work(*begun)
        return TwinEnd.RESTART if self._restart else TwinEnd.STOPPED

    # -- beginning ---------------------------------------------------------------------------------------------------

    async def _unless_stopped(self, beginning: Coroutine[Any, Any, Result]) -> Result | None:
        """None: it was stopped meanwhile, and nothing of it is left."""
        task, stopped = asyncio.create_task(beginning), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for each in (task, stopped):
                each.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    async def _begin(
        self, at_side: aio.Client, pair: aio.Client, stack: contextlib.AsyncExitStack
    ) -> tuple[Consumer, Meeting, Outputs]:
        """The side comes first: whoever has no right to it disturbs nobody (K7)."""
        options = self.options
        inputs = await pair.get_queue(options.inputs)
        self.member = await member_at(at_side, options.side)
        check_sides(inputs, options)
        check_same(inputs, await at_side.get_queue(options.inputs), options)
        self._queue_id = f"{inputs.name} of {inputs.created_at.ToJsonString()}"
        self.other = next((member for member in inputs.open_members if member != self.member), "")
        consumer = await self._take_side(at_side, stack)
        check_name(await pair.list_queues(PREFIX), self.name, inputs.name, self.other)
        meeting = Meeting(pair, self.name, self.member)
        await meeting.prepare(inputs)
        log_of_both = await logged(pair, self.name)
        began = latest(log_of_both, "began").get(self.other)
        if began is not None:
            self._check_version(began["version"], f"the twin at {self.other}")
        check_marks(options.mark_every, log_of_both, self.member)
        self._outputs = outputs = Outputs(pair, self.name, self._queue_id, self._on_differ)
        self.counts = outputs.counts
        if inputs.config.queue_type == QUEUE_TYPE_TWO_WAY:
            self._replies = Replies(pair, options.inputs, outputs.counts, self._on_differ)
        inputs = await pair.get_queue(options.inputs)
        self._passed = {side.member: side.passed for side in inputs.sides}.get(self.member, 0)
        snapshot = await asyncio.to_thread(self._snapshots.newest)
        if snapshot is not None:
            self._take(snapshot)
            check_seen(self.index, last_input(inputs), options)
        await outputs.begin(*_place_of(snapshot))
        await meeting.forget_orders()
        facts: dict[str, str | int] = {"index": self.index, "inputs": options.inputs, "mark_every": options.mark_every}
        await meeting.note("began", version=options.version, **facts)
        log.info("twin %s at %s begins behind input %d", self.name, self.member, self.index)
        return consumer, meeting, outputs

    async def _take_side(self, at_side: aio.Client, stack: contextlib.AsyncExitStack) -> Consumer:
        """Raises AlreadyExists (TWIN_TAKEN): another process has it, and lives."""
        credit, loop = 2 * self.options.snapshot_every, asyncio.get_running_loop()
        until_s = loop.time() + TAKEN_S
        while True:
            consumer = await stack.enter_async_context(
                at_side.consumer(self.options.inputs, credit_messages=credit, lease=LEASE)
            )
            try:
                await consumer.opened()
                return consumer
            except AlreadyExists as error:
                if error.reason != "TWIN_TAKEN" or loop.time() > until_s:
                    raise
                await asyncio.sleep(TAKEN_EVERY_S)

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
        self._last_id = bytes.fromhex(snapshot.last_id)
        self._saving.begins(snapshot.index)

    async def _rejoin(self, first: int, meeting: Meeting, outputs: Outputs) -> None:
        """This process's state ends before the first input that its member still has: take the twin's (K10)."""
        wanted, waited_s = first - 1, self.options.state_wait_s
        why = f"the twin at {self.other or 'no other member'} did not answer for {waited_s:.0f} s"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(waited_s):
                while self.other and self.index < wanted:
                    with only_logged(f"that it needs a snapshot behind input {wanted}"):
                        await meeting.ask(self.other, "snapshot", index=wanted)
                    try:
                        given = await asyncio.wait_for(self._given.get(), ASK_EVERY_S)
                    except TimeoutError:
                        continue
                    try:
                        snapshot = snapshot_from(given)
                    except SnapshotCutError as error:
                        why = self._why_none(given, error)
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

    def _why_none(self, given: bytes, error: SnapshotCutError) -> str:
        """What the twin has given is no snapshot: its own words, or one that was cut or is of another release."""
        if given.startswith(MAGIC_OF_ALL):
            return f"the snapshot that the twin at {self.other} gave cannot be used: {error}"
        return given[:WHY_BYTES_MAX].decode(errors="replace")

    async def _adopt(self, snapshot: TwinSnapshot, outputs: Outputs) -> None:
        async with self._saving.lock:
            await outputs.begin(*_place_of(snapshot))
            await self._saving.write(snapshot)
            self._take(snapshot)

    # -- working -----------------------------------------------------------------------------------------------------

    async def _work(self, consumer: Consumer, meeting: Meeting, outputs: Outputs) -> None:
        begin = asyncio.create_task
        acting = begin(self._act(consumer, meeting, outputs))
        parts = [
            acting,
            begin(outputs.run()),
            *([begin(self._replies.run())] if self._replies is not None else []),
            begin(self._save_now_and_then(outputs)),
            begin(self._answer(meeting)),
            begin(self._give(meeting, outputs)),
            begin(self._part_ways(meeting, outputs)),
        ]
        stopped = begin(self._stop.wait())
        try:
            await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
            _raise_first(parts)
            acting.cancel()  # it settles what was acted on, and gives back the rest
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            _raise_first(parts)
            counts = {"units": self.counts.units, "duplicates": self.counts.duplicates, "sent": self.counts.sent}
            with only_logged("that it has ended"):
                await meeting.note("ended", version=self.options.version, index=self.index, **counts)
        finally:
            for part in (stopped, *parts):
                part.cancel()
            await asyncio.gather(stopped, *parts, return_exceptions=True)

    async def _act(self, consumer: Consumer, meeting: Meeting, outputs: Outputs) -> None:
        if self._passed > self.index:
            await self._rejoin(self._passed + 1, meeting, outputs)
        try:
            await self._consume(consumer, meeting, outputs)
        except asyncio.CancelledError:
            if self._stop.is_set():
                try:
                    async with asyncio.timeout(ENDED_S):
                        await self._save(outputs)
                        await consumer.settled()
                except TimeoutError:
                    text = "twin %s at %s ends, and not all that it acted on is sent and settled: that comes again"
                    log.warning(text, self.name, self.member)
            raise

    async def _consume(self, consumer: Consumer, meeting: Meeting, outputs: Outputs) -> None:
        async for batch in consumer.batches():
            ranges = batch.ranges()
            first, last = ranges[0][0], ranges[-1][0] + ranges[-1][1] - 1
            if first > self.index + 1 and not self._acted:
                await self._rejoin(first, meeting, outputs)
            with self._handling:
                self._apply(batch, outputs)
            outputs.passed(self.index)
            self._acted = True
            self._applied.set()
            self._saving.acted(first, last, batch)
            if outputs.is_full:
                await outputs.room()
            if self._replies is not None:
                await self._replies.room()
            if self.index - self._saving.index >= self.options.snapshot_every:
                await self._save(outputs)

    def _apply(self, batch: DeliveryBatch, outputs: Outputs) -> None:
        handler, mark_every, index, at = self._handler, self.options.mark_every, self.index, self._handling
        acted: tuple[Part, int] | None = None
        for part in batch.parts:
            for place in range(len(part.payloads)):
                number = part.index(place)
                if number <= index:  # it came before: its lease ended, or this state is its twin's
                    if number == index:
                        check_known(self._last_id, part.id(place), number, self.options)
                    continue
                if number != index + 1:
                    text = f"input {number} of {self.options.inputs} came behind {index}: it is not acted on"
                    raise InputMissing("TWIN_SKIPPED", text, index=str(index + 1))
                at.index = number
                state, made = handler(self.state, TwinInput(part, place, number))
                outputs_made: Sequence[Output] = made if type(made) is list else list(made)
                if number % mark_every == 0:
                    outputs_made = [*outputs_made, self._mark(number, state)]
                if self._replies is not None and outputs_made:
                    outputs_made = self._replies.take(number, outputs_made)
                if outputs_made:
                    outputs.add(number, outputs_made)
                self.state, self.index, index, acted = state, number, number, (part, place)
        if acted is not None:
            self._last_id = acted[0].id(acted[1])

    def _mark(self, index: int, state: State) -> Output:
        digest = state_digest(self._codec.encode(state))
        self._marks.add(index, digest)
        return mark(self.name, index, digest)

    # -- saving ------------------------------------------------------------------------------------------------------

    async def _save_now_and_then(self, outputs: Outputs) -> None:
        while True:
            await asyncio.sleep(self.options.snapshot_s)
            await self._save(outputs)

    async def _save(self, outputs: Outputs) -> TwinSnapshot:
        """The state as it is now; when it returns, that is on the disk and its inputs are settled."""
        return await self._saving.save(lambda: self._snapshot(outputs), lambda index: self._sent(index, outputs))

    def _snapshot(self, outputs: Outputs) -> TwinSnapshot:
        place = self.index, outputs.chain, outputs.sent
        encoded, last_id = self._encoded(), self._last_id.hex()
        return TwinSnapshot(self.name, self.options.version, self._queue_id, *place, encoded, last_id)

    async def _sent(self, index: int, outputs: Outputs) -> None:
        """Until all that inputs up to there have come to is in its queues, by whichever twin."""
        await outputs.done(index)
        if self._replies is not None:
            await self._replies.done(index)

    def _encoded(self) -> bytes:
        """The state, which is looked at more and more rarely for what would come back as something else."""
        encoded = self._codec.encode(self.state)
        self._encoded_count += 1
        if self._codec is JSON and not self._encoded_count & (self._encoded_count - 1):
            check_json(self.state, encoded)
        return encoded

    # -- the other one -----------------------------------------------------------------------------------------------

    async def _answer(self, meeting: Meeting) -> None:
        async for asked in meeting.asked():
            match asked.what:
                case "stop" | "restart":
                    log.warning("twin %s at %s is to %s", self.name, self.member, asked.what)
                    self._restart = asked.what == "restart"
                    self._stop.set()
                case "snapshot" if asked.sender == self.other:
                    self._wanted[asked.sender] = asked.index
                    self._applied.set()
                case "given" if asked.sender == self.other:
                    if self._given.full():
                        self._given.get_nowait()
                    self._given.put_nowait(asked.body)
                case _:
                    text = "twin %s at %s was asked for %r by %r"
                    log.warning(text, self.name, self.member, asked.what, asked.sender)

    async def _give(self, meeting: Meeting, outputs: Outputs) -> None:
        """K10: this process's state to its twin, once it is as far as that one needs it. Whoever does not hear asks
        again.
        """
        while True:
            asking = next((member for member, index in self._wanted.items() if index <= self.index), None)
            if asking is None:
                self._applied.clear()
                await self._applied.wait()
                continue
            snapshot = await self._save(outputs)
            data = snapshot.to_bytes()
            if len(data) > SNAPSHOT_BYTES_MAX:
                text = (
                    f"its state has {len(data)} bytes, and {SNAPSHOT_BYTES_MAX} go through a queue: copy the newest "
                    f"file of {self.options.directory} from there"
                )
                data = text.encode()
            del self._wanted[asking]
            with only_logged(f"its snapshot to {asking}"):
                await meeting.ask(asking, "given", index=snapshot.index, body=data)

    def _on_differ(self, compared: Compared) -> None:
        if self._differ is not None:
            return
        self._differ = compared
        self._differed.set()
        if not self._goes_on:
            for sending in (self._outputs, self._replies):
                if sending is not None:
                    sending.hold()

    @property
    def _goes_on(self) -> bool:
        """Where the two differ, by the policy."""
        policy = self.options.on_divergence
        return policy is OnDivergence.LOG or (policy is OnDivergence.KEEP and self.options.keep == self.member)

    async def _part_ways(self, meeting: Meeting, outputs: Outputs) -> None:
        """K8, K9: once, for after the first difference all that follows differs."""
        await self._differed.wait()
        assert self._differ is not None, "said by _on_differ"
        number, own, other, equal = self._differ
        where = ""
        with only_logged("what it looks for"):
            where = await self._where(meeting)
        error = TwinsDiffer(self.name, self._differ, where)
        log.error("%s", error)
        with only_logged("what differs"):
            digests = {"own": shown(own), "other": shown(other)}
            await meeting.note("differed", number=number, equal=equal, where=where, **digests)
        with only_logged("at the pair what differs"):
            await outputs.report(self._differ, mark(self.name, number, NONE))
        policy = self.options.on_divergence
        is_kept = policy is OnDivergence.KEEP and self._goes_on
        if self.other and (is_kept or policy is OnDivergence.STOP_BOTH):
            with only_logged("that the other one is to stop"):
                await meeting.ask(self.other, "stop")
        if not self._goes_on:
            raise error
        await asyncio.Event().wait()

    async def _where(self, meeting: Meeting) -> str:
        """Whether the states differ, and since when."""
        found = self._marks.first_differing(await marks(meeting.client, self.name))
        return "; the states differ behind input {}: {} here, {} there".format(*found) if found is not None else ""


def _place_of(snapshot: TwinSnapshot | None) -> tuple[int, int, int]:
    return (snapshot.index, snapshot.chain, snapshot.sent) if snapshot is not None else (0, NONE, 0)


def _raise_first(parts: Iterable[asyncio.Task[None]]) -> None:
    for part in parts:
        if part.done() and not part.cancelled():
            part.result()
