"""Small bugs: each kind changes what it says and nothing else, and is put into one child alone."""

from __future__ import annotations

import contextlib
import resource
import textwrap
from types import FunctionType, ModuleType

import pytest

from tools.mutants import running
from tools.mutants.__main__ import AREAS, ROOT, Asking, drawn, equivalents, every_of, judged, main
from tools.mutants.kinds import Mutant, code_of, mutants_of, watched_code_of
from tools.mutants.running import ALIVE, HUNG, KILLED, UNREACHED, Verdict

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


CLOSING = textwrap.dedent(
    """
    class Sub(Box):
        def __init__(self):
            super().__init__()

        def put(self, thing):
            if super().full:
                return 0
            return super().put(thing)
    """
)


@pytest.mark.parametrize(
    "mutant", mutants_of("box", "box.py", CLOSING), ids=lambda each: f"{each.function} {each.kind}"
)
def test_a_function_keeps_what_it_closes_over_whatever_is_left_out(mutant: Mutant) -> None:
    """Code without the cells of the function cannot be put in its place."""
    assert code_of(CLOSING, "box.py", mutant).co_freevars == ("__class__",)


def test_what_cannot_be_put_in_is_asked_nothing(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    (mutant, *_) = found()
    monkeypatch.setattr(running, "put_in", lambda _mutant: False)
    assert running.asked(mutant, [request.node]).outcome == UNREACHED


STEPS = textwrap.dedent(
    """
    def steps(number):
        if number > 2:
            number = number + 3
        elif number == 2:
            raise ValueError("two")
        return [each for each in range(number) if each > 7]
    """
)


@pytest.mark.parametrize(
    ("number", "reached"),
    [
        (3, {"number > 2", "number + 3", "each > 7"}),
        (2, {"number > 2", "number == 2", "raise ValueError('two')"}),
        (1, {"number > 2", "number == 2", "each > 7"}),
    ],
)
def test_only_who_comes_to_a_statement_is_asked_of_its_changes(number: int, reached: set[str]) -> None:
    mutants = mutants_of("steps", "steps.py", STEPS)
    entered: set[str] = set()
    module: dict[str, object] = {"entered": entered.add}
    code = watched_code_of(STEPS, "steps.py", mutants, "entered")
    with contextlib.suppress(ValueError):
        FunctionType(code, module)(number)
    changed = {mutant.before for mutant in mutants if mutant.key in entered}
    assert reached <= changed
    assert not {"number + 3", "number == 2", "raise ValueError('two')", "each > 7"} & changed - reached


def test_a_test_that_fails_without_the_mutant_as_well_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In the order of the asking it may, though it passed in the order of the files."""
    item = request.node
    monkeypatch.setattr(running, "put_in", lambda _mutant: True)
    for fails, outcome in ((True, UNREACHED), (False, ALIVE)):
        monkeypatch.setattr(running, "_fails", lambda _item, _next, fails=fails: fails)
        assert running.asked(ONE, [item]).outcome == (KILLED if fails else ALIVE)
        assert running.pass_without([item]) is not fails
        assert Asking([ONE], seeds=0, until_s=0)._asked(ONE, [item]).outcome == outcome


def test_a_process_that_ends_before_its_tests_is_no_reach(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(running, "_fails", lambda _item, _next: running.os._exit(3))
    with pytest.raises(RuntimeError, match=r"ended in .*test_a_process_that_ends"):
        running.reach_of([request.node], [])


@pytest.mark.parametrize(
    "words",
    [["--part", "replica/core"], ["--part", "storage/no_such.py"], ["--key", "storage/disk.py::no::such::change"]],
)
def test_a_part_or_a_key_that_the_area_does_not_have_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--area", "storage", *words])
    assert ended.value.code == 2
    assert words[1] in capsys.readouterr().err


def test_functions_are_found_under_what_wraps_them() -> None:
    for name in ("Cluster.running", "Cluster.paired", "Cluster.spawn", "describe"):
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
        one = drawn(area.code, 20, 5)
        assert one == drawn(area.code, 20, 5) != drawn(area.code, 20, 6), name
        assert all(each.path.startswith(area.code) for each in one)
        assert all((ROOT / test).exists() for test in area.tests)


def test_equal_constants_of_a_function_have_keys_of_their_own() -> None:
    source = "def one(a):\n    return a + 7 if a > 7 else 7\ndef two():\n    return 7\n"
    sevens = [each for each in mutants_of("m", "m.py", source) if each.kind == "constant"]
    assert [each.key for each in sevens] == [
        "m.py::one::constant::7",
        "m.py::one::constant::7::2",
        "m.py::one::constant::7::3",
        "m.py::two::constant::7",
    ]
    changed = [code_of(source, "m.py", each).co_code for each in sevens[:3]]
    assert len(set(changed)) == 3, "each key is another change"


def test_no_two_changes_of_the_product_share_a_key() -> None:
    for name, area in AREAS.items():
        keys = [each.key for each in every_of(area.code)]
        assert len(keys) == len(set(keys)), name


ONE, TWO, THREE, FOUR = found()[:4]


@pytest.mark.parametrize(
    ("verdicts", "known", "counts", "percent", "living", "code"),
    [
        ([], {}, {}, 0, [], 1),
        ([Verdict(ONE, KILLED), Verdict(TWO, HUNG)], {}, {KILLED: 1, HUNG: 1}, 100, [], 0),
        ([Verdict(ONE, KILLED), Verdict(TWO, ALIVE)], {}, {KILLED: 1, ALIVE: 1}, 50, [TWO], 1),
        ([Verdict(ONE, KILLED), Verdict(TWO, UNREACHED)], {}, {KILLED: 1, UNREACHED: 1}, 50, [TWO], 1),
        ([Verdict(ONE, KILLED), Verdict(TWO, ALIVE)], {TWO.key: "why"}, {KILLED: 1, "equivalent": 1}, 100, [], 0),
        ([Verdict(ONE, KILLED), Verdict(TWO, UNREACHED)], {TWO.key: "why"}, {KILLED: 1, "equivalent": 1}, 100, [], 0),
        (
            [Verdict(ONE, KILLED), Verdict(TWO, KILLED), Verdict(THREE, KILLED), Verdict(FOUR, ALIVE)],
            {},
            {KILLED: 3, ALIVE: 1},
            75,
            [FOUR],
            1,  # enough are seen, and one lives of which nothing is said
        ),
    ],
)
def test_what_lives_without_a_line_and_a_missed_rate_each_fail_the_run(
    verdicts: list[Verdict],
    known: dict[str, str],
    counts: dict[str, int],
    percent: float,
    living: list[Mutant],
    code: int,
) -> None:
    said = judged(verdicts, known)
    assert (said.counts, said.percent, said.open, said.exit_code(75)) == (counts, percent, living, code)
    assert said._replace(open=[]).exit_code(int(percent) + 1) == 1, "the rate alone"


def test_one_that_is_said_to_break_nothing_and_is_seen_is_named_and_counts_as_seen() -> None:
    said = judged([Verdict(ONE, KILLED), Verdict(TWO, ALIVE)], {ONE.key: "why"})
    assert (said.counts, said.percent, said.doubtful) == ({KILLED: 1, ALIVE: 1}, 50, [ONE.key])


def test_each_line_of_those_that_break_nothing_is_of_a_change_that_can_be_made() -> None:
    for key, why in equivalents().items():
        path, *_ = key.split("::")
        keys = {each.key for each in every_of([path])}
        assert key in keys, "the function has changed: judge it again"
        assert len(why) > 10
