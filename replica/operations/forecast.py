"""Says in one sentence what happens if the peer dies now, and what to do when nobody is served; it decides neither.

Sentences for somebody who was woken up: who does what, on which condition, with which command to go on. They follow the
same facts as `failover.gate` and `failover.promotion`; a test compares them with what a pair then does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from failover.classifier import SafetyClass
from failover.marks import DataMark, Role

NO_DECISION = ("suspend", "operator")
"""Classifiers that leave the decision to an operator."""


@dataclass(frozen=True, slots=True)
class DomainView:
    """One domain at one member, and who decides."""

    member: str
    peer: str  # "" = no pair
    role: Role
    data: DataMark
    in_sync_set: frozenset[str] = frozenset()  # members that hold everything acknowledged, as far as known here
    serving: bool = False  # as master
    required: frozenset[str] = frozenset()  # at the master: whose fsync a commit needs
    connected: bool = True
    last_index: int = 0
    authority: str = "witness"  # witness, etcd, none
    authority_reachable: bool = True
    classifier: str = "witness"
    mode: str = "enforce"  # enforce, observe, off
    safety: SafetyClass = SafetyClass.A  # of the classifier by itself
    accept_unproven: bool = False
    paused: bool = False
    waiting: bool = False  # an event waits for an operator's verdict
    held_everything: bool = True  # what a verdict needs where the register cannot be read
    may_claim: bool = True  # the authority has confirmed this start
    nobody: bool = False  # the register is readable and names nobody of the pair as one that may be master
    last_change: str = ""


class Way(Enum):
    """How a member that lost its peer gets on."""

    CERTAIN = "certain"
    ASKED = "asked"  # a classifier is asked and may say so
    OPERATOR = "operator"


def decider(view: DomainView) -> str:
    """Whose verdict counts: the classifier in force, else the authority, else `suspend`."""
    if view.mode == "enforce" and view.classifier:
        return view.classifier
    return view.authority if view.authority != "none" else "suspend"


def way(view: DomainView) -> tuple[Way, str]:
    """How it gets on if the peer is lost, and for OPERATOR why it needs one."""
    by = decider(view)
    if view.paused:
        return Way.OPERATOR, "automation is paused here"
    if by in NO_DECISION:
        return Way.OPERATOR, "no classifier decides" if by == "suspend" else "the classifier is `operator`"
    if view.authority != "none":
        if not view.authority_reachable:
            return Way.OPERATOR, f"the {view.authority} cannot be reached"
        return (Way.CERTAIN, "") if by == view.authority else (Way.ASKED, "")
    if view.safety is not SafetyClass.A and not view.accept_unproven:
        return Way.OPERATOR, f"classifier {by} is of class {view.safety.value} and there is no authority"
    return Way.ASKED, ""


def if_peer_dies(view: DomainView) -> str:
    """What happens to this domain if the peer dies now."""
    me, peer = view.member, view.peer
    if not peer:
        return ""
    if view.role is Role.MASTER and view.serving:
        if peer not in view.required:
            return f"nothing changes: {me} serves alone already, with one copy"
        return _master_alone(view)
    if view.role is Role.REPLICA:
        if not view.data.is_good or me not in view.in_sync_set:
            return (
                f"nobody serves: the copy at {me} is {_state_of(view)}, so it waits for {peer}; an operator who "
                "accepts the loss can run `tandemq pair failover --force`"
            )
        return _take_over(view)
    if view.role is Role.MAINTENANCE:
        return f"nobody serves: {me} is in maintenance; `tandemq pair maintenance off` brings it back"
    return f"{me} serves nobody now, and that does not change"


def _master_alone(view: DomainView) -> str:
    me, peer = view.member, view.peer
    found, why = way(view)
    if found is Way.CERTAIN:
        return f"{me} goes on alone with one copy once the {view.authority} has recorded it; nothing is lost"
    if found is Way.ASKED:
        agreed = f" and the {view.authority} agrees" if view.authority != "none" else ""
        return f"{me} stops acknowledging, and goes on alone if classifier {decider(view)} says so{agreed}"
    return (
        f"{me} stops acknowledging and waits, because {why}: bring {peer} back, or {_condition(view)} and run `tandemq "
        "pair decide continue`"
    )


def _take_over(view: DomainView) -> str:
    me, peer = view.member, view.peer
    found, why = way(view)
    if found is Way.CERTAIN:
        return f"{me} takes over with everything acknowledged, once the {view.authority} has recorded it"
    if found is Way.ASKED:
        agreed = f" and the {view.authority} agrees" if view.authority != "none" else ""
        return f"{me} takes over with everything acknowledged if classifier {decider(view)} says so{agreed}"
    return (
        f"nobody serves, because {why}: bring {peer} back, or {_condition(view)} and run `tandemq pair decide assume`"
    )


def _condition(view: DomainView) -> str:
    """All that must be true before an operator's verdict; half of it, and acknowledged operations end as salvage."""
    return f"make sure that {view.peer} is down and has not served alone since the link broke"


