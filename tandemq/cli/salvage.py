"""Lists and shows what was cut from the members' logs, and puts it back; decides nothing about which history stands."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure, unreachable
from tandemq.cli.opening import opener
from tandemq.cli.output import print_json, print_rows, print_table, say
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.session import endpoints_of, failure_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tandemq.cli.view import MemberView

FILE_COLUMNS = ("member", "name", "operations", "acknowledged", "perhaps", "bytes", "time", "reason")
OPERATION_COLUMNS = ("log_index", "epoch", "operation", "certainty", "queue", "messages", "done", "producer")
IMPORT_COLUMNS = ("log_index", "queue", "messages", "acknowledged", "outcome", "detail")
_WORDS = MappingProxyType({1: "acknowledged", 2: "perhaps", 3: "not"})  # of tandemq.v1.Acknowledgement
member_option = click.option("--member", help="Member that has the file; needed when both have one of that name.")


@click.group()
def salvage() -> None:
    """See and put back what was cut from a member's log.

    \b
    Example: tandemq pair salvage ls
             tandemq pair salvage show main-3-120-140.salvage
             tandemq pair salvage import main-3-120-140.salvage
    """


@salvage.command()
@target_option
@timeout_option("2s")
@output_option()
def ls(target: str | None, timeout_ms: int, output: str) -> None:
    """List the salvage files of both members.

    Example: tandemq pair salvage ls
    """
    rows = _run(_rows(target, timeout_ms), target)
    print_rows(rows, "files", output, FILE_COLUMNS)


@salvage.command()
@click.argument("name")
@member_option
@target_option
@timeout_option("2s")
@output_option()
def show(name: str, member: str | None, target: str | None, timeout_ms: int, output: str) -> None:
    """List the operations in a salvage file.

    Example: tandemq pair salvage show main-3-120-140.salvage -o json
    """

    async def read() -> list[dict[str, Any]]:
        from tandemq.client.salvage import read_salvage

        holder = await _holder(name, member, target, timeout_ms)
        return [
            {
                "log_index": each.log_index,
                "epoch": each.epoch,
                "operation": each.operation,
                "acknowledged": each.acknowledged,
                "certainty": _WORDS.get(each.certainty, "unknown"),
                "queue": each.queue,
                "messages": each.count,
                "done": len(each.done),
                "producer": (each.client_id or each.request_id).hex(),
                "first_sequence": each.first_sequence,
                "first_index": each.first_index,
            }
            async for each in read_salvage(holder.endpoint, name, opener())
        ]

    print_rows(_run(read(), target), "operations", output, OPERATION_COLUMNS)


@salvage.command("import")
@click.argument("name")
@member_option
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also what is not known to be acknowledged: let producers end first.",
)
@target_option
@timeout_option("2s")
@output_option("table", "json")
def import_(name: str, member: str | None, everything: bool, target: str | None, timeout_ms: int, output: str) -> None:
    """Put the messages of a salvage file back into their queues, each once; what is there already is left alone.

    May be repeated. Exit code 1 when a message was refused.

    Example: tandemq pair salvage import main-3-120-140.salvage
    """

    async def put_back() -> list[dict[str, Any]]:
        from tandemq.client.salvage import Importer, read_salvage

        holder = await _holder(name, member, target, timeout_ms)
        importer = Importer(await _master(target, timeout_ms), everything=everything, opener=opener())
        operations = read_salvage(holder.endpoint, name, opener())
        return [each._asdict() | {"outcome": str(each.outcome)} async for each in importer.run(operations)]

    rows = _run(put_back(), target)
    counts = Counter(row["outcome"] for row in rows)
    if output == "json":
        print_json({"file": name, "outcomes": dict(counts), "operations": rows})
    else:
        print_table(rows, IMPORT_COLUMNS)
        say(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()) or "nothing in it")
    refused = counts["refused"]
    if refused:
        text = f"{refused} of {len(rows)} operations were refused"
        raise Failure("REFUSED", text, "mend what the table names, then run it again", FAILED)


async def _members(target: str | None, timeout_ms: int) -> list[MemberView]:
    from tandemq.cli.view import look

    endpoints = endpoints_of(target)
    view = await look(endpoints, timeout_ms / 1000)
    found = [member for member in view.members if member.reachable]
    if not found:
        raise unreachable(",".join(endpoints))
    return found


async def _rows(target: str | None, timeout_ms: int) -> list[dict[str, Any]]:
    from tandemq.client.salvage import list_salvage

    return [
        {
            "member": member.name,
            "name": file.name,
            "domain": file.domain,
            "first_index": file.first_index,
            "last_index": file.last_index,
            "operations": file.operations,
            "acknowledged": file.acknowledged,
            "perhaps": file.perhaps_acknowledged,
            "unacknowledged": file.unacknowledged,
            "bytes": file.bytes,
            "time": file.time.ToJsonString(),
            "reason": file.reason,
        }
        for member in await _members(target, timeout_ms)
        for file in await list_salvage(member.endpoint, opener())
    ]


async def _holder(name: str, member: str | None, target: str | None, timeout_ms: int) -> MemberView:
    """The one member that has the file."""
    from tandemq.client.salvage import list_salvage

    members = [each for each in await _members(target, timeout_ms) if member in (None, each.name)]
    holders = [
        each for each in members if any(file.name == name for file in await list_salvage(each.endpoint, opener()))
    ]
    if not holders:
        where = f" at {member}" if member else ""
        raise Failure("NOT_FOUND", f"no salvage file {name!r}{where}", "see `tandemq pair salvage ls`", FAILED)
    if len(holders) > 1:
        raise click.UsageError(f"both members have a file {name!r}: give --member")
    return holders[0]


async def _master(target: str | None, timeout_ms: int) -> str:
    members = await _members(target, timeout_ms)
    masters = [each for each in members if (main := each.domain("main")) is not None and main.role == "MASTER"]
    return (masters or members)[0].endpoint


def _run(work: Coroutine[Any, Any, list[dict[str, Any]]], target: str | None) -> list[dict[str, Any]]:
    from tandemq.errors import TandemqError

    try:
        return asyncio.run(work)
    except TandemqError as error:
        raise failure_of(error, target or "the pair") from error
