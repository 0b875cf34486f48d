"""Does what a member, a witness and a journal do to a disk, so that it can be traced: the product's code, on real
files, saying aloud what it has promised. Runs under strace; judges nothing.

    python -m chaos.sim.images.driver SCENARIO ROOT SAID STORY SEED [--no-sync]

ROOT is an empty directory. `--no-sync` is the positive control: no file is synced, so the images of such a run must be
found wanting.
"""

from __future__ import annotations

import asyncio
import os
import random
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import lmdb

import failover.journal
import replica.operations.events
import replica.peer.transfer
import storage.commit_log
import storage.folding
import storage.mark
from chaos.sim.images.member import Connection, Member, as_store
from chaos.sim.images.story import Voice, announcing
from failover.authority import MemoryRegisters
from failover.classifier import Answer, DomainFacts, Event, EventKind, Evidence, Verdict
from failover.journal import Journal, call_line
from failover.marks import DataMark, Role
from failover.register import Register, add_member, claim, commit
from failover.wire import to_message
from failover.witness_store import WitnessStore
from replica.node.salvage import FOLDER, SalvageFiles
from replica.operations.events import EventLog
from storage.directory import make_directory
from storage.disk import open_disk
from storage.errors import StoreFailed
from storage.files import DirectoryFiles
from storage.memory import MemoryStore
from storage.records import ZERO_DIGEST, assemble, build_head
from storage.store import META_INSTANCE, Append, Store, WriteBatch
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.witness.v1 import witness_service_pb2 as pb

PAIR = "p"
MAP_BYTES = 64 << 20
EVENTS_KEPT = 7
LINE_S = 60.0
LOG_BYTES = 80 << 10
"""A commit log that is passed through several times, and small enough to be copied for every image."""
FOLD_S = 0.01


async def store_scenario(root: Path, voice: Voice, draw: random.Random) -> None:
    """Batches of every kind at once, some of whose values fill pages of their own; the store is opened again midway.
    Between them small ones, which go to the commit log, are folded, and go round in it.
    """
    disk = open_disk(root / "data", pair=PAIR, member="a", map_bytes=MAP_BYTES, ballast_bytes=0)
    voice.story.facts["instance"] = disk.get_meta(META_INSTANCE)
    voice.say("ready")
    store = announcing(disk, voice)
    tops = dict.fromkeys((1, 2, 3), 0)
    for number in range(1, 37):
        batch = WriteBatch(meta={"last": b"%d" % number})
        domain = draw.choice((1, 1, 1, 2, 3))
        kind = draw.random()
        if kind < 0.06:
            batch.wipe.add(domain)
            tops[domain] = 0
        elif kind < 0.16 and tops[domain]:
            tops[domain] = batch.cut[domain] = draw.randint(0, tops[domain])
        elif kind < 0.5:
            batch.drops[domain] = draw.sample(range(tops[domain] + 1), min(tops[domain], draw.randint(1, 12)))
        if kind > 0.9:
            base = tops[domain]
            indexes = draw.sample(range(base + 1, base + 9), 4)
            batch.inserts = [Append(domain, index, _record(draw, domain, index)) for index in indexes]
            tops[domain] = max(indexes)
        else:
            for _ in range(draw.randint(1, 5)):
                tops[domain] += 1
                batch.appends.append(Append(domain, tops[domain], _record(draw, domain, tops[domain])))
        batch.meta[f"note/{draw.randint(0, 20):02}"] = draw.choice((None, b"n" * draw.randint(1, 3000)))
        store.commit(batch)
        for turn in range(draw.randint(0, 6)):
            _commit_small(store, draw, tops, b"%d.%d" % (number, turn))
        if number == 18:
            store.close()
            disk = open_disk(root / "data", pair=PAIR, member="a", map_bytes=MAP_BYTES, ballast_bytes=0)
            store = announcing(disk, voice)
    store.commit(WriteBatch(wipe={2}))  # goes to the database: the last promise of this run is one of its commits
    store.close()


def _commit_small(store: Store, draw: random.Random, tops: dict[int, int], name: bytes) -> None:
    batch = WriteBatch(meta={"last": name})
    for domain in draw.choices([domain for domain, top in tops.items() if top] or [1], k=draw.randint(0, 2)):
        tops[domain] += 1
        batch.appends.append(Append(domain, tops[domain], _record(draw, domain, tops[domain])))
    store.commit(batch)


def _record(draw: random.Random, domain: int, log_index: int) -> bytes:
    body = draw.randbytes(draw.choice((0, 40, 300, 1500, 9000)))
    head, _ = build_head(
        flags=0, domain=domain, epoch=1, log_index=log_index, header=b"h", body=body, previous_digest=ZERO_DIGEST
    )
    return assemble(head, body)


