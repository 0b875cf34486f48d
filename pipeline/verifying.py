"""Job verify: a lake against its manifests, without Spark; what is wrong with it as rows for people and programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pipeline import config as configs
from pipeline import report
from pipeline.adopting import adopt
from pipeline.integrity import Proof, bad_lake, examine
from pipeline.lake import Lake
from pipeline.manifests import unwatched
from pipeline.outcome import CLEAN, DAMAGED, Outcome, Table
from pipeline.problems import BAD_LAKE, LAKE_UNPROVEN, PipelineError
from pipeline.reading import nothing_in
from pipeline.running import Ended

Progress = Callable[[str, int, int], None]
"""Called with what is done, how far it is, and how far it will be."""


def verified(path: str, file: str, *, adopted: bool, on_progress: Progress) -> Ended:
    """The job: of the lake at `path`, or of that of a configuration, which says where its report goes, too."""
    began = time.monotonic()
    config = configs.load(Path(file)) if file else None
    outcome = verify(Lake(config.lake.path_of() if config else Path(path)), adopted=adopted, on_progress=on_progress)
    page = report.write(Path(config.report.path) / outcome.job, outcome) if config else None
    return Ended(outcome, page, time.monotonic() - began)


def verify(lake: Lake, *, adopted: bool, on_progress: Progress = unwatched) -> Outcome:
    """Verdict CLEAN or DAMAGED. adopted: a lake of an older version gets its manifests first.

    Raises PipelineError: LAKE_UNPROVEN where nothing can be held against anything, BAD_LAKE where there is no lake, or
    a lake that is to be adopted is damaged, LAKE_IN_USE.
    """

    def examined() -> Proof:
        return examine(lake, on_progress=lambda done, size: on_progress("bytes read", done, size))

    count = 0
    proof = examined()
    if not proof.findings and not (proof.stretches or proof.of_before or lake.members() or lake.ranges()):
        raise nothing_in(lake)
    if proof.of_before:
        if not adopted:
            raise PipelineError(LAKE_UNPROVEN, f"{lake.path} was kept by an older version and has no manifests")
        if proof.findings:
            raise bad_lake(lake, proof.findings)
        with lake.locked():
            count = adopt(lake, lambda done, size: on_progress("stretches", done, size))
        proof = examined()
    return _outcome(lake, proof, count)


def _outcome(lake: Lake, proof: Proof, adopted: int) -> Outcome:
    there = f"{proof.stretches:,} stretches, {proof.files:,} files, {proof.bytes:,} bytes, {proof.rows:,} rows"
    lead = f"{lake.path}: {there} with a manifest."
    if adopted:
        lead += f" {adopted:,} stretches have manifests now; what was damaged before is not known."
    lead += f" Findings: {len(proof.findings):,}." if proof.findings else " All is as it was published."
    rows = [
        {"reason": BAD_LAKE, "path": each.path, "what": each.what, "next": each.next_step} for each in proof.findings
    ]
    facts = {
        "lake": str(lake.path),
        "stretches": proof.stretches,
        "files": proof.files,
        "bytes": proof.bytes,
        "rows": proof.rows,
        "adopted": adopted,
    }
    return Outcome("verify", DAMAGED if rows else CLEAN, lead, [Table("findings", rows)], facts=facts)
