"""One simulated machine's disk, which outlives its processes: keeps what was committed, and fails as disks fail.

It obeys LMDB's contract (reliability.md 6): a commit that has returned stays; one that was under way when its process
died is there whole or not at all. Faults are given to it by name (`strike`) and end by `heal`; whatever they leave
open, such as whether a batch survives, comes from the disk's own stream of randomness. It never waits: how long a
commit takes is `commit_delay_s`, and whoever carries the commit out does the waiting.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from chaos.sim.kernel.files import SimFiles
from storage.errors import DirectoryInUse, StoreFailed, StoreFull
from storage.identity import check_identity
from storage.memory import MemoryStore, Undo
from storage.store import Usage, WriteBatch

COMMIT_S = 0.001
TAIL_SHARE, TAIL_FACTOR = 0.01, 30.0
"""One commit in a hundred takes thirty times as long."""
REAL_SYNC_SHARE = 0.1
"""Of the commits of a disk that lies: those with which everything so far becomes durable indeed."""
FAULTS = ("enospc", "map_full", "fsync", "corrupt", "lost", "snapshot", "restore", "lost_writes")
LAST_WRITES = 3
"""So many commits can be taken back."""
ENOSPC, FSYNC = "enospc", "fsync"
ROOM_BYTES = 16_384
"""Left by "map_full"."""

Place: TypeAlias = tuple[int, int] | str
"""Of a record: domain and log index; of a checkpoint: its key."""


class SimStore(MemoryStore):
    """What one process has open, and what lies on the disk between two of them."""

    def __init__(self, disk: Disk, *, pair: str = "", member: str = "", instance: bytes = b"") -> None:
        super().__init__(
            pair=pair, member=member, instance=instance, map_bytes=disk.map_now, max_domains=disk.max_domains
        )
        self._disk = disk
        self.undo_kept = []

    def commit(self, batch: WriteBatch) -> None:
        """See Store."""
        if self._disk.active:
            self._disk.meet(self, batch)
        super().commit(batch)
        self._disk.on_commit(batch)
        assert self.undo_kept is not None
        if self._disk.lying:
            self._disk.acknowledged_early(self.undo_kept)
        else:
            del self.undo_kept[:-LAST_WRITES]

    def usage(self) -> Usage:
        """See Store; on a full disk nothing can grow."""
        usage = super().usage()
        return Usage(usage.used_bytes, usage.used_bytes, usage.file_bytes) if self._disk.is_full else usage

    @property
    def is_closed(self) -> bool:
        """Whether no process uses it."""
        return self._closed

    @property
    def used_bytes(self) -> int:
        """As `usage` says, closed or not."""
        return self._used_bytes

    def limit(self, map_bytes: int) -> None:
        """What it can grow to from here on."""
        self._map_bytes = map_bytes

    def fail(self, why: str) -> StoreFailed:
        """Every commit from here on ends with this."""
        self._failure = StoreFailed(why, self._disk.where)
        return self._failure

    def identity(self) -> dict[str, bytes | None]:
        """Format, pair, member and instance, closed or not."""
        return dict(self._meta.rows)

    def record(self, domain: int, log_index: int) -> bytes | None:
        """One record, closed or not."""
        log = self._logs.get(domain)
        return None if log is None else log.rows.get(log_index)

    def copy(self) -> SimStore:
        """What is committed, as in an image of the disk."""
        image = SimStore(self._disk)
        for domain, log in self._logs.items():
            other = image._logs[domain] = type(log)()
            other.order, other.rows = log.order.copy(), log.rows.copy()
        image._meta.order, image._meta.rows = self._meta.order.copy(), self._meta.rows.copy()
        image._used_bytes, image._file_bytes = self._used_bytes, self._file_bytes
        image.close()
        return image

    def places(self, what: str) -> list[Place]:
        """Of every "record", every "checkpoint", or (empty) both."""
        records: list[Place] = [(domain, index) for domain, log in self._logs.items() for index in log.order]
        checkpoints: list[Place] = [key for key in self._meta.order if key.endswith("/checkpoint")]
        return {"record": records, "checkpoint": checkpoints, "": records + checkpoints}[what]

    def at(self, place: Place) -> bytes | None:
        """What is there; None: nothing any more."""
        if isinstance(place, str):
            return self._meta.rows.get(place)
        return self._logs[place[0]].rows.get(place[1]) if place[0] in self._logs else None

    def flip(self, place: Place, random_bit: float) -> None:
        """Turns one bit over; which one, as a share of the whole in [0, 1)."""
        value = bytearray(self.at(place) or b"")
        bit = int(random_bit * len(value) * 8)
        value[bit // 8] ^= 1 << bit % 8
        if isinstance(place, str):
            self._meta.rows[place] = bytes(value)
        else:
            self._logs[place[0]].rows[place[1]] = bytes(value)


class Disk:
    """One machine's disk. `now` is virtual time in seconds; `stream` belongs to this disk alone.

    `lying`: it acknowledges before it has synced, and a crash takes the last commits (a positive control).
    """

    def __init__(
        self,
        member: str,
        stream: random.Random,
        now: Callable[[], float],
        *,
        lying: bool = False,
        map_bytes: int = 64 << 30,
        max_domains: int = 250,
    ) -> None:
        self.member, self.now, self.lying = member, now, lying
        self.map_bytes, self.map_now, self.max_domains = map_bytes, map_bytes, max_domains
        self.where = f"simulated disk of {member}"
        self.active: set[str] = set()
        """Faults that the next commit meets, by name."""
        self.counts: Counter[str] = Counter()
        """Commits by what became of them: "refused" (no room), "failed" (sync), under way in a crash and then "kept" or
        "gone", "vanished" (a lie), "taken back".
        """
        self.files = SimFiles(self.where, lambda: not self.is_full)
        """Beside the store."""
        self.on_commit: Callable[[WriteBatch], None] = lambda _batch: None
        """Called with each batch that has become part of what lies on the disk."""
        self.on_struck: Callable[[str], None] = lambda _kind: None
        """Called when a sync fails ("fsync"), not when that is ordered."""
        self.replaced = 0
        """How often all that was on it has gone or become something older."""
        self._content: SimStore | None = None
        self._running: SimStore | None = None
        self._images: dict[str, tuple[SimStore, SimFiles]] = {}
        self._in_doubt: WriteBatch | None = None
        self._flipped: dict[Place, bytes | None] = {}
        self._slow_factor, self._slow_until = 1.0, 0.0
        self._hung = False
        self._good_syncs = 0
        """How many are done before the one that fails."""
        self._waiting: list[Callable[[], None]] = []
        # Apart, so that a fault which is left out does not change how long the commits after it take.
        self._delays = random.Random(stream.getrandbits(64))
        self._fates = random.Random(stream.getrandbits(64))

    # -- processes -------------------------------------------------------------------------------------------------

    def open(self, pair: str, member: str) -> SimStore:
        """The store of a new process. Raises what `storage.disk.open_disk` raises for a directory in this state."""
        if self._running is not None and not self._running.is_closed:
            raise DirectoryInUse("The directory is in use by another process", self.where)
        found = self._content
        if found is None:
            store = SimStore(self, pair=pair, member=member, instance=self._fates.randbytes(16))
        else:
            check_identity(found.identity(), pair, member, self.where)
            store = self._moved(found)
        self._content = self._running = store
        return store

    def crash(self, in_flight: WriteBatch | None = None, *, power: bool = False) -> str:
        """The process is dead. What became of the batch that it was committing: "kept", "gone", or "" without one.

        `power`: so is the machine, and what files were not synced.
        """
        self._waiting.clear()
        if power:
            self.files.lose_power(self._fates)
        dead, self._running = self._running, None
        batch, self._in_doubt = self._in_doubt or in_flight, None
        if dead is None or dead is not self._content or dead.is_closed:
            if dead is not None:
                dead.close()
            return ""
        rest = self._content = self._moved(dead)
        fate = ""
        if self.lying and rest.undo_kept:
            self._vanish(rest, rest.undo_kept)
            fate = "gone" if batch is not None else ""
        elif batch is not None:
            fate = "kept" if self._fates.random() < 0.5 and _is_carried_out(rest, batch) else "gone"
            if fate == "kept":
                self.on_commit(batch)
        rest.close()
        if fate:
            self.counts[fate] += 1
        return fate

    def _moved(self, found: SimStore) -> SimStore:
        store = SimStore(self)
        store.take_over(found)
        return store

    # -- time ------------------------------------------------------------------------------------------------------

    def commit_delay_s(self) -> float:
        """How long the next commit takes, unless the disk hangs."""
        delay_s = self._delays.expovariate(1 / COMMIT_S)
        if self._delays.random() < TAIL_SHARE:
            delay_s *= TAIL_FACTOR
        return delay_s * self._slow_factor if self.now() < self._slow_until else delay_s

    def slow(self, factor: float, until_s: float) -> None:
        """Until that time commits take so many times as long."""
        self._slow_factor, self._slow_until = factor, until_s

    def hang(self) -> None:
        """Nothing comes back until `release`."""
        self._hung = True

    def release(self) -> None:
        """It answers again: what waits goes on, in its order."""
        self._hung = False
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def when_free(self, go_on: Callable[[], None]) -> None:
        """Calls at once, or at `release` while the disk hangs; never once the process that waits has died."""
        if self._hung:
            self._waiting.append(go_on)
        else:
            go_on()

    # -- what is seen ----------------------------------------------------------------------------------------------

    def record(self, domain: int, log_index: int) -> bytes | None:
        """As it lies there, whoever uses the disk."""
        return None if self._content is None else self._content.record(domain, log_index)

    def meta(self, key: str) -> bytes | None:
        """As it lies there, whoever uses the disk."""
        return None if self._content is None else self._content.identity().get(key)

    # -- faults ----------------------------------------------------------------------------------------------------

    def strike(self, name: str, what: str = "") -> str:
        """Brings a fault about: what it hit, in words; empty when there was nothing to hit. ValueError: no such fault.

        `what` is, for "lost_writes", how many;
        for "map_full", how many bytes are left; for "fsync", how many commits are done before the one that
        fails; for "corrupt" "record", "checkpoint" or (empty) either; for
        "snapshot" and "restore" the name of the image.
        """
        match name:
            case "enospc":  # no commit at all, until `heal`
                self.active.add(ENOSPC)
                return "every commit"
            case "map_full":  # no growth beyond a little room, until `heal`
                self._limit(int(what or ROOM_BYTES))
                return "what grows"
            case "fsync":  # the next commit fails; whether its batch is durable shows in the crash that must follow
                self.active.add(FSYNC)
                self._good_syncs = int(what or 0)
                return f"the next commit but {what}" if self._good_syncs else "the next commit"
            case "corrupt":
                return self._corrupt(what)
            case "lost":
                return self._replace(None, None)
            case "lost_writes":
                return self._lose_writes(int(what or 1))
            case "snapshot":
                return self._keep_image(what)
            case "restore":
                return self._put_back(what)
            case _:
                raise ValueError(f"a disk knows no fault {name!r}; it knows {', '.join(FAULTS)}")

    def heal(self) -> None:
        """There is room, syncs work, nothing is slow or hangs. What is lost or flipped stays so."""
        self.active.clear()
        self._slow_until = 0.0
        self._limit(None)
        self.release()

    @property
    def is_full(self) -> bool:
        """Whether there is no room."""
        return ENOSPC in self.active

    def meet(self, store: SimStore, batch: WriteBatch) -> None:
        """Raises for a commit what stands in its way."""
        if FSYNC in self.active:
            if self._good_syncs and ENOSPC not in self.active:
                self._good_syncs -= 1
                return
            self.active.discard(FSYNC)
            self._in_doubt = batch
            self.counts["failed"] += 1
            self.on_struck("fsync")
            raise store.fail("A commit failed: Input/output error")
        self.counts["refused"] += 1
        raise StoreFull("The disk has no room for this batch", self.where)

    def acknowledged_early(self, undo_kept: list[tuple[Undo, int]]) -> None:
        """A commit of a disk that lies; now and then it syncs indeed."""
        if self._fates.random() < REAL_SYNC_SHARE:
            undo_kept.clear()

    def _vanish(self, rest: SimStore, undo_kept: list[tuple[Undo, int]]) -> None:
        count = self._fates.randint(0, len(undo_kept))
        rest.take_back(count)
        undo_kept.clear()
        self.counts["vanished"] += count

    def _lose_writes(self, count: int) -> str:
        """The last commits, of a process that has ended: the disk had answered that they were durable."""
        found = self._content
        assert found is None or found.is_closed, "a process has it open"
        kept = found.undo_kept if found is not None else None
        count = min(count, len(kept or ()))
        if found is None or not count:
            return ""
        found.take_back(count)
        self.replaced += 1
        self.counts["taken back"] += count
        return f"the last {count} writes"

    def _limit(self, room_bytes: int | None) -> None:
        found = self._content
        self.map_now = self.map_bytes
        if room_bytes is not None and found is not None:
            self.map_now = min(self.map_bytes, found.used_bytes + room_bytes)
        if found is not None:
            found.limit(self.map_now)

    def _corrupt(self, what: str) -> str:
        places = [] if self._content is None else self._content.places(what)
        if not places:
            return ""
        place = places[self._fates.randrange(len(places))]
        self.flip(place, self._fates.random())
        return f"one bit of {place}"

    def flip(self, place: Place, random_bit: float) -> None:
        """Turns over one bit of what lies there, under the hands of whoever uses the disk; see SimStore.flip."""
        assert self._content is not None
        self._content.flip(place, random_bit)
        self._flipped[place] = self._content.at(place)

    def has_flipped(self, place: Place) -> bool:
        """Whether a bit of what lay there was turned over, on this disk."""
        return place in self._flipped

    @property
    def is_damaged(self) -> bool:
        """Something that was flipped lies there still, whether anybody has found it or not."""
        content = self._content
        return content is not None and any(content.at(place) == value for place, value in self._flipped.items())

    def _replace(self, content: SimStore | None, files: SimFiles | None) -> str:
        """From under a process that still reads what it has open, and fails as it commits."""
        found, self._content = self._content, content
        self.replaced += found is not None
        self._flipped.clear()
        if found is not None and found is self._running:
            found.fail("A commit failed: the file is gone")
        self.files.put_back(files)
        return "" if found is None else "the whole disk"

    def meta_of(self, name: str, key: str) -> bytes | None:
        """What an image holds under that key."""
        return self._images[name][0].identity().get(key)

    def _put_back(self, name: str) -> str:
        if name not in self._images:
            return ""
        store, files = self._images[name]
        self._replace(store.copy(), files)
        return "the whole disk"

    def _keep_image(self, name: str) -> str:
        if self._content is None:
            return ""
        self._images[name] = self._content.copy(), self.files.copy()
        return "the whole disk"


def _is_carried_out(store: SimStore, batch: WriteBatch) -> bool:
    """A batch that there was no room for is not there, whatever was drawn."""
    try:
        MemoryStore.commit(store, batch)
    except StoreFull:
        return False
    return True
