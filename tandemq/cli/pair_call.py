"""Finds the member that an order is for and calls it once; decides how a refusal ends the command, never what the order
does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.cli.failure import FAILED, Failure, unreachable
from tandemq.cli.output import print_facts

if TYPE_CHECKING:
    from tandemq.cli.view import MemberView, PairView
    from tandemq.v1.pair_service_pb2_grpc import PairServiceAsyncStub

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])


def member_option(command: Command) -> Command:
    """Which member an order is for, when several are named."""
    return click.option("--member", metavar="NAME", help="Member to ask; needed when several could be meant.")(command)


def domain_option(command: Command) -> Command:
    return click.option("--domain", default="main", show_default=True, help="Domain that it is about.")(command)


def reason_option(*, required: bool = False, needed: str = "") -> Callable[[Command], Command]:
    """`needed`: with which other option it is not left out."""
    if required:
        return click.option("--reason", metavar="TEXT", required=True, help="Why, for the event log.")
    when = f"needed with {needed}" if needed else "may be left out"
    return click.option("--reason", metavar="TEXT", default="", help=f"Why, for the event log; {when}.")


def look_at(target: str | None, timeout_ms: int) -> PairView:
    """Both members' own view. Ends the command when none answers."""
    from tandemq.cli.session import endpoints_of
    from tandemq.cli.view import look

    endpoints = endpoints_of(target)
    view = asyncio.run(look(endpoints, min(timeout_ms / 1000, 2.0)))
    if not any(member.reachable for member in view.members):
        raise no_view(view, endpoints)
    return view


def no_view(view: PairView, endpoints: list[str]) -> Failure:
    """Why a command that needs the members' view ends where none has given it."""
    denied = next((member for member in view.members if member.denied), None)
    if denied is None:
        return unreachable(",".join(endpoints), view.problems())
    from tandemq.cli.session import GENERAL_STEPS

    return Failure("PERMISSION_DENIED", denied.problem, GENERAL_STEPS["PERMISSION_DENIED"], FAILED)


def choose(
    view: PairView, target: str | None, member: str | None, *, prefer: Callable[[MemberView], bool] | None = None
) -> MemberView:
    """The member that an order is for: the one that was named, the only one, or the only one that `prefer` suits."""
    reachable = [each for each in view.members if each.reachable]
    if member is not None:
        for each in view.members:
            if each.name == member and not each.reachable:
                raise unreachable(each.endpoint)
        named = [each for each in reachable if each.name == member]
        if not named:
            names = ", ".join(each.name for each in view.members if each.name)
            raise click.UsageError(f"no member is called {member}; there are {names}")
        return named[0]
    if target and "," not in target:
        named = [each for each in reachable if each.endpoint == target]
        if named:
            return named[0]
    if prefer is not None:
        fitting = [each for each in reachable if prefer(each)]
        reachable = fitting or reachable
    if len(reachable) > 1:
        names = " or ".join(each.name for each in reachable)
        raise click.UsageError(f"say which member is meant: --member {names}")
    return reachable[0]


def holds_role(role: str, domain: str) -> Callable[[MemberView], bool]:
    """Which member an order is meant for, when none is named."""

    def suits(member: MemberView) -> bool:
        found = member.domain(domain)
        return found is not None and found.role == role

    return suits


def check_other(view: PairView, asked: MemberView) -> None:
    """Refuse to take a member out when the other one says that it would not go on by itself."""
    for other in view.members:
        if other.name != asked.name and other.automation_paused:
            text = f"automation is paused at {other.name}: without {asked.name} it would serve nobody"
            step = f"`tandemq pair resume --member {other.name}` first; --yes stops the service knowingly"
            raise Failure("REFUSED", text, step, FAILED)
        if other.name != asked.name and other.maintenance:
            text = f"{other.name} is in maintenance already: nobody would serve"
            step = f"`tandemq pair maintenance off --member {other.name}` first; --yes stops the service knowingly"
            raise Failure("REFUSED", text, step, FAILED)


def call(
    endpoint: str,
    timeout_ms: int,
    work: Callable[[PairServiceAsyncStub], Coroutine[Any, Any, Answer]],
    next_step: str = "",
) -> Answer:
    """One conversation with one member, never repeated: an order is carried out where it was given.

    `next_step` is printed with a refusal that has none of its own.
    """
    import grpc
    import grpc.aio

    from tandemq.cli.opening import open_channel
    from tandemq.cli.session import failure_of
    from tandemq.cli.view import CHANNEL_OPTIONS
    from tandemq.errors import from_rpc_error
    from tandemq.v1 import pair_service_pb2_grpc

    async def connected() -> Answer:
        async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
            return await asyncio.wait_for(work(pair_service_pb2_grpc.PairServiceStub(channel)), timeout_ms / 1000)

    try:
        return asyncio.run(connected())
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            text = f"the member at {endpoint} does not know this order"
            raise Failure("UNIMPLEMENTED", text, "upgrade it; see `tandemq version`") from error
        raise failure_of(from_rpc_error(error), endpoint, next_step) from error
    except TimeoutError as error:
        from tandemq.cli.failure import timed_out

        raise timed_out(f"{endpoint} did not answer in {timeout_ms / 1000:g} s") from error


def finish(facts: dict[str, Any], output: str, *, done: bool, reason: str, next_step: str = "") -> None:
    """Print an answer. One that says "not done" ends the command with exit code 1; JSON is printed all the same."""
    if done or output != "table":
        given = {name: value for name, value in facts.items() if value not in ("", 0, [], None)} or facts
        print_facts(facts if output != "table" else given, output)
    if not done:
        raise Failure(reason, str(facts.get("text") or "refused"), next_step, FAILED)
