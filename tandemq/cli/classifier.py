"""Lets an operator check, try and replay what decides who lives; nothing here asks a manager or acts on a verdict."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_facts, print_file, print_rows, say
from tandemq.cli.params import DURATION, output_option

if TYPE_CHECKING:
    from failover.classifier import Answer, Classifier, Event
    from failover.journal import RecordedCall
    from failover.replay import Compared
    from tandemq.config import ManagerConfig

KINDS = (
    *("PEER_LOST", "PEER_SLOW", "COLD_START_ALONE", "HANDOFF_IN_DOUBT"),
    *("AUTHORITY_LOST", "LOCAL_FAULT", "DIVERGENCE", "PREFLIGHT"),
)
ROLES = ("master", "replica", "probe", "ceding")
DATA_MARKS = ("empty", "syncing", "stale", "in_sync", "sole", "damaged")
NO_ANSWER = "NO_ANSWER"
REPLAY_COLUMNS = ("time", "event_id", "attempt", "event", "by", "recorded", "effect", "now", "same")


@click.group()
def classifier() -> None:
    """Check, try and replay what decides who lives.

    \b
    Example: tandemq classifier check -- ./decide.sh
             tandemq classifier test --event PEER_LOST -- ./decide.sh
    """


@classifier.command()
@click.option("--limit", "limit_ms", type=DURATION, default="5s", show_default=True, help="Time limit of one call.")
@output_option()
@click.argument("command", nargs=-1, required=True)
@click.pass_context
def check(ctx: click.Context, limit_ms: int, output: str, command: tuple[str, ...]) -> None:
    """Hold a command to the contract, case by case.

    Runs it about thirty times with events of every kind, with broken input, and with SIGTERM. It acts on nothing, but
    the command really runs: let it look, not fence, when the event is a PREFLIGHT. Exit code 0 when every case passes.

    Example: tandemq classifier check -- ./decide.sh --targets 10.0.0.1
    """
    _server()
    from failover.check import check as check_command

    results = asyncio.run(check_command(command, max(limit_ms, 1) / 1000))
    said = {True: "pass", False: "FAIL", None: "left out"}
    rows = [{"case": each.case, "result": said[each.passed], "ms": each.ms, "detail": each.detail} for each in results]
    print_rows(rows, "cases", output, ("result", "ms", "case"))
    failed = [each for each in results if each.passed is not True]
    if output == "table":
        for each in failed:
            if each.passed is False:
                say(f"FAIL: {each.case}: {each.detail}")
        say(f"{len(results) - len(failed)} of {len(results)} cases pass")
    ctx.exit(FAILED if failed else 0)


@classifier.command()
@click.option("--event", "kind", type=click.Choice(KINDS), required=True, help="What happened.")
@click.option("--role", type=click.Choice(ROLES), help="This member's role then. Default: the usual one.")
@click.option("--data", type=click.Choice(DATA_MARKS), help="What its copy is worth. Default: the usual mark.")
@click.option("--dry-run", is_flag=True, help="Nothing is ever acted upon here; the flag says so in a script.")
@click.option("--config", "file", metavar="FILE", help="Whose classifier. Default: the user's, then the system's.")
@click.option("--limit", "limit_ms", type=DURATION, help="Time limit. Default: failover.call_ms, else 5s.")
@output_option()
@click.argument("command", nargs=-1)
@click.pass_context
def test(
    ctx: click.Context,
    kind: str,
    role: str | None,
    data: str | None,
    dry_run: bool,
    file: str | None,
    limit_ms: int | None,
    output: str,
    command: tuple[str, ...],
) -> None:
    """Ask a classifier about an event that did not happen, and show what the manager would do.

    The classifier is the command after --, else the one of the configuration. JSON shows the event as well. Exit code 0
    when it gives a verdict, whatever it says; 1 when it gives none.

    \b
    Example: tandemq classifier test --event PEER_LOST --role master --dry-run
             tandemq classifier test --event PEER_LOST -o json -- ./decide.sh
    """
    del dry_run
    _server()
    from failover.classifier import EventKind
    from failover.event_json import document
    from failover.marks import DataMark, Role
    from failover.rehearsal import ruling, sample

    config = _config(file, needed=not command)
    asked = _classifier(command, config)
    event = sample(
        EventKind(kind),
        Role[role.upper()] if role else None,
        DataMark[data.upper()] if data else None,
        config,
    )
    answer = asyncio.run(_ask(asked, event, limit_ms or (config.failover.call_ms if config else 5_000)))
    ruled = ruling(event, answer, asked, accept_unproven=bool(config and config.failover.accept_unproven))
    facts: dict[str, Any] = {
        "classifier": answer.by,
        "safety_class": asked.safety.value,
        "event": kind,
        "role": event.domains[0].role.name,
        "data": event.domains[0].data.name,
        "verdict": _verdict(answer),
        "reason": answer.reason,
        "evidence": answer.evidence.value,
        "retry_ms": answer.retry_ms,
        "duration_ms": answer.duration_ms,
        "would": ruled.effect.value,
        "because": ruled.why,
    }
    print_facts(facts if output == "table" else {**facts, "input": document(event)}, output)
    ctx.exit(FAILED if answer.verdict is None else 0)


@classifier.command()
@click.argument("journal", metavar="JOURNAL|DATA_DIR", type=click.Path(path_type=Path))
@click.option("--event-id", metavar="ID", help="Only the calls about this event.")
@click.option("--config", "file", metavar="FILE", help="Whose classifier. Default: the user's, then the system's.")
@output_option()
@click.argument("command", nargs=-1)
@click.pass_context
def replay(
    ctx: click.Context,
    journal: Path,
    event_id: str | None,
    file: str | None,
    output: str,
    command: tuple[str, ...],
) -> None:
    """Ask a classifier again what a manager's journal says was asked, and compare the verdicts.

    Exit code 1 when a verdict differs. Lines that cannot be read are named on stderr and passed over.

    \b
    Example: tandemq classifier replay /var/lib/tandemq -- ./decide.sh
             tandemq classifier replay classifier.jsonl --event-id 3f2a -o json
    """
    _server()
    calls = _recorded(journal, event_id)
    asked = _classifier(command, _config(file, needed=not command))
    compared = asyncio.run(_replay(calls, asked))
    print_rows([_replay_row(each) for each in compared], "calls", output, REPLAY_COLUMNS)
    differ = sum(not each.same for each in compared)
    if output == "table":
        say(f"{differ} of {len(compared)} verdicts differ")
    ctx.exit(FAILED if differ else 0)


@classifier.command()
@click.argument("which", type=click.Choice(["event", "answer"]), default="event")
def schema(which: str) -> None:
    """Print the JSON Schema of what a command reads (event) or may write (answer).

    Example: tandemq classifier schema answer > answer.schema.json
    """
    folder = _server() / "failover" / "schema"
    from failover.event_json import schema_file

    print_file((folder / schema_file(which)).read_text(encoding="utf-8"))


def _server() -> Path:
    from tandemq.embedded import server_path

    logging.getLogger("tandemq.classifier").addHandler(logging.NullHandler())  # the table says the same
    return server_path()


def _config(file: str | None, *, needed: bool) -> ManagerConfig | None:
    """The configuration; None when it is not needed and none is named."""
    from tandemq.cli.serve import load_config

    return load_config(file, {}) if needed or file else None


def _classifier(command: tuple[str, ...], config: ManagerConfig | None) -> Classifier:
    if command:
        from failover.command import Command

        return Command(command)
    from failover.shipped import make
    from tandemq.config import ConfigError

    assert config is not None
    try:
        return make(config)
    except ConfigError as error:
        raise Failure(error.reason, error.message, "see `tandemq config check`") from error


async def _ask(asked: Classifier, event: Event, limit_ms: int) -> Answer:
    from failover.runner import Runner

    runner = Runner(asked, None, limit_ms, 1, limit_ms)
    try:
        return await runner.ask(event)
    finally:
        await runner.close()


def _recorded(journal: Path, event_id: str | None) -> list[RecordedCall]:
    from failover.journal import read

    try:
        history = read(journal)
    except OSError as error:
        where = "name a data directory, or its classifier.jsonl"
        raise Failure("NOT_FOUND", f"{journal}: {error.strerror or 'no classifier.jsonl there'}", where) from error
    for line in history.unreadable:
        say(f"passed over {line}", err=True)
    calls = [call for call in history.calls if event_id in (None, call.event.event_id)]
    if event_id is not None and not calls:
        raise Failure("NOT_FOUND", f"{journal} has no event {event_id}", "leave out --event-id to see all")
    return calls


async def _replay(calls: list[RecordedCall], asked: Classifier) -> list[Compared]:
    from failover.replay import replay as replay_calls

    return [each async for each in replay_calls(calls, asked)]


def _replay_row(each: Compared) -> dict[str, Any]:
    call = each.call
    return {
        "time": call.time,
        "event_id": call.event.event_id,
        "attempt": call.event.attempt,
        "event": call.event.kind.value,
        "by": call.answer.by,
        "recorded": _verdict(call.answer),
        "effect": "; ".join(outcome.effect for outcome in call.outcomes),
        "now": _verdict(each.now),
        "reason": each.now.reason,
        "duration_ms": each.now.duration_ms,
        "same": each.same,
    }


def _verdict(answer: Answer) -> str:
    return NO_ANSWER if answer.verdict is None else answer.verdict.name
