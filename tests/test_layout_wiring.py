"""A part is wired when it is built: what listens to it, and what it asks, are arguments of its constructor. A hook that
does nothing until somebody overwrites it is a wire that can be forgotten without a word.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_layout import Module, module_of, sources, within

WIRED = ("replica.node", "replica.peer", "replica.operations", "replica.manager", "replica.reactions")


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value, node.lineno) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value, node.lineno


def hooks(module: Module) -> list[str]:
    """Attributes that begin as a lambda, and handlers of another object that are set from outside."""
    found = []
    for target, value, line in _assigned(module.tree):
        where = f"{module.path}:{line}"
        if not isinstance(target, ast.Attribute):
            continue
        own = isinstance(target.value, ast.Name) and target.value.id == "self"
        if isinstance(value, ast.Lambda):
            found.append(f"{where}: {target.attr} is a lambda")
        elif target.attr.startswith("on_") and not own:
            found.append(f"{where}: {target.attr} of another object is set")
    return found


def test_no_part_has_a_hook_that_somebody_may_forget() -> None:
    wired = [module for module in sources().values() if within(module.name, WIRED)]
    assert len(wired) > len(WIRED)
    assert [hook for module in wired for hook in hooks(module)] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("class Node:\n    def __init__(self):\n        self.on_role: Hook = lambda _domain: None\n", 1),
        ("def wire(link, proving):\n    link.counted = lambda: proving.counted\n", 1),
        ("def wire(node, operator):\n    node.on_note = operator.on_note\n", 1),
        ("class Link:\n    def __init__(self, listener):\n        self.on_refused = listener.on_refused\n", 0),
        ("class Node:\n    def __init__(self):\n        self.on_tick: list[Hook] = []\n", 0),
    ],
)
def test_a_planted_hook_is_found(text: str, count: int) -> None:
    assert len(hooks(module_of("replica/node/planted.py", text))) == count
