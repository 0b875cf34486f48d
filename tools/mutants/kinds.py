"""What a small bug is: each kind makes one change to the syntax tree of a function. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one function of one module."""

    module: str
    path: str
    function: str
    """Qualified, as in a traceback."""
    line: int
    kind: str
    before: str
    """The changed part, as source."""
    number: int
    """Which change of the function this is."""
    ordinal: int = 1
    """Which of its equals this is: of those of one kind and source in the function."""

    @property
    def key(self) -> str:
        """Stays while the function does: no line in it. The first of several equal ones has no ordinal in its key."""
        plain = f"{self.path}::{self.function}::{self.kind}::{self.before}"
        return plain if self.ordinal == 1 else f"{plain}::{self.ordinal}"


def mutants_of(module: str, path: str, source: str) -> list[Mutant]:
    """Every change that can be made to the functions of a module, in the order of the source."""
    found = []
    for name, function in functions_of(ast.parse(source)):
        equals: Counter[tuple[str, str]] = Counter()
        for number, (node, kind) in enumerate(_changes(function)):
            before = " ".join(ast.unparse(node).split())
            equals[kind, before] += 1
            line = getattr(node, "lineno", function.lineno)
            found.append(Mutant(module, path, name, line, kind, before, number, equals[kind, before]))
    return found


def functions_of(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Functions of the module and of its classes, but those of one name, as of a property that can be set, and what an
    object looks like to whoever debugs it; a function within one is part of that.
    """
    found: dict[str, list[Function]] = {}
    waiting: list[tuple[str, ast.stmt]] = [("", each) for each in tree.body]
    for prefix, node in waiting:
        if isinstance(node, ast.ClassDef):
            waiting += [(f"{prefix}{node.name}.", each) for each in node.body]
        elif isinstance(node, Function) and node.name != "__repr__":  # for who debugs it
            found.setdefault(f"{prefix}{node.name}", []).append(node)
    return ((name, functions[0]) for name, functions in found.items() if len(functions) == 1)


def code_of(source: str, path: str, mutant: Mutant) -> CodeType:
    """Of the function with the change in it."""
    tree = ast.parse(source)
    function = dict(functions_of(tree))[mutant.function]
    for number, (node, kind) in enumerate(_changes(function)):
        if number == mutant.number:
            _apply(function, node, kind)
            break
    ast.fix_missing_locations(tree)
    return _named(compile(tree, path, "exec"), mutant.function)


def watched_code_of(source: str, path: str, mutants: Sequence[Mutant], call: str) -> CodeType:
    """Of the function of all of them, which calls that global with the key of each before it comes to its statement."""
    tree = ast.parse(source)
    function = dict(functions_of(tree))[mutants[0].function]
    keys = {mutant.number: mutant.key for mutant in mutants}
    before: dict[ast.AST, list[str]] = {}
    statement_of = _statements(function)
    for number, (node, _) in enumerate(_changes(function)):
        if number in keys:
            before.setdefault(statement_of[node], []).append(keys[number])
    _Watched(before, call).visit(function)
    ast.fix_missing_locations(tree)
    return _named(compile(tree, path, "exec"), mutants[0].function)


def _statements(function: Function) -> dict[ast.AST, ast.stmt]:
    """The innermost statement that each node is, or is a part of."""
    found: dict[ast.AST, ast.stmt] = {}
    waiting: list[tuple[ast.AST, ast.stmt]] = [(function, function)]
    for node, around in waiting:
        found[node] = statement = node if isinstance(node, ast.stmt) else around
        waiting += [(child, statement) for child in ast.iter_child_nodes(node)]
    return found


class _Watched(ast.NodeTransformer):
    """Puts calls in front of statements; a transformer takes a list for one of them."""

    def __init__(self, before: Mapping[ast.AST, Sequence[str]], call: str) -> None:
        self._before, self._call = before, call

    def visit(self, node: ast.AST) -> Any:
        keys = self._before.get(node, ())
        self.generic_visit(node)
        calls = [ast.Expr(ast.Call(ast.Name(self._call, ast.Load()), [ast.Constant(key)], [])) for key in keys]
        return [*(ast.copy_location(each, node) for each in calls), node] if calls else node


def _named(code: CodeType, name: str) -> CodeType:
    for part in name.split("."):
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == part)
    return code


def _changes(function: Function) -> Iterator[tuple[ast.AST, str]]:
    """Each node that can be changed, and how; types and docstrings are no behaviour."""
    for node in _behaviour(function):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in _OTHER:
                yield node, "compare"
            case ast.BoolOp():
                yield node, "and-or"
            case ast.UnaryOp(op=ast.Not()):
                yield node, "not"
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                yield node, "plus-minus"
            case ast.Constant(value=bool()):
                yield node, "flip"
            case ast.Constant(value=int()):
                yield node, "constant"
            case ast.If() | ast.While() | ast.IfExp():
                if not isinstance(node.test, ast.Constant):
                    yield node.test, "always"
                yield node.test, "never"
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield node, "drop-call"
            case ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield node, "drop-assignment"
            case ast.Raise() | ast.Continue() | ast.Break():
                yield node, "drop-jump"


def _is_assertion(node: ast.AST) -> bool:
    """`strict` of a zip: as an assert, it says what its author knows to be so."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _behaviour(function: Function) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.AnnAssign):
            waiting[:0] = [node.value] if node.value is not None else []
        elif isinstance(node, ast.JoinedStr | ast.arguments | ast.Assert) or _is_assertion(node):
            continue
        else:
            waiting[:0] = [
                each
                for each in ast.iter_child_nodes(node)
                if not (isinstance(node, Function) and each in (*node.decorator_list, node.returns))
            ]


def _apply(function: Function, node: ast.AST, kind: str) -> None:
    match kind, node:
        case "compare", ast.Compare():
            node.ops = [_OTHER[type(node.ops[0])]()]  # type: ignore[list-item]  # the table pairs operators of a kind
        case "and-or", ast.BoolOp():
            node.op = _OTHER[type(node.op)]()  # type: ignore[assignment]  # as above
        case "plus-minus", ast.BinOp():
            node.op = _OTHER[type(node.op)]()  # type: ignore[assignment]  # as above
        case "flip", ast.Constant():
            node.value = not node.value
        case "constant", ast.Constant(value=int() as number):
            node.value = number + 1
        case "not", ast.UnaryOp():
            _Replace(node, node.operand).visit(function)
        case "always" | "never", ast.expr():
            # What is left out stays where the compiler sees its names: a function keeps the cells that it closes over.
            operator = ast.Or() if kind == "always" else ast.And()
            decided = ast.BoolOp(operator, [ast.Constant(kind == "always"), node])
            _Replace(node, ast.copy_location(decided, node)).visit(function)
        case _:
            assert isinstance(node, ast.stmt)
            _Replace(node, ast.copy_location(ast.If(ast.Constant(value=False), [node], []), node)).visit(function)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)
