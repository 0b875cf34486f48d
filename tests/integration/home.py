"""A user's settings of its own, and the command line run with them. The bound of a command is the test's time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.fork_server import ForkServer, handed_on
from chaos.ports import PortRange, ports_in_use

FREEZE = """
name = "mine"
repeat = 1
[steady]
warm_up_s = 1
[[method]]
fault = "freeze"
for_s = 600
"""


class Home:
    """One user."""

    def __init__(self, folder: Path, commands: ForkServer) -> None:
        """commands: forks those that are only waited for."""
        self.folder, self.commands = folder, commands
        own = {"TANDEMQ_CONFIG_HOME": str(folder / "home"), "NO_COLOR": "1"}
        self.environment = {**os.environ, **handed_on(), **own}
        self.environment.pop("TANDEMQ_TARGET", None)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tandemq", *arguments],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, code: int | None = 0) -> str:
        """What it said; `code` None: it may end with any."""
        done = self.commands.run(["tandemq", *arguments], environment=self.environment, directory=self.folder)
        said = done.stdout + done.stderr
        assert code in (None, done.returncode), said
        return said

    @contextmanager
    def dev(self, *options: str) -> Iterator[int]:
        """A pair of `tandemq dev`; its base port."""
        with PortRange() as held:
            base = held.base_port
            process = self.start("dev", "--data-dir", str(self.folder / "pair"), "--base-port", str(base), *options)
            try:
                assert process.stdout is not None
                assert any(re.search("ready: a at", line) for line in process.stdout)
                yield base
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate()
            assert ports_in_use(base) == []

    def queues(self) -> list[object]:
        found: list[object] = json.loads(self.run("queue", "ls", "-o", "json"))["queues"]
        return found

    def drill(self, text: str) -> str:
        path = self.folder / "mine.toml"
        path.write_text(text)
        return str(path)


def facts(directory: Path) -> dict[str, object]:
    """Of a drill's report."""
    found: dict[str, object] = json.loads((directory / "result.json").read_text())
    return found
