"""The architecture, as a test: who may import whom, how big things may get, what may not be written.

It reads the sources, never imports them, and knows no list of files: a new module is covered by its name. The limits
have named exceptions; an exception may shrink or go, and one that is no longer needed fails the test.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cache
from pathlib import Path

import pytest

from tests.support.trees import tree_of

ROOT = Path(__file__).resolve().parent.parent
SERVER = ("replica", "storage", "failover", "chaos", "pipeline")
FOLDERS = ("tandemq", *SERVER, "tests", "bench", "tools")

# Decide, never act: no module reachable from these, through our own imports, may touch the world.
PURE = (
    *("replica.core", "replica.machine", "replica.operations.forecast", "replica.operations.lag"),
    *("replica.node.steps", "replica.peer.keepalive", "replica.tokens.judging", "replica.tokens.keys"),
    *("failover.detector", "failover.register", "failover.promotion", "failover.classifier", "failover.gate"),
    *("failover.steps", "failover.tally", "failover.handoff"),
    *("storage.recent", "storage.log_format", "storage.meta_pages", "storage.doubt"),
    *("chaos.history", "chaos.checker", "chaos.ledger", "chaos.account", "chaos.bites", "chaos.through"),
    *("chaos.kept_verdict", "chaos.journals", "chaos.journal_*"),
    "pipeline.schema",
)
WORLD = {"grpc", "lmdb", "asyncio", "threading", "socket", "os", "time", "random", "logging"}

# Importer, what it may not import, the importers excepted. `tandemq` is what users import: no server comes with it.
ARROWS = (
    ("tandemq", SERVER, ("tandemq.cli", "tandemq.embedded", "tandemq.testing.__main__")),
    ("storage", ("replica", "failover", "chaos", "pipeline"), ()),
    ("failover", ("replica", "chaos", "pipeline"), ()),
    ("replica", ("chaos", "pipeline"), ()),
    ("chaos", ("replica", "storage", "failover", "pipeline"), ("chaos.sim", "chaos.lying")),
    ("pipeline", ("replica", "storage", "failover"), ()),
    # Real stores and real processes, beside the simulated ones.
    ("chaos.sim.images", tuple(f"chaos.sim.{name}" for name in ("world", "draw", "judges", "pair", "kernel")), ()),
)
# Packages of a package, from the top down: each may import what stands below it, and those in one row never each other.
# Type-only and lazy imports count, and whatever stands in none of the rows is wrong. OWN: the modules of the package.
OWN = "."
LAYERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "replica": (
        ("manager",),
        ("reactions",),
        ("services", "listen"),
        ("operations", "offline"),
        ("peer", "tokens"),
        ("node",),
        ("rpc",),
        ("core",),
        ("machine",),
    ),
    "replica.services": (("messages", "admin", "pair", "links"), ("proxies",), (OWN,)),
    "replica.peer": ((OWN,), ("identity",)),
    "replica.core": (
        (OWN,),
        ("handoff", "delivery"),
        ("ordering",),
        ("mastership",),
        ("replication", "messages"),
        ("state",),
        ("selection",),
    ),
    "replica.machine": ((OWN,), ("rows",), ("apply",), ("features",), ("plan",), ("state",), ("sets",)),
    "chaos.sim": (
        ("tools", "images"),
        ("world",),
        ("draw",),
        ("clients", "faults", "model"),
        ("judges", "bugs"),
        ("pair",),
        ("kernel",),
    ),
}
# 660 MB that most do not install: who imports them, and who imports those who do.
SPARK = ("pyspark", "pyarrow", "py4j", "tandemq.spark")
SPARK_DOORS = (
    *("tandemq.spark", "pipeline", "bench.spark_read", "bench.audit"),
    *("tests.spark", "tests.unit.spark", "tests.integration.test_spark_reader"),
)
# The last one asks its verifier.
LMDB_DOORS = ("storage.disk", "storage.environment", "failover.witness_store", "chaos.sim.images")

FILE_LINES_MAX, TEST_LINES_MAX, FUNCTION_LINES_MAX = 500, 600, 70
# Each entry: path, or path::function, to the size it has now.
TOO_LONG: dict[str, int] = {}
# Where a failure of any kind must become an answer to a caller, end the process in order, or be kept as a find.
BROAD_EXCEPT_DOORS = (
    "replica.node.loop",
    *("replica.services", "replica.rpc.handlers"),
    *("chaos.sim.kernel.loop", "chaos.sim.kernel.serving", "chaos.sim.pair.member", "chaos.sim.clients.base"),
    "tests.fuzz.engine",
)

# Spelled in two halves, so that this file passes its own test.
REGISTRY_HALVES = ("py|pi.org", "python|hosted", "npm|js.org", "crates|.io", "proxy.golang|.org", "index|-url")
REGISTRY_HOSTS = tuple(halves.replace("|", "") for halves in REGISTRY_HALVES)
SKIPPED_FOLDERS = {".git", "build", "dist", "node_modules", "target"}
BINARY_SUFFIXES = {".gz", ".binpb", ".png", ".mdb", ".pyc"}


@dataclass(frozen=True, slots=True)
class Import:
    target: str  # as written, made absolute; for `from a import b` once `a.b`
    line: int
    lazy: bool  # inside a function: happens when it is called
    typed: bool = False  # under TYPE_CHECKING: never happens, and is leaned on all the same


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return tree_of(self.path, self.text)

    @property
    def package(self) -> str:
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]

    def imports(self) -> list[Import]:
        return [item for item in self.all_imports() if not item.typed]

    def all_imports(self) -> tuple[Import, ...]:
        return imports_of(self)

    def imports_below(self, node: ast.AST, *, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Import(names=names):
                    yield from (Import(alias.name, child.lineno, lazy) for alias in names)
                case ast.ImportFrom(module=module, names=names, level=level):
                    base = (
                        ".".join(self.package.split(".")[: len(self.package.split(".")) - level + 1]) if level else ""
                    )
                    prefix = ".".join(part for part in (base, module) if part)
                    yield from (Import(f"{prefix}.{alias.name}", child.lineno, lazy) for alias in names)
                case ast.If(
                    test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body, orelse=orelse
                ):
                    for typed in self.imports_below(ast.Module(body, []), lazy=lazy):  # the body never runs
                        yield replace(typed, typed=True)
                    yield from self.imports_below(ast.Module(orelse, []), lazy=lazy)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    yield from self.imports_below(child, lazy=True)
                case ast.expr():
                    pass  # holds no statement
                case _:
                    yield from self.imports_below(child, lazy=lazy)


@cache
def imports_of(module: Module) -> tuple[Import, ...]:
    """Most rules ask for them, and each for those of all modules."""
    return tuple(module.imports_below(module.tree, lazy=False))


@cache
def nodes_of(module: Module) -> tuple[ast.AST, ...]:
    return tuple(node for node in ast.walk(module.tree) if isinstance(node, ast.stmt | ast.excepthandler | ast.Call))


def module_of(path: str, text: str) -> Module:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return Module(name, path, text)


@cache
def sources() -> dict[str, Module]:
    """Every module written by hand, by name."""
    modules = (
        module_of(path.relative_to(ROOT).as_posix(), path.read_text())
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    )
    return {module.name: module for module in modules}


@cache
def one_of(patterns: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(translate(each) for pattern in patterns for each in (pattern, f"{pattern}.*")) or "(?!)")


def within(name: str, patterns: tuple[str, ...] | set[str]) -> bool:
    return one_of(frozenset(patterns)).match(name) is not None


def impurities(start: Module, modules: dict[str, Module]) -> list[str]:
    """Every way from a pure module to the world, as a chain of imports."""
    found: list[str] = []
    seen = {start.name}
    waiting = [(start, start.name)]
    while waiting:
        module, chain = waiting.pop()
        for item in module.imports():
            step = f"{chain} -> {item.target} ({module.path}:{item.line})"
            if within(item.target, WORLD) or "_pb2_grpc" in item.target:
                found.append(step)
            for name in (item.target, item.target.rpartition(".")[0]):
                if name in modules and name not in seen:
                    seen.add(name)
                    waiting.append((modules[name], step))
    return found


def ancestors(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def leaned_on(module: Module, modules: dict[str, Module]) -> set[str]:
    """Every module of ours that this one needs in order to be understood: type-only and lazy imports count.

    Who imports `a.b.c` runs the `__init__` of `a` and `a.b` too; those of its own packages ran before it.
    """
    found: set[str] = set()
    for item in module.all_imports():
        parent = item.target.rpartition(".")[0]
        target = item.target if item.target in modules else parent
        if target in modules:
            found |= {target} | (ancestors(target) & modules.keys()) - ancestors(module.name)
    return found - {module.name}


def circles(modules: dict[str, Module]) -> list[list[str]]:
    """The strongly connected components of more than one module."""
    above = {name: leaned_on(module, modules) for name, module in modules.items()}
    while True:  # what leans on nothing that is left, and what nothing leans on, stands in no circle
        below = set().union(*above.values())
        kept = {name: below_it & above.keys() for name, below_it in above.items() if name in below}
        kept = {name: below_it for name, below_it in kept.items() if below_it}
        if kept == above:
            break
        above = kept
    reached = {name: reachable(name, above) for name in above}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in above
        if name in reached[name]
    }
    return sorted(list(names) for names in found)


def reachable(start: str, above: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = above[waiting.pop()] - seen
        seen |= fresh
        waiting += fresh
    return seen


def wrong_arrows(module: Module) -> list[str]:
    found = []
    for importer, forbidden, excepted in ARROWS:
        if not within(module.name, (importer,)):
            continue
        for item in module.imports():
            allowed = within(module.name, excepted) and (item.lazy or importer != "tandemq")
            if within(item.target, forbidden) and not allowed:
                found.append(f"{module.path}:{item.line} imports {item.target}")
    for item in module.imports():
        if within(item.target, ("lmdb",)) and not within(module.name, (*LMDB_DOORS, "tests", "bench")):
            found.append(f"{module.path}:{item.line} imports lmdb; only {', '.join(LMDB_DOORS)} may")
        if within(item.target, SPARK) and not within(module.name, SPARK_DOORS):
            found.append(f"{module.path}:{item.line} imports {item.target}; only {', '.join(SPARK_DOORS)} may")
        if within(item.target, ("tests",)) and not within(module.name, ("tests",)):
            found.append(f"{module.path}:{item.line} imports a test")
    return found


def child_of(package: str, name: str, known: Collection[str]) -> str:
    """Under which child of the package that name stands; "": it is the package itself, or elsewhere."""
    child = name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(f"{package}.") else ""
    return OWN if OWN in known and child not in known and (child or name == package) else child


def wrong_layers(module: Module) -> list[str]:
    found = []
    for package, rows in LAYERS.items():
        rank = {name: at for at, row in enumerate(rows) for name in row}
        own = child_of(package, module.name, rank)
        if module.name != package and own in ("", "__main__"):
            continue  # it stands elsewhere, or is what somebody starts: nobody imports it
        if own and own not in rank:
            found.append(f"{module.path} stands in no row of {package}")
            continue
        for item in module.all_imports():
            other = child_of(package, item.target, rank)
            if other and other != own and rank.get(other, -1) <= rank.get(own, len(rows)):
                found.append(f"{module.path}:{item.line} imports {item.target}, which does not stand below it")
    return found


def sizes_over_limit(module: Module) -> dict[str, int]:
    tested = within(module.name, ("tests",))
    limit = TEST_LINES_MAX if tested else FILE_LINES_MAX
    found = {}
    # What a tool writes is as long as its source says; tests/unit/client/test_gen_blocking.py knows each such file.
    if (lines := len(module.text.splitlines())) > limit and not module.name.endswith("_generated"):
        found[module.path] = lines
    for node in nodes_of(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found[f"{module.path}::{node.name}"] = lines
    return found


def name_of(base: ast.expr) -> str:
    """Without what it is a generic of, and where it stands."""
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def concrete_bases(modules: dict[str, Module], package: str) -> list[str]:
    """Classes of a package that inherit from another one of it which says how, and not only what (Protocol, ABC)."""
    classes = [
        (module, node)
        for module in modules.values()
        if within(module.name, (package,))
        for node in nodes_of(module)
        if isinstance(node, ast.ClassDef)
    ]
    concrete = {node.name for _, node in classes if not {"Protocol", "ABC"} & {name_of(base) for base in node.bases}}
    return [
        f"{module.path}:{node.lineno} {node.name} inherits from {name_of(base)}"
        for module, node in classes
        for base in node.bases
        if name_of(base) in concrete
    ]


def broad_excepts(module: Module) -> list[str]:
    found = []
    for node in nodes_of(module):
        if isinstance(node, ast.ExceptHandler) and not within(module.name, BROAD_EXCEPT_DOORS):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = [None if kind is None else ast.unparse(kind) for kind in kinds]
            if {None, "Exception", "BaseException"} & set(names):
                found.append(f"{module.path}:{node.lineno} catches everything")
    return found


def text_files() -> Iterator[Path]:
    waiting = [ROOT]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir():
                if path.name not in SKIPPED_FOLDERS and not path.name.startswith(".venv") and "cache" not in path.name:
                    waiting.append(path)
            elif path.suffix not in BINARY_SUFFIXES and path.stat().st_size < 4_000_000:
                yield path


def test_pure_modules_reach_nothing_of_the_world() -> None:
    pure = [module for name, module in sources().items() if within(name, PURE)]
    assert [step for module in pure for step in impurities(module, sources())] == []


MARKED_PURE = re.compile(r"^  ((?:[a-z_*/]+, )*[a-z_*/]+) +pure:", re.MULTILINE)


def test_what_the_map_calls_pure_is_held_to_it() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    replica = text[text.index("\nreplica/") : text.index("\nstorage/")]
    names = [name for found in MARKED_PURE.findall(replica) for name in found.split(", ")]
    marked = {f"replica.{name.strip('/').replace('/', '.')}" for name in names}
    known = {pattern: [each for each in sources() if within(each, (pattern,))] for pattern in marked}
    assert [pattern for pattern, names in known.items() if not names] == [], "the map names what is not there"
    assert sorted(name for names in known.values() for name in names if not within(name, PURE)) == []
    assert len(marked) > 15


def test_imports_follow_the_arrows() -> None:
    assert [line for module in sources().values() for line in wrong_arrows(module)] == []


def test_packages_import_only_what_stands_below_them() -> None:
    assert [line for module in sources().values() for line in wrong_layers(module)] == []
    named = {f"{package}.{name}" for package, rows in LAYERS.items() for row in rows for name in row if name != OWN}
    assert sorted(named - sources().keys()) == [], "a row names what is not there"


def test_each_package_says_what_it_decides_and_what_it_never_does() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    layered = {f"{package}.{name}" for package, rows in LAYERS.items() for row in rows for name in row}
    for name in (name for name in layered if name.startswith("replica.") and name in sources()):
        module = sources()[name]
        if module.path.endswith("__init__.py"):
            said = (ast.get_docstring(module.tree) or "").splitlines()[0].removesuffix(".")
            assert " never " in said, f"{module.path}: say it in its first sentence"
            folder = f"  {name.removeprefix('replica.').replace('.', '/')}/ "
            shown = [line for line in text.splitlines() if line.startswith(folder)]
            assert [line[-len(said) + 1 :] for line in shown] == [said[1:]], f"{name}: the map says something else"


def test_no_import_leads_back_to_where_it_started() -> None:
    assert circles(sources()) == [], "put what both name into a module below both"


def test_sizes_stay_within_their_limits() -> None:
    found = {name: lines for module in sources().values() for name, lines in sizes_over_limit(module).items()}
    grown = {name: lines for name, lines in found.items() if lines > TOO_LONG.get(name, 0)}
    assert grown == {}, "over the limit: split it where a sentence describes each half"
    assert TOO_LONG.keys() - found.keys() == set(), "no longer too long: take it off the list"


def test_no_class_of_the_manager_inherits_from_another_one() -> None:
    assert concrete_bases(sources(), "replica") == []


def test_only_the_boundary_catches_everything() -> None:
    assert [line for module in sources().values() for line in broad_excepts(module)] == []


def test_no_file_names_a_package_registry() -> None:
    found = []
    for path in text_files():
        text = path.read_text(errors="replace").lower()
        found += [f"{path.relative_to(ROOT)} names {host}" for host in REGISTRY_HOSTS if host in text]
    assert found == []


@pytest.mark.parametrize("name", SERVER)
def test_no_other_distribution_provides_our_folder_names(name: str) -> None:
    owners = set(importlib.metadata.packages_distributions().get(name, []))
    assert owners <= {"tandemq"}, f"{owners} would shadow our {name}/"


PLANTED = {
    "replica/core/domain.py": "from replica import clockwork\n",
    "replica/clockwork.py": "from time import monotonic\n",
    "replica/machine.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import grpc\n",
    "replica/queue/index.py": "from .. import clockwork\nfrom tandemq.peer.v1 import log_pb2\n",
    "replica/operations/events.py": "from tandemq.peer.v1 import peer_pb2_grpc\n",
}


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("replica/core/domain.py", 1),
        ("replica/machine.py", 0),
        ("replica/queue/index.py", 1),
        ("replica/operations/events.py", 1),
    ],
)
def test_a_planted_impurity_is_found(path: str, count: int) -> None:
    modules = {module.name: module for module in (module_of(name, text) for name, text in PLANTED.items())}
    assert len(impurities(module_of(path, PLANTED[path]), modules)) == count


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("tandemq/client.py", "def serve():\n    import replica.node.loop\n", 1),
        ("tandemq/cli/dev.py", "def serve():\n    import replica.node.loop\n", 0),
        ("tandemq/cli/dev.py", "import replica.node.loop\n", 1),
        ("storage/records.py", "from replica.core.domain import step\n", 1),
        ("storage/records.py", "import lmdb\n", 1),
        ("storage/disk.py", "import lmdb\n", 0),
        ("tandemq/spark/columns.py", "import pyarrow\nfrom pyspark.sql import SparkSession\n", 0),
        ("tandemq/client/journal.py", "import pyarrow.compute\n", 1),
        ("tandemq/cli/queue.py", "def run():\n    from pyspark.sql import SparkSession\n", 1),
        ("tandemq/__init__.py", "from tandemq import spark\n", 1),
        ("failover/promotion.py", "from replica import core\n", 1),
        ("chaos/cluster.py", "import replica\n", 1),
        ("chaos/sim/pair.py", "import replica\n", 0),
        ("chaos/sim/images/run.py", "from chaos.sim.kernel import disk\n", 1),
        ("replica/node/loop.py", "import storage.disk, failover.detector\nfrom tests.support import x\n", 1),
    ],
)
def test_a_planted_arrow_is_found(path: str, text: str, count: int) -> None:
    assert len(wrong_arrows(module_of(path, text))) == count


TYPED_UP = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from chaos.sim.pair.run import Run\n"


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("chaos/sim/tools/cli.py", "from chaos.sim.kernel import net\nimport chaos.sim.world.world\n", 0),
        ("chaos/sim/kernel/net.py", "from chaos.sim.kernel.loop import make_loop\nfrom . import wire\n", 0),
        ("chaos/sim/kernel/net.py", "from chaos.sim.pair.run import Run\n", 1),
        ("chaos/sim/kernel/net.py", TYPED_UP, 1),
        ("chaos/sim/kernel/net.py", "def late():\n    import chaos.sim.pair.run\n", 1),
        ("chaos/sim/kernel/net.py", "from ..pair import run\nfrom chaos.sim import pair\n", 2),
        ("chaos/sim/kernel/__init__.py", "from ..world import world\n", 1),
        ("chaos/sim/clients/base.py", "from chaos.sim.faults.table import KINDS\n", 1),
        ("chaos/sim/tools/cli.py", "from chaos.sim.images import run\n", 1),
        ("chaos/sim/__init__.py", "from chaos.sim.kernel import net\n", 1),
        ("chaos/sim/__main__.py", "from chaos.sim.tools.cli import root\n", 0),
        ("chaos/sim/alone.py", "", 1),
        ("chaos/cluster.py", "from chaos.sim.bugs import BUGS\n", 0),
        ("chaos/simple.py", "from chaos.sim.bugs import BUGS\n", 0),
        ("replica/core/state/log.py", "from replica.core.ordering.orders import Orders\n", 1),
        ("replica/core/ordering/orders.py", "from replica.core.ordering.desk import Desk\n", 0),
        ("replica/core/handoff/handoff.py", "from replica.core.delivery.consumers import Consumers\n", 1),
        ("replica/core/state/log.py", "def late():\n    from replica.node import loop\n", 1),
        ("replica/core/domain.py", "import replica.core.handoff.handoff\n", 0),
        ("replica/core/handoff/handoff.py", "from replica.core.domain import Domain\n", 1),
        ("replica/machine/__init__.py", "from replica.machine.state.state import State\n", 0),
        ("replica/machine/state/queue.py", "from .. import Machine\n", 1),
        ("replica/machine/state/queue.py", "from ..plan import lease\nfrom ..sets import ranges\n", 1),
        ("replica/services/answers.py", "from replica.services.admin import queues\n", 1),
        ("replica/services/admin/queues.py", "from replica.services import answers\n", 0),
        ("replica/loose.py", "", 1),
    ],
)
def test_a_planted_import_of_a_layer_above_or_beside_is_found(path: str, text: str, count: int) -> None:
    assert len(wrong_layers(module_of(path, text))) == count


TYPE_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from replica.low import Low\n"


@pytest.mark.parametrize(
    ("imports", "names"),
    [
        ("from replica.low import Low\n", ["replica.high", "replica.low"]),
        (TYPE_ONLY, ["replica.high", "replica.low"]),
        ("def late():\n    from replica.low import Low\n", ["replica.high", "replica.low"]),
        ("class A:\n    def late(self):\n        import replica.low\n", ["replica.high", "replica.low"]),
        ("from .low import Low\n", ["replica.high", "replica.low"]),
        ("from . import low\n", ["replica.high", "replica.low"]),
        ("from replica.parts import Low\n", ["replica.high", "replica.low", "replica.parts"]),
        ("from replica.parts.alone import Alone\n", ["replica.high", "replica.low", "replica.parts"]),
        ("from replica.parts import alone\n", ["replica.high", "replica.low", "replica.parts"]),
        ("from replica.lower import Lower\n", []),
    ],
)
def test_a_planted_circle_is_found(imports: str, names: list[str]) -> None:
    texts = {
        "replica/high.py": imports,
        "replica/low.py": "from replica.high import High\nimport replica.lower\n",
        "replica/lower.py": "",
        "replica/parts/__init__.py": "from replica.low import Low\n",
        "replica/parts/alone.py": "",
        "replica/top.py": "import replica.high, replica.low\n",
    }
    found = circles({module.name: module for module in (module_of(path, text) for path, text in texts.items())})
    assert found == ([names] if names else [])


def test_a_planted_concrete_base_is_found() -> None:
    texts = {
        "replica/a.py": "class Row:\n    pass\n\n\nclass Ask(Protocol):\n    pass\n\n\nclass Asks(Ask):\n    pass\n",
        "replica/b.py": "class Wider(a.Row):\n    pass\n\n\nclass Of(Generic[T], Row[int]):\n    pass\n",
        "storage/c.py": "class Elsewhere(Row):\n    pass\n",
    }
    modules = {module.name: module for module in (module_of(path, text) for path, text in texts.items())}
    found = concrete_bases(modules, "replica")
    assert found == ["replica/b.py:1 Wider inherits from Row", "replica/b.py:5 Of inherits from Row"]


def test_planted_sizes_and_excepts_are_found() -> None:
    long_function = "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX
    assert sizes_over_limit(module_of("replica/node/loop.py", long_function)) == {
        "replica/node/loop.py::f": FUNCTION_LINES_MAX + 1
    }
    lines = "x = 1\n" * (FILE_LINES_MAX + 1)
    assert sizes_over_limit(module_of("replica/core/domain.py", lines)) == {
        "replica/core/domain.py": FILE_LINES_MAX + 1
    }
    assert sizes_over_limit(module_of("tests/test_domain.py", lines)) == {}
    assert sizes_over_limit(module_of("tandemq/client/domain_generated.py", lines)) == {}

    for caught in ("", " Exception", " (ValueError, BaseException)"):
        text = f"try:\n    pass\nexcept{caught}:\n    pass\n"
        assert len(broad_excepts(module_of("tandemq/client.py", text))) == 1
        assert broad_excepts(module_of("replica/node/loop.py", text)) == []
