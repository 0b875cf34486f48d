"""The command `python -m chaos.secure`: the rights of a pair with certificates, asked of every call through faults."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

from chaos.secure.account import PASS, account
from chaos.secure.page import page
from chaos.secure.rights import QUEUES
from chaos.secure.story import PLACES, SecureStory
from tandemq.cli.output import say
from tandemq.credentials.bad import BadCredentials
from tandemq.demo.story import failures_of
from tandemq.errors import TandemqError

HOLE = "SECURE_HOLE"


@click.command()
@click.option(
    "--queues", type=click.IntRange(1, len(QUEUES)), default=len(QUEUES), help="Ask about so many. Default: 6."
)
@click.option("--hole", is_flag=True, help=f"Plant a hole in the members, which must be found; also {HOLE}=1.")
@click.option("--out", default="build/secure", show_default=True, type=click.Path(path_type=Path))
@click.option("--keep", is_flag=True, help="Keep the directory with data and logs although it passes.")
def main(*, queues: int, hole: bool, out: Path, keep: bool) -> None:
    """A pair, a witness and five principals with certificates: every call as everybody about every queue, at the
    master, at the replica, after a kill and after a handoff, beside a model of the rights; certificates and their
    authority are exchanged under load, rights are revoked, and impostors try to get in.

    Exit code 0: PASS. 1: FAIL, or INVALID where the machine was withheld.

    \b
    Example: python -m chaos.secure --queues 2
    """
    directory = Path(tempfile.mkdtemp(prefix="tandemq-secure-demo-"))
    story = SecureStory(directory, QUEUES[-queues:], hole=hole or os.environ.get(HOLE) == "1")
    try:
        asyncio.run(story.play())
    except* (TandemqError, BadCredentials, RuntimeError, TimeoutError, OSError) as group:
        story.seen.failures += failures_of(group)
    except* KeyboardInterrupt:
        story.seen.failures.append("interrupted")
    summary = account(story.seen, PLACES)
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(json.dumps(summary._asdict(), indent=2) + "\n", encoding="utf-8")
    (out / "matrix.html").write_text(page(story.seen, summary), encoding="utf-8")
    for line in summary.problems[:20]:
        say(line)
    say(f"{summary.cells:,} cells, {summary.wrong} wrong; {summary.acknowledged:,} messages, {summary.lost} lost")
    say(f"{summary.impostors_refused} of {summary.impostors} impostors refused; {summary.rotations} exchanges")
    say(f"{summary.verdict}; {out / 'summary.json'}, {out / 'matrix.html'}")
    passed = summary.verdict == PASS
    if passed and not keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"data and logs are in {directory}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
