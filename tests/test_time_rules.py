"""How tests may look at time: how soon is asked in `clock` tests alone, and everything else waits for events.

It reads the tests and never imports them. What is excepted has its reason beside it, and an exception that nothing
needs any more fails.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch

from tests.support.until import OUTER_S
from tests.test_layout import ROOT, Module, module_of, sources

VIRTUAL = ("tests.sim.*", "tests.unit.chaos.sim.*", "tests.support.listed.simulated", "tests.support.handing")
"""Their clock is the simulator's: a second of it costs nothing and is never late."""
OWN_TIME = {
    "tests.fuzz.*": "a search has a budget, and what it starts a second of its own",
    "tests.spark.*": "a JVM starts in minutes beside other work; these tests have a longer time of their own",
    "tests.integration.test_bench_stopped": "looks between polls; a JVM starts in minutes beside other work",
    "tests.interop.clients": "compilers and their downloads",
    "tests.deploy.check": "a command of its own, make deploy-check",
    "tests.integration.test_example_project": "a project's whole suite, with a longer time of its own",
    "tests.support.names": "a whole suite in a network of its own",
    "tests.integration.test_soak": "how long it shall last",
    "tests.unit.bench.test_load": "two who must not meet are given a moment to do so",
    "tests.unit.bench.test_pacing": "the pace of a load",
    "tests.unit.test_starvation": "one who is slow",
}
SLEEPERS = {
    "tests.support.until": "is what waits",
    "tests.deploy.check": "a command of its own, make deploy-check",
    "tests.fuzz.loop": "the fuzzed pair's time",
    "tests.fuzz.test_slow_start": "one who is slow",
    "tests.spark.cluster.*": "a command of its own, make spark-cluster",
    "tests.spark.*": "polls a JVM's batches, which take minutes",
    "tests.support.listed.processes": "when and for how long a fault strikes",
    "tests.integration.standing_still": "the fault itself: it stands still",
    "tests.integration.test_faults": "the pace of a peer that is played",
    "tests.integration.test_matrix_partition": "how long a wire is cut, and how long nothing may change",
    "tests.integration.test_verdicts": "how long nothing may change",
    "tests.integration.test_series": "when in a handoff the crash comes",
    "tests.integration.test_soak": "when and for how long faults strike",
    "tests.unit.chaos.test_scenario": "processes that are slow to end",
    "tests.unit.test_starvation": "one who is slow",
}
CLUSTERS = {
    "tests.support.clusters": "makes them",
    "tests.unit.chaos.test_cluster": "shows the class",
    "tests.contract.test_toxiproxy": "its server fails before a member starts",
    "tests.deploy.check": "runs what is shipped",
    "tests.spark.cluster.rounds": "in a network of its own",
}
CLOCK = re.compile(r"\b(time\.(monotonic|perf_counter|time)|(loop|get_running_loop\(\))\.time)\(\)")
MEASURED = re.compile(r"\b(took|elapsed|lasted|longest_pause|slowest|duration|each)_m?s\b")


def of(module: Module, patterns: dict[str, str] | tuple[str, ...]) -> bool:
    return any(fnmatch(module.name, pattern) for pattern in patterns)


def is_clock(node: ast.AST) -> bool:
    """A test that is marked, or a module all of whose tests are."""
    match node:
        case ast.FunctionDef(decorator_list=marks) | ast.AsyncFunctionDef(decorator_list=marks):
            return any(ast.unparse(mark) == "pytest.mark.clock" for mark in marks)
        case ast.Module(body=body):
            return any(
                isinstance(each, ast.Assign)
                and ast.unparse(each.targets[0]) == "pytestmark"
                and "pytest.mark.clock" in ast.unparse(each.value)
                for each in body
            )
    return False


def in_virtual_time(module: Module) -> frozenset[str]:
    """What its tests call to have a loop whose time costs nothing."""
    imported = re.search(r"from tests\.support\.virtual_time import [^\n]*\brun\b", module.text)
    return frozenset({"virtual_time.run", "run"} if imported else {"virtual_time.run"})


