"""The command `python -m chaos.sim.images`: crash images of the product's files, judged, in a table."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from chaos.sim.images.judges import HALF, INVALID, LOST, SOMETIMES
from chaos.sim.images.run import LYING, NAMES, CannotRunError, Count, Run, look_at_all, scratch, trace
from tandemq.cli.output import console

CONTROL_IMAGES = 100
LYING_CONTROL_IMAGES = 300
"""A hole that is taken for whole is rare: most are refused."""
EXAMPLES_MAX = 5
_JOBS = min(os.cpu_count() or 1, 8)


@click.command()
@click.option(
    "--images", default=3000, show_default=True, type=click.IntRange(600), help="How many, over all scenarios."
)
@click.option("--seed", default=1, show_default=True, help="Of what is done, and of what is lost.")
@click.option("--scenario", "chosen", multiple=True, type=click.Choice(NAMES), help="Only this one; may be repeated.")
@click.option("--jobs", default=_JOBS, show_default=True, type=click.IntRange(1), help="Processes at a time.")
@click.option("-o", "--output", default="table", type=click.Choice(["table", "json"]), help="How to print.")
def main(*, images: int, seed: int, chosen: Sequence[str], jobs: int, output: str) -> None:
    """Cut the power at every write of a real store, witness and journal, and open what is left.

    \b
    invalid  cannot be opened, or is damaged
    lost     whole, but something that was promised is gone
    half     a part of a batch, or more than was asked for
    control  the same without sync, where images must be found bad; of scenario `lying`, whose device loses its
             last durable writes, one that loses a write and keeps a later one

    Exit 0: nothing found, every control found bad, every case met that must be. 1: otherwise. 2: wrong usage.

    \b
    Example: python -m chaos.sim.images --images 10000 -o json
    """
    began = time.monotonic()
    names = [name for name in NAMES if not chosen or name in chosen]
    try:
        with tempfile.TemporaryDirectory(prefix="crash-images-", dir=scratch()) as directory:
            runs = _traced(names, Path(directory), images, seed, jobs)
            counts = _looked_at(runs, jobs)
    except CannotRunError as error:
        raise click.ClickException(f"crash-images: {error}") from error
    rows = [row_of(name, counts) for name in names]
    ok = all(row["ok"] for row in rows)
    if output == "json":
        total = sum(int(str(row["images"])) for row in rows)
        seconds = round(time.monotonic() - began, 1)
        click.echo(
            json.dumps({"ok": ok, "seed": seed, "images": total, "seconds": seconds, "scenarios": rows}, indent=1)
        )
    else:
        _print(rows, seed, time.monotonic() - began)
    sys.exit(0 if ok else 1)


def _traced(names: Sequence[str], directory: Path, images: int, seed: int, jobs: int) -> list[Run]:
    def one(what: tuple[str, bool]) -> Run:
        name, control = what
        own = directory / f"{name}-{control}"
        own.mkdir()
        wanted = -(-images // len(names))
        if control:
            wanted = LYING_CONTROL_IMAGES if name == LYING else CONTROL_IMAGES
        return trace(name, own, control=control, seed=seed, images=wanted)

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, [(name, control) for name in names for control in (False, True)]))


def _looked_at(runs: list[Run], jobs: int) -> dict[tuple[str, bool], Count]:
    counts = {(run.scenario, run.control): Count() for run in runs}
    columns = TextColumn("crash images"), BarColumn(), MofNCompleteColumn()
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=sum(len(run.shots) for run in runs))
        for run, shot, seen in look_at_all(runs, jobs):
            counts[run.scenario, run.control].add(run, shot, seen)
            progress.advance(task)
    return counts


def row_of(name: str, counts: dict[tuple[str, bool], Count]) -> dict[str, object]:
    real, control = counts[name, False], counts[name, True]
    return {
        "scenario": name,
        "images": real.images,
        **{kind: real.kinds[kind] for kind in (INVALID, LOST, HALF)},
        "control": {"images": control.images, "bad": control.bad, **dict(control.kinds)},
        "seen": {point: real.seen[point] for point in SOMETIMES[name]},
        "missed": (missed := [point for point in SOMETIMES[name] if not real.seen[point]]),
        "ok": not real.bad and bool(control.bad) and not missed,
        "examples": real.examples[:EXAMPLES_MAX],
    }


def _print(rows: Sequence[dict[str, object]], seed: int, seconds: float) -> None:
    click.echo(f"{'scenario':<10}{'images':>8}{'invalid':>9}{'lost':>7}{'half':>7}   control (sync off)")
    for row in rows:
        control = row["control"]
        assert isinstance(control, dict)
        kinds = ", ".join(f"{control[kind]} {kind}" for kind in (INVALID, LOST, HALF) if control.get(kind))
        words = f"{control['bad']} of {control['images']} found bad" + (f": {kinds}" if kinds else "")
        words += "" if control["bad"] else ": THE CONTROL PASSES, so this shows nothing"
        click.echo(f"{row['scenario']:<10}{row['images']:>8}{row[INVALID]:>9}{row[LOST]:>7}{row[HALF]:>7}   {words}")
    for row in rows:
        examples, missed = row["examples"], row["missed"]
        assert isinstance(examples, list)
        assert isinstance(missed, list)
        for line in [*examples, *(f"{row['scenario']}: never met: {point}" for point in missed)]:
            click.echo(f"  {line}", err=True)
    total = sum(int(str(row["images"])) for row in rows)
    verdict = "nothing found" if all(row["ok"] for row in rows) else "FAILED"
    click.echo(f"{total} images, {verdict}; {seconds:.0f} s, seed {seed}")


if __name__ == "__main__":
    main()
