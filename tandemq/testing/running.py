"""Starts the pair that a test wants, ends it with the test or keeps it for the next, and tells of it in reports."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tandemq.testing import host as hosts
from tandemq.testing.faults import Chaos
from tandemq.testing.host import Host, TandemqTestError
from tandemq.testing.logs import merged, shown
from tandemq.testing.pair import Pair, Witness
from tandemq.testing.settings import Settings

HISTORY_S = 10.0
CLEAR_S = 90.0
STARTING_S = 60.0  # beyond what the pair itself may take
NAME_MAX = 100


@dataclass
class Run:
    """What one test has."""

    settings: Settings
    toxiproxy: Path | None
    directory: Path
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    process: Host | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> Host:
        assert self.process is not None, "it was started"
        return self.process

    def look_up(self) -> None:
        """Once the pair runs."""
        self.pair = Pair(self.host, self.facts, self.directory)
        self.witness = Witness(self.host, self.facts)
        self.chaos = Chaos(self.host, self.settings.seed)

    def is_like(self, other: Run) -> bool:
        """Wants the same pair."""
        mine, theirs = self.settings, other.settings
        kinds = [(each.profile, each.config, each.secure) for each in (mine, theirs)]
        return kinds[0] == kinds[1] and self.toxiproxy == other.toxiproxy

    def sections(self, item: pytest.Item) -> Iterator[tuple[str, str]]:
        """For the report of a failure."""
        root, here = item.config.rootpath, item.config.invocation_params.dir
        where = "" if root == here else f"cd {shlex.quote(os.path.relpath(root, here))} && "
        seed = self.settings.seed
        command = f"{where}python -m pytest {shlex.quote(item.nodeid)} --tandemq-seed={seed}"
        yield "tandemq: repeat", f"seed {seed}\n{command}"
        files = sorted((self.directory / "logs").glob("*.log"))
        lines = merged(files, self.began)
        yield "tandemq: logs merged by time", "\n".join([shown(lines), f"files: {self.directory / 'logs'}"])
        if directory := item.config.getoption("--tandemq-report"):
            kept = self._keep(Path(directory) / re.sub(r"[^\w.-]+", "_", item.nodeid)[-NAME_MAX:], files, command)
            yield "tandemq: kept", str(kept)

    def _keep(self, directory: Path, files: list[Path], command: str) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        for path in files:
            shutil.copy(path, directory)
        lines = merged(files, self.began)
        (directory / "merged.txt").write_text(shown(lines, len(lines)) + "\n")
        (directory / "repeat.txt").write_text(command + "\n")
        if self.facts and not hosts.interrupted:
            with contextlib.suppress(TandemqTestError):
                history = directory.resolve() / "history.jsonl"
                self.host.ask("history", answer_s=HISTORY_S, path=str(history))
        return directory


class Running:
    """The pairs of this process: one at a time, and with `keep` the last one until another is wanted."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._kept: Run | None = None

    def prepare(self, settings: Settings, toxiproxy: Path | None, directories: pytest.TempPathFactory) -> Run:
        """Says where the run will be; nothing is started."""
        return Run(settings, toxiproxy, directories.mktemp("tandemq"))

    def start(self, run: Run) -> None:
        """A pair that is whole and empty. A test whose pair cannot start fails."""
        kept, self._kept = self._kept, None
        if kept is not None and kept.is_like(run) and self._is_cleared(kept):
            run.process, run.facts, run.directory = kept.process, kept.facts, kept.directory
        else:
            if kept is not None:
                kept.host.close()
            self._start(run)
        run.look_up()

    def _is_cleared(self, kept: Run) -> bool:
        try:
            kept.host.ask("clear", answer_s=CLEAR_S)
        except TandemqTestError:
            return False
        return True

    def _start(self, run: Run) -> None:
        settings, problem = run.settings, ""
        run.process = Host(run.directory / "logs" / "keeper.log")
        try:
            run.facts = run.process.ask(
                "start",
                answer_s=settings.ready_s + STARTING_S,
                data_dir=str(run.directory),
                toxiproxy=str(run.toxiproxy or ""),
                profile=settings.profile,
                ready_s=settings.ready_s,
                secure=settings.secure,
                config={section: dict(keys) for section, keys in settings.config.items()},
            )
        except TandemqTestError as error:
            problem = f"the pair did not start: {error}"
        finally:
            if not run.facts:  # also after Ctrl-C
                run.process.close()
        if problem:
            pytest.fail(problem, pytrace=False)

    def end(self, run: Run, *, sound: bool) -> None:
        """Ends the pair, or keeps it. The test fails when a process had ended by itself, or a port is still taken."""
        if self._keep and sound and not hosts.interrupted and self._is_alive(run):
            self._kept = run
            return
        problems: list[str] = []
        try:
            if not hosts.interrupted:
                found = run.host.ask("stop")
                problems = [*found["died"], *(f"port {port} is still taken" for port in found["ports"])]
        except TandemqTestError as error:
            problems = [str(error)]
        finally:
            run.host.close()
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

    def _is_alive(self, run: Run) -> bool:
        """Nothing of it ended by itself: the next test would be told of it, not the one in which it did."""
        try:
            return not run.host.ask("died")
        except TandemqTestError:
            return False

    def close(self) -> None:
        """Ends what was kept."""
        if self._kept is not None:
            self._kept.host.close()
            self._kept = None
