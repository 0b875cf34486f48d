"""How the members of a pair do, as a table, as lines below it, or as JSON; asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandemq.cli.output import console, print_json, print_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tandemq.cli.view import PairView

COLUMNS = ("member", "endpoint", "role", "data", "link", "epoch", "log", "committed")
NUMBERS = ("epoch", "log", "committed")
WARNS = "yellow"


def show(view: PairView, output: str) -> None:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(view)
    if output == "json":
        print_json(facts)
    elif output == "jsonl":
        print_line(facts)
    else:
        out = console()
        out.print(status_table(view, out))
        for line in notes(view):
            out.print(line, soft_wrap=True)


def notes(view: PairView) -> list[Text]:
    """What the table has no room for, a line each: who decides, how far the peer is, what happens next, what lacks."""
    from tandemq.cli.terminal import styled
    from tandemq.cli.view import OWN_DOMAIN

    lines: list[Text] = []
    for member in (each for each in view.members if each.reachable):
        lines += [styled(f"{member.name}: ", ("last writes in doubt", WARNS), f": {doubt}") for doubt in member.doubts]
        if member.plain_ports:
            ports = ", ".join(member.plain_ports)
            said = f": {ports} in clear text, and whoever reaches it may do everything (insecure_network)"
            lines.append(styled(f"{member.name}: ", ("INSECURE", "bold red"), said))
        if member.authority:
            states: list[str | tuple[str, str]] = [", automation "]
            states += [("paused", WARNS)] if member.automation_paused else ["on"]
            states += [", ", ("in maintenance", WARNS)] if member.maintenance else []
            waits = (f"waits for a verdict on {member.waiting_event_id}", WARNS)
            states += [", ", waits] if member.waiting_event_id else []
            near = member.authority == "none" or member.witness_connected
            lost: list[str | tuple[str, str]] = [] if near else [" (", ("out of reach", WARNS), ")"]
            decider = f", classifier {member.classifier} ({member.classifier_mode}), safety class {member.safety_class}"
            lines.append(styled(f"{member.name}: authority {member.authority}", *lost, decider, *states))
        for domain in member.domains:
            if domain.name == OWN_DOMAIN or not member.authority:
                continue
            place = f"{member.name}/{domain.name}"
            if domain.role == "MASTER":
                copies = len(domain.in_sync_set)
                behind = (
                    f"{place}: copies {copies}, peer behind by {domain.peer_backlog:,} operations, "
                    f"{domain.peer_backlog_bytes:,} bytes, {domain.peer_lag_ms:,} ms"
                )
                lines.append(styled(behind, (", epoch not recorded yet" if domain.unrecorded else "", WARNS)))
            if domain.advice:
                lines.append(styled((f"{place}: {domain.advice}", WARNS)))
            elif domain.if_peer_dies:
                lines.append(styled(f"{place}: if the peer dies now: {domain.if_peer_dies}"))
    if lacking := view.lacks():
        lines.append(styled((f"not whole: {', '.join(lacking)}", "bold red")))
    return lines


def status_table(view: PairView, out: Console) -> Table:
    from tandemq.cli.terminal import Column, fitted, styled
    from tandemq.cli.view import OWN_DOMAIN

    chosen = [(member, [d for d in member.domains if d.name != OWN_DOMAIN]) for member in view.members]
    many = len({domain.name for _, domains in chosen for domain in domains}) > 1
    names = (*COLUMNS[:2], *(["domain"] if many else []), *COLUMNS[2:])
    rows: list[list[str | Text]] = []
    for member, domains in chosen:
        if not domains:
            seen = "-" if member.reachable else styled(("unreachable", "red"))
            rows.append([member.name or "?", member.endpoint, *(["-"] if many else []), seen, *["-"] * 5])
        for domain in domains:
            states = (*([domain.name] if many else []), domain.role, domain.data_state, domain.link_state)
            numbers = (domain.epoch, domain.log_index, domain.commit_index)
            rows.append([member.name, member.endpoint, *states, *(f"{number:,}" for number in numbers)])
    columns = [
        Column(name, typed=name != "endpoint", number=name in NUMBERS, folds=name == "endpoint") for name in names
    ]
    return fitted(out, columns, rows, f"pair {view.pair}" if view.pair else None)