async def member_scenario(root: Path, voice: Voice, draw: random.Random) -> None:
    """A manager of its own: producers, consumers, checkpoints, trimming, and an orderly restart."""
    for life in range(2):
        disk = open_disk(root / "data", pair="", member="a", map_bytes=MAP_BYTES, ballast_bytes=0)
        if not life:
            voice.story.facts["instance"] = disk.get_meta(META_INSTANCE)
            voice.say("ready")
        member = Member(announcing(disk, voice), "a", "", MemoryRegisters())
        await member.start()
        await member.until_serving()
        if not life:
            await member.create()
        for turn in range(12):
            await member.enqueue([draw.choice((10, 200, 5000)) for _ in range(draw.randint(1, 6))])
            if turn % 3 == 1:
                await member.consume(draw.randint(2, 9))
            if turn % 6 == 4:
                await member.tidy()
        await member.stop()
        disk.close()


class _Gate:
    """A disk that may hang, and then fails as its process dies."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._free = threading.Event()
        self._free.set()
        self._dead = False

    def hang(self) -> None:
        self._free.clear()

    def die(self) -> None:
        self._dead = True
        self._free.set()

    def commit(self, batch: WriteBatch) -> None:
        self._free.wait()
        if self._dead:
            raise StoreFailed("the process is dead", "driver")
        self._store.commit(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def replica_scenario(root: Path, voice: Voice, draw: random.Random) -> None:
    """A replica: a full transfer, operations, a delta, a tail that is cut and salvaged, a second full transfer."""
    replica.peer.transfer.WRITE_BYTES = 6_000  # so that a small transfer is written in several transactions too
    replica.peer.transfer.SLICE_BYTES = 3_000
    disk = open_disk(root / "data", pair=PAIR, member="b", map_bytes=MAP_BYTES, ballast_bytes=0)
    voice.story.facts["instance"] = disk.get_meta(META_INSTANCE)
    voice.say("ready")
    registers = MemoryRegisters()
    gate = _Gate(MemoryStore(pair=PAIR, member="a", instance=b"a" * 16))
    a = Member(as_store(gate), "a", "b", registers)
    files = SalvageFiles(DirectoryFiles(root / "data" / FOLDER), pair=PAIR, member="b")
    b = Member(announcing(disk, voice), "b", "a", registers, files)
    await a.start()
    await b.start()
    connection = Connection(a, b)  # everything, of which there is nothing yet
    await _until_paired(a, b)
    await a.create()
    for _ in range(5):
        await a.enqueue([draw.choice((10, 2000, 5000)) for _ in range(3)])
    await a.consume(4)
    for _ in range(4):
        await a.enqueue([draw.choice((10, 200, 5000))])
    await a.consume(3)
    await b.tidy()
    await connection.close()

    a.lose(Verdict.CONTINUE_AS_MASTER)
    await a.until_serving()
    await a.enqueue([10, 4000])
    connection = Connection(a, b)  # a delta
    await _until_paired(a, b)
    await a.enqueue([300])

    gate.hang()  # from here on only b writes, and nobody hears of it
    before = b.domain.shared.progress.durable_index
    for size in (50, 6000, 50):
        a.enqueue_soon([size])
    await b.until(lambda: b.domain.shared.progress.durable_index >= before + 3, "what the master could not write")
    await connection.close()
    gate.die()
    await a.until_dead()
    a = Member(as_store(gate._store), "a", "b", registers)  # noqa: SLF001  # its next life
    await a.start()
    a.lose(Verdict.ASSUME_MASTERSHIP)
    await a.until_serving()
    await a.enqueue([700])
    connection = Connection(a, b)  # cuts
    await _until_paired(a, b)
    await a.enqueue([10])
    await connection.close()

    b.domain.shared.wants_full = True
    a.lose(Verdict.CONTINUE_AS_MASTER)
    await a.until_serving()
    await a.enqueue([5000, 10])
    connection = Connection(a, b)  # a full one again
    await _until_paired(a, b)
    await a.enqueue([10])
    await connection.close()
    await a.stop()
    await b.stop()
    disk.close()


async def _until_paired(a: Member, b: Member) -> None:
    await a.until(lambda: a.domain.shared.link.name == "PAIRED", "the pair")
    await b.until(lambda: b.domain.shared.state.data is DataMark.IN_SYNC, "the end of the transfer")


async def witness_scenario(root: Path, voice: Voice, draw: random.Random) -> None:
    """A witness with some registers that are claimed, committed and joined; opened again midway."""
    directory = root / "new" / "witness"
    store = WitnessStore(directory, map_bytes=MAP_BYTES)
    voice.say("ready")
    current = {f"domain-{number}": Register() for number in range(4)}
    for turn in range(40):
        domain = draw.choice(sorted(current))
        found = current[domain]
        nonce = b"%d" % turn
        member = draw.choice("ab")
        if found.is_new or (len(found.in_sync_set) == 2 and found.state.name == "COMMITTED"):
            alone = frozenset({member})
            wanted = claim(found, member=member, epoch=found.epoch + 1, members=alone, nonce=nonce)
        elif found.state.name == "CLAIMED":
            wanted = commit(found, nonce=nonce)
        else:
            other = "b" if found.holder == "a" else "a"
            wanted = add_member(found, member_added=other, nonce=nonce)
        request = pb.CompareAndSetRequest(
            pair=PAIR, domain=domain, expected=to_message(found), desired=to_message(wanted), member=member
        )
        number = voice.doing((domain, wanted))
        _, why = store.compare_and_set(request)
        if why is not None:
            raise RuntimeError(why)
        voice.done(number)
        current[domain] = wanted
        if turn == 20:
            store.close()
            store = WitnessStore(directory, map_bytes=MAP_BYTES)
    store.close()


async def journal_scenario(root: Path, voice: Voice, draw: random.Random) -> None:
    """A classifier journal whose files are full after a few lines."""
    make_directory(root / "data")
    with patient_journal():
        for life in range(2):
            journal = Journal(root / "data", size_max=9_000, kept_count=20)
            if not life:
                voice.say("ready")
            for turn in range(30):
                event_id = f"{life}-{turn}"
                number = voice.doing(event_id)
                facts = DomainFacts(
                    "main", Role.REPLICA, DataMark.IN_SYNC, 7, 100, 100, 100, 100, "MASTER", "IN_SYNC", 7
                )
                event = Event(event_id, EventKind.PEER_LOST, 3, "p", "a", "b", (facts,) * draw.choice((1, 4)))
                answer = Answer(event_id, 3, Verdict.WAIT, "so", Evidence.NONE, by="driver")
                if await journal.write(call_line(event, answer)):
                    voice.done(number)
            journal.close()


async def events_scenario(root: Path, voice: Voice, draw: random.Random) -> None:
    """An event log whose halves are full after a few events, each on disk before it is listed."""
    make_directory(root / "data")
    voice.say("ready")
    with short_events():
        for _ in range(2):
            log = EventLog(root / "data", "a")
            run = asyncio.ensure_future(log.run())
            for _ in range(20):
                text = "e" * draw.choice((1, 30, 700))
                number = voice.doing(text)
                changed = log.changed
                if log.add(PairEventKind.PAIR_EVENT_KIND_ROLE, text) != number:
                    raise RuntimeError("the events are not numbered from 1")
                await changed.wait()
                voice.done(number)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)


@contextmanager
def patient_journal() -> Iterator[None]:
    """Each line is waited for until it is on disk: on a busy machine the next one began beside one that was not, and
    the judge of one at a time took what both left for torn.
    """
    before = failover.journal.WAIT_S
    failover.journal.WAIT_S = LINE_S
    try:
        yield
    finally:
        failover.journal.WAIT_S = before


@contextmanager
def short_events() -> Iterator[None]:
    """No second passes between an event and its sync, and a few events fill a file."""
    before = replica.operations.events.FSYNC_S, replica.operations.events.KEEP
    replica.operations.events.FSYNC_S, replica.operations.events.KEEP = 0.0, EVENTS_KEPT
    try:
        yield
    finally:
        replica.operations.events.FSYNC_S, replica.operations.events.KEEP = before


SCENARIOS: Mapping[str, Callable[[Path, Voice, random.Random], Awaitable[None]]] = MappingProxyType(
    {
        "store": store_scenario,
        "member": member_scenario,
        "replica": replica_scenario,
        "witness": witness_scenario,
        "journal": journal_scenario,
        "events": events_scenario,
        "lying": store_scenario,
    }
)


def one_inode(path: Path) -> int:
    """In place of `storage.mark.inode_of`: an image is a copy, and has another."""
    del path
    return 1


def without_sync() -> None:
    """Takes durability away from all that this process will write; names are synced as ever, else the loss of a file's
    name would hide what becomes of its bytes.
    """
    opened = lmdb.Environment

    def unsynced(*arguments: Any, **options: Any) -> Any:
        return opened(*arguments, **{**options, "sync": False})

    for name in ("Environment", "open"):
        setattr(lmdb, name, unsynced)
    synced = os.fsync

    def of_directories(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced(descriptor)

    for name in ("fsync", "fdatasync"):
        setattr(os, name, of_directories)


def main(arguments: list[str]) -> None:
    scenario, root, said, story, seed, *rest = arguments
    if rest == ["--no-sync"]:
        without_sync()
    storage.commit_log.LOG_BYTES, storage.folding.FOLD_S = LOG_BYTES, FOLD_S
    storage.mark.inode_of = one_inode
    voice = Voice(Path(said), Path(story))
    asyncio.run(_run(SCENARIOS[scenario](Path(root), voice, random.Random(f"{seed}/{scenario}"))))
    voice.close()


async def _run(work: Awaitable[None]) -> None:
    await work


if __name__ == "__main__":
    main(sys.argv[1:])
