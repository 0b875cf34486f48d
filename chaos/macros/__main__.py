"""The command `python -m chaos.macros`: flight records through macro queues over a pair and a single manager."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

import click

from chaos.macros.account import FAIL, PASS, Totals, account
from chaos.macros.picture import draw
from chaos.macros.plants import PLANTS
from chaos.macros.story import MacroStory
from chaos.units.plan import flights_of
from tandemq.cli.output import console, say
from tandemq.cli.terminal import new_table
from tandemq.demo.rows import flights
from tandemq.demo.story import failures_of
from tandemq.errors import TandemqError


@click.command()
@click.option(
    "--rows", type=click.IntRange(10_000), help="So many flights, from the beginning of the file. Default: all."
)
@click.option("--plant", type=click.Choice(sorted(PLANTS)), help="Spoil what was seen of the run: it must FAIL.")
@click.option("--out", default="build/demo", show_default=True, type=click.Path(path_type=Path))
@click.option("--keep", is_flag=True, help="Keep the directory with data and logs although it passes.")
def main(*, rows: int | None, plant: str | None, out: Path, keep: bool) -> None:
    """Flights go by carrier into one macro queue over members at a pair and at a single manager, and come out of
    another one by the priority of the members. Each manager is killed in turn, one member is destroyed and one added.

    Exit code 0: PASS. 1: FAIL.

    \b
    Example: python -m chaos.macros --rows 12000
    """
    directory = Path(tempfile.mkdtemp(prefix="tandemq-macro-demo-"))
    story = MacroStory(directory, flights_of(flights().texts[:rows]))
    failures: list[str] = []
    try:
        asyncio.run(story.play())
    except* (TandemqError, RuntimeError, TimeoutError) as group:
        failures = failures_of(group)
    except* KeyboardInterrupt:
        failures = ["interrupted"]
    seen = PLANTS[plant](story.seen) if plant and not failures else story.seen
    totals, findings = account(story.flights, seen)
    if failures:
        totals = totals._replace(verdict=FAIL)
    out.mkdir(parents=True, exist_ok=True)
    (out / "macro.json").write_text(json.dumps(totals._asdict(), indent=2) + "\n", encoding="utf-8")
    (out / "macro.svg").write_text(draw(seen, _title(totals)), encoding="utf-8")
    table = new_table()
    table.add_column("account")
    table.add_column("", justify="right")
    for name, value in totals._asdict().items():
        table.add_row(name, _shown(value))
    console().print(table)
    for line in failures or findings:  # of a run that broke off no journal was read
        say(line)
    passed = totals.verdict == PASS
    say(f"{totals.verdict}; {out / 'macro.json'}, {out / 'macro.svg'}")
    if passed and not keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"data and logs are in {directory}")
    sys.exit(0 if passed else 1)


def _shown(value: int | str | dict[str, int]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items())
    return value if isinstance(value, str) else f"{value:,}"


def _title(totals: Totals) -> str:
    return (
        f"{totals.settled:,} flights, {totals.kills} kills: {totals.lost} lost, {totals.duplicates} duplicates, "
        f"{totals.order_breaks} out of order, {totals.policy_breaks} against the policy"
    )


if __name__ == "__main__":
    main()
