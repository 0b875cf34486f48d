"""Who owns what, as a test: what a class is made of, where its attributes are born, and who may change them.

It reads the sources as `tests/test_layout.py` does, whose arrows these rules go with, and knows no list of files.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

import pytest

from tests.support.classes import Class, Types, assigned, by_name, classes_of, is_own, own_attributes
from tests.test_layout import LAYERS, Module, child_of, module_of, sources, within

SERVER = ("replica", "failover", "storage")
PRODUCT = (*SERVER, "tandemq", "chaos.sim")
OPEN = ("Counter", "OrderedDict", "bytearray", "defaultdict", "deque", "dict", "list", "set")


def late_births(classes: Collection[Class]) -> list[str]:
    """An attribute that some other method brings into being: who reads the constructor does not know of it."""
    known = by_name(classes)
    found = []
    for each in classes:
        own = own_attributes(each, known)
        for method in each.methods():
            for target, item in assigned(method):
                if is_own(target) and target.attr not in own and not isinstance(item, ast.Delete):
                    found.append(
                        f"{each.module.path}:{target.lineno} {each.name}.{target.attr} is born in {method.name}"
                    )
    return found


def namesakes(classes: Collection[Class]) -> list[str]:
    """Public classes of one name: who reads it in one file thinks of the other."""
    found: dict[str, list[str]] = {}
    for each in classes:
        if not each.name.startswith("_"):
            found.setdefault(each.name, []).append(each.where)
    return [f"{name}: {', '.join(where)}" for name, where in found.items() if len(where) > 1]


def is_nothing(value: ast.expr | None) -> bool:
    """A lambda that looks at nothing it is given: it answers a constant, or a name that is no part of anybody."""
    if not isinstance(value, ast.Lambda):
        return False
    nodes = list(ast.walk(value.body))
    given = {each.arg for each in (*value.args.args, *value.args.kwonlyargs)} | {"self"}
    is_plain = all(isinstance(node, ast.Constant | ast.Name | ast.Attribute | ast.expr_context) for node in nodes)
    return is_plain and not any(isinstance(node, ast.Name) and node.id in given for node in nodes)


def hooks(classes: Collection[Class], modules: Collection[Module]) -> list[str]:
    found = []
    waiting: dict[str, list[str]] = {}
    for each in classes:
        statements = [(item.target, item) for item in each.node.body if isinstance(item, ast.AnnAssign)]
        own = [(target, item) for method in each.methods() for target, item in assigned(method) if is_own(target)]
        for target, item in [*statements, *own]:
            name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
            if isinstance(item, ast.Assign | ast.AnnAssign):
                where = f"{each.module.path}:{item.lineno} {each.name}.{name}"
                if is_nothing(item.value):
                    found.append(f"{where} does nothing until somebody overwrites it: make it an argument")
                elif (
                    isinstance(item, ast.AnnAssign)
                    and "Callable[" in ast.unparse(item.annotation)
                    and isinstance(item.value, ast.Constant)
                    and item.value.value is None
                ):
                    waiting.setdefault(name, []).append(where)
    for module in modules:
        for target, item in assigned(module.tree):
            value = getattr(item, "value", None)
            if target.attr in waiting and not (isinstance(value, ast.Constant) and value.value is None):
                found += [f"{each} is None until {module.path}:{item.lineno}" for each in waiting.pop(target.attr)]
            if not is_own(target) and is_nothing(value):
                found.append(f"{module.path}:{item.lineno} takes a hook out by one that does nothing")
    return found


def parts_of_a_domain(modules: Collection[Module]) -> set[str]:
    """Shared, and the classes of the core that hold it."""
    classes = classes_of([module for module in modules if within(module.name, ("replica.core",))])
    known = by_name(classes)
    return {"Shared"} | {each.name for each in classes if "shared" in own_attributes(each, known)}


def foreign_writes(package: str, modules: Collection[Module], owners: Collection[str] | None = None) -> list[str]:
    """Assignments to an attribute of an object whose class stands in another package of the same package; `owners`: of
    these classes alone.
    """
    rows = {name for row in LAYERS[package] for name in row}
    types = Types(modules)
    found = []
    for module in modules:
        own = child_of(package, module.name, rows)
        classes = {id(item): each.name for each in classes_of([module]) for item in each.methods()}
        functions = [item for item in ast.walk(module.tree) if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
        for function in functions:
            names = types.names_in(function, classes.get(id(function), ""))
            for target, _ in assigned(function):
                for holder in [] if is_own(target) else sorted(types.of(target.value, names)):
                    for each in types.classes[holder] if owners is None or holder in owners else ():
                        package_of = child_of(package, each.module.name, rows)
                        if package_of != own and target.attr in own_attributes(each, types.classes):
                            found.append(f"{module.path}:{target.lineno} {ast.unparse(target)} is {holder}'s: call it")
    return sorted(set(found))


def open_tables(modules: Collection[Module]) -> list[str]:
    """Tables of a module that whoever imports it can change: what was taken out and put back stands at another place,
    and who comes later in that process finds it there. One that its own module fills has to be open to it.
    """
    found = []
    for module in modules:
        filled = {ast.unparse(node) for node in map(filled_by, ast.walk(module.tree)) if node}
        for item in module.tree.body:
            target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
            name = target.id if isinstance(target, ast.Name) else ""
            if name not in {"__all__", *filled} and is_open(getattr(item, "value", None)):
                found.append(f"{module.path}:{item.lineno} {name}")
    return found


def is_open(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in OPEN
    return isinstance(value, ast.Dict | ast.DictComp | ast.List | ast.ListComp | ast.Set | ast.SetComp)


def filled_by(node: ast.AST) -> ast.expr | None:
    """Whatever this puts something into."""
    match node:
        case ast.Subscript(value=table, ctx=ast.Store()):
            return table
        case ast.Call(func=ast.Attribute(value=table, attr="add" | "append" | "extend" | "setdefault" | "update")):
            return table
    return None


def of_package(*packages: str) -> list[Module]:
    return [module for name, module in sources().items() if within(name, packages)]


def test_every_attribute_is_born_in_the_constructor() -> None:
    assert late_births(classes_of(of_package(*SERVER))) == []


def test_no_two_public_classes_have_one_name() -> None:
    assert namesakes(classes_of(of_package(*SERVER))) == []


def test_no_hook_does_nothing_until_somebody_overwrites_it() -> None:
    modules = of_package(*SERVER)
    assert hooks(classes_of(modules), modules) == []


def test_no_table_of_a_module_can_be_changed_by_who_imports_it() -> None:
    assert open_tables(of_package(*PRODUCT)) == [], "MappingProxyType, a tuple or a frozenset"


def test_nobody_assigns_what_another_package_of_the_core_owns() -> None:
    assert foreign_writes("replica.core", of_package("replica.core")) == [], "the owner has a method, or should have"


def test_the_shell_sets_nothing_inside_a_domain() -> None:
    modules = of_package("replica")
    parts = parts_of_a_domain(modules)
    assert {"Domain", "Shared", "Mastership", "Verdicts", "Orders"} <= parts
    assert foreign_writes("replica", modules, parts) == [], "the owner has a method, or should have"


def planted(**texts: str) -> list[Module]:
    """Modules by path: a double underscore stands for a slash."""
    return [module_of(f"{path.replace('__', '/')}.py", text) for path, text in texts.items()]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("    def __init__(self):\n        self.a = 1\n    def f(self):\n        self.a = 2\n", 0),
        ("    def f(self):\n        self.a = 2\n", 1),
        ("    def f(self):\n        self.a, (self.b, *self.c) = g()\n", 3),
        ("    def f(self):\n        for self.a in x:\n            self.b += 1\n", 2),
        ("    def f(self):\n        with g() as self.a:\n            pass\n", 1),
        ("    def __init__(self):\n        self.f()\n    def f(self):\n        self.a = 2\n", 1),
        ("    a: int\n    b = 1\n    def f(self):\n        self.a = self.b = 2\n", 0),
        ("    def f(self):\n        self.a.b = 2\n        del self.c\n", 0),
        ("    @a.setter\n    def a(self, to):\n        self._a = to\n    def f(self):\n        self.a = 2\n", 1),
    ],
)
def test_a_planted_late_birth_is_found(body: str, count: int) -> None:
    assert len(late_births(classes_of(planted(replica__x=f"class Late:\n{body}")))) == count


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("self.on_x: Callable[[], None] = lambda: None", 1),
        ("self.on_x = lambda _text, *, _n=0: False", 1),
        ("self.on_x = lambda: Aside.IS_ASIDE", 1),
        ("self.on_x: Callable[[], None] | None = None", 1),
        ("self.on_y: Callable[[], None] | None = None", 0),
        ("self.on_x = lambda text: text", 0),
        ("self.on_x = lambda: self.y", 0),
        ("self.on_x = lambda: g()", 0),
        ("self.on_x: int | None = None", 0),
        ("self.on_x = on_x", 0),
    ],
)
def test_a_planted_hook_is_found(line: str, count: int) -> None:
    modules = planted(
        replica__x=f"class Hooked:\n    def __init__(self, on_x):\n        {line}\n",
        replica__y="def wire(hooked):\n    hooked.on_x = print\n    hooked.on_y = None\n",
    )
    assert len(hooks(classes_of(modules), modules)) == count


def test_a_planted_hook_of_a_dataclass_and_one_that_is_taken_out_are_found() -> None:
    modules = planted(
        replica__x="@dataclass\nclass Hooked:\n    on_x: Callable[[], None] = lambda: None\n",
        replica__y="def end(hooked):\n    hooked.on_z = lambda _x: None\n",
    )
    assert len(hooks(classes_of(modules), modules)) == 2


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("A = {1: 2}\nB: dict[int, int] = {}\nC = [1]\nD = {1}\nE = [x for x in y]\n", 5),
        ("A = dict(a=1)\nB = collections.deque()\nC: set[int] = set()\n", 3),
        ("A = MappingProxyType({1: 2})\nB = (1, 2)\nC = frozenset({1})\nD = len([1])\nE: int\n__all__ = ['A']\n", 0),
        ("A = {}\nfor x in y:\n    A[x] = 1\nB = {}\ndef f():\n    B.setdefault(1, []).append(2)\n", 0),
        ("A = {}\nB = A[1]\nC = A.get(1)\ndef f():\n    a = {}\n    a[1] = 2\n", 1),
    ],
)
def test_planted_tables_that_can_be_changed_are_found(text: str, count: int) -> None:
    assert len(open_tables(planted(replica__x=text))) == count


def test_planted_namesakes_are_found() -> None:
    modules = planted(
        replica__x="class Place:\n    pass\nclass _Row:\n    pass\n",
        failover__y="if True:\n    class Place(NamedTuple):\n        at: int\nclass _Row:\n    pass\n",
    )
    assert namesakes(classes_of(modules)) == ["Place: replica/x.py:1, failover/y.py:2"]


OWNER = """
class State:
    epoch: int

