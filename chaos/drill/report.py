"""Writes what a drill came to: report.html, report.md, junit.xml, journal.jsonl, result.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from chaos import history_file
from chaos.drill.page import page
from chaos.drill.playing import Outcome, Progress
from chaos.drill.verdict import as_facts
from tandemq.escaping import escaped, in_markdown

SCHEMA_VERSION = 1
RESULT, JOURNAL = "result.json", "journal.jsonl"
FILES = (RESULT, "report.html", "report.md", "junit.xml", JOURNAL)


def prepare(directory: Path) -> None:
    """Makes the directory, sees that it can be written, and takes away the report of an earlier drill: one that comes
    to no verdict must not stand beside another's. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / JOURNAL).write_bytes(b"")
    for name in FILES:
        (directory / name).unlink(missing_ok=True)


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """For programs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "drill": outcome.drill.name,
        "title": outcome.drill.title,
        "verdict": outcome.verdict,
        "origin": outcome.progress.origin,
        "rounds": len(outcome.result.account.recovery_ms),
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
    """The notes, then every event; also of a drill that came to no verdict."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / JOURNAL
    history_file.write_history(path, progress.history, progress.struck)
    with path.open("a", encoding="utf-8") as file:
        for note in progress.notes:
            file.write(json.dumps({"t": note.at_s, "event": "told", "phase": note.phase, "text": note.text}) + "\n")


def markdown(outcome: Outcome) -> str:
    """A page for the summary of a CI job."""
    drill, result = outcome.drill, outcome.result
    rows = [
        f"| {line.name} | {in_markdown(line.text)} | {_held(line.limit, held=line.held)} |" for line in outcome.lines
    ]
    where = in_markdown(f"{drill.title or drill.name}. On {outcome.progress.origin}")
    faults = ", ".join(f"{kind} {bit} of {made}" for kind, (bit, made) in result.faults.items())
    found = [f"- `{name}`: {in_markdown(line)}" for name, lines in result.broken.items() for line in lines]
    found += [f"- invalid: {in_markdown(line)}" for line in result.invalid]
    return "\n".join(
        [
            f"# Drill {in_markdown(drill.name)}: {outcome.verdict}",
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
    name = f"drill.{escaped(outcome.drill.name)}"
    bad = [line for line in outcome.lines if not line.held]
    failures = len(bad) + bool(outcome.result.invalid)
    counts = {"tests": str(len(outcome.lines) + 1), "failures": str(failures), "time": f"{outcome.seconds:.1f}"}
    suite = ET.Element("testsuite", {"name": name, **counts})
    for line in outcome.lines:
        case = ET.SubElement(suite, "testcase", classname=name, name=line.name)
        if not line.held:
            ET.SubElement(case, "failure", message=escaped(line.text))
    case = ET.SubElement(suite, "testcase", classname=name, name="the faults had an effect")
    if outcome.result.invalid:
        ET.SubElement(case, "failure", message=escaped("; ".join(outcome.result.invalid)))
    return suite
