"""What native code writes to stderr becomes lines of the log."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.until import OUTER_S

CORE = "E1124 13:59:43.947155   11470 posix_engine_listener.cc:164] File descriptor limit reached. Retrying."
SCRIPT = f"""
import logging, os, sys
from tandemq.cli.logs import set_up
from tandemq.cli.serve import _native_lines
set_up("a", "info", as_json={{as_json}})
with _native_lines():
    os.write(2, b'''{CORE}\\n''')
    os.write(2, b'something else\\n' + bytes([255]) + b'\\n')
    print('of Python', file=sys.stderr)
    logging.getLogger('x').info('ours')
    {{end}}
os.write(2, b'after\\n')
"""


def run(*, as_json: bool = True, end: str = "pass") -> tuple[int, list[str]]:
    script = SCRIPT.format(as_json=as_json, end=end)
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", timeout=OUTER_S)
    return ended.returncode, ended.stderr.splitlines()


def test_each_line_is_json_until_the_end() -> None:
    code, lines = run()
    assert code == 0
    assert lines[-1] == "after"
    records = [json.loads(line) for line in lines[:-1]]
    said = {record["message"]: record for record in records}
    assert set(said) == {
        "File descriptor limit reached. Retrying.",
        "something else",
        "\\xff",
        "of Python",
        "ours",
    }
    first = said["File descriptor limit reached. Retrying."]
    assert (first["level"], first["logger"], first["member"]) == ("error", "grpc.core", "a")
    assert first["place"] == "posix_engine_listener.cc:164"


def test_for_people_lines_stay_as_they_are() -> None:
    _, lines = run(as_json=False)
    assert CORE in lines


def test_a_fatal_error_reaches_the_real_stderr() -> None:
    code, lines = run(end="os.abort()")
    assert code < 0
    assert any("Fatal Python error: Aborted" in line for line in lines)
