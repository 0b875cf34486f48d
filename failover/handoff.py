"""Decides what each side of a handoff does next: one literal table, (state, event) -> row. Does none of it itself.

Two members, one domain. Only the master can cede, so there is one winner by construction (R135). Until CEDING
everything is taken back for free; from the durable ceded epoch on (P15) the way out is a SYNC of the new master (P17)
or plain PROBE (P16). Whoever drives the table finds out which event it is: an event says what was found, never what was
hoped for. `replica/core/handoff/handoff.py` does so; the table in docs/PROTOCOL.md is `render()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple


class HandoffState(Enum):
    """How far one member is. The first four belong to the master, the others to the replica."""

    MASTER = "master"
    PROPOSED = "proposed"
    DRAINING = "draining"
    CEDING = "ceding"
    REPLICA = "replica"
    REQUESTED = "requested"
    READY = "ready"
    TAKING = "taking"

    @property
    def is_steady(self) -> bool:
        """No handoff is under way, and no deadline runs."""
        return self in (HandoffState.MASTER, HandoffState.REPLICA)


class HandoffEvent(Enum):
    """What a member has found out. Frames of another handoff than the one under way are not events: see CROSSING."""

    START = "this member is asked to begin, nothing bars it"
    START_BARRED = "this member is asked to begin, something bars it"
    REQUEST = "HANDOFF_REQ, nothing bars it"
    REQUEST_BARRED = "HANDOFF_REQ, something bars it"
    PROPOSE = "PROPOSE, of our own request or with none of ours open; nothing bars it"
    PROPOSE_BARRED = "PROPOSE, something bars it"
    PROPOSE_DRY = "PROPOSE of a dry run, nothing bars it"
    CROSSING = "PROPOSE under another id than what is open here"
    READY = "READY for our proposal"
    READY_DRY = "READY for our proposal, a dry run"
    NACK = "NACK for what we have open"
    DRAINED = "everything ordered is committed on both members"
    CEDED = "the promised epoch is durable here"
    ACK = "HANDOFF_ACK, and our log ends where it says, with its digest"
    ACK_MISFIT = "HANDOFF_ACK that does not fit our log, our data mark or what we know of epochs"
    SERVING = "this member serves the new epoch"
    CLAIM_LOST = "the claim of the ceded epoch was refused, or given up"
    SYNC = "a SYNC of the peer's new epoch was taken (DONE, P17)"
    ROLE_LOST = "this member is no longer what the handoff began with"
    LINK_LOST = "the connection is gone"
    DEADLINE = "the state has lasted too long"
    ABORT = "this member wants it no more"


class Action(Enum):
    """What the driver does, in the order of the row."""

    SEND_REQUEST = "send HANDOFF_REQ"
    SEND_PROPOSE = "send PROPOSE"
    SEND_READY = "send READY"
    SEND_NACK = "send NACK"
    DRAIN = "order nothing more; park"
    RESUME = "order what was parked"
    CEDE = "make promised epoch and role CEDING durable"
    SEND_ACK = "send HANDOFF_ACK"
    PROBE = "go to PROBE"
    TAKE = "claim the ceded epoch for both members"
    DONE = "report: done"
    FAIL = "report: refused or failed"
    IN_DOUBT = "report: in doubt"


class HandoffRow(NamedTuple):
    """What an event leads to."""

    state: HandoffState
    actions: tuple[Action, ...]
    why: str


class Ignored(NamedTuple):
    """An event that changes nothing here."""

    because: str


class Deadline(NamedTuple):
    """How long a state may last; then its DEADLINE row is the exit."""

    setting: str
    milliseconds: int


A, E, R, S = Action, HandoffEvent, HandoffRow, HandoffState

TABLE: Mapping[tuple[HandoffState, HandoffEvent], HandoffRow] = MappingProxyType({
    # -- the master ----------------------------------------------------------------------------------------------------
    (S.MASTER, E.START): R(S.PROPOSED, (A.SEND_PROPOSE,), "the master offers its role"),
    (S.MASTER, E.START_BARRED): R(S.MASTER, (A.FAIL,), "refused with every reason, nothing is sent"),
    (S.MASTER, E.REQUEST): R(S.PROPOSED, (A.SEND_PROPOSE,), "granted so far: offered under the request's id"),
    (S.MASTER, E.REQUEST_BARRED): R(S.MASTER, (A.SEND_NACK,), "refused with every reason (R134)"),
    (S.PROPOSED, E.READY): R(S.DRAINING, (A.DRAIN,), "both agree; from here the pause counts"),
    (S.PROPOSED, E.READY_DRY): R(S.MASTER, (A.DONE,), "a dry run ends here: it would be done"),
    (S.PROPOSED, E.NACK): R(S.MASTER, (A.FAIL,), "the replica names every reason"),
    (S.PROPOSED, E.REQUEST_BARRED): R(S.PROPOSED, (A.SEND_NACK,), "COLLISION: the master's own goes on (R135, P19)"),
    (S.PROPOSED, E.START_BARRED): R(S.PROPOSED, (A.FAIL,), "BUSY: the second caller is refused"),
    (S.PROPOSED, E.ROLE_LOST): R(S.MASTER, (A.FAIL,), "not master any more: nothing was given away"),
    (S.PROPOSED, E.LINK_LOST): R(S.MASTER, (A.FAIL,), "nothing was given away"),
    (S.PROPOSED, E.DEADLINE): R(S.MASTER, (A.SEND_NACK, A.FAIL), "TIMEOUT: no answer to the offer"),
    (S.PROPOSED, E.ABORT): R(S.MASTER, (A.SEND_NACK, A.FAIL), "free until the ceded epoch is written"),
    (S.DRAINING, E.DRAINED): R(S.CEDING, (A.CEDE,), "the point of no return: everything is on both members (P15)"),
    (S.DRAINING, E.NACK): R(S.MASTER, (A.RESUME, A.FAIL), "the replica takes its READY back"),
    (S.DRAINING, E.REQUEST_BARRED): R(S.DRAINING, (A.SEND_NACK,), "BUSY (P19)"),
    (S.DRAINING, E.START_BARRED): R(S.DRAINING, (A.FAIL,), "BUSY: the second caller is refused"),
    (S.DRAINING, E.ROLE_LOST): R(S.MASTER, (A.RESUME, A.FAIL), "not master any more: what was parked waits for one"),
    (S.DRAINING, E.LINK_LOST): R(S.MASTER, (A.RESUME, A.FAIL), "the old epoch goes on, as after any lost link"),
    (S.DRAINING, E.DEADLINE): R(S.MASTER, (A.SEND_NACK, A.RESUME, A.FAIL), "TIMEOUT: the drain took too long"),
    (S.DRAINING, E.ABORT): R(S.MASTER, (A.SEND_NACK, A.RESUME, A.FAIL), "free until the ceded epoch is written"),
    (S.CEDING, E.CEDED): R(S.CEDING, (A.SEND_ACK,), "only now may the replica hear of it (P15)"),
    (S.CEDING, E.SYNC): R(S.REPLICA, (A.DONE,), "the new master's first SYNC is DONE (P17); nothing is copied"),
    (S.CEDING, E.NACK): R(S.REPLICA, (A.PROBE, A.IN_DOUBT), "the replica refuses it: register and HELLO decide"),
    (S.CEDING, E.REQUEST_BARRED): R(S.CEDING, (A.SEND_NACK,), "BUSY (P19)"),
    (S.CEDING, E.START_BARRED): R(S.CEDING, (A.FAIL,), "BUSY: the second caller is refused"),
    (S.CEDING, E.ROLE_LOST): R(S.REPLICA, (A.IN_DOUBT,), "something else took the role out of CEDING"),
    (S.CEDING, E.LINK_LOST): R(S.REPLICA, (A.PROBE, A.IN_DOUBT), "plain PROBE (P16)"),
    (S.CEDING, E.DEADLINE): R(S.REPLICA, (A.PROBE, A.IN_DOUBT), "plain PROBE (P16)"),
    # -- the replica ---------------------------------------------------------------------------------------------------
    (S.REPLICA, E.START): R(S.REQUESTED, (A.SEND_REQUEST,), "a replica may only ask (R133)"),
    (S.REPLICA, E.START_BARRED): R(S.REPLICA, (A.FAIL,), "refused with every reason, nothing is sent"),
    (S.REPLICA, E.PROPOSE): R(S.READY, (A.SEND_READY,), "it could take the role"),
    (S.REPLICA, E.PROPOSE_DRY): R(S.REPLICA, (A.SEND_READY,), "a dry run ends here"),
    (S.REPLICA, E.PROPOSE_BARRED): R(S.REPLICA, (A.SEND_NACK,), "every reason, not the first"),
    (S.REPLICA, E.REQUEST_BARRED): R(S.REPLICA, (A.SEND_NACK,), "NOT_MASTER, and what else bars it"),
    (S.REPLICA, E.ACK_MISFIT): R(S.REPLICA, (A.SEND_NACK,), "too late: the old master takes it back (P16)"),
    (S.REQUESTED, E.PROPOSE): R(S.READY, (A.SEND_READY,), "our request is granted so far"),
    (S.REQUESTED, E.PROPOSE_DRY): R(S.REPLICA, (A.SEND_READY, A.DONE), "a dry run ends here: it would be done"),
    (S.REQUESTED, E.PROPOSE_BARRED): R(S.REPLICA, (A.SEND_NACK, A.FAIL), "something came up since we asked"),
    (S.REQUESTED, E.CROSSING): R(S.REPLICA, (A.FAIL,), "COLLISION: ours is off; then the proposal is judged (R135)"),
    (S.REQUESTED, E.NACK): R(S.REPLICA, (A.FAIL,), "refused: stay replica, data untouched (R134)"),
    (S.REQUESTED, E.START_BARRED): R(S.REQUESTED, (A.FAIL,), "BUSY: the second caller is refused"),
    (S.REQUESTED, E.REQUEST_BARRED): R(S.REQUESTED, (A.SEND_NACK,), "NOT_MASTER, and what else bars it"),
    (S.REQUESTED, E.ROLE_LOST): R(S.REPLICA, (A.FAIL,), "the one we asked is not master any more"),
    (S.REQUESTED, E.LINK_LOST): R(S.REPLICA, (A.FAIL,), "nothing was given to us"),
    (S.REQUESTED, E.DEADLINE): R(S.REPLICA, (A.FAIL,), "TIMEOUT: a request may fall on the floor (P19)"),
    (S.REQUESTED, E.ABORT): R(S.REPLICA, (A.FAIL,), "an offer that still comes is judged as any other"),
    (S.READY, E.ACK): R(S.TAKING, (A.TAKE,), "ceded to us: claim, store, commit, serve"),
    (S.READY, E.ACK_MISFIT): R(S.REPLICA, (A.SEND_NACK, A.FAIL), "we lack something: the old master takes it back"),
    (S.READY, E.NACK): R(S.REPLICA, (A.FAIL,), "the master takes its offer back"),
    (S.READY, E.CROSSING): R(S.REPLICA, (A.FAIL,), "a newer offer: the older one is over, and this one is judged"),
    (S.READY, E.START_BARRED): R(S.READY, (A.FAIL,), "BUSY: the second caller is refused"),
    (S.READY, E.REQUEST_BARRED): R(S.READY, (A.SEND_NACK,), "NOT_MASTER, and what else bars it"),
    (S.READY, E.ROLE_LOST): R(S.REPLICA, (A.FAIL,), "the master stepped down by another way"),
    (S.READY, E.LINK_LOST): R(S.REPLICA, (A.FAIL,), "an ACK on its way to us is lost with it (P16)"),
    (S.READY, E.DEADLINE): R(S.REPLICA, (A.SEND_NACK, A.FAIL), "TIMEOUT: an ACK that comes later is refused"),
    (S.READY, E.ABORT): R(S.REPLICA, (A.SEND_NACK, A.FAIL), "an ACK that comes later is refused"),
    (S.TAKING, E.SERVING): R(S.MASTER, (A.DONE,), "its first SYNC notifies the old master (P17)"),
    (S.TAKING, E.CLAIM_LOST): R(S.REPLICA, (A.SEND_NACK, A.IN_DOUBT), "PROBE by the ordinary rules (P6)"),
    (S.TAKING, E.START_BARRED): R(S.TAKING, (A.FAIL,), "BUSY: the second caller is refused"),
    (S.TAKING, E.REQUEST_BARRED): R(S.TAKING, (A.SEND_NACK,), "NOT_MASTER yet"),
    (S.TAKING, E.DEADLINE): R(S.REPLICA, (A.PROBE, A.SEND_NACK, A.IN_DOUBT), "the register does not answer: PROBE"),
})  # fmt: skip

DEADLINES: Mapping[HandoffState, Deadline] = MappingProxyType(
    {
        S.PROPOSED: Deadline("answer", 1000),
        S.DRAINING: Deadline("hold_ms", 2000),
        S.CEDING: Deadline("take", 3000),
        S.REQUESTED: Deadline("answer", 1000),
        S.READY: Deadline("hold_ms + answer", 3000),
        S.TAKING: Deadline("take", 3000),
    }
)
"""Every state that is not steady; `hold_ms` is [failover] hold_ms or the caller's, the rest is fixed."""

