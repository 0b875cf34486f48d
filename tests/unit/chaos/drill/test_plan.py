"""A drill file says what it means or is refused with what was meant; every drill of the library can be carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.drill import plan
from chaos.drill.plan import PlanError, parse
from chaos.faults import DEEDS

GOOD = """
name = "mine"
repeat = 2
[steady]
rate = 100
[[method]]
fault = "slow"
on = "both"
at_s = 0.5
for_s = 3
delay_ms = 150
[probes]
recovery_p99_ms_max = 4000
"""


def test_a_file_is_read() -> None:
    drill = parse(GOOD, "mine.toml")
    assert (drill.name, drill.repeat, drill.steady.rate, drill.needs_network, drill.round_s) == (
        "mine",
        2,
        100,
        True,
        3.5,
    )
    assert drill.probes.recovery_p99_ms_max == 4000
    assert drill.probes.lost_max == 0
    fault = drill.method[0].struck()
    assert (fault.kind, fault.on, fault.after_s, fault.for_s, fault.delay_s) == ("slow", "both", 0.5, 3.0, 0.15)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('fault = "slow"', 'fualt = "slow"', ("unknown key method[0].fualt", "did you mean fault?")),
        ("recovery_p99_ms_max", "recovery_p99_max", ("unknown key probes.recovery_p99_max", "recovery_p99_ms_max?")),
        ("repeat", "repaet", ("unknown key repaet", "did you mean repeat?")),
        ("[steady]", "[stead]", ("unknown key stead", "did you mean steady?")),
        ('fault = "slow"', 'fault = "slwo"', ("method[0].fault = 'slwo'", "did you mean slow?")),
        ('on = "both"', 'on = "mster"', ("method[0].on = 'mster'", "did you mean master?")),
        ("repeat = 2", 'repeat = "2"', ("Expected `int`", "$.repeat")),
        ("repeat = 2", "repeat = 0", ("repeat = 0", "1 to 1000")),
        ("for_s = 3", "for_s = 0", ("method[0]", "for_s more than 0")),
        ("delay_ms = 150", "", ("method[0].delay_ms = 0", "slow and slow-fsync need it")),
        ("rate = 100", "rate = -1", ("steady.rate = -1",)),
        ("rate = 100", "rate = nan", ("steady.rate = nan", "a number")),
        ("rate = 100", "rate = 1e12", ("steady.rate = 1000000000000.0", "at most 100000")),
        ("rate = 100", "rate = 2", ("steady.rate = 2.0", "at least 5")),
        ("rate = 100", "rate = 40", ("steady.acknowledged_per_s_min = 50.0", "only 40 a second are sent")),
        ("rate = 100", "warm_up_s = 0", ("steady.warm_up_s = 0.0", "more than 0")),
        ("[probes]", "[rollback]\nwithin_s = 0\n[probes]", ("rollback.within_s = 0.0", "more than 0")),
        ("[probes]", "[rollback]\npause_s_max = 0\n[probes]", ("rollback.pause_s_max = 0.0", "more than 0")),
        ("rate = 100", "warm_up_s = inf", ("steady.warm_up_s = inf", "a number")),
        ("rate = 100", "whole_within_s = 1e9", ("steady.whole_within_s", "at most 3600")),
        ("repeat = 2", "quiet_s = -1", ("quiet_s = -1", "must not be negative")),
        ("repeat = 2", "quiet_s = nan", ("quiet_s = nan", "a number")),
        ("at_s = 0.5", "at_s = nan", ("method[0]", "at_s is 0 or more")),
        ("delay_ms = 150", "delay_ms = -5", ("method[0].delay_ms = -5",)),
        ("delay_ms = 150", "delay_ms = 3600001", ("method[0].delay_ms = 3600001", "at most")),
        ("delay_ms = 150", "delay_ms = 5\nahead_s = nan", ("method[0].ahead_s = nan",)),
        ("recovery_p99_ms_max = 4000", "lost_max = -1", ("probes.lost_max = -1", "must not be negative")),
        ('name = "mine"', 'name = "../mine"', ("name = '../mine'", "small letters")),
        ('name = "mine"', "", ("missing required field `name`",)),
        ("[[method]]", "[[method", ("is not TOML",)),
    ],
)
def test_what_is_wrong_is_named_with_what_was_meant(old: str, new: str, words: tuple[str, ...]) -> None:
    assert old in GOOD
    with pytest.raises(PlanError) as error:
        parse(GOOD.replace(old, new, 1), "mine.toml")
    for word in ("mine.toml: ", *words):
        assert word in str(error.value)


def test_a_drill_without_a_method_is_refused() -> None:
    with pytest.raises(PlanError, match=r"at least one \[\[method\]\]"):
        parse('name = "mine"\nmethod = []', "mine.toml")


def test_the_library_is_whole() -> None:
    wanted = {
        *("kill-master", "freeze-master", "partition-peer", "partition-witness", "one-way", "slow-link"),
        *("flapping-link", "double-failure", "handoff-storm", "disk-full", "slow-fsync", "clock-jump"),
    }
    assert wanted <= set(plan.names())
    for name in plan.names():
        drill = plan.find(name)
        assert drill.name == name
        assert drill.title
        assert drill.probes.lost_max == drill.probes.duplicates_max == drill.probes.two_masters_ms_max == 0
    used = {step.fault for name in plan.names() for step in plan.find(name).method}
    assert used >= DEEDS.keys() - {"reset"}


def test_an_unknown_name_is_told_with_a_near_one(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="did you mean kill-master"):
        plan.find("kil-master")
    with pytest.raises(PlanError, match="cannot be read"):
        plan.find(str(tmp_path / "none.toml"))
