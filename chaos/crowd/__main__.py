"""`python -m chaos.crowd`: what can be said to it, and how its answer looks."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from chaos.crowd.run import PARTS, MissingPartError, play, wrong
from tandemq.cli.output import say, say_lines

FAILED, USAGE = 1, 2
OUT = Path("build/crowd.json")
EXAMPLE = """
example: python -m chaos.crowd --only silent,floods -o json
exit codes: 0 passed; 1 a send failed, a takeover without a fault, or a flood that was not ended;
  2 usage, or a part that is not there
"""


def main(argv: list[str] | None = None) -> int:
    """Plays the crowds and says the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m chaos.crowd",
        description="Silent connections, floods and idle consumers at a pair of its own; what its clients notice.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="PART,...", default=",".join(PARTS), help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--silent", type=int, metavar="N", default=1_100, help="silent connections (1,100)")
    parser.add_argument("--seconds", type=float, default=20.0, help="that they stay, at each port (20)")
    parser.add_argument("--consumers", type=int, metavar="N", default=10_000, help="idle consumers (10,000)")
    parser.add_argument("--connections", type=int, metavar="N", default=20, help="that these come over (20)")
    parser.add_argument("--out", type=Path, default=OUT, help=f"where the figures are written ({OUT})")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(argv)
    parts = [part for part in options.only.split(",") if part]
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"--only {','.join(unknown)}: there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="tandemq-crowd-") as directory:
        work = play(
            Path(directory),
            parts,
            connections=options.silent,
            seconds=options.seconds,
            consumers=options.consumers,
            over=options.connections,
        )
        try:
            figures = asyncio.run(work)
        except MissingPartError as error:
            say(f"cannot play all of it: {error}; or name others with --only", err=True)
            return USAGE
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(figures, indent=2)
    options.out.write_text(text + "\n", encoding="utf-8")
    if options.output == "json":
        say_lines(text)
    else:
        for name, value in figures.items():
            say(f"{name:26} {value}")
    return FAILED if wrong(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
