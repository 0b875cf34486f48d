"""A seeded random walk of a pair: crashes, cuts, slow disks, late register calls, wrong verdicts; then heal."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from replica.core.handoff.attempt import HandoffOutcome
from replica.node.maintenance import NO_JOURNAL, Maintenance
from storage.store import WriteBatch
from tandemq.v1.queue_admin_service_pb2 import PERSISTENCE_VOLATILE
from tests.support.checks import require
from tests.support.clients import Producer, Reader, check_contents, create, remaining
from tests.support.pair import NUMBER, Member, Pair, drive

STEPS = 250


class UpkeepNode:
    """What the product's upkeep needs of a node."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.store = member.store
        self.appended_bytes = 0

    async def write(self, batch_of: Callable[[WriteBatch], None]) -> None:
        batch_of(self._member.batch)
        await self._member.flush()


def trim(member: Member) -> None:
    """A checkpoint, if all is committed, and then what it makes needless goes."""
    shared = member.shared
    machine = shared.machine
    if (
        machine is None
        or not shared.state.data.is_good
        or not 0 < machine.applied_index <= shared.progress.commit_index
    ):
        return
    upkeep = Maintenance(UpkeepNode(member), member.core, NO_JOURNAL)  # type: ignore[arg-type]
    drive(upkeep.checkpoint())
    upkeep.mark()
    drive(upkeep._trim())


