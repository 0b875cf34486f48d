"""Runs the demo in a place of its own and ends with its verdict; what happens is written in tandemq.demo."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tandemq.cli.failure import FAILED
from tandemq.cli.output import console, print_line

if TYPE_CHECKING:
    from chaos.ledger import Ledger
    from tandemq.demo.rows import Rows
    from tandemq.demo.story import Story

SEED_BITS = 31


@click.command()
@click.option("--input", "file", metavar="FILE", help="Any text, a line a message; .gz is unpacked. Default: flights.")
@click.option("--kills", type=click.IntRange(0, 10), default=2, show_default=True, help="How often the master dies.")
@click.option("--seed", type=click.IntRange(min=0), help="Repeats windows and kill points of another run.")
@click.option("--data-dir", metavar="DIR", help="Where the pair lives; kept. Default: a temporary directory.")
@click.option("--out", metavar="DIR", default="build/demo", show_default=True, help="Where the results go.")
@click.option("--keep", is_flag=True, help="Keep the temporary directory with data and logs.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def demo(
    ctx: click.Context,
    file: str | None,
    kills: int,
    seed: int | None,
    data_dir: str | None,
    out: str,
    keep: bool,
    output: str,
) -> None:
    """Kill the master of a pair under load and account for every message.

    Starts two members and a witness on this machine, sends 27,004 flight records in order, kills the master with
    SIGKILL whenever a third was acknowledged, and restarts what died. Exit code 0 only when no acknowledged record is
    missing, doubled or out of order. It ends with what `tandemq doctor` says of the pair, which does not count.

    \b
    Example: tandemq demo
             tandemq demo --input access.log --kills 3 --seed 7 -o json
    """
    rows = _read(file)
    if len(rows) < 10 * (kills + 1):
        raise click.UsageError(f"{len(rows)} rows are too few for {kills} kills")
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    directory = Path(data_dir) if data_dir else Path(tempfile.mkdtemp(prefix="tandemq-demo-"))
    origin = {"input": file or "flights-2013-01", "seed": seed, "data_dir": str(directory)}
    story, ledger, failures = _play(directory, rows, kills, seed, to_stderr=output == "json")

    from tandemq.demo.result import print_account, summary, write

    facts = summary(ledger, story.record, failures, origin, story.findings)
    write(Path(out), facts, ledger, story.record)
    passed = facts["verdict"] == "pass"
    if not data_dir and not keep and passed:
        shutil.rmtree(directory, ignore_errors=True)
    if output == "json":
        print_line(facts)
    else:
        print_account(console(), facts, Path(out))
    ctx.exit(0 if passed else FAILED)


def _read(file: str | None) -> Rows:
    from tandemq.demo.rows import flights, read

    try:
        return read(Path(file)) if file else flights()
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror or error}") from error


def _play(directory: Path, rows: Rows, kills: int, seed: int, *, to_stderr: bool) -> tuple[Story, Ledger, list[str]]:
    from tandemq.embedded import server_path

    server_path()
    from chaos.cluster import Cluster
    from chaos.demos import play
    from chaos.ledger import Ledger
    from tandemq.demo.screen import screen
    from tandemq.demo.story import Plan, Story

    ledger = Ledger(len(rows))
    with screen(console(), to_stderr=to_stderr) as display:
        story = Story(Cluster(directory, pair="demo"), ledger, rows, Plan(kills, seed), display)
        failures = play(story.play())
    return story, ledger, failures
