"""Both sides of one queue over many small histories: sends, commits that one member hears of later, processes that
leave and come back or open their streams again, members that die with what was not durable, sides that lose their
place and begin anew. The judge knows nothing of how it is done (K1, K2, K6, K7); what it is for is planted, and found.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

from replica.core.delivery.consumers import Consumers
from replica.core.domain import Domain
from replica.core.state.calls import Consumer
from replica.core.state.outcomes import Failed
from replica.machine.plan.sides import Portion, passed_by, plan_lost, plan_passed
from replica.machine.state.lockstep import SideOf
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.node import sides as node_sides
from replica.node.sides import Sides
from tandemq.peer.v1 import record_pb2
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_RELEASE
from tests.unit.replica.machine.driver import Driver
from tests.unit.replica.node.side_member import Member, Process, a_pair

SEEDS, STEPS = 24, 120
Plant = Callable[[pytest.MonkeyPatch], None]


class Twin:
    """A process at one member: acts on each message once, in order, and settles most of them."""

    def __init__(self, member: Member) -> None:
        self.member, self.acted = member, [0]
        self.process: Process | None = None
        self.consumer: Consumer | None = None
        self.seen = 0
        self.older: list[tuple[Process, int]] = []
        """Streams that have broken, and what they had been given by then."""

    def come(self) -> None:
        if self.process is None and self.has_place:
            self.seen = 0
            self.process, self.consumer = self.member.consume()

    @property
    def has_place(self) -> bool:
        """As its member knows; a stream is refused where it has lost it."""
        return self.member.name not in self.member.queue.lost

    def reopen(self) -> None:
        """Its connection has broken, which its member has not seen: the older stream is served by nobody."""
        if self.process is not None and self.has_place:
            known = self.process.given[self.seen - 1][0] if self.seen else 0
            broken = self.process
            self.seen = 0
            self.process, self.consumer = self.member.consume(anew=False, last_lease_id=known)
            self.older.append((broken, len(broken.given)))

    def judge_older(self) -> None:
        for broken, count in self.older:
            assert len(broken.given) == count, f"{self.member.name}: two streams share one sequence"

    def begin_anew(self, state: list[int]) -> None:
        """With the state of its twin."""
        self.leave()
        self.acted = list(state)

    def leave(self) -> None:
        if self.consumer is not None:
            self.member.leave(self.consumer)
        self.process = self.consumer = None

    async def crash(self) -> None:
        """Its member dies."""
        self.process = self.consumer = None
        await self.member.restart()

    def work(self, luck: random.Random, committed: int) -> None:
        """What it was given since: nothing is left out, nothing is beyond what is committed."""
        self.judge_older()
        if self.process is None:
            return
        if any(isinstance(answer, Failed) for answer in self.process.answers):
            self.leave()
            return
        given, self.seen = self.process.given[self.seen :], len(self.process.given)
        for lease_id, indexes in given:
            for index in indexes:
                assert index <= committed, f"{index} is delivered at {self.member.name}, and {committed} are committed"
                assert index <= self.acted[-1] + 1, f"{self.member.name}: {index} comes after {self.acted[-1]}"
                if index > self.acted[-1]:
                    self.acted.append(index)
                if luck.random() < 0.8:
                    self.member.settle(self.process, lease_id, index)
                elif luck.random() < 0.5:
                    self.member.settle(self.process, lease_id, index, OUTCOME_RELEASE)


class History:
    """One of them."""

    def __init__(self, seed: int) -> None:
        self.luck = random.Random(seed)
        self.driver: Driver = a_pair()
        self.driver.commits = False
        self.driver.commit()
        self.driver.replica.commit(self.driver.log_index)
        self.twins = [Twin(Member(self.driver, name)) for name in ("a", "b")]
        self.sent = self.committed = self.losses = self.restarts = 0

    async def run(self) -> None:
        for _ in range(STEPS):
            twin = self.luck.choice(self.twins)
            await self.step(twin)
            for each in self.twins:
                each.member.sides.on_moved()
                each.work(self.luck, self.committed)
            self.judge()
        self.end()

    async def step(self, twin: Twin) -> None:
        match self.luck.choices(range(10), (5, 2, 6, 1, 1, 4, 3, 3, 6, 1))[0]:
            case 0:
                count = self.luck.randint(1, 3)
                self.driver.send(count)
                self.sent += count
            case 1:
                self.commit()
            case 2:
                twin.come()
            case 3:
                twin.leave()
            case 4:
                await twin.crash()
                mark = (twin.member.queue.passed or {}).get(twin.member.name, 0)
                side = twin.member.own.orders.machine.state.own_sides.values()
                known = max((passed_by(each) for each in side), default=mark)
                if twin.member.queue.restarted_ms:
                    known = max(known, mark)  # what the side is now may not have begun here
                assert known >= mark, f"the pair was told {mark}, and on the disk of {twin.member.name} is {known}"
            case 5:
                twin.member.flush()
            case 7:
                self.lose()
            case 8:
                self.restart(twin)
            case 9:
                twin.reopen()
            case _:
                self.record()

    def lose(self) -> None:
        """The master gives up the place of whoever is behind."""
        queue = self.driver.master.state.named("q")
        if late := dict.fromkeys(queue.behind, "it was behind"):
            self.driver.order(
                self.driver.plan(lambda: plan_lost(self.driver.master.state, self.driver.now_ms, queue, late))
            )
            self.losses += 1

    def restart(self, twin: Twin) -> None:
        """An operator does; then its process is given the state of its twin."""
        name = twin.member.name
        if name in self.driver.master.state.named("q").lost:
            self.driver.now_ms += 1
            self.driver.queue(record_pb2.QUEUE_ACTION_RESTART_SIDE, member=name)
            (other,) = (each for each in self.twins if each is not twin)
            twin.begin_anew(other.acted)
            self.restarts += 1

    def commit(self) -> None:
        """The master knows at once, the replica with the next thing that it hears."""
        known = self.luck.choice((self.driver.log_index, self.driver.master.state.commit_index))
        self.driver.replica.commit(known)
        self.driver.commit()
        self.committed = self.sent
        for twin, index in zip(self.twins, (self.driver.log_index, known), strict=True):
            twin.member.pair.shared.progress.commit_index = index

    def record(self) -> None:
        """The master writes down what both say of their sides."""
        queue = self.driver.master.state.named("q")
        marks = {each.member.name: said for each in self.twins for said in each.member.said}
        header = self.driver.plan(lambda: plan_passed(self.driver.master.state, self.driver.now_ms, queue, marks))
        if header is not None:
            self.driver.order(header)

    def judge(self) -> None:
        queue = self.driver.master.state.named("q")
        slower = min(twin.acted[-1] for twin in self.twins if twin.member.name in (queue.passed or {}))
        first = next((part.start for part in queue.segments.parts(0, self.sent + 1)), self.sent + 1)
        assert first <= slower + 1, f"what comes before {first} is gone, and one side has acted up to {slower}"

    def end(self) -> None:
        """Everybody comes back and settles everything: both acted on the same, in one order, and nothing is left."""
        for twin in self.twins:
            self.restart(twin)
        self.commit()
        self.driver.replica.commit(self.driver.log_index)
        for twin in self.twins:
            twin.member.pair.shared.progress.commit_index = self.driver.log_index
            twin.leave()
            twin.come()
            while twin.process is not None and twin.seen < len(twin.process.given):
                for lease_id, indexes in twin.process.given[twin.seen :]:
                    twin.seen += 1
                    for index in indexes:
                        assert index <= twin.acted[-1] + 1, f"{index} comes after {twin.acted[-1]} at the end"
                        twin.acted += [index] if index > twin.acted[-1] else []
                        twin.member.settle(twin.process, lease_id, index, OUTCOME_ACK)
                twin.member.sides.on_moved()
                twin.member.flush()
            twin.judge_older()
        assert [twin.acted for twin in self.twins] == [list(range(self.sent + 1))] * 2
        for _ in range(3):  # what a side says is as old as what it last looked at
            self.record()
        assert self.driver.master.state.named("q").length == 0


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_both_sides_act_on_the_same_in_one_order(seed: int) -> None:
    await History(seed).run()


async def all_of_them() -> tuple[int, int]:
    """How many places were lost, and how many sides began anew."""
    histories = [History(seed) for seed in range(SEEDS)]
    for each in histories:
        await each.run()
    return sum(each.losses for each in histories), sum(each.restarts for each in histories)


async def test_places_are_lost_and_sides_begin_anew() -> None:
    losses, restarts = await all_of_them()
    assert min(losses, restarts) >= SEEDS


def beyond_the_commit_index(patch: pytest.MonkeyPatch) -> None:
    def next_given(of: QueueState, side: QueueState) -> Portion | None:
        count = of.next_index - side.next_index
        return Portion(side.next_index, count, count) if count else None

    patch.setattr(node_sides, "next_given", next_given)


def ahead_of_its_disk(patch: pytest.MonkeyPatch) -> None:
    def passed(self: Sides, _domain: object, _queue: object) -> int:
        assert self.own is not None
        return max((passed_by(side) for side in self.own.orders.machine.state.own_sides.values()), default=0)

    patch.setattr(Sides, "_passed", passed)


def dropped_at_the_faster_side(patch: pytest.MonkeyPatch) -> None:
    real = plan_passed

    def faster(state: State, now_ms: int, queue: QueueState, marks: Mapping[str, int]) -> RecordHeader | None:
        header = real(state, now_ms, queue, marks)
        if header is not None:
            until = max(queue.passed or {}, key=lambda member: marks.get(member, 0))
            header.passed.gone.first, header.passed.gone.count = 1, marks[until]
        return header

    patch.setattr(sys.modules[__name__], "plan_passed", faster)


def goes_on_where_it_was(patch: pytest.MonkeyPatch) -> None:
    def key(self: Sides, domain: Domain, queue: QueueState) -> SideOf:
        del self
        return SideOf(domain.shared.domain, domain.orders.machine.history_id, queue.queue_id)

    patch.setattr(Sides, "key", key)
    patch.setattr(node_sides, "_is_side", lambda queue, member, _of: member in (queue.passed or {}))


def beside_its_older_stream(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Consumers, "make_way", lambda *_args, **_more: None)


PLANTED: MappingProxyType[str, tuple[Plant, str]] = MappingProxyType(
    {
        "delivery beyond the commit index": (beyond_the_commit_index, "are committed"),
        "a side's cursor ahead of its disk": (ahead_of_its_disk, "on the disk of"),
        "a message dropped at the faster side": (dropped_at_the_faster_side, "is gone, and one side"),
        "a side that has begun anew goes on where it was": (goes_on_where_it_was, "comes after"),
        "a stream is served beside the one that broke": (beside_its_older_stream, "share one sequence"),
    }
)


@pytest.mark.parametrize("bug", PLANTED)
async def test_the_judge_finds_what_is_planted(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    plant, words = PLANTED[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        await all_of_them()
