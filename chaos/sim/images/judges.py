"""Judges one image: opens it as a restarted product would, and compares what is there with what was promised.

There are three faults. `invalid`: the image cannot be opened, or is not what its format says. `lost`: it is whole,
but of a moment before something that was promised. `half`: what is there is of no moment at all: a part of a batch,
or more than was ever asked for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from lmdb.verify import VerifyError, verify

from chaos.sim.images.driver import EVENTS_KEPT, MAP_BYTES, PAIR, short_events
from chaos.sim.images.member import NAME, NUMBER, limits_of
from chaos.sim.images.rejoin import WHOLE, find_resumed, find_vote
from chaos.sim.images.story import Story
from failover.classifier import Answer, DomainFacts, Event, EventKind, Verdict
from failover.journal import Journal, call_line, read
from failover.marks import DataMark, Role
from failover.register import Register, claim
from failover.wire import to_message
from failover.witness_store import StoreDamagedError, WitnessStore
from replica.core.state.durable import DomainState, decode_state, state_key
from replica.node.recovery import open_shared, recover
from replica.node.salvage import FOLDER, SalvageFiles, is_operation
from replica.operations.events import EventLog
from storage.disk import DiskStore, open_disk
from storage.errors import CorruptRecord, StorageError
from storage.files import DirectoryFiles
from storage.memory import MemoryStore
from storage.records import split, verify_stored
from storage.store import META_INSTANCE, Store, WriteBatch
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.witness.v1 import witness_service_pb2 as pb

INVALID, LOST, HALF = "invalid", "lost", "half"

TAKEN, LEFT = "what was under way is there", "what was under way is not there"
IN_LOG, FOLDED = "what only the commit log holds is there", "the database holds everything"
VOTES, SILENT = "a whole copy claims", "a half-done transfer does not claim"
RESUMED, SALVAGED = "an interrupted transfer is made good", "a salvage file is read"
TORN = "a torn line"
NOTICED, PROVEN, UNNOTICED = "a loss is noticed as doubt", "a loss is proven", "a loss shows nowhere"
REFUSED, UNDOUBTED = "what is left is refused", "nothing is lost, and nothing is in doubt"
SOMETIMES = MappingProxyType(
    {
        "store": (TAKEN, LEFT, IN_LOG, FOLDED),
        "member": (TAKEN, LEFT, IN_LOG),
        "replica": (TAKEN, LEFT, IN_LOG, VOTES, SILENT, RESUMED, SALVAGED),
        "witness": (TAKEN, LEFT),
        "journal": (TAKEN, LEFT, TORN),
        "events": (TAKEN, LEFT),
        "lying": (NOTICED, PROVEN, UNNOTICED, UNDOUBTED),
    }
)
"""By scenario, what its images must have met at least once: a check that never met its case has checked nothing."""


class Finding(NamedTuple):
    """One fault of one image."""

    kind: str
    text: str


class Moment(NamedTuple):
    """What had been said when the power failed."""

    ready: bool
    done: int
    """Number of the last step that was promised."""
    doing: int
    """Of the last that was started: the same, or one more."""


class Judge(Protocol):
    """Of one scenario, made from the story of its run."""

    seen: Counter[str]
    """How often each of SOMETIMES was met."""

    def find(self, directory: Path, moment: Moment) -> list[Finding]:
        """What is wrong with the image in this directory, which may be changed by looking."""
        ...


def drive(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that only ever gives its turn away."""
    while True:
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value


def file_faults(data_file: Path, moment: Moment) -> list[Finding]:
    """What LMDB's own verifier says; it reads bytes alone, so that no damage can bring this process down."""
    try:
        problems: list[str] = verify(str(data_file))  # type: ignore[no-untyped-call]  # ships no types
    except FileNotFoundError:
        return [Finding(LOST, f"{data_file.name} is gone")] if moment.ready else []
    except VerifyError as error:
        return [Finding(INVALID, f"the file cannot be verified: {error}")] if moment.ready else []
    return [Finding(INVALID, f"the file is damaged: {problem}") for problem in problems[:3]]


def compared(
    states: Sequence[Hashable], found: Hashable, moment: Moment, seen: Counter[str]
) -> tuple[int, list[Finding]]:
    """Which step's state it is, and what is wrong with that. -1: no step's."""
    for step in range(moment.doing, moment.done - 1, -1):
        if states[step] == found:
            if moment.doing > moment.done:
                seen[TAKEN if step == moment.doing else LEFT] += 1
            return step, []
    for step in range(moment.done - 1, -1, -1):
        if states[step] == found:
            return -1, [Finding(LOST, f"step {moment.done} was promised, what is there ends with step {step}")]
    return -1, [Finding(HALF, f"what is there is neither step {moment.done} nor {moment.doing}, nor any before them")]


