"""Shows what waits for other managers, and gives back a batch that is under way. It decides nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_facts, print_rows, say
from tandemq.cli.params import confirm, output_option, target_option, timeout_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.aio import Client, ReleasedTransmission, Transmission

COLUMNS = ("manager", "messages", "state", "waiting_seconds", "last_batch", "via", "addresses", "why")
domain_option = click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")


@click.group()
def xmit() -> None:
    """Messages on their way to other managers, one transmission queue for each: SYSTEM.XMIT/MANAGER,
    or MANAGER:DOMAIN for another domain there than its main one.

    \b
    Example: tandemq xmit ls
    """


@xmit.command()
@domain_option
@target_option
@timeout_option()
@output_option()
def ls(domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show how many messages wait for each manager, and whether they go: idle, carrying, or waiting, and then for how
    long and why.

    Example: tandemq xmit ls -o json
    """
    found = run(target, timeout_ms, lambda client: client.list_transmissions(domain=domain))
    print_rows([facts_of(each) for each in found], "transmissions", output, COLUMNS)


@xmit.command()
@click.argument("manager")
@click.option("--yes", is_flag=True, help="Also when MANAGER does not say what it has: that may be there twice then.")
@domain_option
@target_option
@timeout_option("30s")
@output_option()
def release(manager: str, yes: bool, domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Give back the batch that is under way to MANAGER, which is asked first whether it has it: what it has is
    acknowledged, the rest returns to the transmission queue and goes under the next number.

    A manager that does not answer may have it: nothing is done then, unless you say so.

    Example: tandemq xmit release west

    \b
    Example: tandemq xmit release west:billing --yes
    """

    def asked(*, unasked: bool) -> ReleasedTransmission:
        async def work(client: Client) -> ReleasedTransmission:
            return await client.release_transmission(manager, unasked=unasked, domain=domain)

        return run(target, timeout_ms, work)

    done = asked(unasked=yes)
    if done.silence and not yes:
        text = (
            f"{manager} does not say whether it has {_batches(done)}, {done.in_doubt} messages: {done.silence}; "
            "released, they may be there twice"
        )
        if not sys.stdin.isatty():
            raise Failure("MANAGER_UNREACHABLE", text, "bring it back, or repeat this with --yes", FAILED)
        say(text, err=True)
        confirm("release what may be there twice, for", manager, yes=False)
        done = asked(unasked=True)
    facts: dict[str, Any] = {
        "manager": manager,
        "batches": list(done.batches),
        "released": done.released,
        "acknowledged": done.acknowledged,
        "in_doubt": done.in_doubt,
        "silence": done.silence,
    }
    print_facts(facts, output)


def _batches(done: ReleasedTransmission) -> str:
    return f"batch {', '.join(map(str, done.batches))}"


def facts_of(found: Transmission) -> dict[str, Any]:
    """One of them as JSON."""
    return {
        "manager": found.target,
        "queue": found.queue,
        "messages": found.messages,
        "state": found.state.value,
        "waiting_seconds": round(found.waiting.total_seconds(), 3),
        "why": found.why,
        "last_batch": found.last_batch,
        "open_batches": list(found.open_batches),
        "open_messages": found.open_messages,
        "addresses": list(found.addresses),
        "via": found.via,
    }
