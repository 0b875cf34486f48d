"""Runs one of two processes that do the same, shows them, and gives them orders. It decides nothing."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure, timed_out
from tandemq.cli.output import print_facts, print_json, print_rows, say
from tandemq.cli.params import DURATION, credentials_option, output_option, target_option, timeout_option
from tandemq.cli.session import failure_of, run

if TYPE_CHECKING:
    from tandemq.client.aio import Client
    from tandemq.twin import Twin
    from tandemq.twin.looking import SeenTwin, SeenTwins

DIFFER = 5
"""Exit code: the two went two ways."""
COLUMNS = ("name", "member", "running", "version", "passed", "behind", "began_at", "host", "pid")


@click.group(epilog="Exit codes: 0 done, 1 failed or refused, 2 usage, 3 unreachable, 4 timed out, 5 the twins differ.")
def twin() -> None:
    """Two processes that do the same, one at each member of a pair (docs/TWINS.md).

    \b
    Example: tandemq twin status flights
    """


@twin.command()
@target_option
@timeout_option()
@output_option()
def ls(target: str | None, timeout_ms: int, output: str) -> None:
    """Show all twins of the pair: where they run, which version, how far behind their inputs.

    Example: tandemq twin ls -o json
    """

    async def work(client: Client) -> list[SeenTwin]:
        from tandemq.twin.looking import look, names

        return [each for name in await names(client) for each in (await look(client, name)).twins]

    print_rows([_facts(each) for each in run(target, timeout_ms, work)], "twins", output, COLUMNS)


@twin.command()
@click.argument("name")
@target_option
@timeout_option()
@output_option("table", "json")
def status(name: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show both twins of NAME, how far their outputs are, and what differed since both began. Then it ends with 5.

    Example: tandemq twin status flights -o json
    """

    async def work(client: Client) -> SeenTwins:
        from tandemq.twin.looking import look

        return await look(client, name)

    seen = run(target, timeout_ms, work)
    facts: dict[str, Any] = {
        "name": seen.name,
        "inputs": seen.inputs,
        "sent": seen.sent,
        "digest": seen.digest,
        "compared": seen.mark,
    }
    if output == "json":
        found = [{**each, "at": each["at"].isoformat()} for each in seen.differences]
        print_json({**facts, "differences": found, "twins": [_facts(each) for each in seen.twins]})
    else:
        print_facts({**facts, "differences": len(seen.differences)}, "list")
        print_rows([_facts(each) for each in seen.twins], "twins", "table", COLUMNS)
        for each in seen.differences:
            behind = f"behind input {each['equal']}, " if each.get("equal") else ""
            place = f"{behind}up to input {each['number']}"
            say(f"differed: {place} {each['own']} at {each['member']}, {each['other']} before it")
    if seen.differences:
        sys.exit(DIFFER)


@twin.command()
@click.argument("name")
@click.argument("member")
@target_option
@timeout_option("30s")
def restart(name: str, member: str, target: str | None, timeout_ms: int) -> None:
    """Have the twin of NAME at MEMBER save its state, end, and begin again: with the code that is there by now. The
    other one goes on meanwhile.

    Example: tandemq twin restart flights b
    """
    _order(name, member, "restart", target, timeout_ms)


@twin.command()
@click.argument("name")
@click.argument("member")
@target_option
@timeout_option("30s")
def stop(name: str, member: str, target: str | None, timeout_ms: int) -> None:
    """Have the twin of NAME at MEMBER save its state and end. The other one goes on.

    Example: tandemq twin stop flights b
    """
    _order(name, member, "stop", target, timeout_ms)


def _order(name: str, member: str, what: str, target: str | None, timeout_ms: int) -> None:
    async def work(client: Client) -> None:
        from tandemq.twin.looking import order

        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await order(client, name, member, what)
        except TimeoutError as error:
            text = f"the twin of {name} at {member} did not {what} in time; it may still do so"
            raise timed_out(text, f"see `tandemq twin status {name}`") from error

    try:
        run(target, timeout_ms, work)
    except Failure as failure:
        if failure.reason == "INVALID_STATE":
            failure.next_step = f"see `tandemq twin status {name}`"
        raise


