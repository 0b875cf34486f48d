"""The loop of a member: persists, sends, asks and answers what the cores of its domains decide. No decision about the
protocol is made here, and the order of it all is that of `replica.node.steps`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol

from failover.authority import outcome_of
from failover.register import Change, Register, SetOutcome, check_set
from replica.core.state.effects import (
    AskFar,
    AskVerdict,
    CheckTransfer,
    Deliver,
    Fail,
    GetRegister,
    Note,
    Rebuild,
    Reply,
    RoleChanged,
    Send,
    SetRegister,
    StartTransfer,
    StopTransfer,
)
from replica.node.recovery import rebuild
from replica.node.sides import Sides
from replica.node.steps import Steps
from storage.errors import CorruptRecord, StorageError, StoreFull
from tandemq.ambient import monotonic_ms, wall_ms
from tandemq.peer.v1.peer_service_pb2 import PeerFrame
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from failover.authority import Authority, CasOutcome, Unreachable
    from replica.core.domain import Domain
    from replica.core.state.effects import Order, Purpose, Salvage
    from replica.machine.state.limits import Limits
    from replica.node.steps import GroupCommit
    from replica.node.writer import DiskWriter
    from storage.store import Store, WriteBatch
    from tandemq.peer.v1.peer_service_pb2 import Hello

log = logging.getLogger("tandemq.node")

TICK_S = 0.02
"""Finer than the replica's bias and the retry of a read register; a tick with nothing to do costs microseconds."""
FULL_RETRY_S = 0.5
STOP_AGAIN_S = 0.2
ALONE_BYTES = 64 << 10
"""Of a commit that the loop waits for: what the commit log takes, whose one sync is short (docs/decisions/0027)."""


class DomainClock:
    """A domain's time: wall time at the start plus what the boot-time clock says has passed (rulings.md 14)."""

    def __init__(self) -> None:
        self._offset_ms = wall_ms() - monotonic_ms()

    def now_ms(self) -> int:
        """Milliseconds since 1970; the core never lets a domain's time fall below its last record."""
        return monotonic_ms() + self._offset_ms

    def at_ms(self, monotonic: int) -> int:
        """What `now_ms` says at that boot-time (`monotonic_ms`)."""
        return monotonic + self._offset_ms


class FailedInstanceError(RuntimeError):
    """This process must end, by a verdict (22) or a rule: the other member decides what is true, or a restart."""


class Listener(Protocol):
    """Who hears what happens in a member's loop; nothing of it changes what is stored or sent there."""

    def on_role(self, domain: Domain, change: RoleChanged) -> None:
        """A role has changed."""

    def on_note(self, domain: Domain, note: Note) -> None:
        """A core, or the loop for it, has something to say to operators."""

    def on_ask(self, domain: Domain, ask: AskVerdict) -> None:
        """A core asks who lives."""

    def on_fault(self, text: str) -> None:
        """In a sentence: the disk takes nothing any more."""

    def on_mark(self) -> None:
        """Another `mark_bytes` of log are appended."""


class Salvager(Protocol):
    """Who copies records before they are taken away; see `replica.node.salvage`."""

    def keep(self, store: Store, number: int, domain: str, salvage: Salvage) -> None:
        """In the writer's thread, before the transaction. StoreFull makes it wait."""


