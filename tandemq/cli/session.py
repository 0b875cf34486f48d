"""Decides whom a command talks to, for how long, and how the errors of the SDK end it; it never repeats a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from tandemq.cli.failure import FAILED, Failure, timed_out, unreachable

if TYPE_CHECKING:
    from tandemq.aio import Client
    from tandemq.client.target import Target
    from tandemq.errors import TandemqError

Result = TypeVar("Result")

# What helps, by reason; the other reasons' messages say it themselves.
NEXT_STEPS = {
    "QUEUE_NOT_FOUND": "see `tandemq queue ls`, or create it with `tandemq queue create NAME`",
    "QUEUE_EXISTS": "use it as it is (`tandemq queue info NAME`), or choose another name",
    "NOT_EMPTY": "purge it first, or leave out --if-empty",
    "NOT_ENOUGH_COPIES": "see `tandemq pair status`; restart the member that is missing",
    "NO_MASTER": "see `tandemq pair status`; restart the member that is missing",
    "SUSPENDED": "see `tandemq pair status`; restart the member that is missing",
    "QUEUE_FULL": "receive something, or raise its limits with `tandemq queue update NAME --max-length N`",
    "STORAGE_FULL": "receive or purge something, or raise limits.map_bytes",
    "ENQUEUE_DISABLED": "`tandemq queue update NAME --enqueue`",
    "DEQUEUE_DISABLED": "`tandemq queue update NAME --dequeue`",
    "LEASE_LOST": "receive it again; give --lease a longer time",
    "DIRECTORY_IN_USE": "another manager has this data directory; stop it, or give each its own",
    "PORT_IN_USE": "stop what listens there, or choose other ports",
    "WRONG_PAIR": "compare manager.pair in both members' configuration",
    "NEWER_FORMAT": "start the newer version that wrote this directory",
}


def target_of(given: str | None) -> Target:
    """Whom to ask. Ends the command as unreachable when nobody is named."""
    from tandemq.client.target import NoTarget, resolve_target

    try:
        return resolve_target(given)
    except NoTarget as error:
        if given:
            raise click.BadParameter(str(error), param_hint="--target") from error
        raise Failure(
            "UNREACHABLE", str(error), "start a pair with `tandemq dev`, or name one with --target", 3
        ) from error


def endpoints_of(given: str | None) -> list[str]:
    return list(target_of(given).endpoints)


def run(target: str | None, timeout_ms: int | None, work: Callable[[Client], Awaitable[Result]]) -> Result:
    """Does `work` with a connected client within the time; None means as long as it takes."""
    endpoints = target_of(target).endpoints

    async def connected() -> Result:
        from tandemq import aio

        async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
            async with aio.connect(endpoints) as client:
                return await work(client)

    from tandemq.errors import TandemqError

    try:
        return asyncio.run(connected())
    except TandemqError as error:
        raise failure_of(error, ",".join(endpoints)) from error
    except TimeoutError as error:
        raise timed_out(f"no answer from {','.join(endpoints)} within {(timeout_ms or 0) / 1000:g} s") from error


def failure_of(error: TandemqError, target: str) -> Failure:
    """How a command ends that got this error."""
    from tandemq.errors import InDoubt, TimedOut, Unreachable

    if isinstance(error, Unreachable):
        return unreachable(target, error.message)
    if isinstance(error, TimedOut) or error.reason == "NO_PROGRESS":
        return timed_out(error.message or "no answer in time")
    doubt = "it may have been done: look before you repeat it" if isinstance(error, InDoubt) else ""
    return Failure(error.reason, error.message or error.reason, NEXT_STEPS.get(error.reason, doubt), FAILED)
