"""Counts which rows of the protocol's tables a run takes, and what else its cores do that has a name; changes nothing.

The tables are asked by three functions of the product, which are wrapped while a run lasts: (state, event) of a
handoff, (step, found) of a claim, and the row of the promotion table.
"""

from __future__ import annotations

import contextlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chaos.sim.judges import macro_points, proxy_points, rights_points
from chaos.sim.judges.links import AT_SOURCE, AT_TARGET, AWAY, FOUND_AGAIN
from chaos.sim.judges.sides import BY_QUESTION, KNOWN_OUTPUT, OTHERS_STATE, OVER_TAKEOVER, PLACE_LOST, SUSPENDED_SIDE
from failover import handoff, promotion
from failover.handoff import Action, HandoffEvent, HandoffRow, HandoffState
from replica.core.handoff import handoff as driving
from replica.core.mastership import claims
from replica.core.state.effects import Reply
from replica.core.state.outcomes import EnqueueDone, Failed, LeaseDone, QueueDone, SettleDone
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chaos.sim.pair.member import SimMember
    from replica.core.domain import Domain
    from replica.core.state.effects import Effect
    from replica.core.state.log import DomainLog

ABORTED = (HandoffEvent.NACK, HandoffEvent.LINK_LOST, HandoffEvent.DEADLINE, HandoffEvent.ROLE_LOST, HandoffEvent.ABORT)

UNIT_AT_TAKEOVER = "a unit was open at a takeover"

NAMED = MappingProxyType(
    {
        "handoff taken back after both had agreed": "the drain was broken off; nothing was ceded",
        "handoff in doubt": "the ceded epoch was durable, and nobody knew whether it was taken",
        "a promise lost in a crash": "a member that was giving its role away died before its disk had that",
        "handed over because of damage": "what was damaged at a master was delivered by the other member",
        "handoff crossed another": "a replica asked while its master offered",
        "solo epoch": "a master served alone",
        "unrecorded epoch": "a master served in an epoch that the register did not know yet",
        "full transfer interrupted": "a transfer of everything ended before its end",
        "delta transfer interrupted": "a transfer of what was missed ended before its end",
        "held request released at takeover": "a replica that held a client's batch became master, and ordered it",
        "parked call answered after a takeover": "a call that waited for a master found one where it waited",
        "repetition answered at the master": "a batch or call was executed before, and got its first answer",
        "repetition answered at the replica": "the same, at the member that is not master",
        "sequence gap": "a batch did not follow what its producer had sent before",
        "lease ended": "messages came back because their lease was over",
        "a full transfer by an operator's order": "nobody had waited for it: its member was left out before",
        "sending went on during a full transfer": "the replica's copy was not there, and something was committed",
        "a full transfer outlived an epoch": "its master had gone on alone in the middle of it",
        "volatile loss": "volatile messages were lost with the members that held them",
        "volatile messages made persistent": "a change of a queue's persistence was answered, and messages were in it",
        "messages saved on by the next master": "a member began to serve in the middle of such a change",
        "records kept in salvage": "a member gave up records, and copied them first",
        "sending refused for want of room": "a full disk refused an enqueue",
        "too few copies: refused": "a producer that asks for two copies was refused, with nothing stored",
        "stored, but on fewer copies than asked for": "the same, after it was stored",
        "a request repeated after its answer, at either member": "an enqueue of a unary client",
        "a Dequeue repeated after its answer, at either member": "a lease of a unary client",
        "acknowledged after the lease had ended, and accepted": "nobody else had the message",
        "settling refused: the lease was lost": "somebody else had it",
        "a rejected message among the dead letters": "it was moved, whatever struck meanwhile",
        "acknowledged twice": "the second one was confirmed too",
        "acknowledged, then rejected": "the second one was refused",
        "a queue deleted, and made again": "a name was used again",
        "a group went on after a takeover": "two masters gave out messages of one group",
        "a second message of one dedup id": "it was answered with the first one's index",
        "messages moved by an administrator": "to another queue, or from the dead letters back",
        "a request answered": "and its sender heard it",
        "a request that nobody answered in time": "its queue gave it up",
        "an answer refused: there is one": "somebody answered the same request a second time",
        "a copy of an answer": "for the queue that its request had named",
        "a delayed message delivered after a takeover": "by another master than the one that had ordered it",
        "a message that was delivered too often": "it died, and was moved",
        "a dead letter moved back": "to the queue that it came from",
        "a request answered after a takeover": "by another master than the one that had ordered it",
        "an oldest message dropped": "to make room for others",
        "a stale publisher of weights refused": "another one had been faster",
        "weights read after a takeover": "from another master than the one that had ordered them",
        **rights_points.POINTS,
        "a batch published again, and answered so": "by a writer that had died, and staged it anew",
        "a batch carried on by the next master": "its first parts, or its decision, were another one's",
        "a stage dropped because its time was over": "nobody had published it",
        "a unit repeated after its answer, at either member": "and it got the first answer",
        "a unit known by its number alone": "its request id was another one, and nothing was done again",
        "a unit refused: the lease was lost": "somebody else had the message",
        "an open unit committed": "over several calls",
        "puts came with their commit": "U4: held by the client until then",
        "an open unit rolled back": "and its messages went back",
        "an answer given by a unit": "U16: its requester has it, and no other one",
        UNIT_AT_TAKEOVER: "U10: the next master began with giving back what it held",
        "an open unit was aborted": "it had ended before its client was done, and nothing of it happened",
        "a commit asked for again by a client that had died": "and it was answered",
        "a reaction that acted: cancel": "and what it cancelled nobody got",
        "a reaction that acted: move": "and what it moved was in the other queue alone",
        "a reaction that acted: change": "and its sender heard of the end of what it had become",
        "a reaction that acted: ask": "V10: as a program said of each message, and of each it was asked",
        "a reaction carried out at several queues": "V18: by one record, at all of them or at none",
        "a reactive message was sent by Enqueue": "V2: and never stored",
        "a reaction that found its messages with a consumer": "and left them alone",
        "a kept reaction that acted on what arrived": "and nobody was given it",
        "a kept reaction that acted on what came back": "and nobody was given it again",
        "a reaction in a unit that its commit carried out": "V15: and what it had locked nobody got",
        "a reaction in a unit that was rolled back": "and what it had locked was where it had been",
        "a reaction in a unit that was left to its deadline": "and no longer",
        "a reaction repeated after its answer, at either member": "and it got the first answer",
        "a delayed message cancelled, moved or changed": "before its time",
        **macro_points.POINTS,
        **proxy_points.POINTS,
        BY_QUESTION: "K3: and both sides were given what it selected",
        SUSPENDED_SIDE: "K2: by its member alone, up to what that knew to be committed",
        OVER_TAKEOVER: "K2: nothing was taken back that it had acted on",
        PLACE_LOST: "K6: its twin was too far ahead of it",
        OTHERS_STATE: "K10: what was given up was in that",
        KNOWN_OUTPUT: "K8: and they entered once",
        "a numbered batch read again": "and it was the same rows",
        "a numbered batch read again at the next master": "and it was the same rows",
        "a numbered batch that was gone": "its lease had ended",
        "a reader read on after a takeover": "of the journal, under its name",
        "a reader that lost its place was refused": "it was too far behind",
        FOUND_AGAIN: "it was there: whoever had sent it died, or never heard of it",
        AT_SOURCE: "the next master's agent has to go on with it",
        AT_TARGET: "the next master there must know its number",
        AWAY: "nothing got through between the pairs, and something waited",
        "a client of the pair before was refused": (
            "it went on from its place, in a pair that was emptied and formed anew"
        ),
    }
)
"""Points that every campaign must meet whose profiles have them (`homes`), beside those of `chaos.sim.judges.coverage`;
clients report some themselves.
"""
RARE = MappingProxyType(
    {
        "claim replaced": "a claim was not there any more when its member wanted to commit it",
        "claim given up for a master": "the peer turned out to be master before a claim was done",
        "a move carried on by the next master": "its first records were another one's",
        "a dead letter moved by the next master": "its message had died under the one before",
        "slow peer left behind": "a master went on without a peer that was there and made no progress",
    }
)
"""Points that three thousand seeds need not meet: counted, and asked for once a profile brings them about."""


