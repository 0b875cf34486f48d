"""Decides whom a command talks to, for how long, and how the errors of the SDK end it; it never repeats a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.cli.failure import FAILED, Failure, timed_out, unreachable

if TYPE_CHECKING:
    from tandemq.client.aio import Client
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


def run(target: str | None, timeout_ms: int, work: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
    """Does `work` with a client that waits at most this long for any answer."""
    named = target_of(target)

    async def connected() -> Result:
        from tandemq.client import aio

        timeout_s = max(timeout_ms, 1) / 1000
        async with aio.connect(named, timeout=timeout_s, attempt_timeout=min(5.0, timeout_s)) as client:
            return await work(client)

    from tandemq.errors import TandemqError

    try:
        return asyncio.run(connected())
    except TandemqError as error:
        raise failure_of(error, ",".join(named.endpoints)) from error


def failure_of(error: TandemqError, target: str) -> Failure:
    """How a command ends that got this error."""
    from tandemq.errors import InDoubt, TimedOut, Unreachable

    if isinstance(error, Unreachable) or "last: UNREACHABLE" in error.message:  # a stream's last attempt
        return unreachable(target, error.message)
    if isinstance(error, TimedOut) or error.reason == "NO_PROGRESS":
        return timed_out(error.message or "no answer in time")
    doubt = "it may have been done: look before you repeat it" if isinstance(error, InDoubt) else ""
    return Failure(error.reason, error.message or error.reason, NEXT_STEPS.get(error.reason, doubt), FAILED)
