"""Decides what can be said to the simulator on a command line and how its answers look; it runs nothing by itself."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from chaos.sim.pair.plan import Outcome, Plan
from chaos.sim.tools import report
from chaos.sim.tools.campaign import Campaign, Result, results
from chaos.sim.tools.hunt import Catch, hunt
from chaos.sim.tools.picture import picture
from chaos.sim.tools.product import Kernel
from chaos.sim.tools.replay import Kept, drawn_command, kept_command, load, save, story
from chaos.sim.tools.shrink import Progress, Shrinker, kind_of
from chaos.sim.tools.tally import FLOOR_SEEDS, FLOOR_SEEDS_MIN, Floor
from chaos.sim.tools.tally import floors as floors_of

Command = TypeVar("Command", bound=Callable[..., Any])

ALL = "all"
LINE_EVERY_S = 10.0
"""How often progress is printed where there is no terminal to draw it on."""
EXIT_CODES = "Exit codes: 0 no violation, 1 a violation, 2 usage, 3 too little was tried to say so."


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
def root() -> None:
    """Whole pairs in one process, from a seed: find what breaks, repeat it, make it small, draw it.

    \b
    Look:    python -m chaos.sim campaign --seeds 3000
    Repeat:  python -m chaos.sim run --seed 7 --profile swarm --trace
    Shrink:  python -m chaos.sim shrink --seed 7 --profile swarm --out kept.json
    Draw:    python -m chaos.sim run --plan kept.json --svg kept.svg
    """


def output_option(command: Command) -> Command:
    return click.option(
        "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How it looks."
    )(command)


def seed_options(command: Command) -> Command:
    """Which plan: from a seed, or from a file."""
    for option in (
        click.option(
            "--bug", default=None, metavar="NAME", help="Plant this bug. See: python -m chaos.sim bugs --list"
        ),
        click.option("--plan", "path", type=click.Path(path_type=Path), help="A plan or a kept schedule, instead."),
        click.option("--profile", metavar="NAME", help="What the plan is drawn by."),
        click.option("--seed", type=int, help="What the plan is drawn from."),
    ):
        command = option(command)
    return command


def campaign_options(command: Command) -> Command:
    for option in (
        click.option(
            "--max-failures", type=click.IntRange(min=1), default=10, show_default=True, help="Stop after so many."
        ),
        click.option("--bug", default="", metavar="NAME", help="Plant this bug in every run."),
        click.option("--first-seed", type=int, default=1, show_default=True, help="The seed of the first run."),
        jobs_option,
        click.option("--profiles", default=ALL, show_default=True, metavar="A,B", help="Dealt out in turn."),
        click.option("--seeds", type=click.IntRange(min=1), default=3_000, show_default=True, help="How many runs."),
    ):
        command = option(command)
    return command


def jobs_option(command: Command) -> Command:
    return click.option(
        "--jobs", type=click.IntRange(min=0), default=2, show_default=True, help="Processes; 0 works in this one."
    )(command)


class Target(click.Path):
    """A file to be written when the work is done: tried before it begins, as the work may take an hour."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        was_there = path.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab"):
                pass
            if not was_there:
                path.unlink()
        except OSError as error:
            self.fail(f"{path} cannot be written: {error.strerror}", param, ctx)
        return path


@root.command()
@seed_options
@click.option("--trace", is_flag=True, help="Print what happened, an event a line.")
@click.option("--svg", type=Target(), help="Draw what happened into this file.")
@click.option("--keep", type=Target(), help="Write the plan as a kept schedule.")
@click.option("--shrink", "shrunk", type=Target(), help="Make it small and keep it here.")
@click.option("--note", default="", help="What it was, for the kept schedule.")
@output_option
@click.pass_obj
def run(
    kernel: Kernel,
    seed: int | None,
    profile: str | None,
    path: Path | None,
    bug: str | None,
    trace: bool,
    svg: Path | None,
    keep: Path | None,
    shrunk: Path | None,
    note: str,
    output: str,
) -> None:
    """Run one plan. Exit code 1 when it shows a violation.

    Example: python -m chaos.sim run --seed 7 --profile swarm --trace --svg story.svg
    """
    chosen = _chosen(kernel, seed, profile, path, bug)
    outcome = (kernel.traced if trace or svg else kernel.run)(chosen.plan)
    if trace:
        click.echo("\n".join(story(outcome)), err=output == "json")
    if svg:
        _write(svg, picture(outcome))
    if keep:
        save(Kept(chosen.plan, _expected(outcome), note), keep)
    if shrunk and outcome.violations:
        _shrink(kernel, chosen, shrunk, note, budget=2_000)
    _print_outcome(outcome, chosen.again, output)
    sys.exit(report.VIOLATION if outcome.violations else report.OK)


