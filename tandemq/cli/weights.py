"""Shows, publishes and deletes tables of routing weights; the master decides whether it may be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.output import print_facts, print_json, print_rows, print_table
from tandemq.cli.params import DURATION, confirm, output_option, target_option, timeout_option, yes_option
from tandemq.cli.session import run

if TYPE_CHECKING:
    from datetime import datetime

    from tandemq.client.aio import WeightTable

    ShareType = click.ParamType[tuple[str, float]]  # generic for type checkers alone, as in params.py
else:
    ShareType = click.ParamType

COLUMNS = ("name", "version", "expired", "valid_until", "published_by", "published_at")
domain_option = click.option("--domain", default="", help="Default: main, or local on an unpaired manager.")
expected_option = click.option(
    "--expected-version",
    type=click.IntRange(0),
    help="Only in the place of this version; 0: only where there is none. Default: whatever is there.",
)


class WeightType(ShareType):
    """`queue=weight`; the last = counts, and the member judges the number."""

    name = "queue=weight"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        queue, _, text = value.rpartition("=")
        if not queue:
            self.fail(f"{value!r} names no queue; write orders.eu=0.75", param, ctx)
        try:
            return queue, float(text)
        except ValueError:
            self.fail(f"{value!r} has no number behind the =; write orders.eu=0.75", param, ctx)


@click.group()
def weights() -> None:
    """Tables of routing weights: which queue of a group should get how much. They advise, and move no message.

    \b
    Example: tandemq weights show
             tandemq weights publish orders orders.eu=3 orders.us=1 --valid-for 10m
    """


@weights.command()
@click.argument("name", default="")
@domain_option
@target_option
@timeout_option()
@output_option()
def show(name: str, domain: str, target: str | None, timeout_ms: int, output: str) -> None:
    """Show table NAME with what each queue should get; without NAME all tables.

    An expired table is shown as expired: who routes by it goes by live counters.

    Example: tandemq weights show orders -o json
    """
    if not name:
        found = run(target, timeout_ms, lambda client: client.list_weights(domain))
        print_rows([facts_of(each) for each in found], "tables", output, COLUMNS)
        return
    table = run(target, timeout_ms, lambda client: client.get_weights(name, domain=domain))
    shares = table.shares(list(table.weights)) or {}
    rows = [
        {"queue": queue, "weight": weight, "share": round(shares[queue], 6) if queue in shares else None}
        for queue, weight in table.weights.items()
    ]
    if output == "json":
        print_json({**facts_of(table), "weights": rows})
    elif output == "jsonl":
        print_rows([{"table": table.name, "version": table.version, **row} for row in rows], "weights", output)
    else:
        print_facts(facts_of(table), output)
        print_table(rows, ("queue", "weight", "share"))


@weights.command()
@click.argument("name")
@click.argument("weights", type=WeightType(), nargs=-1, required=True, metavar="QUEUE=WEIGHT...")
@click.option("--valid-for", "valid_ms", type=DURATION, required=True, help="From now on, at most 7d.")
@expected_option
@click.option("--by", "published_by", default="", help="Who says so, for those who read it.")
@domain_option
@target_option
@timeout_option()
@output_option()
def publish(
    name: str,
    weights: tuple[tuple[str, float], ...],
    valid_ms: int,
    expected_version: int | None,
    published_by: str,
    domain: str,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Put a table in the place of table NAME, whole. Weights count beside each other: 3 and 1 are 0.75 and 0.25.

    \b
    Example: tandemq weights publish orders orders.eu=3 orders.us=1 --valid-for 10m --expected-version 0
             tandemq weights publish orders orders.eu=0.7 orders.us=0.3 --valid-for 1h --by ops -o json
    """
    given = dict(weights)
    if len(given) < len(weights):
        raise click.UsageError("a queue is named twice; give it one weight")
    done = run(
        target,
        timeout_ms,
        lambda client: client.publish_weights(
            name,
            given,
            valid_for=timedelta(milliseconds=valid_ms),
            expected_version=expected_version,
            published_by=published_by,
            domain=domain,
        ),
    )
    print_facts({"name": name, "version": done.version, "valid_until": _moment(done.valid_until)}, output)


@weights.command()
@click.argument("name")
@expected_option
@yes_option
@domain_option
@target_option
@timeout_option()
@output_option()
def delete(
    name: str,
    expected_version: int | None,
    yes: bool,
    domain: str,
    target: str | None,
    timeout_ms: int,
    output: str,
) -> None:
    """Delete table NAME: who routes by it goes by live counters.

    Example: tandemq weights delete orders --yes
    """
    confirm("delete the table of weights", name, yes=yes)
    run(
        target,
        timeout_ms,
        lambda client: client.delete_weights(name, expected_version=expected_version, domain=domain),
    )
    print_facts({"name": name, "deleted": True}, output)


def facts_of(found: WeightTable) -> dict[str, Any]:
    """One of them as JSON, without its weights."""
    return {
        "name": found.name,
        "version": found.version,
        "expired": found.expired,
        "valid_until": _moment(found.valid_until),
        "valid_for_seconds": found.valid_for.total_seconds(),
        "published_by": found.published_by,
        "published_at": _moment(found.published_at),
        "computed_from": _moment(found.computed_from),
        "computed_until": _moment(found.computed_until),
    }


def _moment(time: datetime | None) -> str | None:
    return time.isoformat(timespec="milliseconds") if time is not None else None
