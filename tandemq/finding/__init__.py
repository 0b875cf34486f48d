"""Finding a manager: names, who knows where a manager is, and which manager is asked when none is named.

What a plug-in in entry-point group `tandemq.resolvers` needs has its names here. Nothing in it connects to a manager.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandemq.finding.file_registry import FileRegistry
    from tandemq.finding.names import FullName
    from tandemq.finding.resolver import Answer, BadEntry, Exported, Manager, Registry, Resolver, ResolverAway
    from tandemq.finding.resolvers import StaticResolver

__all__ = [
    "Answer",
    "BadEntry",
    "Exported",
    "FileRegistry",
    "FullName",
    "Manager",
    "Registry",
    "Resolver",
    "ResolverAway",
    "StaticResolver",
]

_ELSEWHERE = MappingProxyType({"FileRegistry": "file_registry", "FullName": "names", "StaticResolver": "resolvers"})


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"tandemq.finding.{_ELSEWHERE.get(name, 'resolver')}"), name)
    raise AttributeError(f"module 'tandemq.finding' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
