"""Classifiers from installed packages: found by name, looked at before use, and unable to hurt whoever calls them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from failover.classifier import Outcome, SafetyClass, Verdict
from failover.command import Command
from failover.entry_points import BadClassifierError, Guarded, load, names
from failover.runner import Runner
from failover.shipped import BUILDERS, make, name_of
from tandemq.config import CLASSIFIERS, ConfigError, Etcd, Failover, ManagerConfig
from tests.failover.support import event

MODULE = """
import asyncio, sys, threading, time
from failover.classifier import Answer, SafetyClass, Verdict

class Base:
    name = "theirs"
    safety = SafetyClass.B
    told = []
    async def classify(self, event): return Verdict.WAIT
    async def preflight(self): return [threading.current_thread().name]
    async def report(self, outcome): self.told.append(outcome)

class Good(Base):
    async def classify(self, event):
        return Answer(event.event_id, event.link_generation, Verdict.PEER_ALIVE, threading.current_thread().name)
class Raises(Base):
    async def classify(self, event): raise KeyError("peer")
    async def preflight(self): raise OSError("no")
class Blocks(Base):
    async def classify(self, event): time.sleep(event.decide_by_ms / 1000 * 4); return Verdict.ASSUME_MASTERSHIP
class Hangs(Base):
    async def classify(self, event): await asyncio.sleep(600)
class Exits(Base):
    async def classify(self, event): sys.exit(21)
class Odd(Base):
    async def classify(self, event): return 21
    async def preflight(self): return "ready"
class Other(Base):
    async def classify(self, event): return Answer("e0", event.link_generation, Verdict.ASSUME_MASTERSHIP)

class Nameless(Base): name = None
class Classless(Base): safety = "A"
class Blocking(Base):
    def classify(self, event): return Verdict.WAIT
class Deaf(Base): report = None
class Broken:
    def __init__(self): raise RuntimeError("no licence")
def quits(): raise SystemExit(3)
nothing = 21
"""
OFFERED = {
    "good": "Good",
    "raises": "Raises",
    "blocks": "Blocks",
    "hangs": "Hangs",
    "exits": "Exits",
    "odd": "Odd",
    "other": "Other",
    "nameless": "Nameless",
    "classless": "Classless",
    "blocking": "Blocking",
    "deaf": "Deaf",
    "broken": "Broken",
    "nothing": "nothing",
    "quits": "quits",
    "absent": "Absent",
}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that is installed as pip would, and another that offers one of its names and a module that is gone."""
    (tmp_path / "their_classifiers.py").write_text(MODULE)
    for package, points in (
        ("theirs", [f"{name} = their_classifiers:{kind}" for name, kind in OFFERED.items()]),
        ("others", ["twice = their_classifiers:Good", "gone = no_such_module:Good"]),
        ("third", ["twice = their_classifiers:Good"]),
    ):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[tandemq.classifiers]", *points]))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("their_classifiers", None)


@pytest.fixture
def loaded() -> Iterator[list[Guarded]]:
    made: list[Guarded] = []
    yield made
    for each in made:
        each.close()


def test_they_are_found_by_name() -> None:
    assert set(OFFERED) <= set(names())


async def test_a_good_one_answers_from_a_thread_of_its_own(loaded: list[Guarded]) -> None:
    loaded.append(load("good"))
    answer = await loaded[0].classify(event(decide_by_ms=10_000))
    assert (answer.verdict, answer.reason) == (Verdict.PEER_ALIVE, "classifier-good")
    assert (loaded[0].name, loaded[0].safety) == ("good", SafetyClass.B)
    assert await loaded[0].preflight() == ["classifier-good"]
    await loaded[0].report(Outcome("e1", "served"))
    assert loaded[0].inner.told == [Outcome("e1", "served")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "it raised KeyError: 'peer'"),
        ("hangs", "no end within 0."),
        ("blocks", "no end within 0."),
        ("exits", "it raised SystemExit: 21"),
        ("odd", "it returned int, which is neither an Answer nor a Verdict"),
        ("other", "it answers 'e0', asked was 'e1' of link generation 3"),
    ],
)
async def test_what_it_does_wrong_is_no_answer(loaded: list[Guarded], name: str, reason: str) -> None:
    loaded.append(load(name))
    answer = await Runner(loaded[0], None, 200, 1, 200).ask(event())
    assert answer.verdict is None
    assert answer.reason.startswith(reason)


async def test_one_that_blocks_does_not_hold_up_the_loop(loaded: list[Guarded]) -> None:
    loaded.append(load("blocks"))
    call = asyncio.ensure_future(loaded[0].classify(event(decide_by_ms=200)))
    turns = 0
    while not call.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1_000


async def test_one_that_exits_ends_nothing(loaded: list[Guarded]) -> None:
    loaded.append(load("exits"))
    for _ in range(2):
        assert (await loaded[0].classify(event(decide_by_ms=10_000))).reason == "it raised SystemExit: 21"


async def test_a_bad_preflight_is_told(loaded: list[Guarded]) -> None:
    loaded += [load("raises"), load("odd")]
    assert await loaded[0].preflight() == ["it raised OSError: no"]
    assert await loaded[1].preflight() == ["ready"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("unheard-of", "no classifier is called 'unheard-of'"),
        ("twice", "more than one package offers classifier 'twice'"),
        ("gone", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("absent", "AttributeError"),
        ("nothing", "TypeError: 'int' object is not callable"),
        ("quits", "it raised SystemExit: 3"),
        ("broken", "it raised RuntimeError: no licence"),
        ("nameless", "it has no attribute `name`"),
        ("classless", "it has no attribute `safety`"),
        ("blocking", "it has no method `async def classify`"),
        ("deaf", "it has no method `async def report`"),
    ],
)
def test_one_that_cannot_be_used_is_refused_at_the_start(name: str, why: str) -> None:
    with pytest.raises(BadClassifierError) as caught:
        load(name)
    assert why in str(caught.value)
    with pytest.raises(ConfigError) as refused:
        make(ManagerConfig(member="a", data_dir="d", failover=Failover(classifier=name)))
    assert f"failover.classifier = '{name}'" in refused.value.message


def test_the_configuration_chooses() -> None:
    plain = ManagerConfig(member="a", data_dir="d")
    assert name_of(plain) == "suspend"
    assert name_of(ManagerConfig(member="a", data_dir="d", witness="w:1")) == "witness"
    assert name_of(ManagerConfig(member="a", data_dir="d", etcd=Etcd(endpoints=("e:1",)))) == "etcd"
    commanded = ManagerConfig(member="a", data_dir="d", failover=Failover(classifier="command", command=("x", "y")))
    made = make(commanded)
    assert isinstance(made, Command)
    assert (made.argv, make(plain).name, make(commanded, "witness").name) == (("x", "y"), "suspend", "witness")
    assert set(BUILDERS) <= set(CLASSIFIERS)
