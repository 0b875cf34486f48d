"""Commands of somebody's own for a drill: what is wrong in them is found before anything is hurt, or told in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.drill import plan
from chaos.drill.stages import HookHands, NamedPair, read_hooks, unfit
from chaos.faults import FaultError
from tandemq.cli.view import MemberView, PairView

VIEW = PairView(
    pair="p", members=(MemberView(name="a", endpoint="127.0.0.1:1"), MemberView(name="b", endpoint="127.0.0.1:2"))
)


def file_of(folder: Path, text: str) -> Path:
    path = folder / "hooks.toml"
    path.write_text(text)
    return path


def test_commands_are_read(tmp_path: Path) -> None:
    text = 'kill = ["ssh", "{member}", "kill {endpoint}"]\nstart = ["true"]\n'
    assert read_hooks(file_of(tmp_path, text)) == {"kill": ["ssh", "{member}", "kill {endpoint}"], "start": ["true"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kil = ["true"]', ("kil", "write one of kill, start")),
        ('kill = "true"', ("kill", '["command", "argument", ...]')),
        ("kill = []", ("kill", '["command", "argument", ...]')),
        ('kill = ["ssh", "{membr}"]', ("kill", "{membr}", "{member} and {endpoint}")),
        ('kill = ["ssh", "{member"]', ("kill", "{member", "{member} and {endpoint}")),
        ('kill = ["ssh", "{}"]', ("kill", "{}", "{member} and {endpoint}")),
        ('kill = ["ssh", "{member.x}"]', ("kill", "{member.x}", "{member} and {endpoint}")),
        ("kill = [", ("hooks.toml",)),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_hurt(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(FaultError) as error:
        read_hooks(file_of(tmp_path, text))
    for word in words:
        assert word in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match=r"none\.toml"):
        read_hooks(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("name", "hooks", "words"),
    [
        ("kill-master", {}, ("needs kill = ", "needs start = ")),
        ("kill-master", {"kill": ["true"]}, ("needs start = ",)),
        ("kill-master", {"kill": ["true"], "start": ["no-such-program", "{member}"]}, ("start: there is no program",)),
        ("freeze-master", {"kill": ["true"], "start": ["true"]}, ("freeze cannot be done at --target",)),
        ("partition-peer", {}, ("cut cannot be done at --target",)),
        ("slow-fsync", {}, ("slow-fsync cannot be done at --target",)),
        ("kill-master", {"kill": ["true"], "start": ["{member}"]}, ()),
        ("handoff-storm", {}, ()),
    ],
)
def test_what_cannot_be_done_with_these_commands_is_known_before(
    name: str, hooks: dict[str, list[str]], words: tuple[str, ...]
) -> None:
    found = unfit(plan.find(name), hooks)
    assert len(found) == len(words)
    for text, word in zip(found, words, strict=True):
        assert word in text


async def test_a_command_that_is_not_there_is_told_and_stops_no_healing(tmp_path: Path) -> None:
    hands = HookHands(NamedPair(VIEW), {"start": [str(tmp_path / "none"), "{member}"], "kill": ["false"]})
    with pytest.raises(FaultError, match=r"the command to start a cannot be run: .*none: No such file"):
        await hands.start("a")
    with pytest.raises(FaultError, match="the command to kill b ended with 1: false"):
        await hands.kill("b")
