"""Makes, changes and shows macro queues; the master decides whether it may be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import Failure
from tandemq.cli.output import print_facts, print_json, print_rows, print_table
from tandemq.cli.params import confirm, output_option, target_option, timeout_option, yes_option
from tandemq.cli.session import run
from tandemq.client.macros import MacroPolicy, MemberState, Relationship
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandemq.client import aio
    from tandemq.client.aio import Macro
    from tandemq.client.macros import MacroMember

if TYPE_CHECKING:
    MemberType = click.ParamType[tuple[str, int]]
else:
    MemberType = click.ParamType  # older releases of click have no type arguments

COLUMNS = ("name", "relationship", "policy", "members", "version")
domain_option = click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")
expected_option = click.option(
    "--expected-version",
    type=click.IntRange(0),
    default=0,
    show_default=False,
    help="Only where the macro queue has this version; 0: any, the default.",
)


class MemberParam(MemberType):
    """QUEUE, or QUEUE=PRIORITY."""

    name = "QUEUE[=PRIORITY]"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """The queue, and its member priority."""
        if isinstance(value, tuple):
            return value
        queue, mark, priority = value.partition("=")
        if not queue or (mark and not (len(priority) == 1 and priority in "0123456789")):
            self.fail(f"{value!r} is not QUEUE or QUEUE=PRIORITY, with a priority of 0 to 9", param, ctx)
        return queue, int(priority or 0)


async def unmake(client: aio.Client, made: Macro, because: TandemqError) -> None:
    """Takes back a macro queue that did not get all of its members. Raises Failure where that cannot be done: it may
    have got one of which nobody has heard.
    """
    try:
        await client.delete_macro(made.name, expected_version=made.version)
    except TandemqError as error:
        text = f"{because.message}; macro queue {made.name} was made and is still there: {error.message}"
        step = f"`tandemq macro info {made.name}`, and `tandemq macro rm {made.name}` or add what it lacks"
        raise Failure(because.reason, text, step) from because


@click.group()
def macro() -> None:
    """Macro queues: many queues that look like one. Send to it, or receive from it, as with any queue.

    \b
    Example: tandemq macro create all-orders --consumer --policy PRIORITIZED
             tandemq macro add all-orders orders.eu --priority 5
             tandemq msg recv all-orders
    """


@macro.command()
@click.argument("name")
@click.option("--consumer", "relationship", flag_value="CONSUMER", default=True, help="Receive from it (the default).")
@click.option("--producer", "relationship", flag_value="PRODUCER", help="Send to it.")
@click.option(
    "--policy",
    type=click.Choice([each.value for each in MacroPolicy], case_sensitive=False),
    help="Which member is chosen. Default: PRIORITIZED of a consumer, FIRST_AVAILABLE of a producer.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    type=MemberParam(),
    help="Add this queue, with its member priority of 0 to 9; may be given many times, in the order of adding.",
)
@domain_option
@target_option
@timeout_option()
@output_option()
def create(
    name: str,
    relationship: str,
    policy: str | None,
    members: Sequence[tuple[str, int]],
    domain: str,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Make macro queue NAME. Where a member is refused there is none.

    Example: tandemq macro create spread --producer --member orders.eu=5
    """
    chosen = None if policy is None else MacroPolicy(policy.upper())

    async def make(client: aio.Client) -> Macro:
        made = await client.create_macro(name, relationship=Relationship(relationship), policy=chosen, domain=domain)
        try:
            for queue, priority in members:
                made = await client.add_macro_member(name, queue, priority=priority)
        except TandemqError as error:
            await unmake(client, made, error)
            raise
        return made

    _show(run(target, timeout_ms, make), output)


@macro.command()
@click.argument("name")
@click.argument("queue")
@click.option("--priority", type=click.IntRange(0, 9), default=0, show_default=True, help="Higher goes first.")
@expected_option
@target_option
@timeout_option()
@output_option()
def add(
    name: str, queue: str, priority: int, expected_version: int, target: str | None, timeout_ms: int, output: str
) -> None:
    """Add QUEUE to macro queue NAME, behind the members that are there. A proxy is a queue of another manager.

    Example: tandemq macro add all-orders orders.us --priority 3
    """
    made = run(
        target,
        timeout_ms,
        lambda client: client.add_macro_member(name, queue, priority=priority, expected_version=expected_version),
    )
    _show(made, output)


