"""Whom reactions ask (V10): the example, as a plug-in and as a command, and everything that one may do wrong."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from failover.process import Ended, Process, Ran
from replica.core.messages.copies import FoundMessage
from replica.core.ordering.reaction import Advice, Effect
from replica.core.ordering.reaction_rows import BYTES_MAX
from replica.services.messages.custom import Customs, advisers_of
from replica.services.messages.custom_advisers import CommandAdviser
from replica.services.messages.custom_answers import ANSWER_BYTES_MAX
from tandemq.config import ConfigError
from tandemq.config_custom import Custom, problem_of_custom
from tandemq.v1.message_pb2 import Message
from tandemq.v1.reaction_service_pb2 import ReactionCustom, ReactionUpdate
from tests.support.until import OUTER_S, until

SAMPLES = Path(__file__).parents[5] / "deploy" / "reactions"
PATIENT_MS = 10_000
ID = bytes(range(16))

MODULE = """
import asyncio, sys, time
from tandemq.reacting import Cancel, Change, Leave, MoveTo

class Base:
    async def decide(self, question):
        return self.say(question)
class Raises(Base):
    def say(self, question): raise KeyError("price")
class Exits(Base):
    def say(self, question): sys.exit(3)
class Odd(Base):
    def say(self, question): return "DELETE"
class Nowhere(Base):
    def say(self, question): return MoveTo("")
class Huge(Base):
    def say(self, question): return Change(payload=bytes(3 << 20))
class Giant(Base):
    def say(self, question): return Change(payload=bytes(2 << 30))  # never touched, so that it costs nothing
class Wide(Base):
    def say(self, question): return Change(properties={"k": bytes(2 << 30)})
class Named(Base):
    def say(self, question): return MoveTo("q" * (3 << 20))
class Text(Base):
    def say(self, question): return Change(payload="text")
class Managers(Base):
    def say(self, question): return Change(properties={"tq_version": 7})
class Nothing(Base):
    def say(self, question): return Change()
class Sleeps:
    async def decide(self, question):
        if question.payload == b"hang":
            await asyncio.sleep(600)
        return Cancel()
class Blocks:
    ends = False
    async def decide(self, question):
        if question.payload == b"hang":
            while not Blocks.ends:
                time.sleep(0.01)
        return Cancel()
class Stubborn:
    async def decide(self, question):
        while question.payload == b"hang":
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                pass
        return Cancel()
class Without: pass
"""
WRONG = {
    "raises": "it raised KeyError: 'price'",
    "exits": "it raised SystemExit: 3",
    "odd": "it returned str, which is none of Leave, Cancel, MoveTo, Change",
    "nowhere": "it says MoveTo, and no queue",
    "huge": "its change has 3,145,728 bytes; it may have 1,048,576",
    "giant": "its change has 2,147,483,648 bytes",
    "wide": "its change has 2,147,483,649 bytes",
    "named": "it says MoveTo, and a name of 3,145,728 characters",
    "text": "its change cannot be made: ",
    "managers": "property 'tq_version': names that begin with tq_ are the manager's",
    "nothing": "reaction.update changes nothing",
}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sample, and a package of plug-ins that are wrong, as pip would install them."""
    (tmp_path / "their_reactions.py").write_text(MODULE)
    (tmp_path / "discount.py").write_text((SAMPLES / "discount.py").read_text())
    project = tomllib.loads((SAMPLES / "pyproject.toml").read_text())["project"]
    theirs = {
        name: f"their_reactions:{name.capitalize()}" for name in (*WRONG, "sleeps", "blocks", "stubborn", "without")
    }
    for name, points in ((project["name"], project["entry-points"]["tandemq.reactions"]), ("theirs", theirs)):
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{point} = {value}" for point, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[tandemq.reactions]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for module in ("their_reactions", "discount"):
        sys.modules.pop(module, None)


@pytest.fixture
def made() -> Iterator[list[Customs]]:
    found: list[Customs] = []
    yield found
    for each in found:
        each.close()


def command(name: str, *argv: str) -> Custom:
    return Custom(commands=(f"{name}={shlex.join(argv)}",), call_ms=PATIENT_MS, total_ms=PATIENT_MS)


