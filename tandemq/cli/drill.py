"""Decides which pair a drill is played on and how its command ends; what happens is written in chaos.drill."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.cli.failure import Failure
from tandemq.cli.output import console, print_file, print_json, print_line, print_rows, say, unread_is_no_error
from tandemq.cli.params import output_option

if TYPE_CHECKING:
    from chaos.drill.plan import Drill
    from chaos.drill.playing import Outcome, Player
    from chaos.drill.stages import Stage

Written = TypeVar("Written")
HELD, NOT_HELD, REFUSED, WENT_WRONG = 0, 1, 2, 3
STARTING_S, POLL_S = 60.0, 0.1  # `tandemq dev` gives up by itself before that


@click.group(
    epilog="Exit codes: 0 everything held, 1 something did not, 2 refused, given up to spare the pair, or stopped by a "
    "signal and healed, 3 the drill itself went wrong, proved nothing, or could not heal."
)
def drill() -> None:
    """Hurt a pair on purpose, under load, and get a verdict.

    \b
    Example: tandemq drill list
             tandemq drill run kill-master --fresh --report-dir ./report
    """
    from tandemq.embedded import server_path

    server_path()


@drill.command("list")
@output_option()
def list_(output: str) -> None:
    """Print the drills that come with Tandemq.

    Example: tandemq drill list
    """
    from chaos.drill import plan

    found = [plan.find(name) for name in plan.names()]
    rows = [
        {"name": each.name, "rounds": each.repeat, "needs_toxiproxy": each.needs_network, "title": each.title}
        for each in found
    ]
    print_rows(rows, "drills", output)


@drill.command()
@click.argument("name")
def show(name: str) -> None:
    """Print a drill, as a file to begin with; a file of one's own (NAME.toml) is checked.

    \b
    Example: tandemq drill show kill-master > mine.toml
             tandemq drill show mine.toml
    """
    from chaos.drill import plan

    _find(name)
    path = Path(name) if name.endswith(".toml") else plan.LIBRARY / f"{name}.toml"
    print_file(plan.text_of(path))


@drill.command()
@click.argument("name")
@click.option("--fresh", is_flag=True, help="On a pair of the drill's own, started and ended with it.")
@click.option("--target", metavar="HOST:PORT[,...]", help="On the pair there; see --hooks.")
@click.option("--hooks", metavar="FILE", type=click.Path(dir_okay=False), help="Commands that kill and start members.")
@click.option("--report-dir", metavar="DIR", default="build/drill", show_default=True, help="Where the report goes.")
@click.option("--repeat", type=click.IntRange(1, 1000), help="So many rounds instead of the drill's own number.")
@click.option("--i-mean-it", is_flag=True, help="Also on a production pair, or one that is not on this machine.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def run(
    ctx: click.Context,
    name: str,
    fresh: bool,
    target: str | None,
    hooks: str | None,
    report_dir: str,
    repeat: int | None,
    i_mean_it: bool,
    output: str,
) -> None:
    """Play a drill, by its name or its file, on the pair of `tandemq dev`, on one of its own, or on yours.

    Faults of the members' connections need Toxiproxy between them: --fresh, or a pair of `tandemq dev --chaos`.

    \b
    Example: tandemq drill run kill-master --report-dir ./report
             tandemq drill run partition-peer --fresh
             tandemq drill run mine.toml --target q1:7600,q2:7600 --hooks hooks.toml --i-mean-it
    """
    import msgspec

    chosen = _find(name)
    if repeat is not None:
        chosen = msgspec.structs.replace(chosen, repeat=repeat)
    stage = _stage(chosen, fresh=fresh, target=target, hooks=hooks, i_mean_it=i_mean_it)
    outcome = _play(chosen, stage, Path(report_dir), to_stderr=output == "json")

    from chaos.drill import report

    unwritten = _unwritten(report.write, Path(report_dir), outcome)
    with unread_is_no_error():
        if output == "json":
            print_line(report.facts_of(outcome))
        else:
            written = f"written: {Path(report_dir) / 'report.html'}, report.md, junit.xml, journal.jsonl"
            _print_verdict(outcome, unwritten or written)
    if unwritten:
        code = NOT_HELD if outcome.verdict == "fail" else WENT_WRONG
        raise Failure("FAILED", unwritten, "the verdict above stands", code)
    ctx.exit({"pass": HELD, "fail": NOT_HELD}.get(outcome.verdict, WENT_WRONG))


@drill.command()
@click.argument("before", type=click.Path(file_okay=False))
@click.argument("after", type=click.Path(file_okay=False))
@output_option()
@click.pass_context
def compare(ctx: click.Context, before: str, after: str, output: str) -> None:
    """Compare two report directories of one drill; exit code 1 when a line of the second is worse.

    A count is worse when it is higher, a time when it is longer by a fifth and by 200 ms; either when there is nothing
    to measure any more. So is a drill that passed and now fails. Exit code 2: a report is broken, proved nothing
    (INVALID), or is of another drill or of another number of rounds.

    Example: tandemq drill compare ./last-week ./today
    """
    from chaos.drill import comparing

    try:
        found = comparing.compare(Path(before), Path(after))
    except comparing.ReportError as error:
        raise Failure("BAD_REQUEST", str(error), "give two directories of `drill run --report-dir`", REFUSED) from error
    rows = [each._asdict() for each in found.lines]
    if output == "json":
        sides = {"before": found.before.summary(), "after": found.after.summary()}
        print_json({"drill": found.before.drill, **sides, "worse": found.worse, "lines": rows})
    else:
        if output == "table":
            say(f"before: {found.before.text}")
            say(f"after:  {found.after.text}")
        print_rows(rows, "lines", output)
    ctx.exit(NOT_HELD if found.worse else HELD)


# -- whose pair --------------------------------------------------------------------------------------------------------


def _find(name: str) -> Drill:
    from chaos.drill import plan

    try:
        return plan.find(name)
    except plan.PlanError as error:
        raise Failure(
            "BAD_REQUEST", str(error), "see `tandemq drill list` and `tandemq drill show`", REFUSED
        ) from error


def _stage(
    chosen: Drill, *, fresh: bool, target: str | None, hooks: str | None, i_mean_it: bool
) -> AbstractAsyncContextManager[Stage]:
    from chaos.drill import stages
    from chaos.faults import FaultError

    if fresh and target:
        raise click.UsageError("--fresh and --target name two pairs; give one of them")
    if hooks and not target:
        raise click.UsageError("--hooks belongs to a pair at --target")
    if fresh:
        return stages.fresh(needs_network=chosen.needs_network, needs_preload=chosen.needs_preload)
    if target:
        from tandemq.cli.session import endpoints_of

        endpoints = endpoints_of(target)
        _current(i_mean_it=i_mean_it)  # a tunnel makes any pair look as if it were here
        _guard_place(endpoints, i_mean_it=i_mean_it)
        try:
            commands = stages.read_hooks(Path(hooks)) if hooks else {}
        except FaultError as error:
            raise Failure("BAD_REQUEST", str(error), "a line a deed: kill = [...], start = [...]", REFUSED) from error
        return stages.at_target(chosen, endpoints, commands)
    return _of_dev(i_mean_it=i_mean_it)


def _of_dev(*, i_mean_it: bool) -> AbstractAsyncContextManager[Stage]:
    from chaos.drill import stages
    from tandemq.cli import context
    from tandemq.cli.context import runs
    from tandemq.cli.dev import ask

    current = _current(i_mean_it=i_mean_it)
    directory = Path(current.get("data_dir") or "/nonexistent")
    if not runs(directory) and (place := context.starting()) is not None:
        try:
            _wait_until_started(place)
        except KeyboardInterrupt as error:
            raise Failure(
                "INTERRUPTED", "stopped by SIGINT; nothing was sent and nothing was hurt", "", REFUSED
            ) from error
        current = _current(i_mean_it=i_mean_it)
        directory = Path(current.get("data_dir") or "/nonexistent")
    if not runs(directory):
        step = "start one with `tandemq dev`, give --fresh for a pair of the drill's own, or --target"
        raise Failure("UNREACHABLE", "no `tandemq dev` runs whose pair could be hurt", step, REFUSED)

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        try:
            return ask(directory, question)
        except Failure as error:
            raise RuntimeError(error.message) from error

    return stages.of_dev(current, answer)


def _current(*, i_mean_it: bool) -> dict[str, Any]:
    """The current context, if there is one. Raises Failure when it is not to be hurt."""
    from tandemq.cli import context

    try:
        current = context.read(context.current_path())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        if i_mean_it:
            return {}
        raise _guarded(
            f"the context {context.current_path()} cannot be read ({error}), it may be production"
        ) from error
    if current.get("production") and not i_mean_it:
        raise _guarded(f"the context {context.current_path()} says production = true")
    return current


def _wait_until_started(place: str) -> None:
    """Returns when the `tandemq dev` that was starting is ready, or has ended."""
    from tandemq.cli import context

    say(f"`tandemq dev` is starting in {place}: waiting for its pair, {STARTING_S:g} s at most", err=True)
    deadline = time.monotonic() + STARTING_S
    while context.starting() is not None:
        if time.monotonic() > deadline:
            cause = f"`tandemq dev` in {place} is still starting after {STARTING_S:g} s"
            raise Failure("UNREACHABLE", cause, "see its terminal; try again when it says ready", REFUSED)
        time.sleep(POLL_S)


def _guard_place(endpoints: list[str], *, i_mean_it: bool) -> None:
    """Somebody's pair is hurt only where a slip of the pen does little, or when it is meant."""
    for endpoint in endpoints:
        host = endpoint.rpartition(":")[0].strip("[]")
        try:
            here = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            here = False
        if not here and not i_mean_it:
            raise _guarded(f"{endpoint} is not on this machine")


