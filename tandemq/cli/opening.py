"""Opens the connections of a command: with the credentials that it was given, or plain. Decides whose these are."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.credentials.chosen import directory_of, opener_of

if TYPE_CHECKING:
    import grpc.aio

    from tandemq.channels import Open

GIVEN, FOUND = "tandemq.credentials.given", "tandemq.credentials.found"
STEP = "`tandemq cert check DIR` looks a directory over; see docs/SECURITY.md"


def keep_given(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of `--credentials`."""
    del param
    ctx.meta[GIVEN] = value
    return value


def keep_found(directory: str) -> None:
    """That of the context which names the manager; used where nothing else is given."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta[FOUND] = directory


def directory() -> str:
    """The option's, else the environment's, else the context's; empty: none."""
    ctx = click.get_current_context(silent=True)
    meta = ctx.meta if ctx is not None else {}
    return directory_of(meta.get(GIVEN)) or str(meta.get(FOUND, ""))


def opener() -> Open:
    """What opens channels. Ends the command where the credentials are of no use."""
    return _opener(directory())


def open_channel(endpoint: str, options: Iterable[tuple[str, Any]] = ()) -> grpc.aio.Channel:
    """As `tandemq.channels.open_channel`."""
    return opener()(endpoint, tuple(options))


@functools.cache
def _opener(directory: str) -> Open:
    if not directory:
        return opener_of("")
    from tandemq.credentials.bad import BadCredentials

    try:
        return opener_of(directory)
    except BadCredentials as error:
        raise Failure(error.reason, str(error), STEP, FAILED) from error
