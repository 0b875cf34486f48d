"""The exhaustive small model: finds nothing inside a reduced bound, finds a rule that is taken out, and says so when
the product has something that it does not know of.
"""

from __future__ import annotations

import json

import pytest

from chaos.sim.model.bounds import FULL, REDUCED
from chaos.sim.model.cli import main
from chaos.sim.model.core import Disk, open_core
from chaos.sim.model.member import MEMBERS, Members
from chaos.sim.model.rules import RULES, removed
from chaos.sim.model.search import Search
from chaos.sim.model.starts import first_state
from chaos.sim.model.state import REGISTER, Bound
from chaos.sim.model.values import BY_HAND, LEFT_OUT, PLAIN, put_back, value_of
from failover.register import RegisterState

QUICK = (
    "ack waits for the peer's fsync",
    "ack waits for the own fsync",
    "solo only after the register",
    "only the committed set promotes",
    "replica answers by commit progress",
    "data mark checked before a claim",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", REDUCED)
def test_nothing_is_found_inside_the_reduced_bound(name: str) -> None:
    search = Search(REDUCED[name])
    found = search.run()
    assert found.broken == "", "\n".join(found.trace)
    assert found.complete
    assert found.pairs
    assert found.operator == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_rule_that_is_taken_out_is_missed(name: str) -> None:
    rule = next(rule for rule in RULES if rule.name == name)
    assert rule.bound is not None
    with removed(rule):
        found = Search(rule.bound).run()
    assert found.broken
    assert rule.says in found.broken
    assert len(found.trace) > 1
    assert Search(Bound()).run().broken == "", "the rule is back"


def test_a_stuck_state_is_found() -> None:
    """Liveness can fail: nobody claims, as both wait for the other one."""
    rule = next(rule for rule in RULES if rule.name == "named one first (P8)")
    with removed(rule):
        found = Search(Bound(crash=1, operations=0, coarse=True, lone_epoch=1), states_max=40_000).run()
    assert "no way back" in found.broken


def test_the_model_knows_every_attribute_of_the_core() -> None:
    """A field that the product gains must be kept, or left out for a reason: else two cores that differ were one."""
    core = open_core("a", "b", 1, Disk(), Members().book)
    holders = {
        "shared": core.shared,
        "mastership": core.mastership,
        "view": core.mastership.view,
        "peer": core.mastership.peer,
        "commit": core.mastership.commit,
        "role": core.mastership.role,
        "claims": core.mastership.claims,
        "source": core.source,
        "target": core.target,
        "verdicts": core.mastership.verdicts,
        "handoff": core.handoff,
        "log": core.shared.log,
        "progress": core.shared.progress,
        "outbox": core.shared.outbox,
    }
    for name, holder in holders.items():
        kept = {*PLAIN.get(name, ()), *PLAIN.get(f"{name}_busy", ()), *BY_HAND[name]}
        left_out = {word for words in LEFT_OUT[name] for word in words.split()}
        assert kept & left_out == set(), name
        assert kept | left_out == set(vars(holder)), name
    parts = {"shared", "mastership", "source", "target", "handoff", "orders", "holding", "consumers"}
    # The model's queues hold no dead letters, no reaction waits for them, and nobody asks how their messages ended.
    ours = {"answered", "answered_up_to", "dying", "completing", "watching", "kept"}
    assert set(vars(core)) == parts | ours


def test_a_value_put_back_is_the_same_value() -> None:
    search = Search(Bound(crash=1, coarse=True), states_max=3_000)
    search.run()
    members = search.pair.members
    running = [local for local in members.locals if local.core is not None]
    assert len(running) > 100
    for local in running:
        core = members.woken(local)
        assert value_of(core, members.book) == local.core
        put_back(core, local.core, members.book)
        assert value_of(core, members.book) == local.core


def test_the_first_state_is_a_pair_in_epoch_one() -> None:
    search = Search(Bound())
    state = first_state(search.pair)
    register = search.pair.registers.things[state[REGISTER]]
    assert search.pair.is_paired(state)
    assert (register.epoch, register.holder, register.state) == (1, MEMBERS[0], RegisterState.COMMITTED)


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "an operation, fine", "--jobs", "1", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["an operation, fine"]["states"] > 5
    assert main(["--rules", "--only", "ack waits for the own fsync", "--jobs", "1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["caught_by"] == "the model"
    with pytest.raises(SystemExit) as usage:
        main(["--only", "nothing of the kind"])
    assert usage.value.code == 2
    assert "there are: " in capsys.readouterr().err
    assert set(FULL) & set(REDUCED) == set()
