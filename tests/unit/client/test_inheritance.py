"""No class of the client inherits code to share it: what two need is a function, or something that both hold."""

from __future__ import annotations

import inspect
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple, Protocol

import tandemq.client
from tandemq.errors import TandemqError

IS_A = {
    # A user may hand each to whoever takes the other: a leased message can be read, a batch is a sequence of messages.
    ("Delivery", "ReceivedMessage"),
    ("DeliveryBatch", "MessageBatch"),
    ("ReceivedBatch", "MessageBatch"),
}


def classes_of_the_client() -> Iterator[type]:
    for found in pkgutil.iter_modules(tandemq.client.__path__, "tandemq.client."):
        module = import_module(found.name)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == found.name:
                yield cls


def own(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("tandemq", "tests")


def is_bare(cls: type) -> bool:
    """It has no code: what it asks for is written by who inherits from it."""
    methods = [member for member in vars(cls).values() if inspect.isfunction(member)]
    return inspect.isabstract(cls) and all(getattr(method, "__isabstractmethod__", False) for method in methods)


def wrong_bases(cls: type) -> list[str]:
    return [
        f"{cls.__qualname__} inherits from {base.__qualname__}"
        for base in cls.__bases__
        if own(base)
        and not getattr(base, "_is_protocol", False)
        and not issubclass(base, BaseException)
        and not is_bare(base)
        and (cls.__name__, base.__name__) not in IS_A
    ]


def test_no_class_of_the_client_inherits_code_to_share_it() -> None:
    classes = list(classes_of_the_client())
    assert [line for cls in classes for line in wrong_bases(cls)] == []
    pairs = {(cls.__name__, base.__name__) for cls in classes for base in cls.__bases__}
    assert IS_A - pairs == set(), "an exception that is no longer needed"
    assert {cls.__name__ for cls in classes} >= {"Client", "Producer", "Bridge", "Callbacks"}


class Concrete:
    def call(self) -> None: ...


class Asked(Protocol):
    def call(self) -> None: ...


class Bare(ABC):
    @abstractmethod
    def call(self) -> None: ...


class Half(ABC):
    @abstractmethod
    def call(self) -> None: ...

    def twice(self) -> None:
        self.call()


class Pair(NamedTuple):
    first: int


def test_a_planted_mixin_is_found() -> None:
    class Mixed(Concrete): ...

    class Template(Half): ...

    class Second(Bare, Concrete): ...

    class Wider(Pair): ...

    found = [line.rpartition(" ")[2] for cls in (Mixed, Template, Second, Wider) for line in wrong_bases(cls)]
    assert found == ["Concrete", "Half", "Concrete", "Pair"]


def test_what_has_no_code_may_be_inherited_from() -> None:
    class Satisfies(Asked): ...

    class Fills(Bare): ...

    class FailedError(TandemqError): ...

    class Row(NamedTuple):
        first: int

    assert [line for cls in (Satisfies, Fills, FailedError, Row) for line in wrong_bases(cls)] == []
