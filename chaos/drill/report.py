"""Writes what a drill came to: report.html, report.md, junit.xml, journal.jsonl, result.json; compares two of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from chaos import telling
from chaos.drill.page import page
from chaos.drill.playing import Outcome, Progress
from chaos.drill.verdict import as_facts

SCHEMA_VERSION = 1
RESULT = "result.json"
WORSE_SHARE, WORSE_MS = 1.2, 200.0  # a time is worse when it is longer by both


class ReportError(RuntimeError):
    """A directory that holds no report."""


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """For programs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "drill": outcome.drill.name,
        "title": outcome.drill.title,
        "verdict": outcome.verdict,
        "origin": outcome.progress.origin,
        "seconds": round(outcome.seconds, 1),
        "lines": as_facts(outcome.lines),
        "faults": {kind: {"had_effect": bit, "made": made} for kind, (bit, made) in outcome.result.faults.items()},
        "broken": outcome.result.broken,
        "invalid": outcome.result.invalid,
        "account": outcome.result.account._asdict(),
    }


def write(directory: Path, outcome: Outcome) -> None:
    """Everything, into a directory that is made."""
    directory.mkdir(parents=True, exist_ok=True)
    facts = facts_of(outcome)
    (directory / RESULT).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    (directory / "report.html").write_text(page(outcome), encoding="utf-8")
    (directory / "report.md").write_text(markdown(outcome), encoding="utf-8")
    ET.ElementTree(_junit(outcome)).write(directory / "junit.xml", encoding="utf-8", xml_declaration=True)
    write_journal(directory, outcome.progress)


def write_journal(directory: Path, progress: Progress) -> None:
    """What was told, then every event; also of a drill that came to no verdict."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "journal.jsonl"
    telling.write_history(path, progress.history, progress.struck)
    with path.open("a", encoding="utf-8") as file:
        for told in progress.told:
            file.write(json.dumps({"t": told.at_s, "event": "told", "phase": told.phase, "text": told.text}) + "\n")


def markdown(outcome: Outcome) -> str:
    """A page for the summary of a CI job."""
    drill, result = outcome.drill, outcome.result
    rows = [f"| {line.name} | {line.text} | {_held(line.limit, held=line.held)} |" for line in outcome.lines]
    where = f"{drill.title or drill.name}. On {outcome.progress.origin}"
    faults = ", ".join(f"{kind} {bit} of {made}" for kind, (bit, made) in result.faults.items())
    found = [f"- `{name}`: {line}" for name, lines in result.broken.items() for line in lines]
    found += [f"- invalid: {line}" for line in result.invalid]
    return "\n".join(
        [
            f"# Drill {drill.name}: {outcome.verdict}",
            "",
            f"{where}; {outcome.seconds:.0f} s; faults that had an effect: {faults}.",
            "",
            "| probe | measured | |",
            "|---|---|---|",
            *rows,
            "",
            *found,
            "",
        ]
    )


def _held(limit: float | None, *, held: bool) -> str:
    return "" if limit is None else "held" if held else "**not held**"


def _junit(outcome: Outcome) -> ET.Element:
    name = f"drill.{outcome.drill.name}"
    bad = [line for line in outcome.lines if not line.held]
    failures = len(bad) + bool(outcome.result.invalid)
    counts = {"tests": str(len(outcome.lines) + 1), "failures": str(failures), "time": f"{outcome.seconds:.1f}"}
    suite = ET.Element("testsuite", {"name": name, **counts})
    for line in outcome.lines:
        case = ET.SubElement(suite, "testcase", classname=name, name=line.name)
        if not line.held:
            ET.SubElement(case, "failure", message=line.text)
    case = ET.SubElement(suite, "testcase", classname=name, name="the faults had an effect")
    if outcome.result.invalid:
        ET.SubElement(case, "failure", message="; ".join(outcome.result.invalid))
    return suite


class Compared(NamedTuple):
    """One line of two reports."""

    name: str
    before: float | None
    after: float | None
    worse: bool


def compare(before: Path, after: Path) -> list[Compared]:
    """Line by line. A count is worse when it is higher; a time when it is longer by a fifth and 200 ms.

    Raises ReportError.
    """
    return list(_compared(read(before), read(after)))


def read(directory: Path) -> dict[str, Any]:
    """A report's facts. Raises ReportError."""
    path = directory / RESULT
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(f"{directory} holds no report of a drill ({error})") from error
    if facts.get("schema_version") != SCHEMA_VERSION:
        raise ReportError(f"{path} is of schema version {facts.get('schema_version')}, this is {SCHEMA_VERSION}")
    return facts


def _compared(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Compared]:
    if before["drill"] != after["drill"]:
        raise ReportError(f"these are two drills: {before['drill']} and {after['drill']}")
    values = {line["name"]: line["value"] for line in before["lines"]}
    for line in after["lines"]:
        old, new = values.get(line["name"]), line["value"]
        if old is None or new is None:
            worse = False
        elif line["unit"]:
            worse = new > old * WORSE_SHARE and new > old + WORSE_MS
        else:
            worse = new > old
        yield Compared(line["name"], old, new, worse)