def python(text: str, **more: int) -> Custom:
    """A command that is this program, which has read the question."""
    program = f"import sys, json\nq = json.load(sys.stdin)\n{text}"
    times = {"call_ms": PATIENT_MS, "total_ms": PATIENT_MS, **more}
    return Custom(commands=(f"them={shlex.join([sys.executable, '-S', '-c', program])}",), **times)


def found(at: int, payload: bytes = b"boxes", **properties: int) -> FoundMessage:
    message = Message(payload=payload)
    for name, value in properties.items():
        message.properties[name].integer = value
    return FoundMessage(at, ID, 0, message)


async def said(
    made: list[Customs], config: Custom, *messages: FoundMessage, name: str = "them", total_s: float = 10.0
) -> list[Any]:
    """What came of each: an effect, None, or why it failed."""
    customs = Customs(config, advisers_of(config))
    made.append(customs)
    asking = Advice(name, list(messages))
    custom = ReactionCustom(name=name, payload=b"10")
    await customs.ask(custom, "orders", asking, asyncio.get_running_loop().time() + total_s, BYTES_MAX)
    customs.count("orders", asking)
    return [asking.failed.get(each.index, asking.effects.get(each.index)) for each in messages]


@pytest.mark.requirement("R212")
@pytest.mark.parametrize("how", ["plug-in", "command"])
async def test_the_example_says_the_same_as_a_plug_in_and_as_a_command(how: str, made: list[Customs]) -> None:
    config = Custom(plugins=("discount",), call_ms=PATIENT_MS, total_ms=PATIENT_MS)
    if how == "command":
        config = command("discount", sys.executable, str(SAMPLES / "discount.py"))
    messages = [found(1), found(2, price=50), found(3, price=0), found(4, price=5_000)]
    update = ReactionUpdate()
    update.set_properties["price"].integer = 45
    answers = await said(made, config, *messages, name="discount")
    assert answers == [None, Effect(update=update), Effect(), Effect("review")]
    counts = {answer: count for (_, answer), count in made[0].counts.items()}
    assert counts == {"leave": 1, "update": 1, "delete": 1, "move": 1, "failed": 0}


@pytest.mark.parametrize(("name", "why"), WRONG.items())
async def test_what_a_plug_in_does_wrong_is_failed_and_says_why(
    name: str, why: str, made: list[Customs], caplog: pytest.LogCaptureFixture
) -> None:
    config = Custom(plugins=(name,), call_ms=PATIENT_MS, total_ms=PATIENT_MS)
    answers = await said(made, config, found(1), found(2), name=name)
    assert all(isinstance(each, str) and each.startswith(why) for each in answers), answers
    assert made[0].counts[name, "failed"] == 2
    (record,) = caplog.records
    assert f"custom reaction {name} failed for 2 of 2 messages of queue orders" in record.getMessage()


async def test_what_fails_again_and_again_is_logged_when_it_has_doubled(
    made: list[Customs], caplog: pytest.LogCaptureFixture
) -> None:
    """What a program writes of itself stands there: a caller must not fill a disk with it. The counts know all."""
    customs = Customs(Custom(), {})
    made.append(customs)
    for _ in range(9):
        asking = Advice("them")
        asking.failed[1] = "exit code 1; stderr ends: noise"
        customs.count("orders", asking)
    assert [record.getMessage().partition(" such calls")[0][-1] for record in caplog.records] == ["1", "2", "4", "8"]
    assert customs.counts["them", "failed"] == 9


