"""Small bugs: each kind changes what it says and nothing else, and is put into one child alone."""

from __future__ import annotations

import resource
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutants import running
from tools.mutants.__main__ import AREAS, ROOT, drawn, equivalents, summed
from tools.mutants.kinds import Mutant, code_of, mutants_of
from tools.mutants.running import ALIVE, KILLED, Verdict

SOURCE = textwrap.dedent(
    '''
    LIMIT = 3

    class Box:
        """Holds things."""

        def __init__(self):
            self.things = []
            self.sealed = False

        @property
        def full(self) -> bool:
            return len(self.things) >= LIMIT

        def put(self, thing: int = 7):
            """Put one in: not above 3."""
            if self.full and not self.sealed:
                raise ValueError("full")
            self.things.append(thing)
            return 1 + len(self.things)

        def __repr__(self):
            return "full" if self.full else "open"

        def wait(self):
            while True:
                pass

        def pairs(self):
            assert len(self.things) == 2
            return zip(self.things, self.things, strict=True)

    def twice(): return 1
    def twice(): return 2
    '''
)


def found() -> list[Mutant]:
    return mutants_of("box", "box.py", SOURCE)


def test_every_kind_of_change_is_found_once_at_its_place() -> None:
    says = {(each.function, each.kind, each.before) for each in found()}
    assert says == {
        ("Box.__init__", "drop-assignment", "self.things = []"),
        ("Box.__init__", "drop-assignment", "self.sealed = False"),
        ("Box.__init__", "flip", "False"),
        ("Box.full", "compare", "len(self.things) >= LIMIT"),
        ("Box.wait", "never", "True"),
        ("Box.wait", "flip", "True"),
        ("Box.put", "always", "self.full and (not self.sealed)"),
        ("Box.put", "never", "self.full and (not self.sealed)"),
        ("Box.put", "and-or", "self.full and (not self.sealed)"),
        ("Box.put", "not", "not self.sealed"),
        ("Box.put", "drop-jump", "raise ValueError('full')"),
        ("Box.put", "drop-call", "self.things.append(thing)"),
        ("Box.put", "plus-minus", "1 + len(self.things)"),
        ("Box.put", "constant", "1"),
    }


@pytest.mark.parametrize("mutant", found(), ids=lambda each: f"{each.function} {each.kind}")
def test_a_change_is_one_change_of_the_function(mutant: Mutant) -> None:
    box: dict[str, object] = {}
    exec(compile(SOURCE, "box.py", "exec"), box)
    found = vars(box["Box"])[mutant.function.rpartition(".")[2]]
    before = (found.fget if isinstance(found, property) else found).__code__
    after = code_of(SOURCE, "box.py", mutant)
    assert (after.co_name, after.co_varnames) == (before.co_name, before.co_varnames)
    assert (after.co_code, after.co_consts, after.co_names) != (before.co_code, before.co_consts, before.co_names)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("always", "ValueError"), ("never", "5"), ("and-or", "ValueError"), ("not", "5"), ("drop-jump", "5")],
)
def test_a_change_does_what_its_name_says(kind: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    box = ModuleType("box")
    exec(compile(SOURCE, "box.py", "exec"), box.__dict__)
    monkeypatch.setitem(running.importlib.sys.modules, "box", box)  # type: ignore[attr-defined]
    mutant = next(each for each in found() if each.kind == kind and each.function == "Box.put")
    function = running.function_of("box", mutant.function)
    assert function is not None
    function.__code__ = code_of(SOURCE, "box.py", mutant)
    one = box.Box()
    one.things = [1, 2, 3] if wanted == "5" else []
    one.sealed = False
    try:
        said = str(one.put())
    except ValueError as error:
        said = type(error).__name__
    assert said == wanted


def test_functions_are_found_under_what_wraps_them() -> None:
    for name in ("Cluster.running", "Cluster.paired", "Cluster.spawn", "free_base_port"):
        assert running.function_of("chaos.cluster", name) is not None, name
    assert running.function_of("chaos.cluster", "Cluster.no_such") is None


def test_a_child_says_what_it_found_and_one_that_hangs_is_ended() -> None:
    assert running.in_child(lambda say: say({"found": 1}), 60) == ([{"found": 1}], True)

    def hang(say: running.Say) -> None:
        say("begins")
        running.select.select([], [], [])

    assert running.in_child(hang, 0.2) == (["begins"], False)
    said, _ = running.in_child(lambda say: say(resource.getrlimit(resource.RLIMIT_CPU)), 60)
    assert said == [[running.CPU_S, running.CPU_S]], "or it would outlive whoever asked"


def test_a_sample_is_the_same_for_a_seed_and_of_the_areas_own_code() -> None:
    for name, area in AREAS.items():
        one = drawn(area, 20, 5)
        assert one == drawn(area, 20, 5) != drawn(area, 20, 6), name
        assert all(each.path.startswith(area.code) for each in one)
        assert all((ROOT / test).exists() for test in area.tests)


def test_those_that_break_nothing_are_counted_apart_and_are_there() -> None:
    mutant = found()[0]
    verdicts = [Verdict(mutant, ALIVE), Verdict(mutant, KILLED)]
    assert summed(verdicts, {}) == {ALIVE: 1, KILLED: 1}
    assert summed(verdicts, {mutant.key: "why"}) == {"equivalent": 2}
    for key, why in equivalents().items():
        path, *_ = key.split("::")
        module = ".".join(Path(path).with_suffix("").parts)
        keys = {each.key for each in mutants_of(module, path, (ROOT / path).read_text(encoding="utf-8"))}
        assert key in keys, "the function has changed: judge it again"
        assert len(why) > 10