class Node:
    """One member's loop over its domains."""

    def __init__(
        self,
        store: Store,
        authority: Authority | None,
        limits: Limits,
        listener: Listener,
        salvager: Salvager,
        writer: DiskWriter,
    ) -> None:
        self.store = store
        self.limits = limits
        self.authority = authority
        self._listener, self._salvager, self._writer = listener, salvager, writer
        self.domains: dict[int, Domain] = {}
        self.unreadable: set[str] = set()
        """Domains whose register could not be read when it was last asked for."""
        self.clock = DomainClock()
        self._paired: list[Domain] = []
        self._paired_of = 0
        self.peer_protocol = 0
        """The newest that the connected peer speaks; 0: none is connected."""
        self.steps = Steps()
        self.sides = Sides(self)
        self._flushed: list[asyncio.Future[None]] = []
        """Whoever waits for the pending group commit."""
        self.group_wake = asyncio.Event()
        self.send_wake = asyncio.Event()
        self.beat_wake = asyncio.Event()
        self.outbox: list[PeerFrame] = []
        """Control frames for the peer, in order, ahead of records."""
        self.outbox_open = False
        self.transfers: asyncio.Queue[tuple[Domain, CheckTransfer | StartTransfer]] = asyncio.Queue()
        """What is to be sent on the stream beside it, in order."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.write_began_ms = 0
        self.commits = 0
        self.commit_seconds = 0.0
        self.mark_bytes = self.next_mark_bytes = 1 << 20
        self.on_tick: list[Callable[[int], None]] = []
        """Told the time (monotonic_ms) after the domains have been: whoever watches does so here, on one timer."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they began: an orderly stop ends them in that order."""
        self._ticker: asyncio.TimerHandle | None = None
        self._write_error: Exception | None = None
        """Why nothing is written any more."""

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run the writer and the clock."""
        self.spawn(self._write())
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """A task whose failure stops the process: a silent background task serves nobody (performance.md C8.3)."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_result(error)

    async def stop(self) -> None:
        """Write what is pending, then stop."""
        if not self.steps.pending.empty and not self.failed.done():
            await self.flush()
        if self._ticker is not None:
            self._ticker.cancel()
        while self._tasks:  # more than once: asyncio.wait_for swallows a cancellation that meets the end of its wait
            for task in list(self._tasks):
                task.cancel()
            await asyncio.wait(self._tasks, timeout=STOP_AGAIN_S)
        await self._writer.stop()

    def connect(self) -> None:
        """A session with the peer begins: what the cores send from here on is for it."""
        self.outbox.clear()
        self.transfers = asyncio.Queue()
        self.sides.forget_peer()
        self.outbox_open = True

    def disconnect(self) -> None:
        """It is over: nobody takes what the cores send."""
        self.outbox_open = False

    def send_hello(self, hello: Hello) -> None:
        """In its place among the cores' frames."""
        self.outbox.append(PeerFrame(hello=hello))
        self.send_wake.set()

    def paired(self) -> list[Domain]:
        """The domains that the peer has too."""
        if self._paired_of != len(self.domains):  # domains come while a member starts, and none ever goes
            self._paired_of = len(self.domains)
            self._paired = [domain for domain in self.domains.values() if domain.shared.peer]
        return self._paired

    @property
    def appended_bytes(self) -> int:
        """Of all records since the process started; only grows."""
        return self.steps.appended_bytes

    @property
    def unwritten_bytes(self) -> int:
        """Of records that are not durable yet."""
        return self.steps.unwritten_bytes

    # -- effects ---------------------------------------------------------------------------------------------------

    def dispatch(self, domain: Domain) -> None:
        """Carry out what a core asked for; called after every event."""
        steps = self.steps
        effects = domain.take()
        while effects:
            for effect in effects:
                match steps.on_effect(domain, effect):
                    case None:
                        if steps.appended_bytes >= self.next_mark_bytes:
                            self.next_mark_bytes = steps.appended_bytes + self.mark_bytes
                            self._listener.on_mark()
                        if steps.pending.hurried:
                            self.group_wake.set()
                    case Reply(waiter, result):
                        waiter.answer(result)
                    case Deliver(consumer, done):
                        consumer.waiter.deliver(done)
                    case Send(frame):
                        if self.outbox_open:
                            self.outbox.append(frame)
                    case AskFar(shell):
                        shell.wake()
                    case order:
                        self._carry_out(domain, order)
            effects = [] if _is_quiet(domain) else domain.take()
        if self.outbox or domain.source.has_more():
            self.send_wake.set()
        if self.sides.served or self.sides.asks.peer:
            self.sides.on_step(domain)

    def _carry_out(self, domain: Domain, order: Order) -> None:
        match order:
            case GetRegister():
                self.spawn(self._get_register(domain))
            case SetRegister():
                self.spawn(self._set_register(domain, order))
            case Rebuild(up_to):
                self.spawn(self._rebuild(domain, up_to, domain.shared.progress.generation))
            case CheckTransfer() | StartTransfer():
                if self.outbox_open:
                    self.transfers.put_nowait((domain, order))
            case StopTransfer():
                pass  # sender and receiver compare the transfer's number at each frame
            case RoleChanged():
                log.info(
                    "domain %s: %s, epoch %d: %s",
                    domain.shared.name,
                    domain.shared.role.name,
                    order.epoch,
                    order.reason,
                    extra={"domain": domain.shared.name, "epoch": order.epoch},
                )
                self._listener.on_role(domain, order)
            case _:
                self._report(domain, order)

    def _report(self, domain: Domain, order: Order) -> None:
        """What goes to those who watch or judge: nothing of it changes what is stored or sent."""
        match order:
            case AskVerdict():
                self._listener.on_ask(domain, order)
            case Note():
                level = logging.ERROR if order.kind == PairEventKind.PAIR_EVENT_KIND_FAULT else logging.INFO
                log.log(level, "domain %s: %s", domain.shared.name, order.text, extra=domain.shared.tags)
                self._listener.on_note(domain, order)
            case Fail(why):
                if not self.failed.done():
                    self.failed.set_result(FailedInstanceError(why))

    async def _get_register(self, domain: Domain) -> None:
        assert self.authority is not None
        found = await self.authority.get(domain.shared.name)
        self._note_reading(domain, found)
        domain.on_register(found if isinstance(found, Register) else None, monotonic_ms())
        self.dispatch(domain)

    def _note_reading(self, domain: Domain, found: Register | Unreachable) -> None:
        """Once when the register can no longer be read, with the reason, and once when it can be again."""
        name, why = domain.shared.name, "" if isinstance(found, Register) else found.why
        if bool(why) != (name in self.unreadable):
            self.unreadable ^= {name}
            text = f"the register cannot be read: {why}" if why else "the register can be read again"
            self._report(domain, Note(PairEventKind.PAIR_EVENT_KIND_AUTHORITY, text, {"why": why}))

    async def _set_register(self, domain: Domain, effect: SetRegister) -> None:
        assert self.authority is not None
        # What an operator has set there already, by naming this member at the witness, is claimed as anything else is.
        if effect.forced and check_set(effect.expected, effect.expected, effect.desired) is not None:
            result = await self._force_register(domain.shared.name, effect)
        else:
            result = await self.authority.compare_and_set(domain.shared.name, effect.expected, effect.desired)
        outcome, register = outcome_of(result)
        self._report(domain, _note_of_set(effect.purpose, outcome, effect.desired, getattr(result, "why", "")))
        domain.on_set_result(effect.purpose, outcome, register, monotonic_ms())
        self.dispatch(domain)

    async def _force_register(self, domain: str, effect: SetRegister) -> CasOutcome:
        assert self.authority is not None
        desired = effect.desired
        return await self.authority.force(domain, effect.expected.version, desired.epoch, desired.holder, effect.forced)

    async def _rebuild(self, domain: Domain, up_to: int, generation: int) -> None:
        await self.flush()  # the cut or the snapshot that this reads must be on disk
        try:
            machine = await rebuild(self.store, domain.shared, up_to)
        except CorruptRecord:
            if generation == domain.shared.progress.generation:
                raise
            return  # a newer cut took away what was being read; it has asked for a reading of its own
        if generation == domain.shared.progress.generation:  # else a later cut has asked for another one
            domain.on_rebuilt(machine, monotonic_ms())
            self.dispatch(domain)

    # -- the writer ------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Wait until everything persisted so far is durable. Raises what stopped the writer: it never will be."""
        if self._write_error is not None:
            raise self._write_error
        done = asyncio.get_running_loop().create_future()
        self._flushed.append(done)
        self.steps.require()
        self.group_wake.set()
        await done

    async def write(self, batch_of: Callable[[WriteBatch], None]) -> None:
        """Add to the pending batch by hand (transfers, maintenance) and wait until it is durable."""
        batch_of(self.batch)
        await self.flush()

    @property
    def batch(self) -> WriteBatch:
        """Of the pending group commit, for whoever fills it by hand; it is written once somebody waits for it."""
        return self.steps.pending.batch

    async def _write(self) -> None:
        while True:
            await self.group_wake.wait()
            self.group_wake.clear()
            group = self.steps.begin()
            if group is None:
                continue
            waiting, self._flushed = self._flushed, []
            began = time.perf_counter()
            self.write_began_ms = monotonic_ms()
            try:
                await self._commit(group)
            except Exception as error:
                self._write_error = error
                for done in (*waiting, *self._flushed):
                    if not done.done():
                        done.set_exception(error)
                raise
            self.write_began_ms = 0
            self.commits += 1
            self.commit_seconds += time.perf_counter() - began
            for domain, durable in self.steps.end():
                domain.on_persisted(*durable)
                self.dispatch(domain)
            for done in waiting:
                if not done.done():
                    done.set_result(None)

    async def _commit(self, group: GroupCommit) -> None:
        told = False
        while True:
            try:
                for domain, cut in group.salvage:
                    number, name = domain.shared.domain, domain.shared.name
                    await self._writer.run(self._salvager.keep, self.store, number, name, cut)
                run = self._writer.run_alone if _is_alone(group) else self._writer.run
                await run(self.store.commit, group.batch)
            except StoreFull as full:
                # Nothing was done and nothing of it was answered; room may come back. Enqueues stop at 80 %, so this is
                # the last line.
                log.error("the store is full, nothing is acknowledged: %s", full)
                if not told:
                    told = True
                    self._listener.on_fault(f"the store is full, nothing is acknowledged: {full}")
                await asyncio.sleep(FULL_RETRY_S)
            else:
                return

    # -- time ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """A timer and no task: most ticks find nothing to do, and an idle member should cost next to nothing."""
        try:
            self._pass_time()
        except Exception as error:  # as of any task: a member whose time stands still serves nobody
            if not self.failed.done():
                self.failed.set_result(error)
            return
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _pass_time(self) -> None:
        if not self.steps.pending.empty:
            self.group_wake.set()  # what nobody waits for has waited for others until now
        now = monotonic_ms()
        domain_now = self.clock.at_ms(now)
        for domain in self.domains.values():
            domain.on_tick(now, domain_now)
            if not _is_quiet(domain):
                self.dispatch(domain)
        for look in self.on_tick:
            look(now)


