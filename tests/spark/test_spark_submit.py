"""The jobs by Spark's own spark-submit, which starts the JVM first and the job in it: each does what `tandemq pipeline`
does, and ends with its exit code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from tandemq.cli import root
from tests.integration.support import new_name
from tests.spark.lakes import Piped, Told
from tests.spark.striking import ROOT

SUBMIT = Path(sys.executable).parent / "spark-submit"


def submitted(piped: Piped, *arguments: str) -> Told:
    """In a process of its own, with a memory that the job's file does not say.

    spark-submit writes both outputs of the job to its own stdout: what the job came to is the last line.
    """
    script = CliRunner().invoke(root, ["pipeline", "script"]).stdout.strip()
    ended = subprocess.run(
        [
            *(str(SUBMIT), "--master", "local[2,4]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"),
            *(script, *arguments, "--config", str(piped.file), "-o", "json"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    return Told(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.long
@pytest.mark.timeout(600)  # five times Spark
def test_every_job_runs_by_spark_submit(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue, again = filled(20), new_name()
    client.create_queue(again)
    piped = Piped(pair.target, tmp_path)
    found = {}
    for job, *options in (["ingest"], ["audit"], ["stats"], ["replay", "--queue", queue, "--to", again]):
        told = submitted(piped, job, *options)
        assert told.code == 0, (told.stdout + told.stderr)[-3000:]
        found[job] = json.loads(told.stdout.splitlines()[-1])
        assert (tmp_path / "reports" / job / "report.html").exists()
    assert all(row["rows"] > 20 for row in found["ingest"]["members"])
    assert found["audit"]["verdict"] == "clean"
    assert [row["enqueued"] for row in found["stats"]["queues"] if row["queue"] == queue] == [20]
    assert [message.payload for message in client.browse(again)] == [f"m{at}".encode() for at in range(1, 21)]
    refused = submitted(piped, "audit", "--history", str(tmp_path / "nothing"))
    assert (refused.code, "error: HISTORY_SCHEMA\n" in refused.stdout) == (1, True), refused.stdout[-3000:]