def timeless(node: ast.AST, virtual: frozenset[str]) -> Iterator[ast.AST]:
    """Every node that is in no test of the clock or of virtual time, and in no block that shall run out of time."""
    if is_clock(node):
        return
    if isinstance(node, ast.FunctionDef) and any(
        isinstance(each, ast.Call) and ast.unparse(each.func) in virtual for each in ast.walk(node)
    ):
        return
    if isinstance(node, ast.With | ast.AsyncWith):
        entered = " ".join(ast.unparse(item.context_expr) for item in node.items)
        if re.search(r"\b(raises|suppress)\(TimeoutError", entered):
            return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from timeless(child, virtual)


def wall_bounds(module: Module) -> list[str]:
    """Assertions that something was soon, by a clock or by a figure that was taken with one."""
    found = []
    for node in timeless(module.tree, in_virtual_time(module)):
        if not isinstance(node, ast.Assert):
            continue
        for each in ast.walk(node.test):
            if not isinstance(each, ast.Compare):
                continue
            sides = [each.left, *each.comparators]
            for number, operator in enumerate(each.ops):
                lesser = {ast.Lt: number, ast.LtE: number, ast.Gt: number + 1, ast.GtE: number + 1}.get(type(operator))
                if lesser is not None and is_measured(sides[lesser]):
                    found.append(f"{module.path}:{each.lineno} asks how soon: {ast.unparse(each)}")
    return found


