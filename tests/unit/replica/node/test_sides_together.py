"""Both sides of one queue over many small histories: sends, commits that one member hears of later, processes that
leave and come back, members that die with what was not durable. The judge knows nothing of how it is done (K1, K2, K6);
what it is for is planted, and found.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

from replica.core.state.calls import Consumer
from replica.machine.plan.sides import Portion, passed_by, plan_passed
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.node import sides as node_sides
from replica.node.sides import Sides
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_RELEASE
from tests.unit.replica.machine.driver import Driver
from tests.unit.replica.node.side_member import Member, Process, a_pair

SEEDS, STEPS = 12, 120
Plant = Callable[[pytest.MonkeyPatch], None]


class Twin:
    """A process at one member: acts on each message once, in order, and settles most of them."""

    def __init__(self, member: Member) -> None:
        self.member, self.acted = member, [0]
        self.process: Process | None = None
        self.consumer: Consumer | None = None
        self.seen = 0

    def come(self) -> None:
        if self.process is None:
            self.seen = 0
            self.process, self.consumer = self.member.consume()

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
        if self.process is None:
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
        self.sent = self.committed = 0

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
        match self.luck.choices(range(7), (5, 4, 6, 1, 1, 4, 3))[0]:
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
                mark = (twin.member.queue.passed or {})[twin.member.name]
                side = twin.member.own.orders.machine.state.own_sides.values()
                known = max((passed_by(each) for each in side), default=mark)
                assert known >= mark, f"the pair was told {mark}, and on the disk of {twin.member.name} is {known}"
            case 5:
                twin.member.flush()
            case _:
                self.record()

    def commit(self) -> None:
        """The master knows at once, the replica with the next thing that it hears."""
        self.driver.replica.commit(self.luck.choice((self.driver.log_index, self.driver.master.state.commit_index)))
        self.driver.commit()
        self.committed = self.sent

    def record(self) -> None:
        """The master writes down what both say of their sides."""
        queue = self.driver.master.state.named("q")
        marks = {each.member.name: said for each in self.twins for said in each.member.said}
        header = self.driver.plan(lambda: plan_passed(self.driver.master.state, self.driver.now_ms, queue, marks))
        if header is not None:
            self.driver.order(header)

    def judge(self) -> None:
        slower = min(twin.acted[-1] for twin in self.twins)
        queue = self.driver.master.state.named("q")
        first = next((part.start for part in queue.segments.parts(0, self.sent + 1)), self.sent + 1)
        assert first <= slower + 1, f"what comes before {first} is gone, and one side has acted up to {slower}"

    def end(self) -> None:
        """Everybody comes back and settles everything: both acted on the same, in one order, and nothing is left."""
        self.commit()
        self.driver.replica.commit(self.driver.log_index)
        for twin in self.twins:
            twin.leave()
            twin.come()
            while twin.process is not None and twin.seen < len(twin.process.given):
                for lease_id, indexes in twin.process.given[twin.seen :]:
                    twin.seen += 1
                    for index in indexes:
                        assert index <= twin.acted[-1] + 1
                        twin.acted += [index] if index > twin.acted[-1] else []
                        twin.member.settle(twin.process, lease_id, index, OUTCOME_ACK)
                twin.member.sides.on_moved()
                twin.member.flush()
        assert [twin.acted for twin in self.twins] == [list(range(self.sent + 1))] * 2
        for _ in range(3):  # what a side says is as old as what it last looked at
            self.record()
        assert self.driver.master.state.named("q").length == 0


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_both_sides_act_on_the_same_in_one_order(seed: int) -> None:
    await History(seed).run()


async def all_of_them() -> None:
    for seed in range(SEEDS):
        await History(seed).run()


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


PLANTED: MappingProxyType[str, tuple[Plant, str]] = MappingProxyType(
    {
        "delivery beyond the commit index": (beyond_the_commit_index, "are committed"),
        "a side's cursor ahead of its disk": (ahead_of_its_disk, "on the disk of"),
        "a message dropped at the faster side": (dropped_at_the_faster_side, "is gone, and one side"),
    }
)


@pytest.mark.parametrize("bug", PLANTED)
async def test_the_judge_finds_what_is_planted(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    plant, words = PLANTED[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        await all_of_them()