def _unreliable(view: DomainView) -> str:
    """Why a verdict without the register is not to be relied on here; empty when it is."""
    if view.authority != "none" and view.authority_reachable:
        return ""
    if not view.held_everything:
        return f"the copy at {view.member} is not known to hold everything acknowledged"
    if not view.may_claim:
        return f"the {view.authority} has not confirmed this start of {view.member}, which may be an older copy"
    return ""


def _state_of(view: DomainView) -> str:
    return view.data.name if not view.data.is_good else "not in the in-sync set"


def advice(view: DomainView) -> str:
    """What holds this member back and what to do, when it serves nobody; empty when there is nothing to do."""
    me, peer = view.member, view.peer
    if not peer or view.role in (Role.MASTER, Role.REPLICA, Role.INIT):
        return ""
    match view.role:
        case Role.DIVERGED:
            return (
                f"{me} and {peer} each have operations that the other lacks; look at both with `tandemq pair status`, "
                "then name the one whose history stands: `tandemq pair resolve --keep MEMBER`"
            )
        case Role.MAINTENANCE:
            return f"an operator took {me} out; `tandemq pair maintenance off` brings it back"
        case Role.FAILED:
            return f"{me} ends because it found itself at fault; see its log, then start it again"
        case Role.CEDING:
            return "a handoff is in its last step and ends by itself; see `tandemq pair history` if it does not"
        case _:
            pass
    if view.role is Role.PROBE and _names_nobody(view):
        return _no_one_may(view)
    if view.connected:
        return f"{me} and {peer} are deciding who serves; look again in a few seconds"
    return _alone(view)


def _names_nobody(view: DomainView) -> bool:
    """The register is a stranger's, or nobody who is connected may be master by it."""
    return view.nobody or bool(view.in_sync_set and not view.in_sync_set & {view.member, view.peer})


def _no_one_may(view: DomainView) -> str:
    me, peer, named = view.member, view.peer, ", ".join(sorted(view.in_sync_set))
    found = "no connected member is known to hold everything acknowledged"
    if view.in_sync_set and not view.in_sync_set & {me, peer}:
        found = f"the register names {named}, which is neither {me} nor {peer}"
    by_witness = ""
    if view.authority == "witness":
        by_witness = (
            "put the register right with `tandemq witness set-epoch --holder MEMBER`, naming the one that was master "
            "last, or "
        )
    return (
        f"{found}, so nobody may become master and that does not end by itself: {by_witness}accept the loss of what "
        "the other one may hold: `tandemq pair failover --force --member MEMBER`"
    )


def _alone(view: DomainView) -> str:
    me, peer = view.member, view.peer
    suspended = view.role is Role.MASTER_SUSPENDED
    if view.data is DataMark.EMPTY:
        return f"{me} holds nothing yet: start {peer}, so that the two can form the pair"
    if not suspended and (not view.data.is_good or (view.in_sync_set and me not in view.in_sync_set)):
        return (
            f"the copy at {me} is {_state_of(view)}, {peer} may hold more: start {peer}; if it is gone for good, "
            f"accept what is lost after {view.last_index}: `tandemq pair failover --force`"
        )
    verdict = "continue" if suspended else "assume"
    found, why = way(view)
    if (lacks := _unreliable(view)) and (found is Way.OPERATOR or view.waiting):
        return (
            f"{peer} is lost, and a verdict cannot be relied on because {lacks}: bring {peer} back; if it is gone "
            f"for good, accept what is lost after {view.last_index}: `tandemq pair failover --force`"
        )
    if found is Way.OPERATOR or view.waiting:
        why = why or f"classifier {decider(view)} did not decide"
        resume = "run `tandemq pair resume`, " if view.paused else ""
        return (
            f"{peer} is lost and {why}: {resume}bring {peer} back, or {_condition(view)} and run `tandemq pair decide "
            f"{verdict}`"
        )
    if found is Way.ASKED:
        by = decider(view)
        return f"{peer} is lost and classifier {by} is asked; if it does not answer: `tandemq pair decide {verdict}`"
    return f"{peer} is lost and the {view.authority} is asked; look again in a few seconds ({view.last_change})"
