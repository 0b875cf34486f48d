"""Shows which manager a client here would use, or where a name leads, and which source decided; it changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, UNREACHABLE, Failure
from tandemq.cli.output import print_json, print_table
from tandemq.cli.params import DURATION, credentials_option, output_option
from tandemq.cli.session import NEXT_STEPS

if TYPE_CHECKING:
    from tandemq.finding.resolver import Manager

COLUMNS = ("source", "says", "outcome")
MANAGER_COLUMNS = ("manager", "endpoint", "priority", "state")


@click.command()
@click.argument("name", required=False)
@click.option("--target", metavar="HOST:PORT[,...]", help="As a command would be given it.")
@credentials_option
@click.option("--timeout", "timeout_ms", type=DURATION, default="2s", show_default=True, help="For a sign of life.")
@output_option("table", "json")
def where(name: str | None, target: str | None, timeout_ms: int, output: str) -> None:
    """Say which manager is used when none is named, or where a name leads, and why.

    \b
    Example: tandemq config where
             tandemq config where //orders
             tandemq config where ///cf/hotline -o json
    """
    rows, managers, decided = asyncio.run(_found(name or target, timeout_ms / 1000, by_name=bool(name)))
    if output == "json":
        print_json({"decided_by": decided, "considered": rows, "managers": managers})
    else:
        print_table(rows, COLUMNS)
        if managers:
            print_table(managers, MANAGER_COLUMNS)
    if not decided:
        raise _nowhere(name, rows)


def _nowhere(name: str | None, rows: list[dict[str, str]]) -> Failure:
    if name is None:
        step = "start a pair with `tandemq dev`, or name one with --target"
        return Failure("UNREACHABLE", "nothing here names a manager", step, UNREACHABLE)
    if any(row["outcome"].startswith("is away") for row in rows):
        reason = "MANAGER_UNREACHABLE"
        return Failure(reason, f"{name} was not found where an answer came", NEXT_STEPS[reason], UNREACHABLE)
    if wrong := next((row for row in rows if row["outcome"].startswith("cannot be used")), None):
        return Failure("CONFIG_ERROR", f"{wrong['source']} {wrong['outcome']}", "correct that entry", FAILED)
    reason = "MANAGER_NOT_FOUND"
    return Failure(reason, f"nothing here says where {name} is", NEXT_STEPS[reason], FAILED)


async def _found(named: str | None, timeout_s: float, *, by_name: bool) -> tuple[list[Any], list[Any], str]:
    """What was considered, what it led to, and the source that decided."""
    from tandemq.cli.opening import keep_found
    from tandemq.client.target import NoTarget
    from tandemq.finding import default
    from tandemq.finding.profile import BadProfile

    rows: list[dict[str, str]] = []
    managers: Sequence[Manager] = ()
    decided = ""
    try:
        search = default.search(named)
        if not by_name:
            rows = [{"source": each.source, "says": each.says, "outcome": each.outcome} for each in search.considered]
        target = search.target
        if target is not None:
            keep_found(target.credentials)
            decided = rows[-1]["source"] if rows else ""
            managers = _given(target)
        if target is not None and not managers:
            from tandemq.finding.explain import explain

            led = await explain(target)
            rows += [{"source": each.source, "says": each.name, "outcome": each.outcome} for each in led.asked]
            managers, decided = led.managers, (decided if not by_name else led.source) if led.managers else ""
    except BadProfile as error:
        raise Failure("CONFIG_ERROR", str(error), "correct that file", FAILED) from error
    except NoTarget as error:
        if named:
            raise click.BadParameter(str(error), param_hint="name" if by_name else "--target") from error
        raise Failure("CONFIG_ERROR", str(error), "correct what it names", FAILED) from error
    return rows, await _states(managers, timeout_s), decided


def _given(target: Any) -> Sequence[Manager]:
    """The managers that need no looking up."""
    from tandemq.finding.resolver import Manager

    if target.candidates:
        found: Sequence[Manager] = target.candidates
        return found
    return [Manager(target.manager or target.pair or "unnamed", target.endpoints)] if target.endpoints else []


async def _states(managers: Sequence[Manager], timeout_s: float) -> list[dict[str, Any]]:
    """A row an endpoint: the first manager of which one answers is the one that is used."""
    asked = [(manager, endpoint) for manager in managers for endpoint in manager.endpoints]
    words = await asyncio.gather(*(_state(endpoint, timeout_s) for _, endpoint in asked))
    chosen = next((manager for (manager, _), word in zip(asked, words, strict=True) if word == "answers"), None)
    return [
        {
            "manager": manager.name,
            "endpoint": endpoint,
            "priority": manager.priority,
            "state": f"{word}, used" if word == "answers" and manager is chosen else word,
        }
        for (manager, endpoint), word in zip(asked, words, strict=True)
    ]


async def _state(endpoint: str, timeout_s: float) -> str:
    from tandemq.cli.opening import directory
    from tandemq.client import aio
    from tandemq.errors import TandemqError

    patience_s = max(timeout_s, 0.1)
    async with aio.connect(endpoint, timeout=patience_s, attempt_timeout=patience_s, credentials=directory()) as client:
        try:
            await client.manager_info()
        except TandemqError:
            return "no answer"
    return "answers"
