"""A plan that cannot be carried out is refused before anything runs: by name of the field, with what there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.sim.draw.checking import check
from chaos.sim.draw.profiles import PROFILES, draw
from chaos.sim.pair.plan import Call, ClientPlan, Fault, Plan
from chaos.sim.tools.cli import root
from chaos.sim.tools.product import of_product
from chaos.sim.world.world import World

KERNEL = of_product()
CRASH = Fault(10, "crash", "a", {"down_ms": 10, "power": False})
GIVEN = Plan(1, "given", faults=(CRASH,), clients=(ClientPlan("p", "producer", (Call(0, "send"),)),))


def with_fault(**changed: Any) -> Plan:
    return replace(GIVEN, faults=(CRASH, replace(CRASH, **changed)))


def with_client(**changed: Any) -> Plan:
    return replace(GIVEN, clients=(replace(GIVEN.clients[0], **changed),))


BAD = {
    "unknown kind": (with_fault(kind="cold"), "faults[1].kind is 'cold'; there are: crash, pause, clock,"),
    "unknown target": (with_fault(target="c"), "faults[1].target is 'c'; there are: a, b"),
    "argument missing": (with_fault(args={"power": True}), "faults[1].args has no 'down_ms'; 'crash' takes down_ms"),
    "argument of another sort": (
        with_fault(args={"down_ms": "long", "power": True}),
        "faults[1].args.down_ms is 'long'; 'crash' draws such as ",
    ),
    "never healed": (replace(GIVEN, safety_ms=float("inf")), "safety_ms is inf; it is a time"),  # type: ignore[arg-type]
    "at no time": (with_fault(at_ms=float("nan")), "faults[1].at_ms is nan; it is a time"),
    "two clients of one name": (
        replace(GIVEN, clients=GIVEN.clients * 2),
        "clients[1].name is 'p', as another client's",
    ),
    "before the start": (with_fault(at_ms=-1), "faults[1].at_ms is -1; it is a time"),
    "no time": (with_fault(at_ms="soon"), "faults[1].at_ms is 'soon'; it is a time"),
    "behind the healing": (with_fault(at_ms=4_001), "faults[1].at_ms is 4001, and everything is healed at safety_ms"),
    "unknown role": (with_client(role="nobody"), "clients[0].role is 'nobody'; there are: admin, answerer, batcher"),
    "call before the start": (with_client(calls=(Call(-5, "send"),)), "clients[0].calls[0].at_ms is -5; it is a time"),
    "unknown judge": (
        replace(GIVEN, settings={"judge": "dice"}),
        "settings.judge is 'dice'; there are: register, classifier, alone",
    ),
    "unknown bug": (replace(GIVEN, bug="nosuch"), "bug is 'nosuch'; there are: "),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_drawn_can_be_carried_out_and_strikes_before_the_healing(profile: str) -> None:
    for seed in range(1, 301):
        plan = draw(profile, seed)
        check(plan)
        late = [fault for fault in plan.faults if fault.at_ms >= plan.safety_ms]
        assert not late, f"seed {seed}: {late}"


@pytest.mark.parametrize(("plan", "told"), BAD.values(), ids=BAD)
def test_a_bad_plan_is_refused_by_field(plan: Plan, told: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json(), encoding="utf-8")
    result = CliRunner().invoke(root, ["run", "--plan", str(path)], obj=KERNEL)
    assert result.exit_code == 2, result.output
    assert f"{path} is not a plan: {told}" in result.stderr
    with pytest.raises(ValueError, match="not a plan"):
        World(plan)


def test_a_good_plan_is_taken() -> None:
    check(GIVEN)
