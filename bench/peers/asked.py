"""A process of the harness that obeys lines of JSON and answers each with one line; its log stands in its folder."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bench.peers.place import KILLED_WITH_US, ROOT, BenchError, Place

TAIL_LINES = 12
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


class Asked:
    """`python -m module '{spec}'`, ended with whoever started it."""

    def __init__(
        self,
        place: Place,
        role: str,
        module: str,
        spec: Mapping[str, Any],
        answer_s: float,
        environment: Mapping[str, str] = NOTHING_MORE,
    ) -> None:
        self._place, self._role, self._answer_s = place, role, answer_s
        self._folder = place.role(role)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*KILLED_WITH_US, sys.executable, "-P", "-m", module, json.dumps(spec)],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            )
        self.pid = self._process.pid

    def ask(self, what: Mapping[str, Any], called: str) -> dict[str, Any]:
        """Its answer. Raises BenchError with the end of its log when there is none in time; `called`: what failed."""
        process = self._process
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], self._answer_s)  # one line at most waits there
            line = process.stdout.readline() if ready else ""
        except BrokenPipeError:
            line = ""
        if not line:
            tail = (self._folder / "log").read_text(errors="replace").splitlines()[-TAIL_LINES:]
            raise BenchError("\n".join([f"the load of {called} failed:", *tail]))
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._place.end(self._role)
