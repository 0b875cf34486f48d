"""Cancels, moves and changes messages that were sent before; decides how that is printed, never what it comes to."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import TIMED_OUT, UNREACHABLE, Failure
from tandemq.cli.output import print_facts
from tandemq.cli.params import DURATION, TYPED_PROPERTY, output_option, target_option, timeout_option
from tandemq.cli.queue_restore import identity_of
from tandemq.cli.session import run
from tandemq.cli.where import where_options

if TYPE_CHECKING:
    from tandemq.client.aio import Client
    from tandemq.client.filtering import Where
    from tandemq.client.reactions import Action, Change, HomeReacted, Reacted


@click.command()
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@where_options
@click.option("--all", "everything", is_flag=True, help="All that fit, at one moment. Default: the first of them.")
@click.option(
    "--sticky",
    type=DURATION,
    help="Kept so long for what comes later, where it finds nothing to act on, or with --all; 0: as long as it may.",
)
@click.option("--delete", is_flag=True, help="Cancel them.")
@click.option("--move-to", metavar="QUEUE", help="Put them into this queue.")
@click.option("--set-body", metavar="TEXT", help="Change them: this is their body.")
@click.option(
    "--set-property",
    "properties",
    type=TYPED_PROPERTY,
    multiple=True,
    help="Change them: K=TEXT, or K:=V for an integer, a number, true or false. Repeatable.",
)
@click.option("--drop-property", "without", metavar="NAME", multiple=True, help="Change them: without it. Repeatable.")
@click.option("--set-content-type", "content_type", help="Change them: what the body is.")
@click.option("--set-priority", "priority", type=click.IntRange(0, 9), help="Change them: 9 is delivered first.")
@click.option("--set-ttl", "ttl", type=DURATION, help="Change them: removed so long from now; 0: as the queue has it.")
@click.option("--set-delay", "delay", type=DURATION, help="Change them: delivered so long from now; 0: at once.")
@click.option("--custom", metavar="NAME", help="Ask this plug-in or command of the master about each of them.")
@click.option("--input", "given", default="", metavar="TEXT", help="--custom: sent along.")
@click.option("--report-to", default="", metavar="QUEUE", help="A message about the outcome goes there.")
@click.option("--report-id", default="", metavar="TEXT", help="Its correlation id.")
@click.option(
    "--exceptions",
    type=click.Choice(("none", "headers", "full")),
    default="none",
    help="--delete: what the reply_to of each cancelled message gets.",
)
@click.option(
    "--forward", is_flag=True, help="//manager/queue: by way of the messages that one's own manager sends on."
)
@click.option("--domain", default="", help="That the queue is in; with --forward: that sends. Default there: main.")
@click.option("--request-id", metavar="HEX", help="Of a call whose answer was lost: it has one effect.")
@target_option
@timeout_option("30s")
@output_option()
def react(
    queues: tuple[str, ...],
    where: Where | None,
    everything: bool,
    sticky: int | None,
    delete: bool,
    move_to: str | None,
    custom: str | None,
    given: str,
    report_to: str,
    report_id: str,
    exceptions: str,
    forward: bool,
    domain: str,
    request_id: str | None,
    target: str | None,
    timeout_ms: int,
    output: str,
    **changes: Any,
) -> None:
    """Act on messages that were sent before, unless a consumer has them already.

    Each queue has reactions: `tandemq queue update QUEUE --reactions`. Several of one domain are acted on at one
    moment, each as if it were alone. Exit code 0 means that a member has answered,
    also when nothing fitted: see `outcome`.

    \b
    Example: tandemq msg react timers --correlation-id order-17 --delete
             tandemq msg react timers --group-id order-17 --all --delete --sticky 10m
             tandemq msg react orders --group-id customer-7 --all --move-to review
             tandemq msg react orders timers --correlation-id order-17 --delete
             tandemq msg react orders --correlation-id order-17 --set-body "2 boxes" --set-property boxes:=2
             tandemq msg react //west/orders --correlation-id order-17 --delete --forward
             tandemq msg react orders --group-id customer-7 --all --custom discount --input "10 %"
    """
    from tandemq.client.reactions import Exceptions

    if where is None:
        raise click.UsageError("say which messages: --where, --id, --correlation-id or --group-id")
    action = _action_of(_change_of(changes), move_to, custom, given, delete=delete)
    if exceptions != "none" and not delete:
        raise click.UsageError("--exceptions goes with --delete")
    identity, wanted = identity_of(request_id), where

    async def work(client: Client) -> Reacted:
        return await client.react(
            queues,
            wanted,
            action,
            everything=everything,
            sticky=None if sticky is None else timedelta(milliseconds=sticky),
            report_to=report_to,
            correlation_id=report_id,
            exceptions=Exceptions[exceptions.upper()],
            request_id=identity,
            timeout=timeout_ms / 1000 if wanted.selector else 0.0,
            forward=forward,
            domain=domain,
        )

    try:
        done = run(target, timeout_ms, work)
    except Failure as failure:
        if failure.exit_code in (TIMED_OUT, UNREACHABLE):  # it may have been carried out
            again = f"repeat it with --request-id {identity.hex()}: it has one effect"
            failure.next_step = f"{failure.next_step}; {again}" if failure.next_step else again
        raise
    print_facts(_facts(queues, done), output)


def _action_of(change: Change | None, move_to: str | None, custom: str | None, given: str, *, delete: bool) -> Action:
    from tandemq.client.reactions import Cancel, Custom, MoveTo

    if given and custom is None:
        raise click.UsageError("--input goes with --custom")
    wanted: list[Action] = [
        *([Cancel()] if delete else []),
        *([MoveTo(move_to)] if move_to is not None else []),
        *([Custom(custom, given.encode())] if custom is not None else []),
        *([change] if change is not None else []),
    ]
    if len(wanted) != 1:
        raise click.UsageError(
            "give exactly one of --delete, --move-to, --custom, and what is to be changed (--set-body ...)"
        )
    return wanted[0]


def _change_of(options: dict[str, Any]) -> Change | None:
    """None: nothing is to be changed."""
    from tandemq.client.reactions import Change

    if all(value is None or value == () for value in options.values()):
        return None
    body, times = options["set_body"], [options["ttl"], options["delay"]]
    ttl, delay = (None if each is None else timedelta(milliseconds=each) for each in times)
    return Change(
        payload=None if body is None else body.encode(),
        content_type=options["content_type"],
        properties=dict(options["properties"]),
        without=options["without"],
        priority=options["priority"],
        ttl=ttl,
        delay=delay,
    )


def _facts(queues: tuple[str, ...], done: Reacted) -> dict[str, Any]:
    facts = {"queue": ", ".join(queues), "outcome": done.outcome.name, **_counts(done), "unreported": done.unreported}
    facts |= {"kept": done.kept, "forwarded": done.forwarded, "duplicate": done.duplicate}
    if done.homes:
        facts["homes"] = [
            {"queue": home.queue, "outcome": home.outcome.name, **_counts(home), "kept": home.kept}
            for home in done.homes
        ]
    return facts


def _counts(done: Reacted | HomeReacted) -> dict[str, int]:
    counts = {name: getattr(done, name) for name in ("applied", "locked", "inert", "dying", "refused")}
    counts.update({name: value for name in ("left", "failed") if (value := getattr(done, name))})
    return counts