_MASTER = (S.MASTER, S.PROPOSED, S.DRAINING, S.CEDING)
_REPLICA = (S.REPLICA, S.REQUESTED, S.READY, S.TAKING)
_STEADY = (S.MASTER, S.REPLICA)
_MASTER_HEARS = (E.READY, E.READY_DRY, E.DRAINED, E.CEDED)
_REPLICA_HEARS = (
    *(E.PROPOSE, E.PROPOSE_BARRED, E.PROPOSE_DRY, E.CROSSING),
    *(E.ACK, E.ACK_MISFIT, E.SERVING, E.CLAIM_LOST),
)

# States, events, why nothing follows. Together with TABLE every (state, event) stands exactly once.
IGNORED: tuple[tuple[tuple[HandoffState, ...], tuple[HandoffEvent, ...], str], ...] = (
    (_MASTER, _REPLICA_HEARS, "said to a replica only; a master of this epoch offers, it is not offered"),
    (_REPLICA, _MASTER_HEARS, "said to a master only; what it offered ended with its role"),
    (_STEADY, (E.NACK,), "what it refuses is over here"),
    (_STEADY, (E.ROLE_LOST, E.LINK_LOST, E.SYNC), "no handoff is under way: the promotion table deals with it"),
    (_STEADY, (E.DEADLINE, E.ABORT), "no handoff is under way"),
    ((S.MASTER,), (E.READY, E.READY_DRY), "the offer is over, and its NACK is on the way"),
    ((S.MASTER,), (E.DRAINED, E.CEDED), "no drain is under way"),
    ((S.PROPOSED, S.DRAINING, S.CEDING, S.REQUESTED, S.READY, S.TAKING), (E.START,), "BUSY bars it: START_BARRED"),
    (
        (S.PROPOSED, S.DRAINING, S.CEDING, S.REPLICA, S.REQUESTED, S.READY, S.TAKING),
        (E.REQUEST,),
        "COLLISION, BUSY or NOT_MASTER bars it: REQUEST_BARRED",
    ),
    ((S.PROPOSED,), (E.DRAINED, E.CEDED), "the drain has not started"),
    ((S.PROPOSED, S.DRAINING), (E.SYNC,), "a SYNC that is taken ends the mastership first: ROLE_LOST"),
    ((S.DRAINING, S.CEDING), (E.READY, E.READY_DRY), "a repetition"),
    ((S.DRAINING,), (E.CEDED,), "nothing is ceded yet"),
    ((S.CEDING,), (E.DRAINED,), "a repetition"),
    ((S.CEDING,), (E.ABORT,), "past the point of no return: the ceded epoch may be durable"),
    ((S.REPLICA,), (E.CROSSING,), "nothing is open here that it could cross"),
    ((S.READY,), (E.PROPOSE, E.PROPOSE_BARRED, E.PROPOSE_DRY), "a repetition"),
    ((S.REPLICA, S.REQUESTED, S.READY), (E.SERVING, E.CLAIM_LOST), "nothing was ceded to us"),
    ((S.REQUESTED,), (E.ACK, E.ACK_MISFIT), "an ACK follows our READY only"),
    ((S.REQUESTED, S.READY), (E.SYNC,), "the HELLO of a new epoch comes before its SYNC: ROLE_LOST"),
    ((S.REPLICA,), (E.ACK,), "whatever fits, nothing is open here: ACK_MISFIT"),
    ((S.TAKING,), (E.PROPOSE, E.PROPOSE_BARRED, E.PROPOSE_DRY, E.CROSSING), "its sender has ceded and offers nothing"),
    ((S.TAKING,), (E.ACK, E.ACK_MISFIT), "a repetition"),
    ((S.TAKING,), (E.NACK,), "an ACK is not taken back"),
    ((S.TAKING,), (E.ROLE_LOST, E.LINK_LOST), "the claim goes on: it was ceded to us, and the register decides"),
    ((S.TAKING,), (E.SYNC,), "the HELLO of a higher epoch comes before its SYNC, and ends the claim: CLAIM_LOST"),
    ((S.TAKING,), (E.ABORT,), "past the point of no return: the claim may have landed"),
)