def content_of(store: Store, domains: Sequence[int]) -> bytes:
    """All that a store holds, but for the number of its directory."""
    chain = blake2b(digest_size=16)
    for domain in domains:
        at = 0
        while rows := store.scan(domain, at, limit_records=1 << 20, limit_bytes=1 << 30):
            for log_index, record in rows:
                chain.update(b"%d/%d/%d/" % (domain, log_index, len(record)) + record)
            at = rows[-1][0] + 1
    for key, value in store.meta_items(""):
        if key != META_INSTANCE:
            chain.update(f"{key}/{len(value)}/".encode() + value)
    return chain.digest()


class StoreJudge:
    """A member's store: exactly the batches that were promised, and perhaps the one that was being written."""

    member, pair = "a", PAIR

    def __init__(self, story: Story) -> None:
        self.story = story
        self.seen: Counter[str] = Counter()
        batches: list[WriteBatch] = story.steps
        self.domains = sorted(
            {entry.domain for batch in batches for entry in (*batch.appends, *batch.inserts)}
        )  # fmt: skip
        store = MemoryStore(pair=self.pair, member=self.member)
        self.states = [content_of(store, self.domains)]
        self.marks = [self._mark(store)]
        for step, batch in enumerate(batches, 1):
            self.before(store, step, batch)
            store.commit(batch)
            self.states.append(content_of(store, self.domains))
            self.marks.append(self._mark(store))
        self.last = store

    def before(self, _store: Store, _step: int, _batch: WriteBatch, /) -> None:
        """What a step takes away is still there."""

    @staticmethod
    def _mark(store: Store) -> DataMark | None:
        stored = store.get_meta(state_key(NUMBER))
        return decode_state(stored).data if stored is not None else None

    def find(self, directory: Path, moment: Moment) -> list[Finding]:
        """See Judge."""
        findings = file_faults(directory / "data" / "data.mdb", moment)
        if findings:
            return findings
        with closing(_opened(directory / "data", self.pair, self.member)) as opened:
            if isinstance(opened, _Failed):
                return [Finding(INVALID, f"the product refuses it: {opened.why}")]
            if moment.ready and opened.get_meta(META_INSTANCE) != self.story.facts["instance"]:
                return [Finding(LOST, "it is another, new directory")]
            step, findings = compared(self.states, content_of(opened, self.domains), moment, self.seen)
            if findings:
                return findings
            if step == moment.done:
                self.seen[IN_LOG if opened.pending_changes else FOLDED] += 1
            return self.look_inside(opened, step, directory) or _goes_on(opened)

    def look_inside(self, _store: DiskStore, _step: int, _directory: Path, /) -> list[Finding]:
        """What more can be asked of an image whose content is that of a step."""
        return []


class _Failed:
    def __init__(self, why: str) -> None:
        self.why = why

    def close(self) -> None:
        """Nothing is open."""


def _opened(directory: Path, pair: str, member: str) -> DiskStore | _Failed:
    try:
        return open_disk(directory, pair=pair, member=member, map_bytes=MAP_BYTES, ballast_bytes=0)
    except StorageError as error:
        return _Failed(str(error))


def _goes_on(store: DiskStore) -> list[Finding]:
    try:
        for turn in range(3):
            store.commit(WriteBatch(meta={"after": b"the crash %d" % turn}))
    except StorageError as error:
        return [Finding(INVALID, f"it takes nothing any more: {error}")]
    return []


class MemberJudge(StoreJudge):
    """The same, and what recovery makes of it: the queues' state, with every live message readable."""

    pair, peer = "", ""

    def look_inside(self, store: DiskStore, step: int, _directory: Path, /) -> list[Finding]:
        """See StoreJudge."""
        shared = open_shared(store, NUMBER, NAME, self.member, self.peer, 1, limits_of(self.peer))
        try:
            machine = drive(recover(store, shared))
            expected = self.marks[step]
            if expected is not None and shared.state.data is not expected:
                return [Finding(INVALID, f"recovery marks it {shared.state.data.name} instead of {expected.name}")]
            for _, log_index in machine.live_log_indexes():
                record = store.read(NUMBER, log_index)
                if record is None:
                    return [Finding(LOST, f"record {log_index} holds live messages and is gone")]
                verify_stored(record)
        except CorruptRecord as corrupt:
            return [Finding(INVALID, f"recovery fails: {corrupt}")]
        if shared.state.data is DataMark.SYNCING and machine.names():
            return [Finding(HALF, "a transfer is half done, and its queues are there")]
        return []


