"""docs/SPARK_GUIDE.md, block after block, against a real pair: what it shows is what comes out.

The session is the one of the tests, which is what `local_session()` gives when one runs already.
"""

from __future__ import annotations

import doctest
import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from tandemq.cli import root
from tests.spark.striking import ROOT
from tests.support.until import until_sync

GUIDE = ROOT / "docs" / "SPARK_GUIDE.md"
SAMPLE = "127.0.0.1:7600,127.0.0.1:7610"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def commands(text: str) -> str:
    """What the lines print, each as typed and ended well."""
    out = ""
    for line in text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "tandemq", line
        result = CliRunner().invoke(root, arguments)
        assert result.exit_code == 0, f"{line}: {result.stderr}"
        out += result.stdout
    return out


def program(text: str, names: dict[str, Any]) -> str:
    """What it prints."""
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(text, GUIDE.name, "exec"), names)
    return out.getvalue()


def heard(pair: Cluster) -> None:
    """Wait until both members tell of the same end: who pastes is slower than a heartbeat."""

    def agree() -> bool:
        ends: set[int] = set()
        for endpoint in pair.endpoints:
            with tandemq.connect(endpoint, follow_master=False) as member:
                ends.add(member.journal_head(this_member=True).next.log_index)
        return len(ends) == 1

    until_sync(agree, "both members tell of the same end")


def test_the_guide_says_what_happens(
    spark: Any, pair: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TANDEMQ_TARGET", pair.target)
    names: dict[str, Any] = {"__name__": "guide"}
    printed, ran = "", 0
    for kind, text in BLOCK.findall(GUIDE.read_text()):
        heard(pair)
        match kind:
            case "python":
                printed = program(text.replace(SAMPLE, pair.target), names)
            case "sh":
                printed = commands(text)
            case "toml":
                assert SAMPLE in text
                Path("pipeline.toml").write_text(text.replace(SAMPLE, pair.target))
            case "text":
                assert doctest.OutputChecker().check_output(text, printed, LIKE), f"shown:\n{text}\nprinted:\n{printed}"
            case _:
                raise AssertionError(f"the guide has a block of {kind}")
        ran += 1
    assert ran > 20