def _is_quiet(domain: Domain) -> bool:
    """Whether its `take` would give nothing."""
    return not domain.shared.outbox.effects and domain.handoff.open is None


def _is_alone(group: GroupCommit) -> bool:
    """Whether nobody is held up where the loop stands still for it: one short step, and no record beside it that is not
    committed. Where many send at a time, the next commit gathers while this one is written.
    """
    domain = group.of_one_step()
    return (
        domain is not None
        and group.bytes <= ALONE_BYTES
        and domain.shared.log.last_index - domain.shared.progress.commit_index <= len(group.batch.appends)
    )


def _note_of_set(purpose: Purpose, outcome: SetOutcome, desired: Register, why: str) -> Note:
    """What an operator reads about a compare-and-set."""
    step = "addition of the peer" if purpose.change is Change.ADD else purpose.change.value
    members = ", ".join(sorted(desired.in_sync_set))
    text = f"register: {step} of epoch {desired.epoch} by {desired.holder}, in sync {{{members}}}: {outcome}"
    facts = {"step": step, "outcome": outcome.value, "epoch": str(desired.epoch), "holder": desired.holder, "why": why}
    return Note(PairEventKind.PAIR_EVENT_KIND_AUTHORITY, f"{text} ({why})" if why else text, facts)


__all__ = ["DomainClock", "Node", "StorageError"]
