"""The command `python -m chaos.units`: units of work and reactions through faults, and an account of every flight."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import click

from chaos.demos import Account, Place, end, play
from chaos.units.account import FAIL, PASS, Totals, account
from chaos.units.picture import draw
from chaos.units.plan import flights_of
from chaos.units.plants import PLANTS
from chaos.units.screen import screen
from chaos.units.story import Plan, Story
from tandemq.cli.output import console
from tandemq.demo.rows import flights

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
    with screen(console()) as display:
        story = Story(directory, flights_of(flights().texts[:rows]), Plan(seed), display)
        failures = play(story.play())
    seen = PLANTS[plant](story.seen) if plant and not failures else story.seen
    totals, findings = account(story.flights, story.airline, story.exchanges, seen)
    if failures:
        totals = totals._replace(verdict=FAIL)
    said = f"{totals.verdict}  {story.record.ended_s:.0f} s, seed {seed}"
    # Of a run that broke off no journal was read.
    came_to = Account(totals._asdict(), failures or findings, totals.verdict == PASS, said)
    picture = draw(seen, story.record, story.began_ms, _title(totals))
    end(Place("units", out, directory, keep), came_to, picture)


def _title(totals: Totals) -> str:
    return (
        f"{totals.inputs:,} flights, {totals.kills} kills: {totals.half_units} half units, {totals.lost} lost, "
        f"{totals.duplicates} duplicates, {totals.order_breaks} out of order"
    )


if __name__ == "__main__":
    main()
