"""Starts the process that keeps a pair, asks it for deeds, and ends it; it knows no deed.

The process ends by itself, and every process of the pair with it, when this one is gone in any way.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

START_S = 30.0
ANSWER_S = 180.0  # the longest deed: faults that are struck for a minute, and a pair that comes together after them
CLOSE_S = 30.0
CHUNK = 1 << 16
TAIL_LINES = 20
interrupted = False
"""Somebody pressed Ctrl-C: what is asked now is to end."""


class TandemqTestError(Exception):
    """The pair did not do what the test asked for; the message says what to do."""


class Host:
    """One such process. Any thread may ask; one question is under way at a time."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._lock = threading.Lock()
        self._last_id = 0
        self._rest = b""
        # What the tests' environment tells a manager is not for this pair.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TANDEMQ_")}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tandemq.testing"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                process_group=0,  # Ctrl-C is for pytest, which then ends it in order
                env=environment,
            )

    @property
    def pid(self) -> int:
        """Of the process that keeps the pair."""
        return self._process.pid

    def ask(self, verb: str, *, answer_s: float = ANSWER_S, **arguments: Any) -> Any:
        """The answer. Raises TandemqTestError: the deed failed, took too long, or the process is gone."""
        with self._lock:
            self._last_id += 1
            line = json.dumps({"id": self._last_id, "verb": verb, "arguments": arguments})
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError) as error:  # the second: closed
                raise self._gone(verb) from error
            answer = self._answer(verb, time.monotonic() + answer_s)
        if answer.get("error"):
            raise TandemqTestError(f"{verb}: {answer['error']}")
        return answer.get("value")

    def _answer(self, verb: str, deadline: float) -> dict[str, Any]:
        """To the last question; answers to questions that were given up are left out."""
        assert self._process.stdout is not None
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                answer: dict[str, Any] = json.loads(line)
                if answer["id"] == self._last_id:
                    return answer
                continue
            poll = select.poll()  # unlike select(), also for files beyond the 1024th
            poll.register(self._process.stdout, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TandemqTestError(f"{verb}: no answer in time; {self._tail()}")
            chunk = os.read(self._process.stdout.fileno(), CHUNK)
            if not chunk:
                raise self._gone(verb)
            self._rest += chunk

    def _gone(self, verb: str) -> TandemqTestError:
        return TandemqTestError(f"{verb}: the process that keeps the pair is gone; {self._tail()}")

    def _tail(self) -> str:
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            if lines:
                return "\n".join([f"last lines of {self._log}:", *lines])
        return f"{self._log} is empty"

    def close(self) -> None:
        """Ends the process, and with it the pair. May be repeated, also after an interrupted question."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its children hold pipes of it, and end
            self._process.wait()