class Walk:
    """One seed. Each step is one action of one table; a table is drawn first, so that seeds differ in kind (swarm)."""

    def __init__(self, seed: int, *, steps: int = STEPS) -> None:
        self.random = random.Random(seed)
        self.steps = steps
        self.pair = Pair().start()
        create(self.pair)
        create(self.pair, "v", persistence=PERSISTENCE_VOLATILE)
        self.producers = [Producer(self.pair, "x"), Producer(self.pair, "y", min_copies=2)]
        self.volatile = Producer(self.pair, "z", "v", volatile=True)
        self.reader = Reader(self.pair)
        self.trace: list[str] = []
        self.told: list[list[HandoffOutcome]] = []
        """How each handoff ended."""
        often = self.random.choice
        self.weights = {
            self.deliver: 30,
            self.disk: often([3, 12, 20]),
            self.register: often([2, 8, 16]),
            self.lose_call: often([0, 0, 1, 4]),
            self.land_late: often([0, 1, 2]),
            self.time: often([3, 10]),
            self.beat: often([0, 4]),
            self.send: often([4, 12]),
            self.retry: often([0, 2, 4]),
            self.read: often([0, 0, 3]),
            self.crash: often([0, 1, 1, 3]),
            self.restart: often([2, 6]),
            self.cut: often([0, 1, 3]),
            self.notice: often([3, 8]),
            self.connect: often([2, 8]),
            self.verdict: often([0, 1, 3]),
            self.settle: often([0, 0, 1]),
            self.send_volatile: often([0, 0, 4]),
            self.trim: often([0, 0, 1]),
            self.hand_over: often([0, 1, 4]),
        }

    def run(self) -> Walk:
        actions, weights = list(self.weights), list(self.weights.values())
        for _ in range(self.steps):
            action = self.random.choices(actions, weights)[0]
            self.trace.append(action.__name__)
            action()
        self.trace.append("heal")
        self.drain()
        return self

    def drain(self) -> None:
        pair = self.pair
        pair.heal()
        for round_ in range(8):
            for at, producer in enumerate([*self.producers, self.volatile]):
                producer.retry((pair.a, pair.b)[(at + round_) % 2])
            pair.settle(300)
        for producer in (*self.producers, self.volatile):
            open_ = [op.sequence for op in producer.ops if op.done is None]
            require(not open_, f"never answered: {producer.name} {open_}, {pair.describe()}")
        pair.checks.equal()
        check_contents(pair, self.producers, self.reader)
        master = pair.master
        assert master is not None
        found = remaining(master)
        require(found == remaining(master.peer), "the replica browses something else")
        # Volatile messages may be lost, but by both members or by none (decision 0001).
        kept = remaining(master, "v")
        require(len(kept) == len({payload for _, payload in kept}), f"a volatile message is there twice: {kept}")
        require(kept == remaining(master.peer, "v"), "the members hold different volatile messages")
        length = master.shared.machine.queue_info("v", master.name).length
        require(length == len(kept), f"{length} volatile messages are counted, {len(kept)} have a body")
        self.log_is_dense(master)
        for member in pair.members.values():
            flagged = [index for (index, _), acknowledged in member.salvaged.items() if acknowledged]
            require(not flagged, f"{member.name} lost what it had acknowledged: {flagged}")

    def log_is_dense(self, member: Member) -> None:
        log = member.shared.log
        first = max(log.base_index + 1, member.shared.state.kept_from)
        rows = member.store.scan(NUMBER, first, limit_records=100_000, limit_bytes=1 << 30)
        indexes = [index for index, _ in rows]
        require(indexes == list(range(first, log.last_index + 1)), f"{member.name} has gaps: {indexes}")

    def one(self) -> Member | None:
        up = self.pair.up
        return self.random.choice(up) if up else None

    # -- actions ---------------------------------------------------------------------------------------------------

    def deliver(self) -> None:
        sender = self.random.choice((self.pair.a, self.pair.b))
        for _ in range(self.random.choice((1, 1, 3))):
            if not self.pair.deliver(sender):
                self.pair.deliver_transfer(sender)

    def disk(self) -> None:
        member = self.one()
        if member is None:
            return
        if member.rebuilds and self.random.random() < 0.4:
            member.rebuilt()
        elif member.steps.writing is None:
            member.write()
        else:
            member.synced()

    def register(self) -> None:
        calls = self.pair.calls
        if not calls:
            return
        call = self.random.choice(calls)
        if self.random.random() < 0.3:
            self.pair.land(call)
        else:
            self.pair.answer(call)

    def lose_call(self) -> None:
        if self.pair.calls:
            self.pair.lose(self.random.choice(self.pair.calls))

    def land_late(self) -> None:
        if self.pair.late:
            self.pair.land(self.pair.late.pop(self.random.randrange(len(self.pair.late))))

    def time(self) -> None:
        self.pair.tick(self.random.choice((20, 20, 150, 400, 31_000)))  # the last: leases end

    def beat(self) -> None:
        member = self.one()
        if member is not None:
            self.pair.beat(member)

    def send(self) -> None:
        member = self.one()
        if member is not None:
            self.random.choice(self.producers).send(member)

    def retry(self) -> None:
        member = self.one()
        if member is not None:
            self.random.choice(self.producers).retry(member)

    def read(self) -> None:
        master = self.pair.master
        if master is None:
            return
        if self.random.random() < 0.5:
            self.reader.attach(master, 3)
        else:
            self.reader.ack(master)

    def crash(self) -> None:
        member = self.one()
        if member is not None:
            self.pair.crash(member, written=self.random.random() < 0.3, noticed=self.random.random() < 0.5)

    def restart(self) -> None:
        for member in self.pair.members.values():
            if not member.up:
                member.start()

    def cut(self) -> None:
        if self.pair.linked:
            self.pair.cut()

    def notice(self) -> None:
        member = self.one()
        if member is not None and not self.pair.linked:
            member.notice()

    def connect(self) -> None:
        if not self.pair.linked and not self.pair.greeted and len(self.pair.up) == 2:
            self.pair.connect(distrust=self.random.random() < 0.15)

    def verdict(self) -> None:
        member = self.one()
        if member is not None:
            member.lost(refused=not member.peer.up)

    def settle(self) -> None:
        self.pair.quiesce()

    def hand_over(self) -> None:
        member = self.one()
        if member is not None:
            self.told.append(member.hand_over(dry_run=self.random.random() < 0.1))

    def send_volatile(self) -> None:
        member = self.one()
        if member is not None:
            self.volatile.send(member)

    def trim(self) -> None:
        """A checkpoint, and what it makes needless goes, as `Maintenance` does: a peer behind needs a full transfer."""
        member = self.one()
        if member is not None:
            trim(member)


def repeat(walk: Walk) -> None:
    """Walks once more, and prints what it did."""
    try:
        walk.run()
    finally:
        sys.stdout.write(" ".join(walk.trace) + "\n" + walk.pair.describe() + "\n")


if __name__ == "__main__":
    repeat(Walk(int(sys.argv[1])))
