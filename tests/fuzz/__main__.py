"""`python -m tests.fuzz`: runs the fuzz targets, prints a table, keeps what crashes, repeats one input."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.fuzz.engine import ROOT, TARGETS, Outcome, fuzz, has_atheris, keep, load

OK, FAILED, USAGE = 0, 1, 2
EXAMPLES = """examples:
  python -m tests.fuzz --seconds 60                       every target, a minute each
  python -m tests.fuzz --target peer --engine hypothesis  one target without coverage
  python -m tests.fuzz --repeat peer build/fuzz/peer-1a2b3c4d
exit codes: 0 nothing crashed, 1 an input crashed a target (it is kept, and the command to repeat it printed), 2 usage
"""


def main(arguments: list[str] | None = None) -> int:
    """See the module."""
    options = _options(arguments)
    if options.repeat:
        return _repeat(*options.repeat)
    engine = options.engine or ("atheris" if has_atheris() else "hypothesis")
    if engine == "atheris" and not has_atheris():
        print("atheris is not installed: pip install 'tandemq[fuzz]', or use --engine hypothesis", file=sys.stderr)
        return USAGE
    targets = options.target or list(TARGETS)
    outcomes = []
    for number, target in enumerate(targets, 1):
        print(f"[{number}/{len(targets)}] {target}: {options.seconds:g} s with {engine}", file=sys.stderr, flush=True)
        outcome = fuzz(target, options.seconds, engine, options.directory)
        outcomes.append(outcome)
        if outcome.crash is not None:
            _tell_crash(outcome, outcome.crash, options.directory)
    if options.output == "json":
        print(json.dumps([_row(outcome) for outcome in outcomes]))
    else:
        _table(outcomes)
    return FAILED if any(outcome.crash is not None for outcome in outcomes) else OK


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for each target (default 5)")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    parser.add_argument("--engine", choices=("atheris", "hypothesis"), help="default: atheris where it is installed")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "fuzz", help="for crashes and found inputs")
    parser.add_argument("--repeat", nargs=2, metavar=("TARGET", "FILE"), help="run one kept input and nothing else")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    if options.seconds <= 0:
        parser.error(f"--seconds {options.seconds:g}: give a time above 0")
    if options.repeat and options.repeat[0] not in TARGETS:
        parser.error(f"--repeat {options.repeat[0]}: there is no such target, only {', '.join(TARGETS)}")
    if options.repeat and not Path(options.repeat[1]).is_file():
        parser.error(f"--repeat: {options.repeat[1]} is no file")
    return options


def _repeat(target: str, path: str) -> int:
    load(target).one(Path(path).read_bytes())
    print(f"{target}: {path} passes")
    return OK


def _tell_crash(outcome: Outcome, data: bytes, directory: Path) -> None:
    path = keep(directory, outcome.target, data)
    print(outcome.error, file=sys.stderr)
    print(f"{outcome.target} crashes. Repeat with:", file=sys.stderr)
    print(f"  {Path(sys.executable).name} -m tests.fuzz --repeat {outcome.target} {path}", file=sys.stderr)


def _row(outcome: Outcome) -> dict[str, object]:
    return {
        "target": outcome.target,
        "engine": outcome.engine,
        "executions": outcome.executions,
        "per_second": round(outcome.executions / outcome.seconds),
        "new_paths": outcome.paths,
        "crash": outcome.crash.hex() if outcome.crash is not None else None,
    }


def _table(outcomes: list[Outcome]) -> None:
    print(f"{'target':<10} {'engine':<11} {'executions':>11} {'per second':>11} {'new paths':>10} {'crashes':>8}")
    for outcome in outcomes:
        row = _row(outcome)
        paths = "-" if outcome.paths is None else outcome.paths
        crashes = int(outcome.crash is not None)
        print(
            f"{outcome.target:<10} {outcome.engine:<11} {outcome.executions:>11} {row['per_second']:>11} {paths:>10} "
            f"{crashes:>8}"
        )


if __name__ == "__main__":
    sys.exit(main())
