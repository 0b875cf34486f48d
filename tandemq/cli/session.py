"""Decides which member a command calls, for how long, and how the errors of the SDK end it; it never repeats a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.cli.failure import FAILED, UNREACHABLE, Failure, timed_out, unreachable
from tandemq.cli.opening import STEP, directory, keep_found, opener

if TYPE_CHECKING:
    from tandemq.client.aio import Client
    from tandemq.errors import TandemqError
    from tandemq.finding.target import Target

Result = TypeVar("Result")

# What helps, by reason; the other reasons' messages say it themselves.
NEXT_STEPS = MappingProxyType(
    {
        "MANAGER_NOT_FOUND": "see `tandemq config where //NAME`; enter it there, or give --target HOST:PORT",
        "MANAGER_UNREACHABLE": "see `tandemq config where //NAME`; mend what is away, or give --target HOST:PORT",
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
        "NEWER_FORMAT": "start the newer version that wrote this directory, or upgrade the member that is older",
    }
)
GENERAL_STEPS = MappingProxyType(
    {  # for a command that has no better word
        "INVALID_HANDLE": "ask sooner, or let the queue remember longer (--completion-retention)",
        "INVALID_STATE": "see its state with `tandemq queue info NAME`, or the members' with `tandemq pair status`",
        "CONFIG_MISMATCH": (
            "see who has it now: `tandemq queue find NAME`; withdraw it there first, or use another name"
        ),
        "CONFIG_ERROR": "change the option or the file that it names",
        "CROSS_DOMAIN": "name a queue of the same domain, or receive the messages and send them there",
        "VERSION_MISMATCH": (
            "look again with `tandemq queue info NAME` or `weights show NAME`; repeat it with that version"
        ),
        "MESSAGE_TOO_LARGE": "send less at once, or raise it with `tandemq queue update NAME --max-message-bytes N`",
        "BAD_NAME": "a name is segments of A-Z a-z 0-9 . _ - joined by /",
        "BAD_ATTRIBUTE": "correct that option; `tandemq queue create --help` lists them",
        "BAD_REQUEST": "correct that option; the command's --help says what it takes",
        "READ_ONLY": "create a queue that has it, and move the messages",
        "QUOTA_EXCEEDED": "wait until something of it is free, or ask for less",
        "TOO_MANY_WAITERS": "receive something, or repeat it later",
        "ALIAS_EXISTS": "choose another name, or `tandemq queue alias remove NAME`",
        "ALREADY_REPLIED": "see the answer that counts: `tandemq msg completion QUEUE HANDLE`",
        "REPLY_REQUIRED": "answer it: `tandemq msg reply QUEUE TEXT`",
        "NOT_TWO_WAY": "acknowledge it instead: `tandemq msg receive QUEUE --ack`",
        "BAD_SELECTOR": "correct it; one that works: \"colour = 'red' AND weight > 2\"",
        "OUT_OF_RANGE": "see where it begins and ends: `tandemq queue journal NAME --head`",
        "GROUP_MISMATCH": "give it the --group-sequence that is missing, or another --group-id",
        "READER_NOT_FOUND": "see `tandemq queue reader list`",
        "READER_LOST": (
            "see `tandemq queue reader list`; then begin anew: `tandemq queue reader register NAME --restart`"
        ),
        "SIDE_LOST": (
            "see `tandemq queue info NAME`; then begin anew: `tandemq queue restart-side NAME --member MEMBER`"
        ),
        "TWIN_NOT_FOUND": "see `tandemq twin ls`; start them with `tandemq twin run MODULE --name NAME`",
        "WEIGHTS_NOT_FOUND": "see `tandemq weights show`",
        "RIGHT_NOT_FOUND": "see `tandemq right ls`",
        "TOKEN_REQUIRED": "name a directory with ca.pem and a token: --credentials DIR",
        "TOKEN_REFUSED": "see what stands in the token: `tandemq cert show DIR`",
        "TOKEN_EXPIRED": "write a new token into the file; it is read at the next call",
        "PERMISSION_DENIED": "ask an administrator for it (`tandemq right grant`); `tandemq right ls` shows yours",
        "PAIR_CHANGED": "name the pair that was read, or read this one from the beginning",
        "EPOCH_DIVERGED": "see what happened with `tandemq pair history`, and read from the beginning",
        "CORRUPT_STORE": "keep it as it is, and take everything from the peer or a backup",
    }
)


def target_of(given: str | None) -> Target:
    """Which manager to ask: --target, else the manager in a full name among the arguments, else the default one.

    Ends the command as unreachable when nobody is named.
    """
    from tandemq.client.target import NoTarget
    from tandemq.finding.default import resolve_target
    from tandemq.finding.profile import BadProfile

    named, hint = (given, "--target") if given else _named_by_argument()
    try:
        found = resolve_target(named)
        keep_found(found.credentials)
        return found
    except BadProfile as error:
        raise Failure("CONFIG_ERROR", str(error), "correct that file", FAILED) from error
    except NoTarget as error:
        if named:
            raise click.BadParameter(str(error), param_hint=hint) from error
        raise Failure(
            "UNREACHABLE", str(error), "start a pair with `tandemq dev`, or name one with --target", 3
        ) from error


def _named_by_argument() -> tuple[str | None, str]:
    """The first argument that is a full name, and its name for messages."""
    context = click.get_current_context(silent=True)
    for param in context.command.params if context is not None else ():
        value = context.params.get(param.name or "") if context is not None else None
        if isinstance(param, click.Argument) and isinstance(value, str) and value.startswith("//"):
            return value, param.human_readable_name
    return None, ""


def endpoints_of(given: str | None) -> list[str]:
    """Where the members are; looks them up when only a name is known."""
    named = target_of(given)
    if named.endpoints:
        return list(named.endpoints)

    async def located() -> tuple[str, ...]:
        from tandemq.client import aio

        async with aio.connect(named, credentials=directory()) as client:
            return await client.locate()

    from tandemq.errors import TandemqError

    try:
        return list(asyncio.run(located()))
    except TandemqError as error:
        raise failure_of(error, str(named)) from error


def run(
    target: str | None,
    timeout_ms: int,
    work: Callable[[Client], Coroutine[Any, Any, Result]],
    *,
    follow_master: bool = True,
) -> Result:
    """Does `work` with a client that waits at most this long for any answer. `follow_master`: as in `aio.connect`."""
    named = target_of(target)

    async def connected() -> Result:
        from tandemq.client import aio

        timeout_s = max(timeout_ms, 1) / 1000
        attempt_s = min(5.0, timeout_s)
        async with aio.connect(
            named,
            timeout=timeout_s,
            attempt_timeout=attempt_s,
            credentials=directory(),
            follow_master=follow_master,
        ) as client:
            return await work(client)

    from tandemq.errors import TandemqError

    try:
        return asyncio.run(connected())
    except TandemqError as error:
        raise failure_of(error, str(named)) from error


def _why_unreachable(target: str) -> str:
    from tandemq.client.connecting import why_unreachable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(why_unreachable(opener(), target.split(",")))
    return ""  # an error of a client, which has asked itself


def failure_of(error: TandemqError, target: str, next_step: str = "") -> Failure:
    """How a command ends that got this error. `next_step` is printed with a refusal that has none of its own."""
    from tandemq.client.connecting import NotTrusted
    from tandemq.errors import InDoubt, TimedOut, Unreachable

    if error.reason == "MANAGER_UNREACHABLE" or "last: MANAGER_UNREACHABLE" in error.message:
        return Failure("MANAGER_UNREACHABLE", error.message, NEXT_STEPS["MANAGER_UNREACHABLE"], UNREACHABLE)
    if isinstance(error, Unreachable) or "last: UNREACHABLE" in error.message:  # a stream's last attempt
        if isinstance(error, NotTrusted):
            return Failure("UNREACHABLE", error.message, STEP, UNREACHABLE)
        if why := _why_unreachable(target):
            return Failure("UNREACHABLE", why, STEP, UNREACHABLE)
        return unreachable(target, error.message)
    if isinstance(error, TimedOut) or error.reason == "NO_PROGRESS":
        return timed_out(error.message or "no answer in time")
    doubt = "it may have been done: look before you repeat it" if isinstance(error, InDoubt) else ""
    step = NEXT_STEPS.get(error.reason) or doubt or next_step or GENERAL_STEPS.get(error.reason, "")
    return Failure(error.reason, error.message or error.reason, step, FAILED)