def _guarded(cause: str) -> Failure:
    return Failure("REFUSED", f"{cause}; nothing was hurt", "add --i-mean-it if that is what you want", REFUSED)


# -- playing and reporting ---------------------------------------------------------------------------------------------


def _play(chosen: Drill, stage: AbstractAsyncContextManager[Stage], directory: Path, *, to_stderr: bool) -> Outcome:
    from chaos.drill.playing import DrillError, GuardError, Note, Player
    from chaos.drill.report import prepare, write_journal
    from chaos.drill.screen import screen
    from chaos.drill.stages import StageError
    from tandemq.cli.drill_signals import Signals, StoppedError

    players: list[Player] = []
    with screen(console(), to_stderr=to_stderr) as display:

        async def play() -> Outcome:
            async with stage as entered:
                try:
                    prepare(directory)
                except OSError as error:
                    raise StageError(f"no report can be written to {directory}, nothing was hurt: {error}") from error
                players.append(Player(chosen, entered, display))
                return await players[0].play()

        def say(text: str) -> None:
            for player in players:
                player.note("rollback", text)
            if not players:
                display.note(Note(0.0, "rollback", text))

        def give_up() -> None:
            for player in players:
                player.give_up()

        signals = Signals(say, give_up)
        try:
            return asyncio.run(signals.interrupt(play()))
        except StageError as error:
            failure = Failure("REFUSED", str(error), "see `tandemq drill run --help`", REFUSED)
        except GuardError as error:
            failure = Failure("GIVEN_UP", str(error), "see `tandemq pair status`", REFUSED)
        except (DrillError, RuntimeError, OSError, StoppedError) as error:
            failure = Failure("FAILED", str(error), "see `tandemq pair status`, and the journal", WENT_WRONG)
    if signals.came:
        failure = signals.failure(players[0] if players else None)
    unwritten = [_unwritten(write_journal, directory, player.progress) for player in players]
    cause = "; ".join(filter(None, [failure.message, *unwritten]))
    raise Failure(failure.reason, cause, failure.next_step, failure.exit_code)


def _unwritten(write: Callable[[Path, Written], None], directory: Path, what: Written) -> str:
    """Why it could not be written, or nothing: what was found out is printed all the same."""
    try:
        write(directory, what)
    except OSError as error:
        return f"the report cannot be written: {error}"
    return ""


def _print_verdict(outcome: Outcome, last: str) -> None:
    out = console()
    width = max(len(line.name) for line in outcome.lines)
    for line in outcome.lines:
        mark, style = (" ", "dim") if line.limit is None else ("+", "green") if line.held else ("X", "bold red")
        out.print(f"{mark} {line.name:<{width}}  {line.text}", style=style)
    for name, lines in outcome.result.broken.items():
        for text in lines:
            out.print(f"  {name}: {text}", style="red")
    for text in outcome.result.invalid:
        out.print(f"  invalid: {text}", style="red")
    colour = "green" if outcome.verdict == "pass" else "red"
    out.print(f"{outcome.verdict.upper()}  drill {outcome.drill.name}", style=f"bold {colour}")
    out.print(last, style="dim")
