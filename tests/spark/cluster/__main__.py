"""`python -m tests.spark.cluster`: a Spark cluster beside a pair, with kills; what it is told, and how it ends."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from chaos.cluster import ClusterError
from tandemq.cli.output import print_table, say, say_lines
from tandemq.errors import Refused, TandemqError
from tandemq.spark.java import check_java, check_packages
from tests.spark.cluster.judging import FAIL, PASS, RIGHT, figures
from tests.spark.cluster.lan import ROOT, inside, why_not
from tests.spark.cluster.packing import Packed, pack

FAILED, USAGE, NOT_HERE = 1, 2, 3
OUT = ROOT / "build" / "spark-cluster.json"
FOLDER = ROOT / "build" / "spark-cluster"
LARGE = ("environment", "local", "work")
"""Of the folder: not kept, because each executor unpacks an environment of its own."""
ROUNDS_MAX = 1_000
EXAMPLE = """
example: python -m tests.spark.cluster --rounds 5 -o json
exit codes: 0 PASS; 1 FAIL: something was lost, is there twice, or did not go on; 2 usage;
  3 it cannot be run on this machine: NO_NAMESPACES, NO_JAVA, NO_SPARK
"""


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m tests.spark.cluster",
        description="Spark's standalone master and two workers, each in a network of its own, read a pair and write to "
        "it, while executors, workers and the master of the pair are killed (kill -9). Then all rows are compared.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--rounds", type=int, metavar="N", default=5, help="kills; each of five kinds in turn (5)")
    found.add_argument("--seed", type=int, metavar="N", default=1, help="of the pauses before a kill (1)")
    found.add_argument("--out", type=Path, default=OUT, help="where the figures are written (build/spark-cluster.json)")
    found.add_argument("-o", "--output", choices=("table", "json"), default="table")
    found.add_argument("--inside", nargs=2, type=Path, help=argparse.SUPPRESS, metavar=("WHEEL", "ARCHIVE"))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(given)
    if not 1 <= options.rounds <= ROUNDS_MAX:
        parser().error(f"--rounds {options.rounds}: 1 to {ROUNDS_MAX}")
    if options.inside:
        return play(options, Packed(*options.inside))
    if why := why_not():
        text = (
            f"this machine gives no network of its own to a process: {why}. Run it as root, or where user name spaces"
        )
        return not_here("NO_NAMESPACES", f"{text} are allowed (sysctl kernel.unprivileged_userns_clone)")
    try:
        check_packages()
        check_java()
    except Refused as refused:
        return not_here(refused.reason, f"{refused.message}; `make spark` installs what is missing")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    say("packing the wheel and an environment with it", err=True)
    try:
        packed = pack(FOLDER)
    except subprocess.CalledProcessError as error:
        say(f"spark-cluster: {' '.join(map(str, error.cmd))} ended with {error.returncode}", err=True)
        return FAILED
    paths = [str(packed.wheel), str(packed.archive)]
    try:
        return inside([sys.executable, "-P", "-m", "tests.spark.cluster", *given, "--inside", *paths])
    finally:
        for name in LARGE:
            shutil.rmtree(FOLDER / name, ignore_errors=True)


def not_here(reason: str, text: str) -> int:
    say(f"error: {reason}", err=True)
    say(f"  cause: {text}", err=True)
    return NOT_HERE


def play(options: argparse.Namespace, packed: Packed) -> int:
    """The run, within spaces of its own: whatever it started ends with this process."""
    from tests.spark.cluster.rounds import Story, said

    def on_term(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, on_term)  # the first process of a space is not ended by it otherwise
    began = time.monotonic()
    story = Story(FOLDER, packed, options.rounds, options.seed, lambda text: say(text, err=True))
    try:
        story.play()
    except KeyboardInterrupt:
        say("interrupted: nothing is written", err=True)
        return 128 + signal.SIGINT
    except (AssertionError, ClusterError, OSError, TandemqError, subprocess.SubprocessError) as error:
        story.run.steps["the run"] = said(error, FOLDER)
    found = figures(story.run, time.monotonic() - began, versions())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    show(found, options.output)
    return 0 if found["verdict"] == PASS else FAILED


def versions() -> dict[str, str]:
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    packages = {name: importlib.metadata.version(name) for name in ("tandemq", "pyspark", "pyarrow", "grpcio")}
    return {"python": platform.python_version(), "java": java.partition("\n")[0], **packages}


def show(found: dict[str, Any], form: str) -> None:
    if form == "json":
        say_lines(json.dumps(found, indent=1))
        return
    print_table(found["places"], ("place", "rows", "lost", "duplicates", "strangers"))
    steps = [{"step": name, "came to": told if told == RIGHT else "see below"} for name, told in found["steps"].items()]
    print_table(steps, ("step", "came to"))
    counts = ("rounds", "executors_killed", "workers_killed", "pair_masters_killed", "drivers_restarted", "in_doubt")
    print_table([{name: found[name] for name in (*counts, "seconds")}], (*counts, "seconds"))
    whole = f"{found['rows']:,} rows compared, {found['acknowledged']:,} messages acknowledged"
    say(f"{found['verdict']}: {whole}, {found['lost']} lost, {found['duplicates']} twice")
    if found["verdict"] == FAIL:
        for name, told in found["steps"].items():
            if told != RIGHT:
                say(f"{name}: {told.partition(chr(10))[0]}", err=True)
        say(f"logs are in {FOLDER / 'logs'}", err=True)


if __name__ == "__main__":
    sys.exit(main())
