"""Judges what the members, the witness and the ports said of a pair; asks nobody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tandemq.cli.doctor.finding import Check, Finding
from tandemq.cli.doctor.macros import macro_queues
from tandemq.cli.doctor.siding import sides
from tandemq.cli.doctor.twinning import twins
from tandemq.cli.view import DomainView, MemberView
from tandemq.config import ManagerConfig

if TYPE_CHECKING:
    from tandemq.cli.doctor.asking import Asked, LinkOf
    from tandemq.v1 import manager_admin_service_pb2 as manager_pb

PAIR = "the pair"
MEMBERS = Check("members", "with one member away there is one copy, and nobody to take over")
SAME_PAIR = Check("same-pair", "two members of different pairs never connect")
ROLES = Check("roles", "one master orders everything; with none nobody serves, with two something is badly wrong")
IN_SYNC = Check("in-sync", "only a copy that is in sync may take over without losing anything")
EPOCHS = Check("epochs", "a member in an older epoch is fenced, and has not followed yet")
COPIES = Check("copies", "two logs of the same length that differ are two histories")
LINK = Check("link", "without the link nothing is acknowledged until somebody decides who goes on")
AUTHORITY = Check("authority", "when the link breaks, this decides who goes on; out of reach, nobody can take over")
LAST_WRITES = Check("last-writes", "a disk that lost what it had answered for leaves an older copy that looks whole")
REGISTER = Check("register", "who stands in the register may be master; a master that does not will be fenced")
ORDERS = Check("orders", "what an operator has switched off stays off until it is switched on again")
VERSIONS = Check("versions", "two versions side by side are meant for the time of an upgrade")
CLOCKS = Check("clocks", "at a takeover delays and lifetimes go on by the other member's wall clock")
ROOM = Check("store-room", "above 80 % of limits.map_bytes new messages are refused")
PEER_PORT = Check("peer-port", "members reach each other there, and nowhere else")

LINKS = Check("links", "what waits for another manager is not there yet, and goes on waiting while it stands still")

OWN_DOMAIN = "local"
CLOCK_WARN_MS, CLOCK_FAIL_MS = 1_000, 60_000
ROOM_WARN, ROOM_FAIL = 0.6, 0.8
START = "start it, or look at its log; `tandemq pair why` says what happened"


def judge(asked: Asked, configs: Sequence[ManagerConfig], problem: str = "") -> list[Finding]:
    """All that can be said of the pair. `problem`: why nobody could be asked."""
    members = asked.view.members
    here = [member for member in members if member.reachable]
    if not members:
        step = "start a member, or name one with --target HOST:PORT"
        return [
            MEMBERS.skipped(PAIR, problem.splitlines()[0] if problem else "nobody is named who could be asked", step)
        ]
    found = [_answers(member) for member in members]
    if here:
        found += _pair_name(here, configs)
        for name in dict.fromkeys(domain.name for member in here for domain in member.domains):
            if name != OWN_DOMAIN:
                found += _domain(name, here, whole=len(here) == len(members))
        for member in here:
            found += _doubts(member)
            found += _member(member)
        found += [_link(each) for each in asked.transmissions]
        found += [each for queue in asked.sided for each in sides(queue)]
        found += [each for seen in asked.twins for each in twins(seen)]
        found += macro_queues(asked.macros)
        found += versions(asked.managers)
        found += clocks(here)
        found += [each for name, facts in asked.managers.items() if (each := _room(name, facts)) is not None]
    found += [_peer_port(config, asked.tcp) for config in configs if config.pair]
    found += _etcd(configs, asked.tcp)
    for endpoint, registers in asked.witnesses.items():
        found += _register(endpoint, registers, asked, configs)
    return found


def _answers(member: MemberView) -> Finding:
    about = f"member {member.name}" if member.name else member.endpoint
    if not member.reachable:
        return MEMBERS.fail(about, f"{member.endpoint}: {member.problem or 'no answer'}", START)
    return MEMBERS.ok(about, f"{member.endpoint} answers within {member.round_trip_ms} ms", pid=member.pid)


def _pair_name(here: Sequence[MemberView], configs: Iterable[ManagerConfig]) -> list[Finding]:
    names = {member.name for member in here}
    found = []
    for config in configs:
        if config.pair and config.peer_member not in names and len(here) > 1:
            text = f"{config.member} has {config.peer_member} for its peer, and {', '.join(sorted(names))} answer"
            step = "compare manager.pair, manager.member and peer.member of both members"
            found.append(SAME_PAIR.fail(f"member {config.member}", text, step))
    return found


# -- domains -----------------------------------------------------------------------------------------------------------


def _domain(name: str, here: Sequence[MemberView], *, whole: bool) -> list[Finding]:
    about = f"domain {name}"
    states = {member.name: state for member in here if (state := member.domain(name)) is not None}
    paired = any(member.authority for member in here)
    found = [_roles(about, states, paired=paired, whole=whole)]
    if paired:
        found.append(_in_sync(about, states, whole=whole))
    if len(states) > 1:
        found += [_epochs(about, states), _copies(about, states)]
    return found


def _roles(about: str, states: dict[str, DomainView], *, paired: bool, whole: bool) -> Finding:
    summary = ", ".join(f"{name} is {state.role}" for name, state in states.items())
    masters = [name for name, state in states.items() if state.role == "MASTER"]
    advice = next((state.advice for state in states.values() if state.advice), "")
    if len(masters) > 1:
        return ROLES.fail(about, summary, "look at both logs and the register now: `tandemq pair history`")
    if not masters:
        return ROLES.fail(about, summary, advice or "wait a few seconds and look again, then `tandemq pair why`")
    if paired and whole and any(state.role not in ("MASTER", "REPLICA") for state in states.values()):
        return ROLES.warn(about, summary, advice or "see its log: it should be a replica")
    return ROLES.ok(about, summary)


def _in_sync(about: str, states: dict[str, DomainView], *, whole: bool) -> Finding:
    summary = ", ".join(f"{name} is {state.data_state}" for name, state in states.items())
    if any(state.data_state in ("DAMAGED", "DIVERGED") or state.role == "DIVERGED" for state in states.values()):
        return IN_SYNC.fail(
            about, summary, "see `tandemq pair why`, and docs/OPERATIONS.md on damaged copies and DIVERGED"
        )
    if not whole:
        return IN_SYNC.warn(about, f"{summary}; the other member was not seen", "start it and wait until it is IN_SYNC")
    if all(state.data_state == "IN_SYNC" for state in states.values()):
        return IN_SYNC.ok(about, summary)
    behind = max((state.peer_backlog for state in states.values()), default=0)
    return IN_SYNC.warn(
        about, f"{summary}; {behind:,} operations behind", "wait; `tandemq pair watch` shows it come along"
    )


def _epochs(about: str, states: dict[str, DomainView]) -> Finding:
    epochs = {name: state.epoch for name, state in states.items()}
    summary = ", ".join(f"{name} is in {epoch}" for name, epoch in epochs.items())
    if len(set(epochs.values())) > 1:
        return EPOCHS.warn(about, summary, "look again in a few seconds; if it stays, see `tandemq pair why`", **epochs)
    return EPOCHS.ok(about, summary, **epochs)


def _copies(about: str, states: dict[str, DomainView]) -> Finding:
    logs = {(state.log_index, state.digest) for state in states.values()}
    summary = ", ".join(f"{name} has {state.log_index:,}" for name, state in states.items())
    if len({index for index, _ in logs}) == 1 and len({digest for _, digest in logs}) > 1:
        return COPIES.fail(about, f"{summary}, with other digests", "`tandemq pair verify`, before either is restarted")
    return COPIES.ok(about, f"log indexes: {summary}")


# -- members -----------------------------------------------------------------------------------------------------------


def _doubts(member: MemberView) -> list[Finding]:
    step = "let the peer come back before it serves alone; the doubt ends when both have been in step"
    return [LAST_WRITES.warn(f"member {member.name}", doubt, step) for doubt in member.doubts]


def _member(member: MemberView) -> list[Finding]:
    if not member.authority:
        return []  # unpaired
    about = f"member {member.name}"
    found = []
    if member.peer_connected:
        found.append(LINK.ok(about, "connected to its peer"))
    else:
        step = "compare peer.address with where the peer listens, and look at the network between them"
        found.append(LINK.fail(about, "not connected to its peer", step))
    summary = (
        f"{member.authority}, classifier {member.classifier} ({member.classifier_mode}), class {member.safety_class}"
    )
    if member.authority != "none" and not member.witness_connected:
        found.append(
            AUTHORITY.fail(about, f"{summary}: out of reach", f"start the {member.authority}, or mend the way to it")
        )
    elif member.authority == "none" and member.classifier == "suspend":
        step = "name a witness (witness.address), else an operator must decide each time"
        found.append(AUTHORITY.warn(about, f"{summary}: nobody decides by himself", step))
    else:
        found.append(AUTHORITY.ok(about, summary))
    if member.automation_paused:
        found.append(ORDERS.warn(about, "automation is paused", f"`tandemq pair resume --member {member.name}`"))
    if member.maintenance:
        step = f"`tandemq pair maintenance off --member {member.name}` when the work is done"
        found.append(ORDERS.warn(about, "it is in maintenance", step))
    if member.waiting_event_id:
        step = f"decide: `tandemq pair decide --help`; the event is {member.waiting_event_id}"
        found.append(ORDERS.fail(about, "it waits for an operator's verdict", step))
    return found


def versions(managers: dict[str, manager_pb.GetManagerResponse]) -> list[Finding]:
    """Of all members that said theirs."""
    if not managers:
        return []
    summary = ", ".join(
        f"{name} runs {facts.version}, format {facts.format_version}" for name, facts in managers.items()
    )
    low = max(facts.protocol_min for facts in managers.values())
    high = min(facts.protocol_max for facts in managers.values())
    if low > high:
        return [VERSIONS.fail(PAIR, f"{summary}: they have no protocol in common", "upgrade the older one first")]
    if len({(facts.version, facts.format_version) for facts in managers.values()}) > 1:
        return [VERSIONS.warn(PAIR, summary, "upgrade the other member too")]
    return [VERSIONS.ok(PAIR, summary)]


def clocks(here: Sequence[MemberView]) -> list[Finding]:
    """Their wall clocks against each other; a look is only as sure as it was quick."""
    ahead = {member.name: (member.clock_ahead_ms, member.round_trip_ms) for member in here}
    known = {name: (ms, trip) for name, (ms, trip) in ahead.items() if ms is not None}
    if len(known) < 2:
        return []
    offsets = [ms for ms, _ in known.values()]
    sure_ms = max(trip for _, trip in known.values())
    apart = max(offsets) - min(offsets)
    text = f"{apart:,} ms apart, sure to {sure_ms} ms"
    facts = {name: ms for name, (ms, _) in known.items()}
    step = "set both by NTP: `timedatectl set-ntp true`, or chrony"
    if apart - sure_ms >= CLOCK_FAIL_MS:
        return [CLOCKS.fail(PAIR, text, step, ahead_ms=facts)]
    if apart - sure_ms >= CLOCK_WARN_MS:
        return [CLOCKS.warn(PAIR, text, step, ahead_ms=facts)]
    return [CLOCKS.ok(PAIR, text, ahead_ms=facts)]


def _room(name: str, facts: manager_pb.GetManagerResponse) -> Finding | None:
    if not facts.store_map_bytes:
        return None
    share = facts.store_used_bytes / facts.store_map_bytes
    about, text = f"member {name}", f"{facts.store_used_bytes:,} of {facts.store_map_bytes:,} bytes, {share:.0%}"
    step = "receive or purge messages, or raise limits.map_bytes"
    if share >= ROOM_FAIL:
        return ROOM.fail(about, text, step)
    return ROOM.warn(about, text, step) if share >= ROOM_WARN else ROOM.ok(about, text)


def _link(of: LinkOf) -> Finding:
    link = of.link
    about = f"manager {link.target}" + (f", from domain {of.domain}" if of.domain else "")
    text = f"{link.messages:,} messages wait for it"
    from tandemq.v1.queue_admin_service_pb2 import TRANSMISSION_STATE_WAITING  # who asks has loaded it

    if link.state == TRANSMISSION_STATE_WAITING:
        step = f"bring {link.target} back, or make room there; `tandemq xmit ls`, docs/runbooks/LinkStands.md"
        waits = f"{text}, since {link.waiting.ToTimedelta().total_seconds():.0f} s: {link.why}"
        return LINKS.warn(about, waits, step, messages=link.messages)
    if not link.addresses:
        manager = link.via or link.target.partition(":")[0]
        step = f"enter {manager} in links.managers of both members, or in a resolver's file"
        return LINKS.warn(about, f"{text}, and nobody who was asked knows where it is", step, messages=link.messages)
    return LINKS.ok(about, text, messages=link.messages)


# -- ways and registers ------------------------------------------------------------------------------------------------


def _peer_port(config: ManagerConfig, tcp: dict[str, bool]) -> Finding:
    about, text = f"member {config.member}", f"{config.peer_member}'s peer port {config.peer_address}"
    if tcp.get(config.peer_address):
        return PEER_PORT.ok(about, f"{text} takes connections")
    step = "start the peer, open the port in the firewall, or correct peer.address"
    return PEER_PORT.fail(about, f"{text} takes no connection from here", step)


def _etcd(configs: Iterable[ManagerConfig], tcp: dict[str, bool]) -> list[Finding]:
    endpoints = list(dict.fromkeys(each for config in configs for each in config.etcd.endpoints))
    if not endpoints:
        return []
    away = [each for each in endpoints if not tcp.get(each)]
    summary = f"{len(endpoints) - len(away)} of {len(endpoints)} endpoints of etcd take connections"
    if 2 * len(away) >= len(endpoints):
        return [AUTHORITY.fail("etcd", f"{summary}; away: {', '.join(away)}", "start them, or mend the way to them")]
    if away:
        return [AUTHORITY.warn("etcd", f"{summary}; away: {', '.join(away)}", "start it before another one goes")]
    return [AUTHORITY.ok("etcd", summary)]


def _register(endpoint: str, said: object, asked: Asked, configs: Sequence[ManagerConfig]) -> list[Finding]:
    about = f"witness {endpoint}"
    if isinstance(said, str):
        return [AUTHORITY.fail(about, said, "start it: `tandemq witness`, or correct witness.address")]
    pairs = {config.pair for config in configs if config.pair} | ({asked.view.pair} if asked.view.pair else set())
    registers = [each for each in said.registers if each.pair in pairs and not each.domain.startswith("start/")]  # type: ignore[attr-defined]  # a response of the witness, which is imported late
    found = [AUTHORITY.ok(about, f"answers; {len(registers)} registers of this pair")]
    for each in registers:
        masters = {
            member.name: state
            for member in asked.view.members
            if (state := member.domain(each.domain)) is not None and state.role == "MASTER"
        }
        text = f"domain {each.domain}: epoch {each.register.epoch} of {each.register.holder}"
        wrong = [
            f"{name} says that it is master in epoch {state.epoch}"
            for name, state in masters.items()
            if (name, state.epoch) != (each.register.holder, each.register.epoch) and not state.unrecorded
        ]
        if wrong:
            step = "look again in a few seconds; if it stays, see `tandemq pair why`"
            found.append(REGISTER.warn(about, f"{text}; {'; '.join(wrong)}", step))
        else:
            found.append(REGISTER.ok(about, text))
    return found
