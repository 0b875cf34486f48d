"""docs/ARCHITECTURE.md lists all threads and all limits that are read twice, and its invariants name rules that exist.

What it says of two versions of a member is tried.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from chaos.sim.bugs import BUGS
from failover.marks import DataMark
from replica.core.state.durable import data_of
from replica.machine.apply.apply import apply
from replica.machine.state.config import resolve
from replica.machine.state.limits import Limits
from replica.machine.state.state import State
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests import test_handoff_rules, test_rules, test_side_rules, test_way_rules
from tests.support.rules_table import RULES
from tests.test_signposts import MAP, SIGNPOST

ROOT = Path(__file__).resolve().parent.parent

# -- threads and processes -----------------------------------------------------------------------------------------

LEAVES_THE_LOOP = {
    *("run_in_executor", "to_thread", "Thread", "ThreadPoolExecutor", "ProcessPoolExecutor", "Popen"),
    *("create_subprocess_exec", "create_subprocess_shell", "LoopThread"),
}
PRODUCT = ("replica", "failover", "storage", "tandemq")
# They only use what another file of the table starts.
USERS = {"tandemq/client/blocking_bridge.py", "tandemq/embedded.py"}


def section(title: str) -> str:
    """The text below a heading of the page."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", MAP.read_text(), re.MULTILINE | re.DOTALL)
    return found


def paths_in(text: str) -> set[str]:
    return {path for path, _ in SIGNPOST.findall(text)}


def leaves_the_loop(text: str) -> bool:
    """Whether a file starts a thread or a process, or has something done by one."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in LEAVES_THE_LOOP:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess"))):
                return True
            case ast.Assign(value=ast.Attribute(attr="run_in_executor")):
                return True
            case _:
                pass
    return False


def product() -> Iterator[tuple[str, str]]:
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_whatever_leaves_the_loops_thread_is_listed() -> None:
    listed = paths_in(section("Outside the loop's thread"))
    found = {name for name, text in product() if leaves_the_loop(text)} - USERS
    assert found - listed == set()
    # Besides, one that is called by a thread.
    assert listed - found == {"tests/test_architecture.py", "replica/operations/metrics.py"}


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("threading.Thread(target=work).start()", True),
        ("pool = ThreadPoolExecutor(1)", True),
        ("await loop.run_in_executor(None, work)", True),
        ("run = loop.run_in_executor", True),
        ("await asyncio.to_thread(work)", True),
        ("subprocess.run(['true'])", True),
        ("asyncio.create_task(work())", False),
        ("def f(thread: Thread) -> None: ...", False),
    ],
)
def test_a_planted_thread_is_seen(text: str, leaves: bool) -> None:
    assert leaves_the_loop(text) is leaves


# -- limits --------------------------------------------------------------------------------------------------------

# What is said to clients, and not checked there.
REPORTS = {"replica/services/pair/status.py"}


def readers_of(text: str) -> set[str]:
    """The limits of the machine that a file reads."""
    names = {each.name for each in fields(Limits)}
    return {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in names and _is_limits(node.value)
    }


def _is_limits(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in {"limits", "_limits"}
        case _:
            return False


def limits_listed() -> dict[str, set[str]]:
    """By limit, the files of its row."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section("Limits"), re.MULTILINE)
    return {name: paths_in(cell) for name, cell in rows}


def test_each_limit_of_the_machine_is_read_in_one_place_or_listed() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, text in product():
        for limit in readers_of(text):
            found[limit] |= {name} - REPORTS
    listed = limits_listed()
    assert {name: at for name, at in found.items() if len(at) > 1 and at - listed.get(name, set())} == {}
    assert {limit for limit in listed if len(found[limit]) < 2} == set()


def test_a_planted_reader_of_a_limit_is_seen() -> None:
    text = "if count > self.node.limits.queues_max or size > state._limits.stage_bytes_max or other.weights_max: ..."
    assert readers_of(text) == {"queues_max", "stage_bytes_max"}


# -- invariants ----------------------------------------------------------------------------------------------------


def rules_of(text: str) -> list[tuple[str, list[str]]]:
    """What each row of a table of invariants names as its rule."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE)[1:]
    return [(what, [] if rule == "-" else rule.replace("`", "").split(", ")) for what, rule in rows]


def known_rules() -> set[str]:
    taken_out = (*test_rules.RULES, *test_handoff_rules.RULES, *test_way_rules.RULES, *test_side_rules.RULES)
    return {*RULES, *BUGS, *(rule.name for rule in taken_out)}


def test_every_rule_of_an_invariant_is_one_that_is_taken_out_somewhere() -> None:
    found = rules_of(section("Invariants"))
    assert len(found) > 20
    assert [(what, rule) for what, named in found for rule in named if rule not in known_rules()] == []


def test_a_planted_rule_is_seen() -> None:
    head = "| what | rule | enforced in | proven in |\n"
    assert rules_of(f"{head}| Always | P2, `not_a_rule` | `a.py` | tests |\n| Never | - | `a.py` | tests |\n") == [
        ("Always", ["P2", "not_a_rule"]),
        ("Never", []),
    ]
    assert "not_a_rule" not in known_rules()


# -- two versions --------------------------------------------------------------------------------------------------

UNKNOWN_FIELD = b"\xc2\x3e\x01x"  # field 1000, one byte


def test_an_unknown_kind_of_record_stops_the_member() -> None:
    header = RecordHeader.FromString(RecordHeader(time_ms=1).SerializeToString() + UNKNOWN_FIELD)
    with pytest.raises(AssertionError):
        apply(State(0, Limits()), 1, 1, header)


def test_an_unknown_queue_attribute_is_kept() -> None:
    asked = QueueConfig.FromString(QueueConfig(max_length=7).SerializeToString() + UNKNOWN_FIELD)
    assert UNKNOWN_FIELD in resolve(asked, Limits()).SerializeToString()


def test_an_unknown_data_mark_has_no_vote() -> None:
    assert data_of(77) is DataMark.DAMAGED