@macro.command()
@click.argument("name")
@click.argument("queue")
@expected_option
@target_option
@timeout_option()
@output_option()
def remove(name: str, queue: str, expected_version: int, target: str | None, timeout_ms: int, output: str) -> None:
    """Take QUEUE out of macro queue NAME. The queue stays, with its messages.

    Example: tandemq macro remove all-orders orders.us
    """
    made = run(
        target,
        timeout_ms,
        lambda client: client.remove_macro_member(name, queue, expected_version=expected_version),
    )
    _show(made, output)


@macro.command()
@click.argument("name")
@target_option
@timeout_option()
@output_option()
def info(name: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show macro queue NAME with its members.

    Example: tandemq macro info all-orders -o json
    """
    _show(run(target, timeout_ms, lambda client: client.get_macro(name)), output)


@macro.command("ls")
@domain_option
@target_option
@timeout_option()
@output_option()
def list_(domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """List macro queues.

    Example: tandemq macro ls
    """
    found = run(target, timeout_ms, lambda client: client.list_macros(domain))
    print_rows([_facts_of(each) for each in found], "macros", output, COLUMNS)


@macro.command()
@click.argument("name")
@expected_option
@yes_option
@target_option
@timeout_option()
@output_option()
def rm(name: str, expected_version: int, yes: bool, target: str | None, timeout_ms: int, output: str) -> None:
    """Remove macro queue NAME. Its members stay, with their messages.

    Example: tandemq macro rm all-orders --yes
    """
    confirm("remove the macro queue", name, yes=yes)
    run(target, timeout_ms, lambda client: client.delete_macro(name, expected_version=expected_version))
    print_facts({"name": name, "removed": True}, output)


def _show(found: Macro, output: str) -> None:
    rows = [_row_of(each) for each in found.members]
    if output == "json":
        weights = _facts_of_weights(found)
        print_json({**_facts_of(found), "members": rows, "choices": dict(found.choices), **weights})
    elif output == "jsonl":
        print_rows([{"macro": found.name, "version": found.version, **row} for row in rows], "members", output)
    else:
        chosen = {f"chosen: {reason}": count for reason, count in found.choices}
        print_facts(_facts_of(found) | chosen | _facts_of_weights(found), output)
        print_table(rows, tuple(dict.fromkeys(name for row in rows for name in row)) or ("queue", "priority", "handle"))


def _row_of(member: MacroMember) -> dict[str, Any]:
    row: dict[str, Any] = {"queue": member.queue, "priority": member.priority, "handle": member.handle}
    if member.mean_response is not None:
        row["mean_response_ms"] = member.mean_response // timedelta(milliseconds=1)
    if member.share is not None:
        row["share"] = round(member.share, 6)
    if member.target:
        row["target"] = member.target
    if member.state is not MemberState.OPEN:
        row["state"] = member.state.value
    if member.far is not None:
        far = member.far
        row |= {"state": far.state.value, "why": far.why}
        row |= {"heads": far.heads, "delivered": far.delivered, "returned": far.returned}
    return row


def _facts_of_weights(found: Macro) -> dict[str, Any]:
    """Of the table of weights under its name; empty: there is none that its policy looks at."""
    if found.weights is None:
        return {}
    until = found.weights.valid_until.isoformat(timespec="milliseconds")
    facts = {"version": found.weights.version, "in_force": found.weights.in_force, "valid_until": until}
    return {f"weights_{name}": value for name, value in facts.items()}


def _facts_of(found: Macro) -> dict[str, Any]:
    """One of them as JSON, with the number of its members."""
    return {
        "name": found.name,
        "relationship": found.relationship,
        "policy": found.policy,
        "members": len(found.members),
        "version": found.version,
        "created_at": found.created_at.isoformat(timespec="milliseconds"),
    }
