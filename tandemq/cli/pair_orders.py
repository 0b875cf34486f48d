"""The operator's orders to one member of a pair: asks where something can be lost and says what was done; it never
decides what a member does.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.pair_call import (
    call,
    check_other,
    choose,
    domain_option,
    finish,
    holds_role,
    look_at,
    member_option,
    reason_option,
)
from tandemq.cli.pair_verify import verify
from tandemq.cli.params import DURATION, confirm, output_option, target_option, timeout_option, yes_option

if TYPE_CHECKING:
    from tandemq.v1.pair_service_pb2_grpc import PairServiceAsyncStub

VERDICTS = MappingProxyType({"continue": 20, "assume": 21, "failed": 22, "wait": 23, "peer-alive": 24})
ALONE = (
    "let one member serve alone, which is safe only if the other one is down and has not served alone since the link "
    "broke (else acknowledged operations end in salvage files):"
)
RESOLVED = "see `tandemq pair status`; only a domain that is DIVERGED there needs this"
SEE_STATUS = "see `tandemq pair status` and `tandemq pair why`"


@click.command()
@target_option
@member_option
@domain_option
@click.option("--to", metavar="MEMBER", default="", help="Member that is to be master. Default: the one that is not.")
@click.option("--dry-run", is_flag=True, help="Ask both members and change nothing.")
@click.option("--hold", "hold_ms", type=DURATION, help="How long the master may drain at most. Default: its own.")
@reason_option()
@timeout_option("15s")
@output_option("table", "json")
def handoff(
    target: str | None,
    member: str | None,
    domain: str,
    to: str,
    dry_run: bool,
    hold_ms: int | None,
    reason: str,
    timeout_ms: int,
    output: str,
) -> None:
    """Move the mastership to the other member, without loss and without a copy.

    Clients wait for the moment it takes. A refusal names every reason and changes nothing.

    \b
    Example: tandemq pair handoff --dry-run
             tandemq pair handoff --to b --reason "kernel update of a"
    """
    from tandemq.v1 import pair_service_pb2 as pb

    asked = choose(look_at(target, timeout_ms), target, member, prefer=holds_role("MASTER", domain))
    request = pb.HandoffRequest(domain=domain, to=to, dry_run=dry_run, reason=reason)
    if hold_ms is not None:
        request.hold.FromMilliseconds(hold_ms)

    async def work(stub: PairServiceAsyncStub) -> pb.HandoffResponse:
        return await stub.Handoff(request, timeout=timeout_ms / 1000)

    answer = call(
        asked.endpoint, timeout_ms + 500, work, "`tandemq pair status` names the members; --hold takes 1ms and more"
    )
    facts = {
        "done": answer.done,
        "dry_run": dry_run,
        "text": answer.text,
        "master": answer.master,
        "epoch": answer.epoch,
        "final_index": answer.final_index,
        "pause_ms": answer.pause.ToMilliseconds(),
        "handoff_id": answer.handoff_id,
        "reasons": list(answer.reasons),
    }
    finish(facts, output, done=answer.done, reason=", ".join(answer.reasons) or "REFUSED", next_step=SEE_STATUS)


@click.command()
@target_option
@member_option
@domain_option
@click.option("--force", is_flag=True, required=True, help="Needed: operations may be lost for good.")
@click.option(
    "--accept-loss-after",
    "index",
    type=click.IntRange(min=0),
    metavar="INDEX",
    help="This member's last log index, as the command without it states.",
)
@reason_option(needed="--accept-loss-after")
@yes_option
@timeout_option("15s")
@output_option("table", "json")
def failover(
    target: str | None,
    member: str | None,
    domain: str,
    force: bool,
    index: int | None,
    reason: str,
    yes: bool,
    timeout_ms: int,
    output: str,
) -> None:
    """Make a member master although its copy may lack operations. The last resort: both histories may then differ.

    Without --accept-loss-after nothing is done, and the answer states what would be lost.

    \b
    Example: tandemq pair failover --force --member b
             tandemq pair failover --force --member b --accept-loss-after 4711 --reason "a burnt down"
    """
    from tandemq.v1 import pair_service_pb2 as pb

    del force  # required, and that is all
    asked = choose(look_at(target, timeout_ms), target, member)
    if index is not None:
        if not reason.strip():
            raise click.UsageError("--accept-loss-after needs a --reason")
        confirm(f"lose what the other member holds after {index}, with as new master", asked.name, yes=yes)
    request = pb.ForceFailoverRequest(
        domain=domain, accept_loss_after=index or 0, confirmed=index is not None, reason=reason
    )

    async def work(stub: PairServiceAsyncStub) -> pb.ForceFailoverResponse:
        return await stub.ForceFailover(request, timeout=timeout_ms / 1000)

    answer = call(asked.endpoint, timeout_ms + 500, work, SEE_STATUS)
    facts = {
        "done": answer.done,
        "member": asked.name,
        "text": answer.text,
        "epoch": answer.epoch,
        "last_index": answer.last_index,
        "peer_last_index": answer.peer_last_index,
    }
    order = f"tandemq pair failover --force --member {asked.name}"
    again = f'{order} --accept-loss-after {answer.last_index} --reason "..."'
    stale = index is None or index != answer.last_index
    next_step = again if stale and not holds_role("MASTER", domain)(asked) else SEE_STATUS
    finish(facts, output, done=answer.done, reason="NOT_DONE", next_step=next_step)


@click.command()
@click.argument("verdict", type=click.Choice(list(VERDICTS)))
@target_option
@member_option
@click.option("--domain", default="", help="Default: every domain that waits.")
@click.option("--event", metavar="ID", default="", help="From the status. Default: whatever waits now.")
@reason_option(required=True)
@yes_option
@timeout_option("15s")
@output_option("table", "json")
def decide(
    verdict: str,
    target: str | None,
    member: str | None,
    domain: str,
    event: str,
    reason: str,
    yes: bool,
    timeout_ms: int,
    output: str,
) -> None:
    """Say who lives, when a member waits for it.

    \b
    continue    the other member is down: this one, which was master, goes on alone
    assume      the other member is down: this one, which was replica, takes over
    failed      this member is the one at fault: it ends
    wait        nothing changes
    peer-alive  only the link is broken: nothing changes

    With `continue` or `assume`, make sure first that the other member is down AND has not served alone since the link
    broke. Else both histories differ (DIVERGED), and what one of them acknowledged ends in salvage files.

    Example: tandemq pair decide assume --reason "host of a is switched off"
    """
    from tandemq.v1 import pair_service_pb2 as pb

    view = look_at(target, timeout_ms)
    asked = choose(view, target, member, prefer=lambda each: bool(each.waiting_event_id))
    if verdict in ("continue", "assume", "failed"):
        effect = {"failed": "end the process of"}.get(verdict, ALONE)
        confirm(effect, asked.name, yes=yes)
    request = pb.DecideRequest(domain=domain, event_id=event, verdict=VERDICTS[verdict], reason=reason)

    async def work(stub: PairServiceAsyncStub) -> pb.DecideResponse:
        return await stub.Decide(request, timeout=timeout_ms / 1000)

    answer = call(
        asked.endpoint,
        timeout_ms + 500,
        work,
        f"`tandemq pair maintenance off --member {asked.name}` first" if asked.maintenance else SEE_STATUS,
    )
    facts = {"done": answer.done, "member": asked.name, "text": answer.text, "event_id": answer.event_id}
    finish(facts, output, done=answer.done, reason="REFUSED", next_step=SEE_STATUS)


def _set_automation(
    target: str | None, member: str | None, reason: str, timeout_ms: int, output: str, *, paused: bool
) -> None:
    from tandemq.cli.output import print_rows
    from tandemq.v1 import pair_service_pb2 as pb

    view = look_at(target, timeout_ms)
    everyone = [each for each in view.members if each.reachable]
    single = member is not None or (target and "," not in target)
    chosen = [choose(view, target, member)] if single else everyone

    async def work(stub: PairServiceAsyncStub) -> pb.SetAutomationResponse:
        request = pb.SetAutomationRequest(paused=paused, reason=reason)
        return await stub.SetAutomation(request, timeout=timeout_ms / 1000)

    rows = [{"member": each.name, "paused": call(each.endpoint, timeout_ms, work).paused} for each in chosen]
    if not single:
        rows += [{"member": each.name, "paused": None} for each in view.members if not each.reachable]
    print_rows(rows, "members", output)
    missed = [] if single else [each.name or each.endpoint for each in view.members if not each.reachable]
    if missed:
        order, names = "pause" if paused else "resume", " and ".join(missed)
        text = f"{names} was not reached and is as it was before"
        raise Failure("PARTIAL", text, f"start {names}, then `tandemq pair {order}` again", FAILED)


@click.command()
@target_option
@member_option
@reason_option()
@timeout_option("5s")
@output_option("table", "json")
def pause(target: str | None, member: str | None, reason: str, timeout_ms: int, output: str) -> None:
    """Let no member change roles by itself. Verdicts are recorded and not acted upon; survives restarts.

    Without --member or a single --target the order goes to every member; exit code 1 when one was not reached.

    Example: tandemq pair pause --reason "network work tonight"
    """
    _set_automation(target, member, reason, timeout_ms, output, paused=True)


@click.command()
@target_option
@member_option
@reason_option()
@timeout_option("5s")
@output_option("table", "json")
def resume(target: str | None, member: str | None, reason: str, timeout_ms: int, output: str) -> None:
    """Take back `pause`. A verdict that was given meanwhile counts from now on.

    Example: tandemq pair resume
    """
    _set_automation(target, member, reason, timeout_ms, output, paused=False)


@click.command()
@click.argument("state", type=click.Choice(["on", "off"]))
@target_option
@member_option
@reason_option()
@click.option("--yes", is_flag=True, help="Also when the other member could not serve without it.")
@timeout_option("15s")
@output_option("table", "json")
def maintenance(
    state: str, target: str | None, member: str | None, reason: str, yes: bool, timeout_ms: int, output: str
) -> None:
    """Take a member out of the pair without stopping it, or back. It hands over what it serves first.

    While it is out there is one copy. Survives restarts. Refused when nobody would serve then, unless --yes is given.

    \b
    Example: tandemq pair maintenance on --member b --reason "new disk"
             tandemq pair maintenance off --member b
    """
    from tandemq.v1 import pair_service_pb2 as pb

    view = look_at(target, timeout_ms)
    asked = choose(view, target, member, prefer=lambda each: each.maintenance)
    request = pb.SetMaintenanceRequest(on=state == "on", reason=reason, confirmed=yes)
    if request.on and not yes:
        check_other(view, asked)

    async def work(stub: PairServiceAsyncStub) -> pb.SetMaintenanceResponse:
        return await stub.SetMaintenance(request, timeout=timeout_ms / 1000)

    answer = call(asked.endpoint, timeout_ms + 500, work)
    facts = {"member": asked.name, "maintenance": answer.on, "text": answer.text}
    finish(facts, output, done=answer.on is request.on, reason="REFUSED", next_step=SEE_STATUS)


@click.command()
@target_option
@member_option
@domain_option
@click.option("--full", is_flag=True, help="Everything, even where the logs could be compared.")
@reason_option()
@yes_option
@timeout_option("10s")
@output_option("table", "json")
def resync(
    target: str | None,
    member: str | None,
    domain: str,
    full: bool,
    reason: str,
    yes: bool,
    timeout_ms: int,
    output: str,
) -> None:
    """Have the replica take the master's state anew. Nobody waits for a full transfer; until its end there is one copy.

    Example: tandemq pair resync --full --reason "verify found a difference"
    """
    from tandemq.v1 import pair_service_pb2 as pb

    asked = choose(look_at(target, timeout_ms), target, member, prefer=holds_role("REPLICA", domain))
    if full:
        confirm("copy everything anew in", domain, yes=yes)
    request = pb.ResyncRequest(domain=domain, full=full, reason=reason)

    async def work(stub: PairServiceAsyncStub) -> pb.ResyncResponse:
        return await stub.Resync(request, timeout=timeout_ms / 1000)

    answer = call(
        asked.endpoint,
        timeout_ms + 500,
        work,
        "it is for the replica: --member NAME; `tandemq pair status` says which one that is",
    )
    facts = {"done": answer.done, "text": answer.text}
    finish(facts, output, done=answer.done, reason="REFUSED", next_step=SEE_STATUS)


@click.command()
@target_option
@member_option
@click.option("--domain", default="", help="Default: all.")
@reason_option()
@yes_option
@timeout_option("10s")
@output_option("table", "json")
def outdate(
    target: str | None, member: str | None, domain: str, reason: str, yes: bool, timeout_ms: int, output: str
) -> None:
    """Mark a member's copy STALE, durably, so that it cannot take over. The other member may then go on alone.

    Example: tandemq pair outdate --member b --reason "link is cut, a goes on"
    """
    from tandemq.v1 import pair_service_pb2 as pb

    asked = choose(look_at(target, timeout_ms), target, member)
    confirm("mark as outdated the copy of", asked.name, yes=yes)
    request = pb.OutdateRequest(domain=domain, reason=reason)

    async def work(stub: PairServiceAsyncStub) -> pb.OutdateResponse:
        return await stub.Outdate(request, timeout=timeout_ms / 1000)

    answer = call(asked.endpoint, timeout_ms + 500, work, SEE_STATUS)
    facts = {
        "done": answer.done,
        "member": asked.name,
        "text": answer.text,
        "last_index": answer.last_index,
        "epoch": answer.epoch,
    }
    finish(facts, output, done=answer.done, reason="REFUSED", next_step=SEE_STATUS)


@click.command()
@target_option
@member_option
@domain_option
@click.option("--keep", metavar="MEMBER", required=True, help="Member whose history stands.")
@reason_option(required=True)
@yes_option
@timeout_option("15s")
@output_option("table", "json")
def resolve(
    target: str | None,
    member: str | None,
    domain: str,
    keep: str,
    reason: str,
    yes: bool,
    timeout_ms: int,
    output: str,
) -> None:
    """End DIVERGED by naming the member whose history stands. The other one's goes to its salvage files.

    The member that yields is asked first, then the one that is kept; with --member only that one.

    Example: tandemq pair resolve --keep a --reason "b served test traffic only"
    """
    from tandemq.v1 import pair_service_pb2 as pb

    view = look_at(target, timeout_ms)
    names = [each.name for each in view.members if each.name]
    if keep not in names:
        raise click.UsageError(f"no member is called {keep}; there are {', '.join(names)}")
    confirm("let only one history stand, that of", keep, yes=yes)
    order = [member] if member else sorted(names, key=lambda name: name == keep)
    request = pb.ResolveRequest(domain=domain, keep=keep, reason=reason)
    facts: dict[str, Any] = {"done": True, "text": "", "salvage": ""}

    async def work(stub: PairServiceAsyncStub) -> pb.ResolveResponse:
        return await stub.Resolve(request, timeout=timeout_ms / 1000)

    for name in order:
        answer = call(choose(view, target, name).endpoint, timeout_ms + 500, work, RESOLVED)
        facts["done"] = facts["done"] and answer.done
        facts["text"] = "; ".join(filter(None, (facts["text"], answer.text)))
        facts["salvage"] = facts["salvage"] or answer.salvage
    finish(facts, output, done=facts["done"], reason="REFUSED", next_step=SEE_STATUS)


COMMANDS = (handoff, failover, decide, pause, resume, maintenance, resync, verify, outdate, resolve)
