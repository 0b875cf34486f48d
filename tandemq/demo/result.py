"""Decides how the outcome of the demo is told: a table for people, summary.json for programs, a picture for both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandemq.demo.record import Record
from tandemq.demo.timeline import draw

if TYPE_CHECKING:
    from rich.console import Console

    from chaos.ledger import Ledger

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


def summary(ledger: Ledger, record: Record, failures: list[str], origin: dict[str, Any]) -> dict[str, Any]:
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
        "failures": failures,
        "events": [event._replace(at_s=round(event.at_s, 3))._asdict() for event in record.events],
    }


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
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
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
        console.print(line, style="red", markup=False)
    colour = "green" if facts["verdict"] == "pass" else "red"
    console.print(f"{facts['verdict'].upper()}  {sentence(facts)}", style=f"bold {colour}", markup=False)
    console.print(f"written: {out / 'summary.json'}, {out / 'timeline.svg'}", style="dim", markup=False)


def sentence(facts: dict[str, Any]) -> str:
    if facts["verdict"] == "pass":
        return (
            f"{facts['acknowledged']:,} rows acknowledged, each received{' in order' if not facts['late'] else ''} and "
            f"settled once, "
            f"over {facts['kills']} kill{'' if facts['kills'] == 1 else 's'}"
        )
    return f"seed {facts['seed']}; logs are in {facts['data_dir']}"
