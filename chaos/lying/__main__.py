"""The command `python -m chaos.lying`: a disk that lies about its last writes, round after round."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from chaos.cluster import ClusterError
from chaos.lying.kinds import HOLDER, MEMBER_KINDS, REPLICA, WITNESS, Plan, plans
from chaos.lying.report import figures, line
from chaos.lying.rounds import Outcome, play
from tandemq.cli.output import console, say, say_lines

FAILED, NO_PAIR = 1, 3


@click.command()
@click.option("--rounds", default=60, show_default=True, type=click.IntRange(1), help="With both members present.")
@click.option("--alone", default=10, show_default=True, type=click.IntRange(0), help="More, in which one starts alone.")
@click.option("--seed", default=1, show_default=True, help="Of the order of the kinds, and of how much is hurt.")
@click.option("--victim", multiple=True, type=click.Choice([HOLDER, REPLICA, WITNESS]), help="Only these; repeatable.")
@click.option("--kind", multiple=True, type=click.Choice(list(MEMBER_KINDS)), help="Only these; repeatable.")
@click.option("--out", default="build/lying-disk.json", show_default=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", default="table", type=click.Choice(["table", "json"]), help="How to print.")
def main(
    *, rounds: int, alone: int, seed: int, victim: Sequence[str], kind: Sequence[str], out: Path, output: str
) -> None:
    """Kill a pair under load, take the last writes of one copy back, start both: is every acknowledged message there?

    \b
    hurt                   rounds in which an acknowledged message was really gone from the hurt copy
    lost                   acknowledged messages that the pair does not hold afterwards
    called_unacknowledged  acknowledged messages that a salvage file says were not
    unnoticed_alone        rounds in which a hurt member that started alone served without them and said nothing

    Exit 0: lost and called_unacknowledged are 0, everything is in order, and every pair came together. 1: otherwise.
    3: no pair could be started.

    \b
    Example: python -m chaos.lying --rounds 6 --seed 2 --victim holder -o json
    """
    wanted = _all(rounds, alone, seed, victim, kind)
    try:
        outcomes = asyncio.run(_play(wanted, quiet=output == "json"))
    except ClusterError as error:
        say(f"lying-disk: {error}", err=True)
        sys.exit(NO_PAIR)
    found = figures(outcomes, seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    short = {name: value for name, value in found.items() if name != "each"}
    say_lines(json.dumps(found if output == "json" else short, indent=1))
    sys.exit(0 if found["verdict"] == "pass" else FAILED)


def _all(rounds: int, alone: int, seed: int, victims: Sequence[str], kinds: Sequence[str]) -> list[Plan]:
    """As many as are wanted of those that fit."""
    found = plans(rounds * 100 if victims or kinds else rounds, alone, seed)
    both = [each for each in found if not each.alone and _fits(each, victims, kinds)][:rounds]
    return both + [each for each in found if each.alone and _fits(each, (), kinds)]


def _fits(plan: Plan, victims: Sequence[str], kinds: Sequence[str]) -> bool:
    return (not victims or plan.victim in victims) and (not kinds or plan.kind in kinds)


async def _play(wanted: Sequence[Plan], *, quiet: bool) -> list[Outcome]:
    columns = TextColumn("lying disk"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    terminal = console(stderr=True)
    outcomes = []
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        task = progress.add_task("", total=len(wanted))
        for plan in wanted:
            outcomes.append(await play(plan))
            if not quiet:
                say(line(outcomes[-1]))
            progress.advance(task)
    return outcomes


if __name__ == "__main__":
    main()
