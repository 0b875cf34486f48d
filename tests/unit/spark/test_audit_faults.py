"""What `make audit-check` plants: each fault is named at its place, alone and beside all others. In memory."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="SPARK NOT TESTED: no pyarrow (`make spark`)")

from bench.audit.evidence import Evidence, evidence_of, places
from bench.audit.faults import ALONE
from bench.audit.faults_told import FAULTS
from bench.audit.run import in_memory, planted
from chaos.journal_kinds import CHECKED
from pipeline.lake import Lake
from tests.support.pair_histories import Run
from tests.unit.spark.test_audit_small import history_of, in_lake

BATCHES, SIZE = 70, 5


def flown() -> Run:
    """Sent, leased and acknowledged in records of their own; a takeover near the beginning."""
    run = Run()
    run.create(1)
    run.send(1, SIZE)
    run.ack(1, 1, SIZE)
    run.take_over()
    for batch in range(1, BATCHES):
        run.send(1, SIZE)
        run.record({"kind": "NOTHING"})
        run.ack(1, batch * SIZE + 1, SIZE)
    ids = {row.index: row.id for row in run.rows if row.kind == "ENQUEUED"}
    run.rows = [replace(row, payload=body(row.index)) if row.kind == "ENQUEUED" else row for row in run.rows]
    run.asked = [
        replace(told, id=ids[told.index], payload_crc32=None if told.op == "ack" else zlib.crc32(body(told.index)))
        for told in run.asked
        if told.index is not None
    ]
    return run.end()


def body(index: int) -> bytes:
    return f"body {index}".encode()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Path, Evidence]:
    here, run = tmp_path_factory.mktemp("flown"), flown()
    made = in_lake(run, here / "lake")
    for member, first in run.every_record_from.items():
        made.note_every_record(member, first)
    history = Path(history_of(run, here / "history.parquet"))
    return made, history, evidence_of(made, history, "q1")


def test_the_run_is_clean(lake: tuple[Lake, Path, Evidence]) -> None:
    assert in_memory(*lake[:2]) == []


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_at_its_place(name: str, lake: tuple[Lake, Path, Evidence], tmp_path: Path) -> None:
    made, _, evidence = lake
    line = planted({"memory": in_memory}, made, evidence, [name], places(evidence, len(FAULTS))[:1], tmp_path)
    assert line.missed == {"memory": []}


def test_all_of_them_are_named_beside_each_other(lake: tuple[Lake, Path, Evidence], tmp_path: Path) -> None:
    made, _, evidence = lake
    names = [name for name in FAULTS if name not in ALONE]
    line = planted({"memory": in_memory}, made, evidence, names, places(evidence, len(names)), tmp_path)
    assert line.missed == {"memory": []}
    assert len(FAULTS) >= 40
    assert set(line.wanted) | {"MEMBER_ABSENT"} == set(CHECKED), "every kind is among them"


def test_too_few_messages_are_refused(lake: tuple[Lake, Path, Evidence]) -> None:
    with pytest.raises(ValueError, match="faults: more messages"):
        places(lake[2], BATCHES + 1)
