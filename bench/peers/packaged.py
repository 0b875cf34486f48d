"""A peer that Debian packages, in a version that is at hand: the newest, or, as a peer of its own, the older.

The machine has one, and a root of a newer Debian may have another (`bench.peers.programs`). Which one it was is in the
title, in the versions, and read back from the running process like any setting.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar

from bench.peers.contract import Peer, Setting
from bench.peers.place import BenchError, said
from bench.peers.programs import OWN, Installed, Programs, Version, by_age, newest_root

OLDER = "-older"
"""Ends the name of a peer that is the older version of another."""


class Packaged(Peer):
    """Of the newest version; `older`: of the oldest beside it."""

    product: ClassVar[str]
    form: ClassVar[str]  # what stands behind product and version in tables
    older: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def needed(cls, programs: Programs) -> tuple[str, ...]:
        """Paths, or names on PATH, as they are called where these programs are."""

    @classmethod
    @abstractmethod
    def version_in(cls, programs: Programs) -> str:
        """Of the server; asked only where all that is needed is there."""

    @classmethod
    def at_hand(cls) -> list[Installed]:
        """Newest first."""
        places = [OWN, *([root] if (root := newest_root().root) else [])]
        whole = [each for each in places if all(map(each.have, cls.needed(each)))]
        return by_age([Installed(Version.of(cls.version_in(each)), each) for each in whole])

    @cached_property
    def _at_hand(self) -> list[Installed]:
        return self.at_hand()

    @property
    def _chosen(self) -> Installed | None:
        if self.older:
            return self._at_hand[-1] if len(self._at_hand) > 1 else None
        return self._at_hand[0] if self._at_hand else None

    @property
    def installed(self) -> Installed:
        if (chosen := self._chosen) is None:
            raise BenchError(f"{self.name} is not installed")
        return chosen

    @property
    def title(self) -> str:  # type: ignore[override]
        """With the version, of which two may stand in one table."""
        version = f" {chosen.version.series}" if (chosen := self._chosen) else ""
        return f"{self.product}{version}{self.form}"

    def missing(self) -> list[str]:
        found = super().missing()
        if self._chosen:
            return found
        if self._at_hand:
            return [*found, f"version of {self.product} beside {self._at_hand[0].version.text}"]
        return [*found, *(program for program in self.needed(OWN) if not OWN.have(program))]

    def lacking(self, programs: Callable[[], Sequence[str]]) -> list[str]:
        """Of further programs, where this version is; nothing more where it is nowhere."""
        if self._chosen is None:
            return []
        return [program for program in programs() if not self._chosen.programs.have(program)]

    def origin(self) -> str:
        return self.installed.programs.title

    def command(self, *words: str) -> list[str]:
        """What starts the words, which name a program of the peer."""
        return [*self.installed.programs.prefix, *words]

    def said(self, *words: str) -> str:
        """What a program of the peer prints; fails when it does."""
        return said(*words, prefix=self.installed.programs.prefix, where=self.place.folder)

    def version_setting(self, running: str) -> Setting:
        """That the server which answers is the one that was chosen."""
        return Setting("version", self.installed.version.text, running)