class Shared:
    def __init__(self, state: State) -> None:
        self.state = state
        self.link = 0

    def f(self) -> State: ...
    def become(self) -> None:
        self.link = 1
        self.state.epoch = 1

Either = State | Shared
"""
WRITER = """
class Part:
    def __init__(self, shared: Shared, others: list[Shared]) -> None:
        self.shared = shared
        self.others = others
        self.link = 0

class Below(Part):
    def f(self, given: "Shared | None", either: Either, frame: Frame) -> None:
        shared = self.shared
        {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "shared.link = 1",
        "self.shared.link += 1",
        "shared.state.epoch = 1",
        "shared.f().epoch, x = 1, 2",
        "given.link = 1",
        "either.epoch = 1",
        "state = shared.state; state.epoch = 1",
        "for each in self.others: each.link = 1",
        "for each in reversed(self.others): each.link = 1",
        "self.others.pop().link = 1",
        "a, b = shared, shared.state; b.epoch = 1",
        "del shared.link",
    ],
)
def test_a_planted_write_into_another_package_is_found(line: str) -> None:
    modules = planted(replica__core__state__x=OWNER, replica__core__ordering__x=WRITER.format(line=line))
    assert len(foreign_writes("replica.core", modules)) == 1
    beside = planted(replica__core__state__x=OWNER, replica__core__state__y=WRITER.format(line=line))
    assert foreign_writes("replica.core", beside) == [], "it stands in the owner's own package"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("domain.mastership.paused = True", 1),
        ("for each in domains: each.mastership.paused = True", 1),
        ("domain.mastership.pause()", 0),
        ("call = Call(); call.waits = True", 0),
    ],
)
def test_a_planted_write_of_the_shell_into_a_domain_is_found(line: str, count: int) -> None:
    core = """
class Call:
    def __init__(self) -> None:
        self.waits = False

class Mastership:
    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.paused = False

class Domain:
    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.mastership = Mastership(shared)
"""
    shell = f"def judge(domain: Domain, domains: list[Domain]) -> None:\n    {line}\n"
    modules = planted(replica__core__x=core, replica__peer__judge=shell)
    assert len(foreign_writes("replica", modules, parts_of_a_domain(modules))) == count


@pytest.mark.parametrize("line", ["self.link = 1", "frame.link = 1", "link = shared.link", "shared.become()"])
def test_what_is_no_write_into_another_package_passes(line: str) -> None:
    modules = planted(replica__core__state__x=OWNER, replica__core__ordering__x=WRITER.format(line=line))
    assert foreign_writes("replica.core", modules) == []
