"""Says in a few sentences what the last change of a domain was: what, when, who decided on what evidence, what is now,
what to do. Reads events and status; asks nobody, changes nothing.

Written for somebody who was woken up: no codes, no indexes unless they are needed to act.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandemq.cli.view import DomainView, MemberView, PairView

NO_CHANGE = frozenset({("INIT", "PROBE"), ("MAINTENANCE", "PROBE"), ("PROBE", "PROBE")})
"""Steps that no client notices."""
BEFORE_MS = 120_000
"""What happened earlier than this before a change is not reported as its cause."""
HANDED = " handed over"
"""Ends the reason of a mastership that the other member gave away."""
RECORDED = "recorded what was decided without the register"
"""Reason of an epoch that follows an unrecorded one of the same master."""
REPORTED_ROLES = ("MASTER", "MASTER_SUSPENDED", "DIVERGED", "MAINTENANCE", "FAILED")


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """One event, as the command line shows it."""

    number: int
    time_ms: int
    member: str
    kind: str
    domain: str = ""
    epoch: int = 0
    role: str = ""
    text: str = ""
    facts: dict[str, str] = {}


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `why`."""

    what: str
    when: str
    who: str
    now: str
    do: str
    event: Happening | None = None

    @property
    def text(self) -> str:
        """As it is read."""
        first = f"{self.when} {self.what}." if self.when else f"{self.what}."
        parts = (first, self.who, self.now, f"To do: {self.do}." if self.do else "Nothing to do.")
        return " ".join(part for part in parts if part)


def explain(events: Sequence[Happening], view: PairView, domain: str, now_ms: int) -> Story:
    """The last change of who serves this domain."""
    known = sorted((e for e in events if e.domain in ("", domain)), key=lambda e: (e.time_ms, e.member, e.number))
    now, todo = _now(view, domain)
    served = any(found.role == "MASTER" for member in view.members if (found := member.domain(domain)) is not None)
    roles = REPORTED_ROLES if served else (*REPORTED_ROLES, "PROBE")
    changes = [e for e in known if e.kind == "ROLE" and e.domain == domain and e.facts.get("to") in roles]
    changes = [e for e in changes if (e.facts.get("from"), e.facts["to"]) not in NO_CHANGE]
    if not changes:
        return Story(what=f"Nothing has changed in {domain} as far as is known", when="", who="", now=now, do=todo)
    change = changes[-1]
    own = [e for e in known if e.member == change.member and e.number != change.number]
    # A loss is noticed first and judged afterwards; a mastership is the end of what led to it.
    last = change.number if change.facts["to"] == "MASTER" else own[-1].number if own else 0
    recent = [e for e in own if e.number <= last and e.time_ms >= change.time_ms - BEFORE_MS]
    what, decider = _what(change, recent, view)
    if "by a handoff" in what:
        decider = f"{_asked(known, change)} {decider}".strip()
    return Story(what=what, when=_when(change.time_ms, now_ms), who=decider, now=now, do=todo, event=change)


# -- what and who ------------------------------------------------------------------------------------------------------


def _what(change: Happening, recent: list[Happening], view: PairView) -> tuple[str, str]:
    me, facts = change.member, change.facts
    peer = next((each.name for each in view.members if each.name != me), "the other member")
    witness = next((each.authority for each in view.members if each.authority), "register")
    if facts.get("reason", "").startswith(RECORDED):
        what = f"{me} recorded epoch {change.epoch} in the register; it was master already, without the register's word"
        return what, "" if witness == "none" else f"The {witness} holds epoch {change.epoch}."
    cause, decision = _cause(change, recent, peer), _decision(recent, change, witness)
    match facts.get("to"):
        case "PROBE":
            return f"{me} stopped serving {change.domain}, {cause}", _decision(recent, change, witness)
        case "MASTER_SUSPENDED":
            return f"{me} stopped acknowledging, {cause}", decision
        case "DIVERGED":
            return f"{me} found that it and {peer} have different histories: {facts.get('reason', '')}", ""
        case "MAINTENANCE":
            return f"{me} was taken out of the pair: {facts.get('reason', '')}", _order(recent)
        case "FAILED":
            return f"{me} ended itself: {facts.get('reason', '')}", decision
        case _:
            pass
    did = f"{me} went on alone as master" if _was_master(recent, change.domain) else f"{me} became master"
    return f"{did} in epoch {change.epoch}, {cause}", decision


def _was_master(recent: list[Happening], domain: str) -> bool:
    roles = [e.facts.get("to", "") for e in recent if e.kind == "ROLE" and e.domain == domain]
    return bool(roles) and roles[-1] in ("MASTER", "MASTER_SUSPENDED")


def _last(recent: list[Happening], kind: str, domain: str = "") -> Happening | None:
    return next((e for e in reversed(recent) if e.kind == kind and (not domain or e.domain == domain)), None)


def _cause(change: Happening, recent: list[Happening], peer: str) -> str:
    """Why it came to that."""
    reason = change.facts.get("reason", "")
    if reason.startswith("forced: "):
        return "by an operator's force"
    handoff, lost = _last(recent, "HANDOFF", change.domain), _last(recent, "LINK")
    if reason.endswith(HANDED) or (handoff is not None and (lost is None or handoff.number > lost.number)):
        asked = (handoff.facts.get("reason", "") if handoff is not None else "").removeprefix("handoff: ")
        return f"by a handoff ({asked})" if asked else "by a handoff"
    if lost is not None and "counts as lost" in lost.text:
        return f"because {lost.text}"
    if lost is not None and "is over" in lost.text:
        return f"because {lost.text}"
    return f"because {reason}" if reason else f"for a reason that {peer} may know"