@root.command()
@seed_options
@click.option("--out", required=True, type=Target(), help="Where the kept schedule goes.")
@click.option("--budget", type=click.IntRange(min=1), default=2_000, show_default=True, help="Runs at most.")
@click.option("--note", default="", help="What it was, for somebody who was not there.")
@click.option("--svg", type=Target(), help="Draw what is left into this file.")
@click.pass_obj
def shrink(
    kernel: Kernel,
    seed: int | None,
    profile: str | None,
    path: Path | None,
    bug: str | None,
    out: Path,
    budget: int,
    note: str,
    svg: Path | None,
) -> None:
    """Make a failing plan as small as it gets, and keep it. Exit code 1: the plan shows no violation.

    Example: python -m chaos.sim shrink --seed 7 --profile swarm --out tests/sim/regress/lost-ack.json --note "..."
    """
    smallest = _shrink(kernel, _chosen(kernel, seed, profile, path, bug), out, note, budget)
    if svg:
        _write(svg, picture(kernel.traced(smallest)))


@root.command()
@campaign_options
@output_option
@click.pass_obj
def campaign(
    kernel: Kernel,
    seeds: int,
    profiles: str,
    jobs: int,
    first_seed: int,
    bug: str,
    max_failures: int,
    output: str,
) -> None:
    """Run many seeds and add up what they showed. Exit code 1: a violation. 3: too little was tried.

    Example: python -m chaos.sim campaign --seeds 3000 --profiles all --jobs 2
    """
    chosen = Campaign(_profiles(kernel, profiles), seeds, first_seed, _bug(kernel, bug) if bug else "", max_failures)
    result = _watched(kernel, chosen, jobs)
    asked = _asked(kernel, chosen)
    facts = report.facts(result, asked.points, asked.floors, asked.points_from) | {"not_asked_for": asked.without}
    if output == "json":
        _print_json(facts)
    else:
        _print_rows(report.lines(facts))
        if asked.without:
            click.echo(f"not asked for: {asked.without}", err=True)
        _print_violations(facts["violations"])
    sys.exit(report.exit_code(result, asked.points, asked.floors, asked.points_from))


@root.command()
@campaign_options
@click.option("--pairs", is_flag=True, help="All pairs of state and event too, not only the named points.")
@output_option
@click.pass_obj
def coverage(
    kernel: Kernel,
    seeds: int,
    profiles: str,
    jobs: int,
    first_seed: int,
    bug: str,
    max_failures: int,
    pairs: bool,
    output: str,
) -> None:
    """Run many seeds and say which points they met, how often. Exit code 1: a violation. 3: a point was never met.

    Example: python -m chaos.sim coverage --seeds 500 --pairs
    """
    chosen = Campaign(_profiles(kernel, profiles), seeds, first_seed, _bug(kernel, bug) if bug else "", max_failures)
    result = _watched(kernel, chosen, jobs)
    tally = result.tally
    named = {name: tally.coverage[name] for name in sorted(kernel.points)}
    others = {name: count for name, count in sorted(tally.coverage.items()) if pairs and name not in named}
    if output == "json":
        _print_json({"seeds": tally.seeds, "points": named, "pairs": others})
    else:
        rows = [(name, f"{count:,}  {kernel.points[name]}") for name, count in named.items()]
        _print_rows(rows + [(name, f"{count:,}") for name, count in others.items()])
    _print_violations([report.failure_facts(failure) for failure in tally.failures], err=True)
    if tally.failures:
        sys.exit(report.VIOLATION)
    sys.exit(report.INVALID if result.interrupted or tally.missed(kernel.points) else report.OK)


