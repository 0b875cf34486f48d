"""A forced walk in which the register comes and goes, and an operator says who is master meanwhile: right, or wrong."""

from __future__ import annotations

import sys

from failover.classifier import Evidence, Verdict
from failover.gate import MASTERS
from failover.marks import Role
from tests.support.forced_walk import ForcedWalk
from tests.support.member import Member
from tests.support.walk import repeat


class OperatorWalk(ForcedWalk):
    """The account at the end is that of the forced walk: nothing vanishes that somebody was told of."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.excuse()
        self.words = 0
        often = self.random.choice
        self.weights[self.force] = often([0, 0, 1])
        self.weights[self.other_alone] = often([0, 0, 1])
        self.weights[self.register] = often([1, 2, 3])
        self.weights[self.right] = often([2, 4])
        self.weights[self.wrong] = often([0, 0, 1])
        self.weights[self.resync] = often([0, 1])

    def register(self) -> None:
        self.pair.witness_away = not self.pair.witness_away

    def say(self, member: Member) -> None:
        member.lost(refused=not member.peer.up)
        self.pair.quiesce(link=False)
        if not member.up or member.in_session:
            return
        goes_on = member.core.mastership.verdicts.role_in_question() in MASTERS
        self.excuse()
        self.words += 1
        verdict = Verdict.CONTINUE_AS_MASTER if goes_on else Verdict.ASSUME_MASTERSHIP
        member.verdict(verdict, evidence=Evidence.OPERATOR)

    def right(self) -> None:
        """As the manual has it: the peer's process is down."""
        member = self.one()
        if member is not None and not member.peer.up and not member.in_session:
            self.say(member)

    def wrong(self) -> None:
        """The peer is only out of reach."""
        member = self.one()
        if member is not None and not member.in_session:
            self.say(member)

    def resync(self) -> None:
        member = self.one()
        if member is not None:
            full = self.random.random() < 0.5
            done = member.core.mastership.copy_orders.resync("walk", full=full) == ""
            member.dispatch(member.core)
            if done and member.in_session and member.role is Role.PROBE:
                self.pair.disconnect()

    def drain(self) -> None:
        self.pair.witness_away = False
        super().drain()


if __name__ == "__main__":
    repeat(OperatorWalk(int(sys.argv[1])))
