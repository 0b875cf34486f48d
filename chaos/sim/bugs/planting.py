"""What a planted bug is, and how a rule is taken out of the product's code for one run; it knows no rule itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


class Patch(Protocol):
    """What takes a rule out: a `Planter`, or pytest's MonkeyPatch.

    It knows no way to change a table in place: a row that is put back stands at the end, and whoever reads the table
    later finds another order. Tables are read-only, and a plant puts another one in their stead.
    """

    def setattr(self, target: object, name: str, value: object, /) -> None:
        """Another attribute of a module, a class or an object."""
        ...


Removal = Callable[[Patch], None]


class Planter:
    """Changes things and puts them back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def setattr(self, target: object, name: str, value: object, /) -> None:
        """See Patch."""
        if isinstance(target, type) and name not in vars(target):  # inherited
            self._undo.append(lambda: delattr(target, name))
        else:
            # Not by getattr, for a class: it would give what a static method or a property stands for.
            before = vars(target)[name] if isinstance(target, type) else getattr(target, name)
            self._undo.append(lambda: setattr(target, name, before))
        setattr(target, name, value)

    def undo(self) -> None:
        """Everything is as it was."""
        while self._undo:
            self._undo.pop()()


@dataclass(frozen=True, slots=True)
class Bug:
    """A rule that can be taken out of the product."""

    name: str
    rule: str
    """Its number: P1 to P22 (reference/protocol-check.md), reliability 1 to 10, R001 (docs/requirements.toml),
    ruling 1, semantics 3.7 (reference/semantics.md), J1, W1, T1 or 0012 (docs/decisions).
    """
    text: str
    """What the product does without it, in a sentence."""
    profile: str
    """Where it is looked for: one that draws much of what it takes."""
    budget: int
    """It must be found within so many seeds, whichever comes first."""
    first: int
    """A seed shortly before one that finds it, for those who have little time."""
    remove: Removal

    @contextmanager
    def plant(self) -> Iterator[None]:
        """The product is without the rule for as long as this lasts."""
        planter = Planter()
        try:
            self.remove(planter)
            yield
        finally:
            planter.undo()


BUGS: dict[str, Bug] = {}


def bug(
    name: str, rule: str, text: str, profile: str, budget: int = 500, first: int = 1
) -> Callable[[Removal], Removal]:
    """Enters what takes a rule out under the name of the bug that this is."""

    def enter(remove: Removal) -> Removal:
        assert name not in BUGS, name
        BUGS[name] = Bug(name, rule, text, profile, budget, first, remove)
        return remove

    return enter
