"""Has the master put back what a queue held in a backup; decides how that is printed, never what enters."""

from __future__ import annotations

import secrets

import click

from tandemq.cli.failure import Failure
from tandemq.cli.output import print_facts
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.session import run

ID_BYTES = 16


@click.command()
@click.argument("name")
@click.option("--from", "source", default="", metavar="FILE", help="A file in the master's backup directory.")
@click.option("--request-id", metavar="HEX", help="Of a call that broke off: what it has put back enters once.")
@target_option
@timeout_option("10m")
@output_option()
def restore(name: str, source: str, request_id: str | None, target: str | None, timeout_ms: int, output: str) -> None:
    """Put back the messages that a queue held in a backup, as new messages. The queue must be closed, empty or absent;
    an absent one is made, and is to be opened. Without --from the member's own store of the queue is read and checked.

    Example: tandemq queue restore orders --from orders.tqb
    """
    identity = identity_of(request_id)
    try:
        done = run(
            target,
            timeout_ms,
            lambda client: client.restore_queue(name, source, request_id=identity, timeout=timeout_ms / 1000),
        )
    except Failure as failure:
        if failure.reason not in ("BAD_REQUEST", "NOT_EMPTY", "QUEUE_NOT_FOUND"):  # it may be under way
            again = f"repeat it with --request-id {identity.hex()}: nothing enters twice"
            failure.next_step = f"{failure.next_step}; {again}" if failure.next_step else again
        raise
    facts = {"queue": name, "restored": done.restored, "present": done.present, "lost": done.lost}
    print_facts({**facts, "length": done.queue.length, "duplicate": done.duplicate}, output)


def identity_of(given: str | None) -> bytes:
    """The request id that was given, or a new one."""
    if given is None:
        return secrets.token_bytes(ID_BYTES)
    try:
        identity = bytes.fromhex(given)
    except ValueError:
        identity = b""
    if len(identity) != ID_BYTES:
        raise click.BadParameter(f"{given!r} is not {2 * ID_BYTES} hexadecimal digits", param_hint="--request-id")
    return identity
