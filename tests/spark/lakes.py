"""What the tests of jobs share: a configuration at a pair, the command in this process, and what the journal says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from tandemq.cli import root

Row = tuple[int, str, int, int]


class Told(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout)
        return found


class Piped:
    """A pipeline with a lake of its own, beside the session of the tests."""

    def __init__(self, target: str, folder: Path, more: str = "") -> None:
        self.file = folder / "pipeline.toml"
        self.lake = folder / "lake"
        sections = {"source": [f'target = "{target}"', "timeout_s = 5.0"], "ingest": ["wait_s = 60.0"]}
        for line in more.splitlines():
            section, _, rest = line.partition(".")
            key = rest.split("=")[0].strip()
            sections[section] = [given for given in sections.get(section, []) if given.split("=")[0].strip() != key] + [
                rest
            ]
        lines = [f"[{name}]\n" + "\n".join(keys) for name, keys in sections.items()]
        self.file.write_text("\n".join(lines) + "\n")

    def run(self, *arguments: str) -> Told:
        """In this process, so that Spark is started once for all tests."""
        result = CliRunner().invoke(root, ["pipeline", *arguments, "--config", str(self.file)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Told(result.exit_code, result.stdout, result.stderr)

    def ingested(self) -> dict[str, Any]:
        """Of each member what one run moved."""
        told = self.run("ingest", "-o", "json")
        assert told.code == 0, told.stderr
        return {row["member"]: row for row in told.facts["members"]}


def lake_rows(spark: Any, lake: Path, member: str) -> list[Row]:
    """As anybody reads it, who knows nothing of us."""
    frame = spark.read.parquet(str(lake / "journal")).where(f"member = '{member}'")
    rows = frame.select("log_index", "kind", "index", "count").collect()
    return sorted((row["log_index"], row["kind"], row["index"], row["count"]) for row in rows)


def journal_rows(pair: Cluster, member: str, until_log_index: int = 0) -> list[Row]:
    """As the member itself says it is, with a row of every record."""
    with tandemq.connect(pair.endpoint(member), follow_master=False) as client:
        pages = client.read_journal(
            this_member=True, payloads=False, until_log_index=until_log_index, every_record=True
        )
        return sorted((row.log_index, row.kind.name, row.first, row.messages) for page in pages for row in page.rows())
