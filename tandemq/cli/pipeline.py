"""The jobs on Spark as commands: what they take, how they report and how they end; what they do is in `pipeline`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.cli.failure import FAILED, TIMED_OUT, UNREACHABLE, Failure
from tandemq.cli.output import console, print_file, print_line, print_rows, say, unread_is_no_error
from tandemq.cli.params import DURATION, output_option
from tandemq.cli.queue_journal import PLACE, Place
from tandemq.cli.storing import bar_for

if TYPE_CHECKING:
    from pipeline.config import Pipeline
    from pipeline.outcome import Outcome
    from pipeline.running import Ended, Job

Command = TypeVar("Command", bound=Callable[..., Any])
VIOLATED = 5
FINDINGS_SHOWN_MAX = 200
"""Of a damaged lake, in a terminal; JSON has all."""
EXIT_CODES = MappingProxyType(
    {
        "UNREACHABLE": UNREACHABLE,
        **dict.fromkeys(("DEADLINE_EXCEEDED", "NO_PROGRESS", "TOO_BUSY"), TIMED_OUT),
    }
)


@click.group(
    epilog="Exit codes: 0 done, 1 failed or refused, 2 usage, 3 unreachable, 4 timed out, 5 the audit found "
    "violations, or verify found damage."
)
def pipeline() -> None:
    """Keep everything that happened on the queues as data, with Spark: follow it, audit it, draw it.

    Needs `pip install 'tandemq[spark]'` and Java 17. docs/SPARK.md has the keys of the file and the columns of the
    lake.

    \b
    Example: tandemq pipeline config > pipeline.toml
             tandemq pipeline ingest --config pipeline.toml
    """
    from tandemq.embedded import server_path
    from tandemq.errors import Refused
    from tandemq.installed import check_installed

    try:
        check_installed()
    except Refused as refused:
        raise Failure(refused.reason, refused.message, "", FAILED) from refused
    server_path()


def job_options(command: Command) -> Command:
    """What every job takes."""
    for option in (
        output_option("table", "json"),
        click.option("--verbose", is_flag=True, help="Spark's own words on stderr too."),
        click.option(
            "--master", metavar="URL", default="", help="Instead of spark.master: local[4], spark://host:7077."
        ),
        click.option("--config", "file", metavar="FILE", required=True, type=click.Path(dir_okay=False)),
    ):
        command = option(command)
    return command


@pipeline.command()
@click.option("--continuous", is_flag=True, help="Go on until a signal; else up to what is committed now.")
@job_options
@click.pass_context
def ingest(ctx: click.Context, file: str, master: str, output: str, *, continuous: bool, verbose: bool) -> None:
    """Follow the journals of both members into the lake, each member's own copy, each row once.

    Begins where the lake ends; a run that was killed is followed by the next one. A member that is away is waited for,
    as long as ingest.wait_s says.

    \b
    Example: tandemq pipeline ingest --config pipeline.toml
             tandemq pipeline ingest --config pipeline.toml --continuous --master spark://host:7077
    """

    def make() -> Job:
        from pipeline.ingesting import ingesting

        return ingesting(continuous=continuous)

    _finish(ctx, _run("ingest", make, file, master, verbose=verbose), output)


@pipeline.command()
@click.option("--history", metavar="PATH", default="", help="Instead of audit.history: what clients kept, as Parquet.")
@job_options
@click.pass_context
def audit(ctx: click.Context, file: str, master: str, output: str, history: str, *, verbose: bool) -> None:
    """Hold both journals of the lake against each other and against what clients were answered.

    Ends with 5 when something is wrong: the report, and Parquet beside it, have a row for each violation that proves
    it. Without a client history nothing is said of messages that are in neither journal. Up to audit.memory_rows rows
    (100,000) are judged without Spark, with the same verdict. What was not judged, and why, is said first.

    \b
    Example: tandemq pipeline audit --config pipeline.toml --history history.parquet
    """

    def make() -> Job:
        from pipeline.auditing import auditing

        return auditing(history)

    def small(config: Pipeline) -> Outcome | None:
        from pipeline.auditing import auditing_small

        return auditing_small(history)(config)

    _finish(ctx, _run("audit", make, file, master, verbose=verbose, small=small), output)


@pipeline.command()
@click.option("--publish-weights", "name", metavar="NAME", default="", help="Show the shares as a table of weights.")
@click.option("--weights-of", "queues", metavar="QUEUE", multiple=True, help="Only these queues; may be repeated.")
@click.option("--valid-for", "valid_ms", type=DURATION, default=None, help="From the newest record on. Default: 10m.")
@click.option("--yes", is_flag=True, help="Publish that table; else it is shown alone.")
@job_options
@click.pass_context
def stats(
    ctx: click.Context,
    file: str,
    master: str,
    output: str,
    name: str,
    queues: tuple[str, ...],
    valid_ms: int | None,
    *,
    yes: bool,
    verbose: bool,
) -> None:
    """Count what happened on each queue of the lake in windows of event time, and give each queue a share.

    Messages in and out, delays and service times (p50, p95, p99), depth: plots in the report, all of it as Parquet
    beside it. The shares are what a router may use: --publish-weights shows them as a table for the pair, and with
    --yes puts it in the place of the one that was there before the job began (`tandemq weights show`).

    \b
    Example: tandemq pipeline stats --config pipeline.toml -o json
             tandemq pipeline stats --config pipeline.toml --publish-weights orders --weights-of eu --weights-of us
             tandemq pipeline stats --config pipeline.toml --publish-weights orders --valid-for 30m --yes
    """
    if not name and (queues or yes or valid_ms is not None):
        raise click.UsageError("--weights-of, --valid-for and --yes need --publish-weights NAME")

    def make() -> Job:
        from datetime import timedelta
        from functools import partial

        from pipeline.statistics import statistics
        from pipeline.weighing import VALID_FOR, Publication

        valid_for = VALID_FOR if valid_ms is None else timedelta(milliseconds=valid_ms)
        asked = Publication(name, queues, valid_for, dry_run=not yes) if name else None
        return partial(statistics, asked=asked)

    _finish(ctx, _run("stats", make, file, master, verbose=verbose), output)


@pipeline.command()
@click.option("--out", metavar="DIR", default="build/pipeline-demo", show_default=True, help="A directory a run.")
@click.option("--rows", type=click.IntRange(600, 27_004), default=27_004, show_default=True, help="Flight records.")
@output_option("table", "json")
@click.pass_context
def demo(ctx: click.Context, out: str, rows: int, output: str) -> None:
    """Show all of it: a pair with a kill in the middle, ingest all the while, an audit, and faults planted in copies.

    Ends with 0 only when the audit is clean and names each fault that is planted in a copy of the lake.

    Example: tandemq pipeline demo --out build/pipeline-demo
    """

    def play(notify: Callable[[str], None]) -> Ended:
        from pipeline import demo as story

        return story.play(Path(out), notify, rows=rows)

    _finish(ctx, _reported("demo", play), output)


@pipeline.command()
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="Only messages of this queue; may be repeated.")
@click.option("--to", metavar="NAME", default="", help="Send all of them to this queue; else to where they were.")
@click.option("--target", metavar="ENDPOINTS", default="", help="Another pair; else the one of the file.")
@click.option("--from-log-index", type=PLACE, default=None, help="The first record; 120:3:<id> at that history alone.")
@click.option("--until-log-index", type=click.IntRange(1), default=None, help="The first record that is left out.")
@click.option("--journal", is_flag=True, help="From the journals as they are now, and not from the lake.")
@click.option("--writer", metavar="NAME", default="", help="Each message once, however often this is run.")
@click.option("--skip-missing", is_flag=True, help="Leave out messages whose payload is nowhere.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, and send nothing.")
@job_options
@click.pass_context
def replay(ctx: click.Context, /, file: str, master: str, output: str, *, verbose: bool, **asked: Any) -> None:
    """Send messages of the lake to queues again, with priority, properties and all, in the order of the log.

    With --writer a run that died is repeated as it was and sends what is missing. It needs --until-log-index: what has
    been ingested since is not of that run.

    \b
    Example: tandemq pipeline replay --config pipeline.toml --queue orders --to orders.again --dry-run
             tandemq pipeline replay --config pipeline.toml --queue orders --until-log-index 9000 --writer again-1
    """
    if asked["writer"] and asked["until_log_index"] is None:
        raise click.UsageError("--writer needs --until-log-index: a run that is repeated must send the same messages.")
    if asked["writer"] and asked["journal"] and asked["from_log_index"] is None:
        raise click.UsageError("--writer with --journal needs --from-log-index too: what is trimmed would be missing.")

    def make() -> Job:
        from pipeline.replay import Asked, replaying
        from pipeline.replaying import Wanted

        first, until = asked.pop("from_log_index") or Place(0), asked.pop("until_log_index") or 0
        wanted = Wanted(asked.pop("queues"), first.number, until)
        return replaying(Asked(wanted, history_id=first.history_id, **asked))

    _finish(ctx, _run("replay", make, file, master, verbose=verbose), output)


@pipeline.command()
@click.argument("lake", required=False, type=click.Path(file_okay=False))
@click.option("--config", "file", metavar="FILE", default="", help="Instead of LAKE: lake.path of it; writes a report.")
@click.option("--adopt", is_flag=True, help="Give a lake of an older version its manifests; nothing else is changed.")
@output_option("table", "json")
@click.pass_context
def verify(ctx: click.Context, lake: str | None, file: str, output: str, *, adopt: bool) -> None:
    """Hold every file of a lake against what was published: gone, added or damaged, each with its path.

    Ends with 0 when all is as it was published, with 5 when something is wrong, and with 1 when there is no lake there,
    or one of an older version without manifests (LAKE_UNPROVEN). Needs neither Spark nor a pair; an ingest may run.

    \b
    Example: tandemq pipeline verify lake
             tandemq pipeline verify --config pipeline.toml -o json
    """
    if bool(lake) == bool(file):
        raise click.UsageError("Give the directory of a lake, or --config FILE.")

    def run(notify: Callable[[str], None]) -> Ended:
        from pipeline.verifying import verified

        del notify  # the bar shows it
        return verified(lake or "", file, adopted=adopt, on_progress=bar)

    with bar_for(output) as bar:
        ended = _reported("verify", run, spark=False)
    if output == "table":
        for row in ended.outcome.tables[0].rows[:FINDINGS_SHOWN_MAX]:
            say(row["path"], label=row["reason"], fg="red", bold=True)
            say(f"  what: {row['what']}")
            say(f"  next: {row['next']}")
    _finish(ctx, ended, output, table=False)


@pipeline.command("config")
def config_() -> None:
    """Print a configuration to begin with: every key, with its default.

    Example: tandemq pipeline config > pipeline.toml
    """
    from pipeline.config import EXAMPLE

    print_file(EXAMPLE)


@pipeline.command()
def script() -> None:
    """Print the path of the file that spark-submit is given.

    \b
    Example: spark-submit --master yarn "$(tandemq pipeline script)" ingest --config pipeline.toml
    """
    from importlib.util import find_spec

    spec = find_spec("pipeline.__main__")
    assert spec is not None
    assert spec.origin is not None
    say(spec.origin)


def _run(
    name: str,
    make: Callable[[], Job],
    file: str,
    master: str,
    *,
    verbose: bool,
    small: Callable[[Pipeline], Outcome | None] | None = None,
) -> Ended:
    def run(notify: Callable[[str], None]) -> Ended:
        from pipeline import running

        return running.run(name, make, Path(file), master=master, verbose=verbose, notify=notify, small=small)

    return _reported(name, run)


def _reported(name: str, run: Callable[[Callable[[str], None]], Ended], *, spark: bool = True) -> Ended:
    """What it came to; a PipelineError ends the command, by its reason."""
    from pipeline.problems import PipelineError

    def notify(text: str) -> None:
        with unread_is_no_error(stderr=True):
            say(f"{name}: {text}", err=True)

    try:
        if spark:
            from pipeline.session import check_machine

            check_machine()  # before anything that imports Spark
        return run(notify)
    except PipelineError as error:
        code = EXIT_CODES.get(error.reason, FAILED)
        raise Failure(error.reason, error.cause, error.next_step, code) from error


def _finish(ctx: click.Context, ended: Ended, output: str, *, table: bool = True) -> None:
    from pipeline.report import facts_of

    outcome = ended.outcome
    with unread_is_no_error():
        if output == "json":
            report = {"report": str(ended.page)} if ended.page else {}
            print_line({**facts_of(outcome), "seconds": round(ended.seconds, 1), **report})
        else:
            if table:
                print_rows(outcome.tables[0].rows, outcome.tables[0].title, "table")
            out = console()
            style = "bold green" if outcome.good else "bold red"
            out.print(f"{outcome.verdict.upper()}  {outcome.lead}", style=style)
            if ended.page:
                out.print(f"written: {ended.page}, result.json", style="dim")
        sys.stdout.flush()
    ctx.exit(0 if outcome.good else VIOLATED)