PROMOTIONS = MappingProxyType(
    {id(row): f"promotion {number}: {row.why.name}" for number, row in enumerate(promotion.TABLE)}
)
"""By what a row is, not by what it says: comparing rows costs more than finding the one that fits."""


@contextlib.contextmanager
def watching(met: Callable[[str], None]) -> Iterator[None]:
    """Counts every row that is taken while this lasts."""
    places = ((vars(claims), "follow"), (vars(driving), "lookup"), (vars(promotion), "row_of"))
    kept = follow, lookup, row_of = [module[name] for module, name in places]

    def followed(step: Any, found: Any) -> Any:
        met(f"claim {step.name}: {found.name}")
        if (step.name, found.name) == ("COMMITTING", "REFUSED"):
            met("claim replaced")
        elif found.name == "SYNC" and not step.is_steady:
            met("claim given up for a master")
        return follow(step, found)

    def looked_up(state: HandoffState, event: HandoffEvent) -> Any:
        row = lookup(state, event)
        met(f"handoff {state.name}: {event.name}" + ("" if isinstance(row, HandoffRow) else " (ignored)"))
        if isinstance(row, HandoffRow):
            _on_handoff(met, state, event, row)
        return row

    def row_found(facts: Any) -> Any:
        row = row_of(facts)
        met(PROMOTIONS[id(row)])
        return row

    _put(places, (followed, looked_up, row_found))
    try:
        yield
    finally:
        _put(places, kept)


def _put(places: Sequence[tuple[dict[str, Any], str]], functions: Sequence[Any]) -> None:
    for (module, name), function in zip(places, functions, strict=True):
        module[name] = function


