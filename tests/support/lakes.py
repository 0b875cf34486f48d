"""Lakes without Spark, for tests of what is kept beside their rows: what is in their files is any text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pipeline.integrity import examine
from pipeline.lake import Lake, Place

ROWS = 100
"""As each stretch says of itself."""


def staged(lake: Lake, text: str = "rows") -> Path:
    path = lake.staging("rows")
    path.mkdir()
    (path / "part-0.parquet").write_text(text * 10)
    (path / ".part-0.parquet.crc").write_bytes(b"crc\0sums")
    return path


def publish(lake: Lake, member: str, *ends: int) -> None:
    for end in ends:
        last = lake.end(member)
        start = last.log_index if last else 1
        lake.publish(member, start, Place(end, 3), staged(lake, f"{member}{end}"), rows=ROWS)


def made_lake(path: Path, members: str = "ab", ends: tuple[int, ...] = (10, 20, 30)) -> Lake:
    """Members with stretches that end there; of two, with three each, unless it is said."""
    made = Lake(path)
    with made.locked():
        made.claim({"domain": "main"})
        for member in members:
            made.save_heads(member, [{"member": member, "next_log_index": ends[-1]}])
            publish(made, member, *ends)
    return made


def told(lake: Lake) -> list[tuple[str, str, str]]:
    """Path below the lake, what, and what to do, of every finding."""
    found = examine(lake).findings
    return [(each.path.removeprefix(f"{lake.path}/"), each.what, each.next_step) for each in found]


def of_before(lake: Lake) -> None:
    """As the version before manifests left it."""
    for path in lake.journal.rglob("_manifest.json"):
        path.unlink()
    shutil.rmtree(lake.range_path("a").parent)
    for path in (lake.path / "_lake.json", *lake.path.glob("_heads/*.json")):
        facts = json.loads(path.read_text())
        facts.pop("digest")
        facts.pop("manifests", None)
        facts.pop("members", None)
        path.write_text(json.dumps(facts, indent=2) + "\n")
