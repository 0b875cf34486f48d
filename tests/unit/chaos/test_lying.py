"""What a lying disk does to files, which rounds there are, and what is made of what a queue holds afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.lying import __main__ as command
from chaos.lying.copies import token, tokens_in
from chaos.lying.kinds import (
    HOLDER,
    HURT_FIRST,
    MEMBER_KINDS,
    OTHER_FIRST,
    REPLICA,
    WITNESS,
    WITNESS_KINDS,
    Plan,
    plans,
)
from chaos.lying.load import compare
from chaos.lying.report import figures
from chaos.lying.rounds import Outcome


def test_sixty_rounds_have_every_kind_at_every_victim_in_both_orders() -> None:
    made = plans(60, 10, seed=1)
    both = [plan for plan in made if not plan.alone]
    assert len(both) == 60
    met = {(plan.victim, plan.kind, plan.order) for plan in both}
    wanted = {(victim, kind) for victim in (HOLDER, REPLICA) for kind in MEMBER_KINDS}
    wanted |= {(WITNESS, kind) for kind in WITNESS_KINDS}
    assert met == {(victim, kind, order) for victim, kind in wanted for order in (HURT_FIRST, OTHER_FIRST)}
    assert {plan.writes for plan in both} == {1, 2, 3}
    assert {plan.kind for plan in made if plan.alone} == set(MEMBER_KINDS)
    assert made == plans(60, 10, seed=1)
    assert made != plans(60, 10, seed=2)


def test_a_message_is_known_by_its_token() -> None:
    payload = token(0, 12) + b"...." + token(3, 4)
    assert tokens_in(payload) == [b"<0:12>", b"<3:4>"]


@pytest.mark.parametrize(
    ("there", "lost", "doubled", "breaks"),
    [
        ([b"<0:0>.", b"<0:1>.", b"<0:2>."], 0, 0, 0),
        ([b"<0:0>.", b"<0:1>.", b"<0:2>.", b"<0:3>."], 0, 0, 0),
        ([b"<0:0>.", b"<0:2>."], 1, 0, 0),
        ([], 3, 0, 0),
        ([b"<0:0>.", b"<0:1>.", b"<0:1>.", b"<0:2>."], 0, 1, 0),
        ([b"<0:1>.", b"<0:0>.", b"<0:2>."], 0, 0, 1),
    ],
)
def test_what_was_acknowledged_must_be_there_once_and_in_order(
    there: list[bytes], lost: int, doubled: int, breaks: int
) -> None:
    found = compare({token(0, number): number + 1 for number in range(3)}, there)
    assert (len(found.lost), len(found.doubled), found.out_of_order) == (lost, doubled, breaks)


def test_the_command_writes_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def played(plan: Plan) -> Outcome:
        return Outcome(plan, acknowledged=9, hurt=True, gone_there=3, lost=int(plan.alone or plan.victim == HOLDER))

    monkeypatch.setattr(command, "play", played)
    out = tmp_path / "deep" / "lying.json"
    arguments = ["--rounds", "23", "--alone", "2", "--out", str(out), "-o", "json"]
    result = CliRunner().invoke(command.main, arguments)
    found = json.loads(out.read_text())
    assert result.exit_code == 1
    assert list(found)[:6] == ["rounds", "hurt", "acknowledged", "lost", "called_unacknowledged", "unnoticed_alone"]
    assert (found["rounds"], found["hurt"], found["acknowledged"]) == (23, 23, 207)
    assert found["lost"] > 0
    assert found["unnoticed_alone"] == found["alone"] == 2
    good = CliRunner().invoke(command.main, [*arguments, "--victim", "witness"])
    assert good.exit_code == 0
    assert json.loads(out.read_text())["verdict"] == "pass"
    assert CliRunner().invoke(command.main, ["--victim", "nobody"]).exit_code == 2


@pytest.mark.parametrize(
    "bad", [{"lost": 1}, {"doubled": 1}, {"out_of_order": 1}, {"called_unacknowledged": 1}, {"stuck": "so"}]
)
def test_each_fault_fails_the_run(bad: dict[str, object]) -> None:
    plan = Plan(1, HOLDER, "log-cut", 1, HURT_FIRST, busy=False)
    assert figures([Outcome(plan, acknowledged=1)], 1)["verdict"] == "pass"
    assert figures([Outcome(plan, acknowledged=1, **bad)], 1)["verdict"] == "fail"  # type: ignore[arg-type]  # by keyword