def lookup(state: HandoffState, event: HandoffEvent) -> HandoffRow | Ignored:
    """What follows. Complete: a test walks every state and event."""
    row = TABLE.get((state, event))
    if row is not None:
        return row
    for states, events, because in IGNORED:
        if state in states and event in events:
            return Ignored(because)
    raise AssertionError(f"no row for {state.name}, {event.name}")


# -- for docs/PROTOCOL.md ----------------------------------------------------------------------------------------------


def diagram() -> str:
    """The changes of state, for Mermaid."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for (state, event), row in TABLE.items():
        if row.state is not state:
            lines.append(f"    {state.name} --> {row.state.name}: {event.name}")
    return "\n".join([*lines, "```"])


def render() -> str:
    """Diagram, events, table, ignored events and deadlines."""
    lines = [diagram(), "", "| event | what a member has found |", "|---|---|"]
    lines += [f"| {event.name} | {event.value} |" for event in HandoffEvent]
    lines += ["", "| states | event | next | actions | why |", "|---|---|---|---|---|"]
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for (state, event), row in TABLE.items():
        then = "the same" if row.state is state else row.state.name
        actions = "; ".join(action.value for action in row.actions)
        alike.setdefault((event.name, then, actions, row.why), []).append(state.name)
    lines += [f"| {', '.join(states)} | {' | '.join(row)} |" for row, states in alike.items()]
    lines += ["", "Ignored, with the reason:", "", "| states | events | because |", "|---|---|---|"]
    for states, events, because in IGNORED:
        where = ", ".join(state.name for state in states)
        lines.append(f"| {where} | {', '.join(event.name for event in events)} | {because} |")
    lines += ["", "| state | lasts at most | default |", "|---|---|---|"]
    lines += [f"| {state.name} | {limit.setting} | {limit.milliseconds} ms |" for state, limit in DEADLINES.items()]
    return "\n".join(lines) + "\n"