class ReplicaJudge(MemberJudge):
    """The same, and that a half-done transfer never votes and is made good by the next one; and what was salvaged."""

    pair, member, peer = PAIR, "b", "a"

    def __init__(self, story: Story) -> None:
        self.cuts: list[tuple[int, int, int]] = []
        """Step, first and last log index: cut from then on, with operations among them."""
        super().__init__(story)

    def before(self, store: Store, step: int, batch: WriteBatch, /) -> None:
        """See StoreJudge."""
        if NUMBER in batch.cut:
            gone = store.scan(NUMBER, batch.cut[NUMBER] + 1, limit_records=1 << 20, limit_bytes=1 << 30)
            headers = [RecordHeader.FromString(bytes(split(record)[1])) for _, record in gone]
            if any(map(is_operation, headers)):
                self.cuts.append((step, gone[0][0], gone[-1][0]))

    def look_inside(self, store: DiskStore, step: int, directory: Path, /) -> list[Finding]:
        """See StoreJudge."""
        findings = super().look_inside(store, step, directory)
        findings += self._salvage_faults(directory, step)
        mark = self.marks[step]
        if findings or mark is None:
            return findings
        why = find_vote(store, mark, self._state(self.last))
        self.seen[VOTES] += not why and mark in WHOLE
        self.seen[SILENT] += not why and mark is DataMark.SYNCING
        if not why and mark is DataMark.SYNCING:
            why = asyncio.run(find_resumed(store, self.story))
            self.seen[RESUMED] += not why
        return [Finding(HALF, why)] if why else []

    @staticmethod
    def _state(store: Store) -> DomainState:
        return decode_state(store.get_meta(state_key(NUMBER)) or b"")

    def _salvage_faults(self, directory: Path, step: int) -> list[Finding]:
        files = SalvageFiles(DirectoryFiles(directory / "data" / FOLDER), pair=PAIR, member=self.member)
        if names := files.unreadable():
            return [Finding(HALF, f"salvage file {names[0]} cannot be read")]
        there = {(info.head.first, info.head.last): info.name for info in files.infos()}
        for cut_at, first, last in self.cuts:
            if step < cut_at:
                continue
            name = there.get((first, last))
            if name is None:
                return [Finding(LOST, f"records {first} to {last} are cut, and no salvage file has them")]
            try:
                if [record.log_index for record in files.records(name)] != list(range(first, last + 1)):
                    return [Finding(LOST, f"records {first} to {last} are cut, and {name} has not all of them")]
                self.seen[SALVAGED] += 1
            except CorruptRecord as corrupt:
                return [Finding(INVALID, f"salvage: {corrupt}")]
        return []


class WitnessJudge:
    """A witness: exactly the registers that it has answered, and perhaps the set that was being made."""

    def __init__(self, story: Story) -> None:
        self.seen: Counter[str] = Counter()
        registers: dict[str, Register] = {}
        self.states: list[Hashable] = [()]
        for domain, register in story.steps:
            registers[domain] = register
            self.states.append(tuple((PAIR, name, registers[name]) for name in sorted(registers)))

    def find(self, directory: Path, moment: Moment) -> list[Finding]:
        """See Judge."""
        place = directory / "new" / "witness"
        findings = file_faults(place / "registers" / "data.mdb", moment)
        if findings:
            return findings
        try:
            store = WitnessStore(place, map_bytes=MAP_BYTES)
        except (StoreDamagedError, OSError, RuntimeError) as error:
            return [Finding(INVALID, f"the witness refuses it: {error}")]
        with closing(store):
            found = store.registers(PAIR)
            _, findings = compared(self.states, tuple(found), moment, self.seen)
            for _, domain, register in found:
                if (sets := len(list(store.journal(PAIR, domain)))) != register.version:
                    findings.append(Finding(HALF, f"{domain}: {sets} sets in its journal, {register.version} made"))
            return findings or self._goes_on(store)

    @staticmethod
    def _goes_on(store: WitnessStore) -> list[Finding]:
        wanted = claim(Register(), member="a", epoch=1, members=frozenset("a"), nonce=b"after")
        request = pb.CompareAndSetRequest(
            pair=PAIR, domain="after", expected=to_message(Register()), desired=to_message(wanted), member="a"
        )
        _, why = store.compare_and_set(request)
        return [Finding(INVALID, f"it takes nothing any more: {why}")] if why is not None else []