@root.command()
@click.option("--list", "listed", is_flag=True, help="Only say which there are.")
@click.option("--only", default="", metavar="A,B", help="Only these.")
@click.option("--first-seed", type=int, default=1, show_default=True, help="The seed of each bug's first run.")
@jobs_option
@output_option
@click.pass_obj
def bugs(kernel: Kernel, listed: bool, only: str, first_seed: int, jobs: int, output: str) -> None:
    """Plant each known bug and say after how many seeds it is found. Exit code 1: one was missed within its budget.

    Rules whose loss no run shows are not planted: they are named, with why and the test that holds them.

    Example: python -m chaos.sim bugs --jobs 2
    """
    names = [_bug(kernel, name) for name in only.split(",")] if only else []
    wanted = [quarry for quarry in kernel.quarries if not names or quarry.bug in names]
    if listed:
        for quarry in wanted:
            click.echo(f"{quarry.bug:<28} {quarry.budget:>6,} seeds of {', '.join(quarry.profiles)}: {quarry.text}")
        _print_elsewhere(kernel, names)
        return
    catches: list[Catch] = []
    for catch in hunt(kernel.works, wanted, first_seed, jobs):
        catches.append(catch)
        if output == "table":
            verdict = catch.failure.violations[0] if catch.failure else "MISSED"
            click.echo(f"{catch.quarry.bug:<28} {catch.seeds:>6,} of {catch.quarry.budget:>6,} seeds  {verdict}")
    missed = [catch.quarry.bug for catch in catches if catch.failure is None]
    if output == "json":
        left_out = [{"rule": rule, "why": why, "test": test} for rule, why, test in kernel.elsewhere if not names]
        _print_json({"bugs": [report.catch_facts(catch) for catch in catches], "missed": missed, "left_out": left_out})
    else:
        _print_elsewhere(kernel, names)
        click.echo(f"{len(catches) - len(missed)} of {len(catches)} planted bugs found" + _missed_text(missed))
    sys.exit(report.VIOLATION if missed else report.OK if catches else report.INVALID)


def _missed_text(missed: list[str]) -> str:
    return f"; missed: {', '.join(missed)}" if missed else ""


def _print_elsewhere(kernel: Kernel, names: list[str]) -> None:
    """Unless only some bugs were asked for."""
    for rule, why, test in kernel.elsewhere if not names else ():
        click.echo(f"not planted  {rule}\n    no run shows it: {why}; {test} does")


# What the commands share


class Chosen(NamedTuple):
    """The plan that was asked for."""

    plan: Plan
    again: str
    """The command that repeats it."""
    expected: str = ""
    """What it was kept for."""


def _chosen(kernel: Kernel, seed: int | None, profile: str | None, path: Path | None, bug: str | None) -> Chosen:
    if bug:
        _bug(kernel, bug)
    if path is not None:
        if seed is not None or profile is not None:
            raise click.UsageError("a plan from a file has its own seed and profile: leave out --seed and --profile")
        try:
            kept = load(path)
            plan = kept.plan if bug is None else replace(kept.plan, bug=bug)
            kernel.check(plan)
        except OSError as error:
            raise click.UsageError(str(error)) from error
        except ValueError as error:
            raise click.UsageError(str(error) if str(path) in str(error) else f"{path} is {error}") from error
        return Chosen(plan, kept_command(path) + (f" --bug {bug}" if bug else ""), kept.expected)
    if seed is None or profile is None:
        raise click.UsageError("name a plan: --seed N --profile P, or --plan FILE")
    if _profiles(kernel, profile) != (profile,):
        raise click.UsageError(f"one run has one profile, not {profile!r}")
    return Chosen(replace(kernel.draw(profile, seed), bug=bug or ""), drawn_command(profile, seed, bug or ""))


def _profiles(kernel: Kernel, names: str) -> tuple[str, ...]:
    if names == ALL:
        return kernel.profiles
    chosen = tuple(names.split(","))
    for name in chosen:
        if name not in (known := (*kernel.profiles, *kernel.apart)):
            raise click.UsageError(f"there is no profile {name!r}; there are: {', '.join(known)}")
    return chosen


def _bug(kernel: Kernel, name: str) -> str:
    known = [quarry.bug for quarry in kernel.quarries]
    if name not in known:
        raise click.UsageError(f"there is no planted bug {name!r}; there are: {', '.join(known)}")
    return name


class Asked(NamedTuple):
    """What a campaign has to reach to be valid."""

    points: tuple[str, ...]
    floors: tuple[Floor, ...]
    points_from: int
    """So many seeds, or more, must have met all points."""
    without: str
    """What is not asked for, and why; empty: everything is."""


def _asked(kernel: Kernel, chosen: Campaign) -> Asked:
    """Floors are of the product over all profiles. Some profiles are asked for their own points, and each of them gets
    as many seeds as it would get in a campaign over all.
    """
    if chosen.bug:
        return Asked((), (), FLOOR_SEEDS, "floors and points, with a planted bug")
    if chosen.profiles != kernel.profiles:
        points = tuple(point for profile in chosen.profiles for point in kernel.homes.get(profile, ()))
        share = FLOOR_SEEDS * len(chosen.profiles) // len(kernel.profiles)
        return Asked(points, (), share, "floors, and points of other profiles: not all profiles")
    few = f"floors and points: fewer than {FLOOR_SEEDS_MIN:,} seeds" if chosen.seeds < FLOOR_SEEDS_MIN else ""
    return Asked(tuple(kernel.points), floors_of(kernel.kinds), FLOOR_SEEDS, few)