@twin.command("run")
@click.argument("program", metavar="MODULE[:HANDLER]")
@click.option("--name", required=True, help="Of both twins.")
@click.option("--inputs", required=True, metavar="QUEUE", help="With replication PRODUCER.")
@click.option("--side", required=True, metavar="HOST:PORT", help="The member whose side this process takes.")
@click.option("--target", metavar="HOST:PORT[,...]", help="The pair, for outputs. Default: through --side.")
@click.option("--directory", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Of its snapshots.")
@click.option("--version", default="1", show_default=True, help="Of the handler.")
@click.option("--allow", multiple=True, metavar="VERSION", help="Another version that does the same. Repeatable.")
@click.option(
    "--on-divergence",
    type=click.Choice(["log", "stop-later", "stop-both", "keep"]),
    default="stop-later",
    show_default=True,
    help="What becomes of twins that differ.",
)
@click.option("--keep", default="", metavar="MEMBER", help="With --on-divergence keep: the one that goes on.")
@click.option(
    "--mark-every", type=click.IntRange(min=1), default=1_000, show_default=True, help="Inputs; as the other one."
)
@click.option("--snapshot-every", type=click.IntRange(min=1), default=10_000, show_default=True, help="Inputs.")
@click.option("--snapshot-time", "snapshot_ms", type=DURATION, default="1s", show_default=True, help="At most.")
@credentials_option
def run_twin(program: str, target: str | None, snapshot_ms: int, **settings: Any) -> None:
    """Run the twin of one member: MODULE has HANDLER (`handler`), `initial`, which makes the first state, and perhaps
    `codec`. SIGTERM ends it in order; killed, it goes on from its last snapshot when it is started again.

    \b
    Example: tandemq twin run board:handler --name board --inputs flights --side a:7400 --directory /var/lib/board
    """
    from tandemq.cli.opening import directory
    from tandemq.errors import TandemqError
    from tandemq.twin import OnDivergence, Twin, TwinEnd, TwinOptions

    handler, initial, more = _program(program)
    settings["on_divergence"] = OnDivergence(settings["on_divergence"])
    name, settings["credentials"] = settings.pop("name"), directory() or None
    try:
        options = TwinOptions(**settings, target=target or "", snapshot_s=snapshot_ms / 1000)
        made: Twin[Any] = Twin(name, handler, options, initial=initial, **more)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        end = asyncio.run(_until_signal(made))
    except TandemqError as error:
        failure = failure_of(error, options.side)
        if error.reason == "DIVERGENCE":
            failure.exit_code = DIFFER  # type: ignore[misc]  # click reads it from the instance
        raise failure from error
    if end is TwinEnd.RESTART:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - as it was started


async def _until_signal(made: Twin[Any]) -> Any:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, made.stop)
    return await made.run()


def _program(program: str) -> tuple[Any, Any, dict[str, Any]]:
    module_name, _, attribute = program.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        text = f"module {error.name!r} is not there; PYTHONPATH and the current directory are looked at"
        raise Failure("CONFIG_ERROR", text, "correct MODULE, or PYTHONPATH", FAILED) from error
    missing = [name for name in (attribute or "handler", "initial") if not callable(getattr(module, name, None))]
    if missing:
        text = f"module {module_name} has no function {' and no function '.join(missing)}"
        raise Failure("CONFIG_ERROR", text, "see docs/TWINS.md for what it needs", FAILED)
    more = {"codec": module.codec} if hasattr(module, "codec") else {}
    return getattr(module, attribute or "handler"), module.initial, more


def _facts(seen: SeenTwin) -> dict[str, Any]:
    return {
        "name": seen.name,
        "member": seen.member,
        "running": seen.running,
        "version": seen.version,
        "passed": seen.passed,
        "behind": seen.behind,
        "began_at": seen.began_at.isoformat() if seen.began_at is not None else None,
        "host": seen.host,
        "pid": seen.pid,
    }
