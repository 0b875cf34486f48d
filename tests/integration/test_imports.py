"""What a process does without until it is ready: a restart waits for every module that it imports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tandemq.config import ManagerConfig, to_toml

pytestmark = [pytest.mark.process, pytest.mark.slow]

LATER = {
    "prometheus_client": "the first scrape",
    "replica.operations.metrics": "the first scrape",
    "h11": "the first request to the HTTP port",
    "grpc_reflection.v1alpha": "the first question which services there are",
    "importlib.metadata": "a classifier of another package, and the question for a version",
    "email": "a question for a version",
    "tempfile": "a Unix socket",
    "shutil": "a log that is folded",
    "difflib": "a name that is spelled wrongly",
    "html": "a page",
    "failover.entry_points": "a classifier of another package",
    "failover.alt_path": "its classifier",
    "failover.combine": "its classifier",
    "failover.command": "its classifier",
    "failover.operator": "its classifier",
    "failover.peer_outdate": "its classifier",
    "failover.etcd": "its authority",
    "tenacity": "a client",
    "rich": "a table on a terminal",
    "dns": "a client that looks for its manager",
}
"""Each with what it is for; what stands under it counts too."""
IMPORTED = re.compile(r"import time: +\d+ \| +\d+ \| +(\S+)")


def imported(*arguments: str) -> set[str]:
    """By a process of the command line, until it says that it serves."""
    command = [sys.executable, "-X", "importtime", "-m", "tandemq", *arguments, "--log-format", "plain"]
    found: set[str] = set()
    said = []
    # A variable of ours that is no setting is taken for a slip of the pen, and compared with all of them.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TANDEMQ_")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if " serves at " in line:
                break
            if (module := IMPORTED.match(line)) is not None:
                found.add(module[1])
            else:
                said.append(line)
        else:
            raise AssertionError(f"it ended: {''.join(said)}")
        process.send_signal(signal.SIGKILL)
    return found


def too_early(modules: set[str]) -> list[str]:
    return sorted(name for name in LATER if any(f"{module}.".startswith(f"{name}.") for module in modules))


def test_a_member_of_a_pair_with_a_witness_imports_nothing_that_it_may_never_need(
    tmp_path: Path, base_port: int
) -> None:
    ports = [f"127.0.0.1:{base_port + number}" for number in range(7)]
    member = ManagerConfig(
        member="a",
        data_dir=str(tmp_path / "a"),
        listen_client=ports[0],
        listen_peer=ports[1],
        listen_http=ports[2],
        pair="orders",
        peer_member="b",
        peer_endpoint=ports[3],
        peer_address=ports[4],
        witness=ports[6],
    )
    config = tmp_path / "a.toml"
    config.write_text(to_toml(member), encoding="utf-8")
    found = imported("serve", "--config", str(config))
    assert {"replica.manager", "failover.authority"} <= found
    assert too_early(found) == []


def test_a_witness_imports_nothing_that_it_may_never_need(tmp_path: Path, base_port: int) -> None:
    found = imported("witness", "--listen", f"127.0.0.1:{base_port}", "--data-dir", str(tmp_path))
    assert {"failover.witness", "lmdb"} <= found
    assert too_early(found) == []
    assert not any(name.startswith("replica.") for name in found), "it is no member"
