"""Decides how the demo's outcome is reported: a table for people, summary.json for programs, a picture for both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandemq.demo.record import Record
from tandemq.demo.timeline import draw

if TYPE_CHECKING:
    from rich.console import Console

    from chaos.ledger import Ledger
    from tandemq.cli.doctor.finding import Finding

SCHEMA_VERSION = 1
_SHOWN = (
    ("rows", "rows", ""),
    ("sent", "sent", ""),
    ("acknowledged", "acknowledged", "by the master, fsynced on every member of the in-sync set"),
    ("received", "received", "by the consumer, at least once"),
    ("settled", "settled", "acknowledgement confirmed by a member"),
    ("lost", "lost", "acknowledged and never received; must be 0"),
    ("duplicates", "duplicates", "settled or stored twice; must be 0"),
    ("redelivered", "redelivered", "given again because they were not settled"),
    ("late", "late", "of these: received for the first time behind later rows, their first delivery was lost"),
    ("order_breaks", "order breaks", "first deliveries out of order; must be 0"),
    ("corrupt", "corrupt", "not what was sent; must be 0"),
    ("kills", "kills", "kill -9 of the master"),
    ("takeovers", "takeovers", ""),
    ("longest_pause_ms", "longest pause, ms", "between two acknowledgements while rows waited"),
)


def summary(
    ledger: Ledger, record: Record, failures: list[str], origin: dict[str, Any], findings: Sequence[Finding] = ()
) -> dict[str, Any]:
    """The account with its circumstances; the verdict is "pass" only when the run also came to its end."""
    totals = ledger.totals()._asdict()
    if failures:
        totals["verdict"] = "fail"
    totals["epochs"] = list(totals["epochs"])
    return {
        "schema_version": SCHEMA_VERSION,
        **totals,
        "takeovers_ms": [round(length_s * 1000) for length_s in record.takeovers_s],
        **origin,
        "duration_s": round(record.ended_s, 2),
        "findings": ledger.findings,
        "doctor": _examined(findings),
        "failures": failures,
        "events": [event._replace(at_s=round(event.at_s, 3))._asdict() for event in record.events],
    }


def _examined(findings: Sequence[Finding]) -> dict[str, Any] | None:
    """How often each level, and what is not ok; None where it did not come so far."""
    from tandemq.cli.doctor.finding import Level, counts

    bad = [f"{each.level} {each.check} {each.about}: {each.what}" for each in findings if each.level is not Level.OK]
    return {**counts(findings), "not_ok": bad} if findings else None


def write(out: Path, facts: dict[str, Any], ledger: Ledger, record: Record) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    pause = (ledger.longest_pause.from_s, ledger.longest_pause.to_s)
    title = (
        f"{facts['rows']:,} rows, {facts['kills']} kills of the master: "
        f"{facts['lost']} lost, {facts['duplicates']} duplicates, {facts['order_breaks']} out of order"
    )
    (out / "timeline.svg").write_text(draw(record, title, pause), encoding="utf-8")


def print_account(console: Console, facts: dict[str, Any], out: Path) -> None:
    from tandemq.cli.terminal import new_table

    table = new_table()
    table.add_column("account")
    table.add_column("", justify="right")
    table.add_column("", style="dim")
    for key, label, meaning in _SHOWN:
        table.add_row(label, f"{facts[key]:,}", meaning)
    if facts["takeovers_ms"]:
        lengths = ", ".join(f"{length_ms:,}" for length_ms in facts["takeovers_ms"])
        table.add_row("takeovers, ms", lengths, "from the kill to the next master's first acknowledgement")
    console.print(table)
    for line in (*facts["failures"], *facts["findings"]):
        console.print(line, style="red")
    colour = "green" if facts["verdict"] == "pass" else "red"
    console.print(f"{facts['verdict'].upper()}  {sentence(facts)}", style=f"bold {colour}")
    console.print(f"written: {out / 'summary.json'}, {out / 'timeline.svg'}", style="dim")
    if (doctor := facts["doctor"]) is None:
        return
    for line in doctor["not_ok"]:
        console.print(line, style="yellow", soft_wrap=True)
    counts = ", ".join(f"{count} {level}" for level, count in doctor.items() if level != "not_ok")
    console.print(f"tandemq doctor: {counts}", style="yellow" if doctor["not_ok"] else "green")


def sentence(facts: dict[str, Any]) -> str:
    if facts["verdict"] == "pass":
        return (
            f"{facts['acknowledged']:,} rows acknowledged, each received{' in order' if not facts['late'] else ''} and "
            f"settled once, "
            f"over {facts['kills']} kill{'' if facts['kills'] == 1 else 's'}"
        )
    return f"seed {facts['seed']}; logs are in {facts['data_dir']}"
