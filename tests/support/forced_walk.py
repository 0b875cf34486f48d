"""A seeded random walk of a pair in which an operator forces members, rightly or wrongly; then resolves; an account."""

from __future__ import annotations

import sys

from failover.marks import DataMark, Role
from tests.support.checks import require
from tests.support.clients import Producer, remaining
from tests.support.pair import Member
from tests.support.walk import Walk, repeat

HEAL_MS = 20_000


class ForcedWalk(Walk):
    """Each message has a producer of its own, so that a lost history leaves no gap behind."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        often = self.random.choice
        self.singles: list[Producer] = []
        self.forced = 0
        self.diverged = 0
        self.resolved: list[str] = []
        self.weights[self.force] = often([1, 2, 4])
        self.weights[self.alone] = often([0, 1, 2])
        self.weights[self.other_alone] = often([0, 1, 2])
        self.weights[self.outdate] = often([0, 0, 1])
        self.weights[self.read] = self.weights[self.send_volatile] = 0

    # -- actions ---------------------------------------------------------------------------------------------------

    def send(self) -> None:
        member = self.one()
        if member is not None:
            self.send_to(member)

    def send_to(self, member: Member) -> None:
        producer = Producer(self.pair, f"s{len(self.singles)}")
        self.singles.append(producer)
        producer.send(member)

    def retry(self) -> None:
        member = self.one()
        if member is not None and self.singles:
            self.random.choice(self.singles).retry(member)

    def force(self) -> None:
        """An operator's word at one that does not serve, whatever the other one has acknowledged."""
        member = self.one()
        if member is not None and member.core.mastership.view.readable:
            self.do_force(member)

    def do_force(self, member: Member) -> bool:
        if member.core.mastership.force("walk") != "":
            return False
        self.forced += 1
        self.excuse()
        member.dispatch(member.core)
        return True

    def excuse(self) -> None:
        """What is forced costs what it says: the account at the end is what must hold."""
        self.pair.checks.highest = None
        self.pair.checks.excused = True
        self.pair.seen.clear()

    def alone(self) -> None:
        """The replica dies, and the master answers alone."""
        master = self.pair.master
        if master is None:
            return
        if master.peer.up:
            self.pair.crash(master.peer)
        master.lost(refused=True)
        self.pair.settle(200)
        for _ in range(self.random.randrange(4)):
            self.send_to(master)
        if self.random.random() < 0.7:
            self.pair.settle(200)

    def other_alone(self) -> None:
        """Whoever serves dies, and an operator forces the other one."""
        master = self.pair.master
        if master is None:
            return
        self.pair.crash(master)
        other = master.peer
        if not other.up:
            other.start()
        other.lost(refused=True)
        self.pair.settle(200)
        if not other.serving and self.do_force(other):
            self.pair.settle(200)
            self.send_to(other)
            self.pair.settle(100)

    def outdate(self) -> None:
        member = self.one()
        if member is not None:
            done = member.core.mastership.copy_orders.outdate("walk", by_member="", epoch=0) == ""
            member.dispatch(member.core)
            if done and member.in_session:
                self.pair.disconnect()  # as the handler of the order does: one HELLO makes one SYNC

    # -- the end ---------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        pair = self.pair
        self.excuse()
        for _ in range(12):
            self.settle_down()
            if not self.resolved:
                cut = [m.name for m in pair.members.values() if any(m.salvaged.values())]
                require(not cut, f"acknowledged operations were cut at {cut}, and no operator had said so")
            if pair.is_paired:
                break
            self.decide_like_an_operator()
        require(pair.is_paired, f"no way back to a pair: {pair.describe()}; {self.resolved}")
        pair.settle(500)
        pair.checks.equal()
        self.account()

    def settle_down(self) -> None:
        pair = self.pair
        pair.calls_landed()
        for member in pair.members.values():
            if not member.up:
                member.start()
        if pair.greeted and not pair.linked:
            pair.disconnect()
        end_ms = pair.now_ms + HEAL_MS
        while pair.now_ms < end_ms and not pair.is_paired:
            if not pair.linked:
                pair.disconnect()
                pair.connect()
            pair.settle(100)
            if any(member.role is Role.DIVERGED for member in pair.up):
                return

    def decide_like_an_operator(self) -> None:
        """Resolve, or force the best of two that wait for ever."""
        pair = self.pair
        diverged = [member for member in pair.up if member.role is Role.DIVERGED]
        self.diverged += len(diverged)
        if not diverged:
            best = max(pair.up, key=lambda m: (m.shared.state.data.is_good, m.shared.state.data is not DataMark.EMPTY))
            self.resolved.append(f"force {best.name}")
            self.do_force(best)
            return
        stopped = diverged[0]
        keep = self.random.choice((stopped, stopped.peer))
        loser = keep.peer
        self.resolved.append(f"keep {keep.name}")
        if loser.core.mastership.copy_orders.give_up_history("walk") == "":
            loser.dispatch(loser.core)
            pair.quiesce()
        if keep.role is Role.DIVERGED:
            self.do_force(keep)
            pair.quiesce()

    def account(self) -> None:
        """Every answered message is in the queue once, or was copied before it went, marked as acknowledged."""
        pair = self.pair
        master = pair.master
        assert master is not None
        found = [payload for _, payload in remaining(master)]
        require(len(found) == len(set(found)), f"a message is there twice: {found}")
        salvaged: dict[tuple[int, int], bool] = {}
        for member in pair.members.values():
            for name, flag in member.salvaged.items():
                salvaged[name] = salvaged.get(name, False) or flag
        for producer in self.singles:
            for op in producer.ops:
                if op.done is not None and op.payload not in found:
                    name = (op.done.log_index, op.done.epoch)
                    text = f"{op.payload!r}, answered by {op.member} as {name} with copies={op.done.copies}"
                    require(name in salvaged, f"vanished: {text}")
                    require(salvaged[name], f"not marked as acknowledged: {text}")


if __name__ == "__main__":
    repeat(ForcedWalk(int(sys.argv[1])))
