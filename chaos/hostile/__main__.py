"""The command `python -m chaos.hostile`: hostile inputs at a live pair with certificates, and what others noticed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

from chaos.hostile.account import HELD, INVALID, verdict_of
from chaos.hostile.play import play
from tandemq.cli.output import say

HOLE = "HOSTILE_HOLE"


@click.command()
@click.option("--only", multiple=True, metavar="WORD", help="Inputs whose name has this in it. Default: all.")
@click.option("--hole", is_flag=True, help=f"Plant a hole in the members, which must be found; also {HOLE}=1.")
@click.option("--untimed", is_flag=True, help="Do not judge how long others wait: on a machine that others use too.")
@click.option("--out", default="build/secure", show_default=True, type=click.Path(path_type=Path))
def main(*, only: tuple[str, ...], hole: bool, untimed: bool, out: Path) -> None:
    """Every hostile input, from without and from a client that has a certificate, at a pair and a witness, while
    another client goes on sending. Each must be answered by name, and nobody else may notice.

    Exit code 0: all held. 1: one was not. 3: the machine was withheld, so that nothing is shown.

    \b
    Example: python -m chaos.hostile --only flood
    """
    directory = Path(tempfile.mkdtemp(prefix="tandemq-hostile-"))
    rows, wanted = asyncio.run(play(directory, only, hole=hole or os.environ.get(HOLE) == "1", timed=not untimed))
    verdict = verdict_of(rows, wanted)
    out.mkdir(parents=True, exist_ok=True)
    document = {"verdict": verdict, "inputs": len(rows), "rows": [row._asdict() for row in rows]}
    (out / "hostile.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    say(f"{verdict}: {sum(row.held == HELD for row in rows)} of {len(rows)} held; {out / 'hostile.json'}")
    if verdict == HELD:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"data and logs are in {directory}")
    sys.exit({HELD: 0, INVALID: 3}.get(verdict, 1))


if __name__ == "__main__":
    main()
