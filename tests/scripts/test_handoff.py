"""The sequences of a handoff (R136) and the collision (R135), over the pair in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.attempt import Outcome
from tests.support import script
from tests.support.clients import Producer, create, remaining
from tests.support.pair import Pair, drive


class InOneProcess:
    """The commands over the deterministic pair."""

    def __init__(self) -> None:
        self.pair = Pair().start()
        create(self.pair)
        self.sent = 0

    async def send(self, member: str, payload: str) -> list[str]:
        producer = Producer(self.pair, payload)
        op = producer.send(self.pair.members[member])
        self.pair.settle(200)
        assert op.done is not None, op.failures
        return [f"index {op.done.first_index} epoch {op.done.epoch} copies {op.done.copies}"]

    async def handoff(self, member: str, *options: str) -> list[str]:
        names = ("a", "b") if member == "both" else (member,)
        master = self.pair.master
        assert master is not None
        if options[:1] == ("to",) and options[1] == master.name:
            return [f"done: {self._master()}"]
        told = {name: self.pair.members[name].hand_over(dry_run="dry" in options) for name in names}
        self.pair.settle(200)
        assert all(len(each) == 1 for each in told.values()), told
        if member == "both":
            return [f"{name} {self._outcome(each[0], short=not each[0].done)}" for name, each in told.items()]
        return [self._outcome(told[member][0])]

    def _outcome(self, outcome: Outcome, *, short: bool = False) -> str:
        text = "done" if outcome.done else f"refused {','.join(outcome.reasons)}"
        return text if short else f"{text}: {self._master()}"

    def _master(self) -> str:
        master = self.pair.master
        assert master is not None
        return f"{master.name} is master in epoch {master.shared.state.epoch}"

    async def state(self) -> list[str]:
        members = self.pair.members.values()
        return [f"{m.name} {m.role.name} {m.shared.state.data.name} epoch {m.shared.state.epoch}" for m in members]

    async def contents(self) -> list[str]:
        assert self.pair.master is not None
        return [" ".join(payload.decode().split("/")[0] for _, payload in remaining(self.pair.master))]


@pytest.mark.parametrize("path", script.scripts("handoff"), ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    drive(script.run(path.name, script.parse(path.read_text()), InOneProcess()))


def test_a_script_that_prints_something_else_fails() -> None:
    steps = script.parse("# one message\nsend a one\n----\nindex 9 epoch 1 copies 2\n")
    with pytest.raises(AssertionError, match=r"wrong:2: send a one printed \['index 1 epoch 1 copies 2'\]"):
        drive(script.run("wrong", steps, InOneProcess()))


def test_a_command_without_an_expectation_is_named() -> None:
    with pytest.raises(AssertionError, match="line 1: ---- must follow the command"):
        script.parse("send a one\n")