def is_measured(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return bool(MEASURED.search(text) or (CLOCK.search(text) and isinstance(node, ast.BinOp)))


def own_bounds(module: Module) -> list[str]:
    """Waits with another bound than the outer one."""
    found = []
    for node in timeless(module.tree, in_virtual_time(module)):
        bound = None
        if isinstance(node, ast.Call):
            bound = bound_of(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and CLOCK.fullmatch(ast.unparse(node.left)):
            bound = node.right
        if bound is not None and ast.unparse(bound) not in ("OUTER_S", "None"):
            found.append(f"{module.path}:{node.lineno} has a bound of its own: {ast.unparse(node)[:80]}")
    return found


def bound_of(call: ast.Call) -> ast.expr | None:
    name = ast.unparse(call.func)
    named = next((each.value for each in call.keywords if each.arg == "timeout"), None)
    place = {"asyncio.timeout": 0, "asyncio.wait_for": 1}.get(name)
    if place is not None:
        return named or (call.args[place] if len(call.args) > place else None)
    match name.rpartition(".")[2]:
        case "communicate" | "acquire":
            return named
        case "run" if name == "subprocess.run":
            return named
        case "join" | "settimeout" | "wait" if call.args and is_number(call.args[0]):
            return named or call.args[0]
        case "join" | "wait" | "result" | "get" | "check_output" | "check_call" | "call" if name != "asyncio.wait":
            return named  # asyncio.wait has no bound: what is not done by then goes on
    return None


def is_number(node: ast.expr) -> bool:
    """One that is written down, or a constant's name that says its unit."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and bool(value)
        case ast.Name(id=name):
            return name.endswith("_S")
    return False


def sleeps(module: Module) -> list[str]:
    """Any pause but the loop's turn, whoever makes it."""
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not (said := [*node.args, *(each.value for each in node.keywords)]):
            continue
        name, first = ast.unparse(node.func), said[0]
        pauses = name.rpartition(".")[2] == "sleep" and not (isinstance(first, ast.Constant) and first.value == 0)
        if pauses or name in ("Event().wait", "threading.Event().wait"):
            found.append(f"{module.path}:{node.lineno} sleeps; wait for the event instead")
    return found


def nameless_timers(module: Module) -> list[str]:
    """Pairs whose patience nobody has thought of."""
    return [
        f"{module.path}:{node.lineno} is neither patient nor quick (tests/support/clusters.py)"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Cluster", "cluster.Cluster")
    ]


def every_test() -> Iterator[Module]:
    return (module for name, module in sources().items() if name.startswith("tests."))


def beyond(rule: object, excepted: dict[str, str]) -> tuple[list[str], set[str]]:
    """What breaks a rule and is not excepted; the exceptions that nothing needs."""
    assert callable(rule)
    found, needed = [], set()
    for module in every_test():
        if of(module, VIRTUAL) or not (lines := rule(module)):
            continue
        if patterns := {pattern for pattern in excepted if fnmatch(module.name, pattern)}:
            needed |= patterns
        else:
            found += lines
    return found, excepted.keys() - needed


def test_how_soon_is_asked_in_tests_of_the_clock_alone() -> None:
    found, _ = beyond(wall_bounds, {})
    assert found == [], "mark it clock and judge it by tests/support/starvation.py, or leave the bound out"


def test_every_wait_has_the_outer_bound() -> None:
    assert beyond(own_bounds, OWN_TIME) == ([], set())


def test_nothing_sleeps_but_until_and_fault_scripts() -> None:
    assert beyond(sleeps, SLEEPERS) == ([], set())


def test_every_pair_is_patient_or_quick_by_name() -> None:
    assert beyond(nameless_timers, CLUSTERS) == ([], set())


def test_the_outer_bound_is_below_the_time_of_a_test() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert settings["timeout"] > 1.5 * OUTER_S, "a failure shall say what it waited for"


def planted(*lines: str) -> Module:
    return module_of("tests/test_x.py", "\n".join(lines))


def test_planted_bounds_on_wall_time_are_found() -> None:
    asks = "    assert time.monotonic() - began < 3"
    others = ["    assert 1 <= took_s <= 2 and x", "    assert 5 > run.longest_pause_s"]
    assert len(wall_bounds(planted("def test():", asks, *others))) == 3
    assert wall_bounds(planted("def test():", "    assert took_s >= 0.4", "    assert loop.time() - began > 3")) == []
    assert wall_bounds(planted("@pytest.mark.slow", "@pytest.mark.clock", "def test():", asks)) == []
    assert wall_bounds(planted("pytestmark = [pytest.mark.process, pytest.mark.clock]", "def test():", asks)) == []
    assert len(wall_bounds(planted("@pytest.mark.clock", "def test():", asks, "def other():", asks))) == 1
    runs = ["def test():", "    answer = run(story())", asks]
    assert wall_bounds(planted("from tests.support.virtual_time import run", *runs)) == []
    assert len(wall_bounds(planted(*runs))) == 1


def test_planted_bounds_of_their_own_are_found() -> None:
    for bad in (
        "asyncio.timeout(5)",
        "asyncio.wait_for(x, READY_S)",
        "asyncio.wait_for(x, timeout=2 * CALL_S)",
        "process.wait(5)",
        "process.wait(timeout=5)",
        "thread.join(timeout=10)",
        "future.result(timeout=5)",
        "queue.get(timeout=5)",
        "subprocess.check_output(x, timeout=60)",
        "process.communicate(timeout=30)",
        "subprocess.run(x, timeout=60)",
        "thread.join(10)",
        "client.settimeout(5)",
        "deadline = time.monotonic() + 30",
    ):
        assert len(own_bounds(planted(bad))) == 1, bad
    for good in (
        "asyncio.timeout(OUTER_S)",
        "asyncio.wait_for(x, OUTER_S)",
        "process.wait()",
        "', '.join(names)",
        "stub.Get(request, timeout=1)",
        "with pytest.raises(TimeoutError):\n    await asyncio.wait_for(x, HOLD_S)",
    ):
        assert own_bounds(planted(good)) == [], good


def test_planted_sleeps_are_found() -> None:
    bad = (
        "time.sleep(0.1)",
        "await asyncio.sleep(POLL_S)",
        "sleep(2)",
        "threading.Event().wait(0.2)",
        "asyncio.sleep(delay=1)",
    )
    assert len(sleeps(planted(*bad))) == len(bad)
    assert sleeps(planted("await asyncio.sleep(0)", "over.wait(0.1)")) == []


def test_a_planted_pair_without_a_name_is_found() -> None:
    assert (
        len(nameless_timers(planted("Cluster(tmp_path)", "async with Cluster(tmp_path).running() as pair: pass"))) == 2
    )
    assert nameless_timers(planted("patient(tmp_path)", "quick(tmp_path)", "def f(pair: Cluster): ...")) == []


def test_an_exception_that_nothing_needs_is_found() -> None:
    assert beyond(lambda _module: [], {"tests.*": "x"}) == ([], {"tests.*"})
    assert beyond(lambda module: [module.path], {"tests.*": "x"}) == ([], set())