ANSWERS = {
    "print(json.dumps(dict(id='00' * 16, action='DELETE')))": "it answers about message '000000",
    "print(json.dumps(dict(id=q['id'], action='ERASE')))": "action is 'ERASE'; it is one of LEAVE",
    "print(json.dumps(dict(id=q['id'], action='DELETE', queue='r')))": "queue goes with MOVE",
    "print(json.dumps(dict(id=q['id'], action='MOVE')))": "queue goes with MOVE",
    "print(json.dumps(dict(id=q['id'], action='LEAVE', priority=9)))": "priority go with UPDATE",
    "print(json.dumps(dict(id=q['id'], action='UPDATE')))": "reaction.update changes nothing",
    "print(json.dumps(dict(id=q['id'], action='UPDATE', priority=10)))": "priority 10; the highest is 9",
    "print(json.dumps(dict(id=q['id'], action='UPDATE', ttl_ms=10**18)))": "ttl_ms or delay_ms is more",
    "print(json.dumps(dict(id=q['id'], action='DELETE', shout=True)))": "its stdout is no answer: ",
    "print('yes')": "its stdout is no answer: ",
    "sys.stdout.buffer.write(bytes(range(256)))": "its stdout is no answer: ",
    "pass": "its stdout is no answer: ",
    "sys.exit('no licence')": "exit code 1; stderr ends: no licence",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": "it died of signal 11",
    "sys.stdout.write('x' * (2 << 20))": "it wrote more than 1,048,576 bytes to stdout",
}


@pytest.mark.parametrize(("text", "why"), ANSWERS.items())
async def test_what_a_command_does_wrong_is_failed_and_says_why(text: str, why: str, made: list[Customs]) -> None:
    (answer,) = await said(made, python(text), found(1))
    assert isinstance(answer, str)
    assert why in answer


async def test_an_update_of_a_command_is_carried_over_whole(made: list[Customs]) -> None:
    given = (
        "print(json.dumps(dict(id=q['id'], action='UPDATE', payload=q['message']['payload'], content_type='t',"
        " properties=dict(a=1, b='b', c=True, d=1.5, e=dict(base64='AAE=')), without=['f'], priority=9, ttl_ms=1,"
        " delay_ms=0)))"
    )
    (answer,) = await said(made, python(given), found(1))
    assert isinstance(answer, Effect)
    update = answer.update
    assert update is not None
    assert (update.payload, update.content_type, update.priority) == (b"boxes", "t", 9)
    assert (update.ttl.ToMilliseconds(), update.HasField("delay"), list(update.remove_properties)) == (1, True, ["f"])
    values = {name: getattr(value, value.WhichOneof("value")) for name, value in update.set_properties.items()}
    assert values == {"a": 1, "b": "b", "c": True, "d": 1.5, "e": b"\0\1"}


async def test_a_command_that_hangs_is_killed_with_all_that_it_has_started(tmp_path: Path, made: list[Customs]) -> None:
    """It ignores SIGTERM, and has left a child behind that holds its pipes."""
    note = tmp_path / "pids"
    text = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\npid = os.fork()\n"
        f"open({str(note)!r}, 'a').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)"
    )
    (answer,) = await said(made, python(text, call_ms=600), found(1))
    assert isinstance(answer, str)
    assert answer.startswith("no end within 0.6 s")
    pids = [int(line) for line in note.read_text().split()]
    assert pids
    await until(lambda: not any(map(_is_there, pids)))


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_a_flood_of_a_command_is_bounded_and_ended(made: list[Customs]) -> None:
    text = "while True: sys.stdout.write('x' * 65536)"
    (answer,) = await said(made, python(text, call_ms=300), found(1))
    assert isinstance(answer, str)
    assert answer.startswith("no end within 0.3 s")


@pytest.mark.parametrize("name", ["sleeps", "blocks", "stubborn"])
async def test_a_plug_in_that_hangs_fails_for_that_message_and_holds_up_nobody(name: str, made: list[Customs]) -> None:
    config = Custom(plugins=(name,), call_ms=100, total_ms=PATIENT_MS)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    answers = await said(made, config, found(1, b"hang"), found(2), found(3), name=name)
    counting.cancel()
    assert turns > 1_000
    assert answers[0] == "no end within 0.1 s"
    if name == "sleeps":
        assert answers[1:] == [Effect(), Effect()]
        return
    assert answers[1:] == ["an earlier call has not ended although it was asked to"] * 2
    if name == "blocks":
        sys.modules["their_reactions"].Blocks.ends = True

        async def answers_again() -> bool:
            asking = Advice(name, [found(4)])
            soon_s = asyncio.get_running_loop().time() + OUTER_S
            await made[0].ask(ReactionCustom(name=name), "orders", asking, soon_s, BYTES_MAX)
            return asking.effects == {4: Effect()}

        await until(answers_again)


