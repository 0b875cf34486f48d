"""Names what a lying disk does to one process, and carries it out on files that nobody has open."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from chaos.lying import pages
from chaos.lying.pages import DATA_FILE, LOG_FILE, MARK_FILE

HOLDER, REPLICA, WITNESS = "holder", "replica", "witness"
SMALL, LARGE = "small", "large"
"""Batches for the commit log, or such that go to the database directly."""
HURT_FIRST, OTHER_FIRST = "hurt-first", "other-first"
WRITES_MAX = 3


class Damage(NamedTuple):
    """`hurt(directory, copy, writes)`: the copy is of `writes` acknowledged batches before."""

    load: str
    hurt: Callable[[Path, Path, int], None]


def _of_file(name: str, way: Callable[[Path], None]) -> Callable[[Path, Path, int], None]:
    return lambda directory, _copy, _writes: way(directory / name)


def _of_log(way: Callable[[Path, int], None]) -> Callable[[Path, Path, int], None]:
    return lambda directory, _copy, writes: way(directory / LOG_FILE, writes)


def _back(*names: str) -> Callable[[Path, Path, int], None]:
    def hurt(directory: Path, copy: Path, writes: int) -> None:
        del writes
        for name in names:
            if (copy / name).exists():
                shutil.copyfile(copy / name, directory / name)

    return hurt


MEMBER_KINDS = {
    "meta-bit": Damage(LARGE, _of_file(DATA_FILE, pages.flip_meta)),
    "meta-back": Damage(LARGE, _of_file(DATA_FILE, pages.take_meta_back)),
    "meta-zero": Damage(LARGE, _of_file(DATA_FILE, pages.zero_meta)),
    "data-back": Damage(LARGE, _back(DATA_FILE)),
    "log-cut": Damage(SMALL, _of_log(pages.cut_log)),
    "log-zero": Damage(SMALL, _of_log(pages.zero_log)),
    "log-bit": Damage(SMALL, _of_log(pages.flip_log)),
    "log-back": Damage(SMALL, _back(LOG_FILE)),
    "all-back": Damage(SMALL, _back(DATA_FILE, LOG_FILE, MARK_FILE)),
    "all-back-large": Damage(LARGE, _back(DATA_FILE, LOG_FILE, MARK_FILE)),
}
WITNESS_KINDS = {
    "meta-bit": Damage(SMALL, _of_file(DATA_FILE, pages.flip_meta)),
    "meta-back": Damage(SMALL, _of_file(DATA_FILE, pages.take_meta_back)),
    "data-back": Damage(SMALL, _back(DATA_FILE)),
}


class Plan(NamedTuple):
    """One round, whole: the same plan does the same."""

    number: int
    victim: str
    kind: str
    writes: int
    """How many acknowledged batches, or entries of the log, are hurt."""
    order: str
    busy: bool
    """Several producers with batches under way when it is killed; else one that has its answer."""
    alone: bool = False
    """The other member stays away."""

    @property
    def damage(self) -> Damage:
        return (WITNESS_KINDS if self.victim == WITNESS else MEMBER_KINDS)[self.kind]


def plans(rounds: int, alone: int, seed: int) -> list[Plan]:
    """Every kind at every victim in both orders comes before any comes twice; then those in which one starts alone."""
    chance = random.Random(seed)
    every = [(HOLDER, kind) for kind in MEMBER_KINDS] + [(REPLICA, kind) for kind in MEMBER_KINDS]
    every += [(WITNESS, kind) for kind in WITNESS_KINDS]
    found: list[Plan] = []
    while len(found) < rounds:
        turn = [(victim, kind, order) for order in (HURT_FIRST, OTHER_FIRST) for victim, kind in every]
        chance.shuffle(turn)
        for victim, kind, order in turn[: rounds - len(found)]:
            writes, busy = chance.randint(1, WRITES_MAX), chance.random() < 0.5
            found.append(Plan(len(found) + 1, victim, kind, writes, order, busy))
    kinds = list(MEMBER_KINDS)
    chance.shuffle(kinds)
    for number in range(alone):
        kind = kinds[number % len(kinds)]
        found.append(Plan(len(found) + 1, HOLDER, kind, 1, HURT_FIRST, busy=False, alone=True))
    return found