class JournalJudge:
    """A classifier journal: every line that was promised, in order; one torn line at most; and it takes another one."""

    def __init__(self, story: Story) -> None:
        self.ids: list[str] = story.steps
        self.seen: Counter[str] = Counter()

    def find(self, directory: Path, moment: Moment) -> list[Finding]:
        """See Judge."""
        place = directory / "data"
        place.mkdir(exist_ok=True)
        findings = self._read(place, moment, after="")
        if findings:
            return findings
        journal = Journal(place, size_max=9_000, kept_count=20)
        written = asyncio.run(_write_line(journal))
        journal.close()
        if not written:
            return [Finding(INVALID, f"it takes nothing any more: {journal.lost_why}")]
        return self._read(place, moment, after="after")

    def _read(self, place: Path, moment: Moment, *, after: str) -> list[Finding]:
        ids: list[str] = []
        torn: list[str] = []
        with suppress(FileNotFoundError):
            history = read(place)
            ids, torn = [call.event.event_id for call in history.calls], history.unreadable
        if after:
            if ids[-1:] != [after]:
                return [Finding(INVALID, "a line that is written after the crash cannot be read")]
            ids.pop()
        promised = self.ids[: moment.done]
        if ids[: moment.done] != promised:
            gone = sorted(set(promised) - set(ids))
            return [Finding(LOST, f"{len(gone)} promised lines are gone, {gone[:1]} the first")]
        if len(torn) > 1 or ids[moment.done :] not in ([], self.ids[moment.done : moment.doing]):
            return [Finding(HALF, f"{len(torn)} torn lines, and {ids[moment.done :]} were not promised")]
        if not after and moment.doing > moment.done:
            self.seen[TAKEN if ids[moment.done :] else TORN if torn else LEFT] += 1
        return []


async def _write_line(journal: Journal) -> bool:
    facts = DomainFacts("main", Role.REPLICA, DataMark.IN_SYNC, 7, 100, 100, 100, 100)
    event = Event("after", EventKind.PEER_LOST, 3, "p", "a", "b", (facts,))
    return await journal.write(call_line(event, Answer("after", 3, Verdict.WAIT, "so", by="judge")))


class EventsJudge:
    """An event log: every event that was synced and is still kept, in order, and no number is given twice."""

    def __init__(self, story: Story) -> None:
        self.texts: list[str] = story.steps
        self.seen: Counter[str] = Counter()

    def find(self, directory: Path, moment: Moment) -> list[Finding]:
        """See Judge."""
        (directory / "data").mkdir(exist_ok=True)
        with short_events():
            return asyncio.run(self._find(directory / "data", moment))

    async def _find(self, place: Path, moment: Moment) -> list[Finding]:
        log = EventLog(place, "a")
        found = {event.number: event.text for event in log.since(0)}
        top = moment.doing if moment.doing in found else moment.done
        kept = range(max(1, top - EVENTS_KEPT + 1), moment.done + 1)
        if gone := [number for number in kept if number not in found]:
            return [Finding(LOST, f"event {gone[0]} of {moment.done} is gone")]
        if any(number > moment.doing or self.texts[number - 1] != text for number, text in found.items()):
            return [Finding(HALF, "an event is there that was never added like this")]
        if moment.doing > moment.done:
            self.seen[TAKEN if moment.doing in found else LEFT] += 1
        number = log.add(PairEventKind.PAIR_EVENT_KIND_ROLE, "after")
        changed = log.changed
        run = asyncio.ensure_future(log.run())
        await changed.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        if log.lost or number <= moment.done:
            return [Finding(INVALID, f"a new event gets number {number}, {log.lost} could not be written")]
        again = {event.number for event in EventLog(place, "a").since(0)}
        return [] if number in again else [Finding(INVALID, "an event that is added after the crash cannot be read")]


JUDGES: Mapping[str, Callable[[Story], Judge]] = MappingProxyType(
    {
        "store": StoreJudge,
        "member": MemberJudge,
        "replica": ReplicaJudge,
        "witness": WitnessJudge,
        "journal": JournalJudge,
        "events": EventsJudge,
    }
)
