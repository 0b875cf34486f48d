"""A pair for tests: what the fixtures of the pytest plugin give, for annotations. docs/PYTEST.md shows how to use them.

Nothing here imports gRPC or the server; both run in a process of their own. Names are imported when they are asked for,
because pytest imports this package at each of its starts.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandemq.testing.faults import Chaos
    from tandemq.testing.host import TandemqTestError
    from tandemq.testing.pair import Pair, Principal, Witness
    from tandemq.testing.workload import PromiseBroken, Verdict, Workload

__all__ = ["Chaos", "Pair", "Principal", "PromiseBroken", "TandemqTestError", "Verdict", "Witness", "Workload"]

_HOMES = MappingProxyType(
    {
        "Chaos": "faults",
        "Pair": "pair",
        "Principal": "pair",
        "PromiseBroken": "workload",
        "TandemqTestError": "host",
        "Verdict": "workload",
        "Witness": "pair",
        "Workload": "workload",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tandemq.testing' has no attribute {name!r}")
    return getattr(import_module(f"tandemq.testing.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