def _decision(recent: list[Happening], change: Happening, witness: str) -> str:
    """Who decided, on what evidence. `witness` is who keeps the register, `none` when only the members do."""
    about = _about_this_loss(recent, change)
    order, verdict = _last(about, "OPERATOR"), _last(about, "VERDICT", change.domain)
    claim = next((e for e in reversed(recent) if e.kind == "AUTHORITY" and e.facts.get("step") == "commit"), None)
    recorded = claim is not None and claim.epoch == change.epoch and claim.facts.get("outcome") == "done"
    if change.facts.get("reason", "").startswith("forced: "):
        return f"An operator forced it: {change.facts['reason'].removeprefix('forced: ')}."
    said = ""
    if verdict is not None and verdict.facts.get("by") == "operator":
        said = f"An operator decided it: {verdict.facts.get('why', '')}."
    elif verdict is not None and verdict.facts.get("by") not in (None, "", "authority"):
        name, by = verdict.facts.get("verdict", "").replace("_", " ").lower(), verdict.facts["by"]
        said = f"Classifier {by} said {name}: {verdict.facts.get('why', '')}."
    elif order is not None and order.facts.get("order", "").startswith("decide"):
        said = f"An operator decided it: {order.facts.get('reason', '')}."
    if recorded and change.facts.get("to") == "MASTER":
        return said if witness == "none" else f"{said} The {witness} agreed and holds epoch {change.epoch}.".strip()
    if change.facts.get("to") in ("MASTER_SUSPENDED", "PROBE") and not said and verdict is not None:
        return f"No decision was taken: {verdict.facts.get('why', '').split('. ')[0]}."
    return said


def _about_this_loss(recent: list[Happening], change: Happening) -> list[Happening]:
    """What was said since the link last began or ended: a verdict about another loss decided nothing here."""
    if change.facts.get("reason", "").endswith(HANDED):
        return []
    link = _last(recent, "LINK")
    since = [e for e in recent if link is None or e.number > link.number]
    if change.facts.get("to") != "MASTER":
        return since
    return [e for e in since if e.kind != "VERDICT" or e.facts.get("effect", "").startswith("claim")]


def _asked(known: list[Happening], change: Happening) -> str:
    """Who asked for a handoff, at either member; members write the order down when it has ended."""
    near = [e for e in known if abs(e.time_ms - change.time_ms) <= BEFORE_MS and e.kind == "OPERATOR"]
    order = next((e for e in reversed(near) if e.facts.get("order") == "handoff"), None)
    return f"An operator at {order.facts.get('by', '?')} asked for it." if order is not None else ""


def _order(recent: list[Happening]) -> str:
    order = _last(recent, "OPERATOR")
    return f"{order.text[:1].upper()}{order.text[1:]}." if order is not None else ""


# -- now ---------------------------------------------------------------------------------------------------------------


def _now(view: PairView, domain: str) -> tuple[str, str]:
    """What serves now, and what to do."""
    away = [member for member in view.members if not member.reachable]
    here = [(member, found) for member in view.members if (found := member.domain(domain)) is not None]
    masters = [(member, found) for member, found in here if found.role == "MASTER"]
    advice = next((found.advice for _, found in here if found.advice), "")
    start = f"start {' and '.join(m.name or m.endpoint for m in away)}" if away else ""
    paused = [member.name for member in view.members if member.automation_paused]
    resume = (
        f"automation is paused at {' and '.join(paused)}: `tandemq pair resume` when that is over" if paused else ""
    )
    if len(masters) > 1:
        return f"Now {' and '.join(m.name for m, _ in masters)} both say that they are master.", "look at both now"
    if not masters:
        states = ", ".join(f"{member.name} is {found.role}" for member, found in here)
        return f"Now nobody serves ({states}).", advice or start or "wait a few seconds and look again"
    member, found = masters[0]
    todo = start or advice or _behind(member, here)
    return _served(member, found, here), "; ".join(filter(None, (todo, resume)))


def _served(member: MemberView, found: DomainView, here: list[tuple[MemberView, DomainView]]) -> str:
    others = [m.name for m, state in here if m.name != member.name and state.role == "REPLICA"]
    if len(found.in_sync_set) > 1 and others:
        return f"Now {member.name} serves with two copies."
    if others:
        return f"Now {member.name} serves with one copy, {others[0]} is catching up ({found.peer_backlog:,} behind)."
    return f"Now {member.name} serves alone, with one copy."


def _behind(member: MemberView, here: list[tuple[MemberView, DomainView]]) -> str:
    others = [(m, state) for m, state in here if m.name != member.name and state.role != "REPLICA"]
    if others and others[0][0].maintenance:
        return f"`tandemq pair maintenance off --member {others[0][0].name}` when the work is done"
    if others:
        return f"see why {others[0][0].name} is {others[0][1].role} and not a replica: its log says more"
    return ""


def _when(then_ms: int, now_ms: int) -> str:
    at = datetime.fromtimestamp(then_ms / 1000, UTC).astimezone()
    return f"At {at:%H:%M:%S}{'' if now_ms - then_ms < 43_200_000 else f' on {at:%Y-%m-%d}'} ({ago(now_ms - then_ms)})"


def ago(ms: int) -> str:
    """How long ago, in the largest unit that says enough."""
    seconds = max(0, ms) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