def _watched(kernel: Kernel, chosen: Campaign, jobs: int) -> Result:
    """Runs it and prints on stderr how far it is. Interrupted, it is what was added up so far."""
    result = Result()
    try:
        with _progress_lines(chosen) as report_one:
            for result in results(kernel.works, chosen, jobs):
                report_one(result)
    except KeyboardInterrupt:
        result.interrupted = f"interrupted after {result.tally.seeds:,} of {chosen.seeds:,} seeds"
        click.echo(f"{result.interrupted}: too little was tried", err=True)
        result.stopped_early = True
    return result


@contextlib.contextmanager
def _progress_lines(chosen: Campaign) -> Iterator[Callable[[Result], None]]:
    """A bar where there is a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        printed_s = time.monotonic()

        def print_line(result: Result) -> None:
            nonlocal printed_s
            if time.monotonic() - printed_s >= LINE_EVERY_S:
                printed_s = time.monotonic()
                click.echo(f"{result.tally.seeds:,} of {chosen.seeds:,} seeds, {_progress(result)}", err=True)

        yield print_line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from tandemq.cli.output import console

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("seeds", total=chosen.seeds)
        yield lambda result: bar.update(task, completed=result.tally.seeds, description=_progress(result))


def _progress(result: Result) -> str:
    speed = result.tally.seeds / result.cost.wall_s if result.cost.wall_s else 0
    return f"{speed:,.1f} seeds/s, {len(result.tally.failures)} violations"


def _shrink(kernel: Kernel, chosen: Chosen, out: Path, note: str, budget: int) -> Plan:
    """Shrinks, writes, and says on stderr how it went."""
    last = -LINE_EVERY_S

    def on_progress(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= (0.2 if sys.stderr.isatty() else LINE_EVERY_S):
            last = time.monotonic()
            what = f"{progress.faults} faults, {progress.clients} clients, {progress.calls} calls"
            click.echo(f"run {progress.runs:,} of {progress.budget:,}: {progress.step}; {what}", err=True)

    try:
        shrinker = Shrinker(chosen.plan, kernel.run, budget, on_progress, chosen.expected)
    except ValueError as error:
        raise click.ClickException(f"{error} ({chosen.again})") from error
    smallest = shrinker.smallest()
    save(Kept(smallest, shrinker.kind, note), out)
    calls = sum(len(client.calls) for client in smallest.clients)
    left = f"{len(smallest.faults)} faults, {len(smallest.clients)} clients, {calls} calls"
    click.echo(f"{out}: {left}; still {shrinker.kind!r}\nagain: {kept_command(out)}", err=True)
    return smallest


def _expected(outcome: Outcome) -> str:
    return kind_of(outcome.violations[0]) if outcome.violations else ""


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _print_outcome(outcome: Outcome, again: str, output: str) -> None:
    facts = {
        "seed": outcome.plan.seed,
        "profile": outcome.plan.profile,
        "bug": outcome.plan.bug,
        "violations": outcome.violations,
        "steps": outcome.steps,
        "virtual_ms": outcome.virtual_ms,
        "counters": dict(sorted(outcome.counters.items())),
        "trace_hash": outcome.trace_hash,
        "again": again,
    }
    if output == "json":
        _print_json(facts)
        return
    rows = [(name, str(value)) for name, value in facts.items() if name not in ("violations", "counters", "again")]
    rows += [(name, f"{count:,}") for name, count in sorted(outcome.counters.items())]
    _print_rows(rows)
    for violation in outcome.violations:
        click.secho(f"VIOLATION {violation}", fg="red")
    click.echo(f"again: {again}")


def _print_violations(violations: list[dict[str, Any]], *, err: bool = False) -> None:
    for each in violations:
        click.secho(f"VIOLATION {'; '.join(each['violations'])}", fg="red", err=err)
        click.echo(f"  run {each['run']:,}; again: {each['again']}", err=err)


def _print_rows(rows: list[tuple[str, str]]) -> None:
    from tandemq.cli.output import console
    from tandemq.cli.terminal import new_table

    table = new_table(heads=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    console().print(table)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps({"schema_version": 1, **value}, indent=2))