async def test_when_the_time_of_the_call_is_over_the_rest_is_failed(made: list[Customs]) -> None:
    config = Custom(plugins=("sleeps",), call_ms=5_000, total_ms=5_000)
    answers = await said(made, config, found(1), found(2, b"hang"), found(3), name="sleeps", total_s=0.3)
    assert answers == [Effect(), *["there was no time left to ask about it"] * 2]


async def test_ten_thousand_messages_are_asked_about_within_the_time_of_a_call(made: list[Customs]) -> None:
    config = Custom(plugins=("sleeps",), call_ms=PATIENT_MS, total_ms=PATIENT_MS)
    answers = await said(made, config, *(found(at) for at in range(1, 10_001)), name="sleeps", total_s=OUTER_S)
    assert answers == [Effect()] * 10_000


async def test_a_plug_in_that_cannot_be_used_is_an_error_of_the_configuration() -> None:
    for name, why in (("absent", "no custom reaction is called 'absent'"), ("without", "no method `async def decide`")):
        with pytest.raises(ConfigError, match=why):
            advisers_of(Custom(plugins=(name,)))


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (Custom(commands=("discount",)), "write NAME=command"),
        (Custom(commands=("discount=",)), "write NAME=command"),
        (Custom(commands=("=/bin/true",)), "write NAME=command"),
        (Custom(commands=("a='/bin/true",)), "quote as in a shell"),
        (Custom(commands=("a=/bin/true",), plugins=("a",)), "there twice"),
        (Custom(plugins=("a b",)), "a name is up to 64"),
        (Custom(call_ms=0), "must be 0 < call_ms"),
        (Custom(call_ms=200, total_ms=100), "must be 0 < call_ms"),
        (Custom(total_ms=60_001), "must be 0 < call_ms"),
    ],
)
def test_what_is_wrong_in_the_configuration_is_named(config: Custom, why: str) -> None:
    assert why in problem_of_custom(config)
    assert problem_of_custom(Custom(plugins=("a",), commands=("b=/bin/true -x 'y z'",))) == ""


def test_the_limit_of_an_answer_is_that_of_the_rule() -> None:
    assert ANSWER_BYTES_MAX == 1 << 20
    assert Custom().call_ms == 100


async def test_after_the_last_moment_nothing_starts(made: list[Customs], tmp_path: Path) -> None:
    """A deadline that is past cancels nothing before a first wait: each message that was left started a process."""
    sign = tmp_path / "started"
    config = command("them", sys.executable, "-c", f"open({str(sign)!r}, 'w')")
    answers = await said(made, config, *map(found, range(1, 20)), total_s=-1.0)
    assert answers == ["there was no time left to ask about it"] * 19
    assert not [thread for thread in threading.enumerate() if thread.name == "reaction-command"]
    assert not sign.exists()


async def test_the_place_of_a_command_is_free_when_its_process_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked may be gone before: the next one would be a process more than there may be."""
    begun, may_end = threading.Event(), threading.Event()

    def run(_process: Process) -> Ran:
        begun.set()
        may_end.wait(OUTER_S)
        return Ran(Ended.CANCELLED)

    monkeypatch.setattr(Process, "run", run)
    places = asyncio.Semaphore(1)
    asked = asyncio.create_task(CommandAdviser(["true"], places).ask(ReactionCustom(name="t"), "q", found(1), 10.0))
    await until(begun.is_set, "its thread runs")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert places.locked()
    may_end.set()
    await until(lambda: not places.locked(), "its place is free")


async def test_answers_are_bounded_before_all_of_them_are_here(made: list[Customs]) -> None:
    config = python("print(json.dumps(dict(id=q['id'], action='UPDATE', payload='eHh4')))")
    customs = Customs(config, advisers_of(config))
    made.append(customs)
    asking = Advice("them", [found(1), found(2), found(3)])
    until_s = asyncio.get_running_loop().time() + OUTER_S
    await customs.ask(ReactionCustom(name="them"), "orders", asking, until_s, 6)
    assert (sorted(asking.effects), asking.failed) == ([1, 2], {})
    assert asking.bytes > 6, "the caller refuses"
