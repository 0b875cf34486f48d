"""What the classifier tests share: events, scripts that do one thing wrong, and whether a process is still there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from failover.classifier import DomainFacts, Event, EventKind
from failover.marks import DataMark, Role

COMMANDS = Path(__file__).parent / "commands"
SHELL = "#!/bin/sh\n"
PYTHON = f"#!{sys.executable} -IS\n"
ECHO_ID = 'id=$(sed \'s/.*"event_id":"\\([^"]*\\)".*/\\1/\')\n'
"""Reads the event and keeps its id in $id."""


def event(**changes: object) -> Event:
    """A replica with a good copy has lost its peer."""
    facts = DomainFacts(
        "main", Role.REPLICA, DataMark.IN_SYNC, 7, 100, 100, 100, 100, "MASTER", "IN_SYNC", 7, ("a", "b")
    )
    values: dict[str, object] = {
        "event_id": "e1",
        "kind": EventKind.PEER_LOST,
        "link_generation": 3,
        "pair": "orders",
        "member": "a",
        "peer": "b",
        "domains": (facts,),
    }
    return Event(**{**values, **changes})  # type: ignore[arg-type]


def script(folder: Path, text: str, name: str = "decide", mode: int = 0o755) -> str:
    """An executable file with this text; a shell's when no interpreter is named."""
    path = folder / name
    path.write_text(text if text.startswith("#!") else SHELL + text)
    path.chmod(mode)
    return str(path)


def is_alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Wrong(NamedTuple):
    """A command that is no good: what its one call ends in, and which case of `classifier check` finds it."""

    text: str
    reason: str  # part of
    case: str  # part of; the first that must fail


# Every one exits with a verdict, or seems to want to: nothing but the fault itself is wrong with it.
WRONG: dict[str, Wrong] = {
    "exits 0": Wrong("exit 0\n", "exit code 0: it ended without saying who lives", "answers PEER_LOST"),
    "exits 1": Wrong("exit 1\n", "exit code 1: it failed", "answers PEER_LOST"),
    "exits 2": Wrong("exit 2\n", "exit code 2: it was used wrongly", "answers PEER_LOST"),
    "exits 19": Wrong("exit 19\n", "exit code 19; a verdict is one of 20 to 24", "answers PEER_LOST"),
    "exits 25": Wrong("exit 25\n", "exit code 25; a verdict", "answers PEER_LOST"),
    "exits 126": Wrong("exit 126\n", "exit code 126: a shell could not execute", "answers PEER_LOST"),
    "exits 127": Wrong("no-such-program-anywhere\n", "exit code 127: a shell did not find", "answers PEER_LOST"),
    "exits 137": Wrong("exit 137\n", "when a program dies of signal 9", "answers PEER_LOST"),
    "dies of SIGKILL": Wrong("kill -9 $$\n", "it died of signal 9", "answers PEER_LOST"),
    "dies of SIGSEGV": Wrong("kill -11 $$\n", "it died of signal 11", "answers PEER_LOST"),
    "hangs": Wrong("sleep 600\nexit 21\n", "no end within 0.3 s", "answers PEER_LOST"),
    "ignores SIGTERM": Wrong(
        "trap '' TERM\ncat > /dev/null\nwhile :; do sleep 600; done\n",
        "no end within 0.3 s, and SIGTERM did not end it",
        "answers PEER_LOST",
    ),
    "traps SIGTERM and then says 21": Wrong("trap 'exit 21' TERM\nsleep 600 & wait\n", "no end within", "answers PEER"),
    "answers another event": Wrong(
        'cat > /dev/null; echo \'{"event_id": "e0"}\'; exit 21\n',
        "it answers event 'e0', asked was 'e1'",
        "answers PEER",
    ),
    "answers without saying what": Wrong(
        'cat > /dev/null; echo \'{"reason": "yes"}\'; exit 21\n', "missing required field `event_id`", "answers PEER"
    ),
    "contradicts its exit code": Wrong(
        ECHO_ID + 'echo "{\\"event_id\\":\\"$id\\",\\"verdict\\":\\"WAIT\\"}"; exit 21\n',
        "it says WAIT on stdout and exits with 21 (ASSUME_MASTERSHIP)",
        "answers PEER_LOST",
    ),
    "contradicts its exit code by number": Wrong(
        ECHO_ID + 'echo "{\\"event_id\\":\\"$id\\",\\"verdict\\":20}"; exit 23\n',
        "it says 20 on stdout and exits with 23 (WAIT)",
        "answers PEER_LOST",
    ),
    "writes garbage": Wrong(
        "cat > /dev/null; echo 21; exit 21\n", "its stdout is no answer: Expected `object`", "answers"
    ),
    "writes plain text": Wrong(
        "cat > /dev/null; echo the peer is down; exit 21\n", "is no answer: JSON is mal", "answers"
    ),
    "writes two lines": Wrong(
        ECHO_ID + 'echo checking; echo "{\\"event_id\\":\\"$id\\"}"; exit 23\n',
        "more than one line",
        "answers PEER_LOST",
    ),
    "writes invalid UTF-8": Wrong(
        'cat > /dev/null; printf \'{"event_id": "\\377\\376"}\'; exit 21\n',
        "its stdout is no answer",
        "answers PEER_LOST",
    ),
    "writes a huge integer": Wrong(
        f"{PYTHON}import json, sys\nid = json.load(sys.stdin)['event_id']\n"
        'print(f\'{{"event_id": "{id}", "retry_ms": {10**400}}}\')\nsys.exit(23)\n',
        "its stdout is no answer",
        "answers PEER_LOST",
    ),
    "writes a negative time": Wrong(
        ECHO_ID + 'echo "{\\"event_id\\":\\"$id\\",\\"valid_for_ms\\":-1}"; exit 20\n', ">= 0", "answers PEER_LOST"
    ),
    "writes unknown evidence": Wrong(
        ECHO_ID + 'echo "{\\"event_id\\":\\"$id\\",\\"evidence\\":\\"certain\\"}"; exit 21\n', "Invalid enum", "answers"
    ),
    "nests without end": Wrong(
        f"{PYTHON}import sys\nsys.stdin.read()\nprint('[' * 60000)\nsys.exit(21)\n",
        "its stdout is no answer",
        "answers",
    ),
    "floods stdout": Wrong(
        "cat > /dev/null; head -c 10000000 /dev/zero; exit 23\n", "wrote more than 65,536 bytes to stdout", "answers"
    ),
}
