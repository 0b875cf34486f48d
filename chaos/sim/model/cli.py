"""The command: searches every bound, prints a table, and shows the shortest way to whatever must not be."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict

from chaos.sim.model.bounds import FULL, REDUCED
from chaos.sim.model.rules import RULES, removed
from chaos.sim.model.search import Found, Search

EXAMPLE = """examples:
  python -m chaos.sim.model                    every bound, in two processes; exit 1 on a violation
  python -m chaos.sim.model --only "two resets"
  python -m chaos.sim.model --rules -o json    each rule taken out: what finds that it is gone
"""
RULE_STATES_MAX = 6_000_000


def _progress(name: str) -> Callable[[str], None]:
    def tell(text: str) -> None:
        sys.stderr.write(f"{name}: {text}\n")
        sys.stderr.flush()

    return tell


def search_bound(name: str, *, quiet: bool) -> Found:
    """One bound of either table, to its end."""
    bound = {**REDUCED, **FULL}[name]
    return Search(bound, progress=None if quiet else _progress(name)).run()


def search_rule(name: str, *, quiet: bool) -> Found | None:
    """One rule taken out; None where something else than the search sees it."""
    rule = next(rule for rule in RULES if rule.name == name)
    if rule.bound is None:
        return None
    with removed(rule):
        progress = None if quiet else _progress(name)
        return Search(rule.bound, states_max=RULE_STATES_MAX, progress=progress).run()


def _in_processes(
    names: list[str], work: Callable[..., Found | None], options: argparse.Namespace
) -> dict[str, Found | None]:
    found: dict[str, Found | None] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        asked = {pool.submit(work, name, quiet=options.quiet): name for name in names}
        for done in as_completed(asked):
            each = found[asked[done]] = done.result()
            what = f"{each.states:,} states, {each.broken or 'nothing found'}" if each is not None else "not searched"
            sys.stderr.write(f"done: {asked[done]}: {what} ({len(found)} of {len(names)})\n")
    return {name: found[name] for name in names}


def _bounds(options: argparse.Namespace) -> int:
    names = options.only or list(REDUCED if options.reduced else FULL)
    found = {name: each for name, each in _in_processes(names, search_bound, options).items() if each is not None}
    broken = [name for name, each in found.items() if each.broken]
    bounds = {**REDUCED, **FULL}
    if options.output == "json":
        rows = {name: {"bound": asdict(bounds[name]), **asdict(each)} for name, each in found.items()}
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return 1 if broken else 0
    head = f"{'bound':<38}{'states':>10}{'steps':>11}{'depth':>6}{'seconds':>9}{'pairs':>8}{'beyond':>8}{'operator':>9}"
    head += "  at most"
    lines = [head, "-" * len(head)]
    for name, each in found.items():
        lines.append(
            f"{name:<38}{each.states:>10,}{each.transitions:>11,}{each.depth:>6}{each.seconds:>9.1f}"
            f"{each.pairs:>8,}{each.beyond:>8,}{each.operator:>9,}  "
            + (f"BROKEN: {each.broken}" if each.broken else str(bounds[name]))
        )
    states, steps = sum(f.states for f in found.values()), sum(f.transitions for f in found.values())
    lines.append(f"{states:,} states, {steps:,} steps, {len(broken)} violation(s)")
    for name in broken:
        lines += ["", f"{name}: {found[name].broken}", *(f"{at:4} {s}" for at, s in enumerate(found[name].trace, 1))]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if broken else 0


def _rules(options: argparse.Namespace) -> int:
    names = options.only or [rule.name for rule in RULES]
    found = _in_processes(names, search_rule, options)
    rows = []
    for rule in RULES:
        if rule.name not in found:
            continue
        each = found[rule.name]
        caught = each is not None and bool(each.broken) and rule.says in each.broken
        by = "the model" if caught else "NOTHING" if each is not None else rule.says
        rows.append({
            "rule": rule.name, "caught_by": by, "saw": each.broken if each is not None else "",
            "states": each.states if each is not None else 0, "steps": len(each.trace) if each is not None else 0,
            "trace": each.trace if each is not None else [],
        })  # fmt: skip
    missed = [row for row in rows if row["caught_by"] == "NOTHING"]
    if options.output == "json":
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        sys.stdout.write(f"{'rule taken out':<38}{'caught by':<12}{'states':>10}{'steps':>7}  what was seen\n")
        for row in rows:
            states, steps = row["states"], row["steps"]
            sys.stdout.write(f"{row['rule']:<38}{row['caught_by']:<12}{states:>10,}{steps:>7}  {row['saw']}\n")
    return 1 if missed else 0


def main(words: list[str] | None = None) -> int:
    """0: nothing found; 1: a violation, or a rule that nothing misses; 2: wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m chaos.sim.model",
        description="Every order of steps of a pair, inside a bound, over the product's own core and tables.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rules", action="store_true", help="take out each rule and see that it is missed")
    parser.add_argument("--reduced", action="store_true", help="the bounds of the normal test run")
    parser.add_argument("--only", action="append", metavar="NAME", help="this bound or rule; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(words)
    known = [rule.name for rule in RULES] if options.rules else [*FULL, *REDUCED]
    for name in options.only or []:
        if name not in known:
            parser.error(f"--only {name!r}: there is no such name; there are: {', '.join(known)}")
    return _rules(options) if options.rules else _bounds(options)
