"""Classes of ours as their sources say them: what they are made of, and of which class an expression may be. Reads
syntax trees, imports nothing that it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

BORN = ("__init__", "__post_init__", "__new__")
"""Where attributes of an object may be born."""


class Module(Protocol):
    """As `tests.test_layout` reads them."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def tree(self) -> ast.Module: ...


@dataclass(frozen=True, slots=True)
class Class:
    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def bases(self) -> tuple[str, ...]:
        return tuple(last_name(base) for base in self.node.bases)

    @property
    def where(self) -> str:
        return f"{self.module.path}:{self.node.lineno}"

    def methods(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        yield from (item for item in self.node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))

    def fields(self) -> set[str]:
        """Names that the class's own body declares."""
        found = set()
        for item in self.node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                found.add(item.target.id)
            elif isinstance(item, ast.Assign):
                found |= {target.id for target in item.targets if isinstance(target, ast.Name)}
            elif isinstance(item, ast.FunctionDef) and any(last_name(each) == "setter" for each in item.decorator_list):
                found.add(item.name)
        return found


def last_name(node: ast.expr) -> str:
    """Of `a.b.C[T]` it is "C"."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return ast.unparse(node).rpartition(".")[2]


def classes_of(modules: Collection[Module]) -> list[Class]:
    return [
        Class(module, node) for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    ]


def by_name(classes: Collection[Class]) -> dict[str, list[Class]]:
    found: dict[str, list[Class]] = {}
    for each in classes:
        found.setdefault(each.name, []).append(each)
    return found


def assigned(node: ast.AST) -> Iterator[tuple[ast.Attribute, ast.stmt]]:
    """Every attribute that a statement in there assigns, with the statement."""
    for item in ast.walk(node):
        targets: list[ast.expr] = []
        if isinstance(item, ast.Assign):
            targets = list(item.targets)
        elif isinstance(item, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
            targets = [item.target]
        elif isinstance(item, ast.With | ast.AsyncWith):
            targets = [each.optional_vars for each in item.items if each.optional_vars is not None]
        elif isinstance(item, ast.Delete):
            targets = list(item.targets)
        while targets:
            target = targets.pop()
            if isinstance(target, ast.Tuple | ast.List):
                targets += target.elts
            elif isinstance(target, ast.Starred):
                targets.append(target.value)
            elif isinstance(target, ast.Attribute):
                yield target, item  # type: ignore[misc]


def is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"


def own_attributes(each: Class, known: Mapping[str, list[Class]], seen: frozenset[str] = frozenset()) -> set[str]:
    """Attributes that a class's own body and its `__init__` give it, and those of its own bases."""
    found = each.fields()
    for method in each.methods():
        if method.name in BORN:
            found |= {target.attr for target, _ in assigned(method) if is_own(target)}
    for base in set(each.bases) - seen - {each.name}:
        for own in known.get(base, ()):
            found |= own_attributes(own, known, seen | {base})
    return found


class Types:
    """Which classes of ours an expression may be of, as far as annotations and `__init__` say. A container stands for
    what is in it.
    """

    def __init__(self, modules: Collection[Module]) -> None:
        self.classes = by_name(classes_of(modules))
        self._aliases = {
            ast.unparse(item.targets[0]): item.value
            for module in modules
            for item in module.tree.body
            if isinstance(item, ast.Assign)
        }
        self._of: dict[tuple[str, str], set[str]] = {}
        for name, each in ((name, each) for name, owners in self.classes.items() for each in owners):
            for item in each.node.body:
                if isinstance(item, ast.AnnAssign):
                    self._note(name, ast.unparse(item.target), self.named(item.annotation))
                elif isinstance(item, ast.FunctionDef) and item.returns is not None:
                    self._note(name, item.name, self.named(item.returns))
        for name, each in ((name, each) for name, owners in self.classes.items() for each in owners):
            for method in each.methods():
                if method.name == "__init__":
                    names = self.names_in(method, name)
                    for target, item in assigned(method):
                        if is_own(target) and isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None:
                            declared = item.annotation if isinstance(item, ast.AnnAssign) else None
                            found = self.of(item.value, names) | (self.named(declared) if declared else set())
                            self._note(name, target.attr, found)

    def _note(self, owner: str, attribute: str, found: set[str]) -> None:
        self._of.setdefault((owner, attribute), set()).update(found)

    def named(self, annotation: ast.expr, seen: frozenset[str] = frozenset()) -> set[str]:
        """Classes of ours that an annotation names, also in a string or by an alias."""
        found: set[str] = set()
        for node in ast.walk(annotation):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= self.named(ast.parse(node.value, mode="eval").body, seen)
            if name in self.classes:
                found.add(name)
            elif name in self._aliases and name not in seen:
                found |= self.named(self._aliases[name], seen | {name})
        return found

    def names_in(self, method: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> dict[str, set[str]]:
        """What the names of a function stand for."""
        names = {"self": {owner}} if owner else {}
        for node in ast.walk(method):
            if isinstance(node, ast.arg) and node.annotation is not None:
                names[node.arg] = self.named(node.annotation)
        for _ in range(2):  # a name may be taken from one that is bound further down
            for node in ast.walk(method):
                pairs: list[tuple[ast.expr, ast.expr]] = []
                if isinstance(node, ast.Assign):
                    pairs = [(target, node.value) for target in node.targets]
                elif isinstance(node, ast.NamedExpr):
                    pairs = [(node.target, node.value)]
                elif isinstance(node, ast.For | ast.comprehension):
                    pairs = [(node.target, node.iter)]
                for target, value in pairs:
                    self._bind(target, value, names)
        return names

    def _bind(self, target: ast.expr, value: ast.expr, names: dict[str, set[str]]) -> None:
        if isinstance(target, ast.Name):
            names.setdefault(target.id, set()).update(self.of(value, names))
        elif isinstance(target, ast.Tuple):
            values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else ()
            for at, each in enumerate(target.elts):
                self._bind(each, values[at] if values else value, names)

    def _attribute(self, holder: str, attribute: str) -> set[str]:
        bases = {base for each in self.classes.get(holder, ()) for base in each.bases if base != holder}
        return self._of.get((holder, attribute), set()).union(*(self._attribute(base, attribute) for base in bases))

    def of(self, node: ast.expr, names: Mapping[str, set[str]]) -> set[str]:
        match node:
            case ast.Name(id=name):
                return names.get(name, set())
            case ast.Attribute(value=value, attr=attribute):
                return set().union(*(self._attribute(holder, attribute) for holder in self.of(value, names)))
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                return {name}
            case ast.Call(func=ast.Attribute(value=value) as func):
                return self.of(func, names) or self.of(value, names)  # `calls.popleft()` is one of the calls
            case ast.Call(args=args):
                return set().union(*(self.of(each, names) for each in args))  # `reversed(calls)`
            case ast.Subscript(value=value) | ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.of(value, names)
            case ast.IfExp(body=body, orelse=orelse):
                return self.of(body, names) | self.of(orelse, names)
            case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
                return set().union(*(self.of(each, names) for each in values))
        return set()
