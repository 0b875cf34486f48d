"""Grants, revokes, lists and tests rights of principals; the pair decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import output_option, target_option, timeout_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from tandemq.client.rights import Grant

COLUMNS = ("principal", "right", "pattern", "version", "granted_by", "granted_at")
VERBS = click.Choice(("produce", "consume", "browse", "administer", "observe", "operate"))
expected_option = click.option(
    "--expected-version", type=click.IntRange(0), help="Only while the rights have this version. Default: any."
)


@click.group()
def right() -> None:
    """Rights: what a principal, known by its certificate, may do with which queues, and with the pair.

    They count where members have certificates. PATTERN is a queue's name, or ends in * (one segment more) or ** (any
    number); observe and operate are rights on the pair, and take none.

    \b
    Example: tandemq right grant billing produce orders
             tandemq right ls billing
    """


@right.command()
@click.argument("principal")
@click.argument("verb", type=VERBS)
@click.argument("pattern", default="")
@expected_option
@target_option
@timeout_option()
@output_option()
def grant(
    principal: str,
    verb: str,
    pattern: str,
    expected_version: int | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Give PRINCIPAL the right to VERB on PATTERN.

    \b
    Example: tandemq right grant billing produce 'orders/**'
             tandemq right grant ops observe
    """
    version = run(
        target,
        timeout_ms,
        lambda client: client.grant_right(principal, verb, pattern, expected_version=expected_version),
    )
    print_facts({"principal": principal, "right": verb, "pattern": pattern, "version": version}, output)


@right.command()
@click.argument("principal")
@click.argument("verb", type=VERBS)
@click.argument("pattern", default="")
@expected_option
@target_option
@timeout_option()
@output_option()
def revoke(
    principal: str,
    verb: str,
    pattern: str,
    expected_version: int | None,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Take from PRINCIPAL the right to VERB on PATTERN, as it was granted. Open streams that need it end.

    Example: tandemq right revoke billing produce 'orders/**'
    """
    version = run(
        target,
        timeout_ms,
        lambda client: client.revoke_right(principal, verb, pattern, expected_version=expected_version),
    )
    print_facts({"principal": principal, "right": verb, "pattern": pattern, "version": version}, output)


@right.command("ls")
@click.argument("principal", default="")
@target_option
@timeout_option()
@output_option()
def list_(principal: str, target: str | None, timeout_ms: int, output: str) -> None:
    """List what was granted to PRINCIPAL; without it to all. Whoever is no administrator sees its own.

    Example: tandemq right ls billing -o json
    """
    found = run(target, timeout_ms, lambda client: client.list_rights(principal))
    print_rows([facts_of(each) for each in found.grants], "grants", output, COLUMNS)


@right.command()
@click.argument("principal")
@click.argument("verb", type=VERBS)
@click.argument("queue", default="")
@target_option
@timeout_option()
@output_option()
def test(principal: str, verb: str, queue: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Say whether PRINCIPAL may VERB on QUEUE now, and which grant decides. Exit code 1: it may not.

    Example: tandemq right test billing produce orders/eu
    """
    found = run(target, timeout_ms, lambda client: client.check_right(verb, queue, principal=principal))
    decides = "administrators" if found.administrator else found.grant.pattern or "pair" if found.grant else None
    facts: dict[str, Any] = {"principal": principal, "right": verb, "queue": queue, "allowed": found.allowed}
    facts |= {"decides": decides, "version": found.grant.version if found.grant else None}
    print_facts(facts, output)
    if not found.allowed:
        raise SystemExit(1)


def facts_of(found: Grant) -> dict[str, Any]:
    """One of them as JSON."""
    return {**found._asdict(), "granted_at": found.granted_at.isoformat(timespec="milliseconds")}
