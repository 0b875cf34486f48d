"""Prints when messages gather in queues, and runs a command then, one at a time; the master decides when that is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_line, say
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import Client, DepthEvent


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@click.option("--depth", type=click.IntRange(min=1), default=1, help="Report so many messages; 1: not empty any more.")
@click.option("--exec", "command", metavar="CMD", help="A shell command to run for each report.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many reports. Default: never.")
@target_option
@timeout_option()
@output_option("table", "json", "jsonl")
def watch(
    names: tuple[str, ...],
    depth: int,
    command: str | None,
    count: int | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Report when queues have messages to receive, or as many as --depth says: at once where they have them, then each
    time anew after they had fewer. It goes on over takeovers, and then reports again what is there.

    CMD finds TANDEMQ_QUEUE, TANDEMQ_DEPTH and TANDEMQ_REASON (not_empty or depth) in its environment. One runs at a
    time; a queue that is reported meanwhile is run for once, afterwards. One that fails is reported, and the next runs.
    -o json, and jsonl too, prints a document a line. Interrupted, it ends with 0; with --count too.

    \b
    Example: tandemq queue watch orders returns --depth 100 --exec 'process --batch'
    """
    run(target, timeout_ms, lambda client: _follow(client, names, depth, command, count, output))


async def _follow(
    client: Client, names: tuple[str, ...], depth: int, command: str | None, count: int | None, output: str
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    commands = _Commands(command, stop) if command is not None else None
    reading = asyncio.create_task(_read(client, names, depth, count, output, commands))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({reading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
    finally:
        stopped.cancel()
        reading.cancel()
        await asyncio.gather(reading, stopped, return_exceptions=True)
        if commands is not None:
            await commands.close()


async def _read(
    client: Client, names: tuple[str, ...], depth: int, count: int | None, output: str, commands: _Commands | None
) -> None:
    left = count
    async with contextlib.aclosing(client.watch(names, depth=depth)) as events:
        async for event in events:
            _print(event, output)
            if commands is not None:
                commands.add(event)
            if left is not None:
                left -= 1
                if not left:
                    return


def _print(event: DepthEvent, output: str) -> None:
    if output != "table":
        facts: dict[str, Any] = {
            "queue": event.queue,
            "depth": event.depth,
            "reason": event.reason.value,
            "at_opening": event.at_opening,
        }
        print_line(facts)
    else:
        say(f"{event.queue} has {event.depth}", label=event.reason.value)
    sys.stdout.flush()


class _Commands:
    """Runs the command for what was reported, one at a time, until it is closed."""

    def __init__(self, command: str, stop: asyncio.Event) -> None:
        self._command, self._stop = command, stop
        self._due: dict[str, DepthEvent] = {}
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._run())

    def add(self, event: DepthEvent) -> None:
        """It is run for that; once, with what was reported last, where the queue waits for its turn already."""
        self._due[event.queue] = event
        self._wake.set()

    async def close(self) -> None:
        """When what is due has been run; at once but for the one that runs, when the watch was interrupted."""
        self._closing = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while True:
            while self._due and not (self._closing and self._stop.is_set()):
                queue = next(iter(self._due))
                await self._once(self._due.pop(queue))
            if self._closing:
                return
            await self._wake.wait()
            self._wake.clear()

    async def _once(self, event: DepthEvent) -> None:
        said = {"TANDEMQ_QUEUE": event.queue, "TANDEMQ_DEPTH": str(event.depth), "TANDEMQ_REASON": event.reason.value}
        try:
            process = await asyncio.create_subprocess_shell(
                self._command, stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **said}
            )
        except OSError as error:
            raise Failure("NOT_STARTED", f"the shell cannot be started: {error}", "see what it says", FAILED) from error
        code = await process.wait()
        if code:
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            say(f"the command for {event.queue} {ended}; watching goes on", label="warning:", fg="yellow", err=True)
