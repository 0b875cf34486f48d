"""The command `python -m chaos.units`: units of work and reactions through faults, and an account of every flight."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

from chaos.units.account import FAIL, PASS, Totals, account
from chaos.units.picture import draw
from chaos.units.plan import flights_of
from chaos.units.plants import PLANTS
from chaos.units.screen import screen
from chaos.units.story import Plan, Story
from tandemq.cli.output import console, say
from tandemq.cli.terminal import new_table
from tandemq.demo.rows import flights
from tandemq.demo.story import failures_of
from tandemq.errors import TandemqError

FAILED = 1
SEED_BITS = 31


@click.command()
@click.option("--rows", type=click.IntRange(600), help="So many flights of the file, from its beginning. Default: all.")
@click.option("--seed", type=click.IntRange(min=0), help="Of the moments at which masters die.")
@click.option("--out", default="build/demo", show_default=True, type=click.Path(path_type=Path))
@click.option("--keep", is_flag=True, help="Keep the directory with data and logs although it passes.")
@click.option("--plant", type=click.Choice(sorted(PLANTS)), help="Spoil what was seen: the account must say FAIL.")
def main(*, rows: int | None, seed: int | None, out: Path, keep: bool, plant: str | None) -> None:
    """Flight records in units of work through two kills of the master and one of a worker; an airline is cancelled and
    aircraft are exchanged meanwhile, and a second pair, cut off for a while, gets the ledger.

    Each flight is taken in a unit that puts a leg into `legs` and an entry into `ledger`. Every 50th fails at first and
    is rolled back; every 500th always fails and ends as a dead letter. What became of each stands in the journals of
    both pairs, and is held against a model of the file: units.json, units.svg.

    Exit code 0: PASS. 1: FAIL.

    \b
    Example: python -m chaos.units --rows 2000 --seed 7
    """
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    directory = Path(tempfile.mkdtemp(prefix="tandemq-units-"))
    terminal = console()
    failures: list[str] = []
    with screen(terminal) as display:
        story = Story(directory, flights_of(flights().texts[:rows]), Plan(seed), display)
        try:
            asyncio.run(_interruptible(story))
        except* (TandemqError, RuntimeError, TimeoutError) as group:
            failures = failures_of(group)
        except* KeyboardInterrupt:
            failures = ["interrupted"]
    seen = PLANTS[plant](story.seen) if plant and not failures else story.seen
    totals, findings = account(story.flights, story.airline, story.exchanges, seen)
    if failures:
        totals = totals._replace(verdict=FAIL)
    _write(out, totals, draw(seen, story.record, story.began_ms, _title(totals)))
    table = new_table()
    table.add_column("account")
    table.add_column("", justify="right")
    for name, value in totals._asdict().items():
        table.add_row(name, value if isinstance(value, str) else f"{value:,}")
    terminal.print(table)
    for line in failures or findings:  # of a run that broke off no journal was read
        say(line)
    passed = totals.verdict == PASS
    say(f"{totals.verdict}  {story.record.ended_s:.0f} s, seed {seed}; {out / 'units.json'}, {out / 'units.svg'}")
    if passed and not keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"data and logs are in {directory}")
    sys.exit(0 if passed else FAILED)


async def _interruptible(story: Story) -> None:
    """SIGTERM ends the demo as Ctrl-C does: with every process stopped."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await story.play()
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error


def _title(totals: Totals) -> str:
    return (
        f"{totals.inputs:,} flights, {totals.kills} kills: {totals.half_units} half units, {totals.lost} lost, "
        f"{totals.duplicates} duplicates, {totals.order_breaks} out of order"
    )


def _write(out: Path, totals: Totals, picture: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "units.json").write_text(json.dumps(totals._asdict(), indent=2) + "\n", encoding="utf-8")
    (out / "units.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