def _on_handoff(met: Callable[[str], None], state: HandoffState, event: HandoffEvent, row: HandoffRow) -> None:
    if state is HandoffState.DRAINING and event in ABORTED:
        met("handoff taken back after both had agreed")
    if Action.IN_DOUBT in row.actions:
        met("handoff in doubt")
    if event is HandoffEvent.CROSSING or (state is HandoffState.PROPOSED and event is HandoffEvent.REQUEST_BARRED):
        met("handoff crossed another")


def known() -> list[str]:
    """Every row that there is, as `watching` names it."""
    return [
        *(f"handoff {state.name}: {event.name}" for state, event in handoff.TABLE),
        *(f"claim {step.name}: {found.name}" for step, found in claiming_table()),
        *PROMOTIONS.values(),
    ]


def claiming_table() -> Iterable[tuple[Any, Any]]:
    """(step, found) of `failover.steps`, without those in which nothing is under way."""
    from failover.steps import TABLE

    return [(step, found) for step, found in TABLE if not step.is_steady]


def began_with(log: DomainLog, epoch: int) -> RecordHeader:
    """The first record of an epoch, as far as that is held; else one that says nothing."""
    first = next((each.first_index for each in reversed(log.history) if each.epoch == epoch), 0)
    return log.header_at(first) or RecordHeader() if first else RecordHeader()


class Steps:
    """What one run's cores have done so far."""

    def __init__(self, met: Callable[[str], None]) -> None:
        self._met = met
        self._phase: dict[str, str] = {}
        self._serving: dict[str, int] = {}
        self._waiting: dict[str, tuple[int, int]] = {}
        self._left_behind: set[tuple[str, int]] = set()
        self._master = ""
        """Who served last."""
        self._filling: dict[str, tuple[int, int, int]] = {}
        """Member: the full transfer that it sends, its epoch and commit index then."""

    def on_step(self, member: SimMember, domain: Domain, effects: Iterable[Effect]) -> None:
        """After one event at that member."""
        name, met = member.name, self._met
        phase, before = domain.source.phase.name, self._phase.get(name, "IDLE")
        if phase != before:
            self._phase[name] = phase
            met(f"sync {before} > {phase}")
            if before in ("FULL", "DELTA") and phase not in ("DELTA", "LIVE"):  # a full one ends as a delta
                met(f"{before.lower()} transfer interrupted")
        self._on_role(name, domain)
        self._on_filling(name, domain)
        for effect in effects:
            if isinstance(effect, Reply):
                self._on_reply(domain, effect)

    def _on_filling(self, name: str, domain: Domain) -> None:
        source, shared = domain.source, domain.shared
        if not source.filling or not domain.shared.serving:
            if not source.filling:
                self._filling.pop(name, None)
            return
        now = source.sync_id, shared.state.epoch, shared.progress.commit_index
        began = self._filling.setdefault(name, now)
        if began[0] != now[0]:
            self._filling[name] = now
        elif began[1] != now[1]:
            self._filling[name] = now
            self._met("a full transfer outlived an epoch")
        elif now[2] > began[2] and shared.peer not in domain.mastership.commit.required:
            self._met("sending went on during a full transfer")

    def _on_role(self, name: str, domain: Domain) -> None:
        mastership, holding, met = domain.mastership, domain.holding, self._met
        if not mastership.shared.serving:
            self._serving.pop(name, None)
            self._waiting[name] = len(holding.held), len(holding.parked)
            return
        epoch = domain.shared.state.epoch
        if domain.shared.last_change.endswith("is too slow: going on without it") and (
            (name, epoch) not in self._left_behind
        ):
            self._left_behind.add((name, epoch))
            met("slow peer left behind")
        if self._serving.get(name) == epoch:
            return
        self._serving[name] = epoch
        if self._master not in ("", name) and began_with(domain.shared.log, epoch).role.unit_leases:
            met(UNIT_AT_TAKEOVER)
        self._master = name
        held, parked = self._waiting.pop(name, (0, 0))
        if held:
            met("held request released at takeover")
        if parked:
            met("parked call answered after a takeover")
        if domain.shared.peer not in mastership.commit.required:
            met("solo epoch")
        if mastership.role.unrecorded:
            met("unrecorded epoch")
        if domain.shared.machine is not None and domain.shared.machine.state.saving:
            met("messages saved on by the next master")

    def _on_reply(self, domain: Domain, reply: Reply) -> None:
        result = reply.result
        if isinstance(result, Failed):
            self._met(f"refused {Reason.Name(result.reason).removeprefix('REASON_')}")
            if result.reason == Reason.REASON_SEQUENCE_GAP:
                self._met("sequence gap")
        elif isinstance(result, (EnqueueDone, LeaseDone, SettleDone, QueueDone)) and result.duplicate:
            where = "master" if domain.shared.serving else "replica"
            self._met(f"repetition answered at the {where}")
