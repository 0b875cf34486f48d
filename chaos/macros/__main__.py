"""The command `python -m chaos.macros`: flight records through macro queues over a pair and a single manager."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from chaos.demos import Account, Place, end, play
from chaos.macros.account import FAIL, PASS, Totals, account
from chaos.macros.picture import draw
from chaos.macros.plants import PLANTS
from chaos.macros.story import MacroStory
from chaos.units.plan import flights_of
from tandemq.demo.rows import flights


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
    failures = play(story.play())
    seen = PLANTS[plant](story.seen) if plant and not failures else story.seen
    totals, findings = account(story.flights, seen)
    if failures:
        totals = totals._replace(verdict=FAIL)
    # Of a run that broke off no journal was read.
    came_to = Account(totals._asdict(), failures or findings, totals.verdict == PASS, totals.verdict)
    end(Place("macro", out, directory, keep), came_to, draw(seen, _title(totals)))


def _title(totals: Totals) -> str:
    return (
        f"{totals.settled:,} flights, {totals.kills} kills: {totals.lost} lost, {totals.duplicates} duplicates, "
        f"{totals.order_breaks} out of order, {totals.policy_breaks} against the policy"
    )


if __name__ == "__main__":
    main()
