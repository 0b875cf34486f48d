"""Decides how a command fails: its exit code, and the reason, cause and next step on stderr; it never retries."""

from __future__ import annotations

from typing import IO, Any

import click

from tandemq.cli.output import say, unread_is_no_error

FAILED, USAGE, UNREACHABLE, TIMED_OUT = 1, 2, 3, 4


class Failure(click.ClickException):
    """Ends the command. `reason` is a name from the contract, `cause` what happened, `next_step` what to do."""

    def __init__(self, reason: str, cause: str, next_step: str = "", exit_code: int = FAILED) -> None:
        super().__init__(cause)
        self.reason = reason
        self.next_step = next_step
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        with unread_is_no_error(stderr=True):
            say(f"error: {self.reason}", file=file, err=file is None, fg="red", bold=True)
            say(f"  cause: {self.message}", file=file, err=file is None)
            if self.next_step:
                say(f"  next:  {self.next_step}", file=file, err=file is None)


def unreachable(target: str, detail: str = "") -> Failure:
    return Failure(
        "UNREACHABLE",
        f"no member answers at {target}{f' ({detail})' if detail else ''}",
        "start one with `tandemq dev`, or name another with --target or TANDEMQ_TARGET",
        UNREACHABLE,
    )


def timed_out(cause: str, next_step: str = "") -> Failure:
    return Failure("TIMED_OUT", cause, next_step or "look at `tandemq pair status`, or give it longer", TIMED_OUT)
