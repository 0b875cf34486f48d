"""Takes one member's core apart into a value and puts it together again; never decides what it does.

A value leaves out what no decision rests on, and says of each moment only whether it is over
(`docs/decisions/0007-small-model.md`): two cores with one value do the same from here on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chaos.sim.model.core import LONG_MS, NOW_MS, NoQueues
from failover.classifier import Answer, EventKind
from replica.core.handoff.attempt import Attempt
from replica.core.mastership.role import ClaimUnderWay
from replica.core.state.durable import Boundary, decode_state
from replica.core.state.progress import Pending
from tandemq.peer.v1.peer_service_pb2 import SyncEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.sim.model.core import Book, Core, Value
    from replica.core.mastership.mastership import Mastership
    from replica.core.state.log import DomainLog

# -- what a value holds ------------------------------------------------------------------------------------------------
# Plain attributes go in as they are. Each attribute that is not named here, or handled one by one below, is listed in
# LEFT_OUT with the reason; a test compares both with what the product's objects really have.

PLAIN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "shared": ("role", "serving", "link", "draining", "master", "wants_full"),
        "progress": ("durable_index", "commit_index", "checkpoint_index"),
        "view": ("register", "reading", "readable"),
        "peer": ("connected", "hello_is_new", "sync_when_read"),
        "commit": ("required", "publishing", "recording"),
        "role": ("unrecorded", "was_master", "forced"),
        "source": ("phase", "sync_id", "peer_is_good", "filling", "held"),
        "source_busy": ("cursor", "target", "peer_durable", "compared", "commit_sent", "whole_up_to"),
        "target": ("sync_id", "active", "full", "opened"),
        "target_busy": ("base_index", "fetching", "ending"),
        "verdicts": ("role_at_loss", "met", "kind", "paused"),
        "handoff": ("_state", "_count"),
    }
)
BY_HAND: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "shared": ("state", "log", "machine", "progress"),
        "progress": ("pending", "generation"),
        "outbox": ("state",),
        "mastership": (*("view", "peer", "commit", "role", "claims", "verdicts"),),
        "view": ("young_since_ms",),
        "peer": ("hello", "lost_at_ms", "refused"),
        "commit": ("alone_up_to", "epoch_first"),
        "role": ("claim",),
        "claims": ("not_before_ms",),
        "source": (),
        "target": ("_history", "named_in"),
        "verdicts": ("generation", "asked", "answer"),
        "handoff": ("open",),
        "log": (*("base_index", "base_digest", "base_epoch", "last_index", "last_epoch", "digest", "history", "ring"),),
    }
)
LEFT_OUT: Mapping[str, dict[str, str]] = MappingProxyType(
    {
        "shared": {
            "domain name member peer limits": "the same all the time",
            "incarnation": "of the member, not of its core",
            "suspect": "the shell sets it; only answers to new calls rest on it",
            "last_change": "words for people",
            "hello_register": "without a register service only",
            "outbox": "empty between steps",
            "damaged doubts": "no disk is damaged here",
            "instance": "of the directory; only the id of a history is made of it",
            "volatile": "nothing is volatile here",
        },
        "progress": {
            "_log": "part of the core",
            "trimming": "nothing is trimmed here",
            "ordered_from sent_up_to": "what a salvage file says of a cut",
        },
        "outbox": {"_domain": "the same all the time", "effects add": "empty between steps"},
        "mastership": {
            "shared source target following copy_orders": "parts of the core, and what has no fields of its own",
            "now_ms started_ms": "moments",
            "meet_ms": "a setting; nobody waits for a peer here, which leaves more orders of steps",
            "recall": "nothing is volatile here",
            "leaving": "a slow peer is not in the model, and no operator orders a transfer",
        },
        "view": {"shared": "part of the core", "read_at_ms": "a moment"},
        "peer": {
            "shared source": "parts of the core",
            "rejoin_at_ms": "a slow peer is not in the model",
            "checked": "what is looked at is whole at once here",
        },
        "commit": {"shared source view calls": "parts of the core", "waiting": "a slow peer is not in the model"},
        "role": {"shared source target peer commit calls": "parts of the core"},
        "claims": {
            "shared view peer commit role source target log bias_ms": "parts of the core",
            "failures": "how long to wait",
            "_spent": "epochs are far from the last one here",
            "may_claim": "the directory is no old copy here",
        },
        "source": {
            "shared aside": "parts of the core",
            "hello is_wish": "no operator orders a transfer here",
            "_reads": "what is read from the disk is there at once here",
            "sent in_flight in_flight_bytes held_open peer_floor": "window and bodies, which the model does not have",
            "prompt": "no process acts on what is committed here",
            "peer_has_copy": "decides whether live records are looked at before a transfer; there are none",
        },
        "target": {
            "shared _parts": "parts of the core",
            "received fills": "counts for people",
            "_bodies": "nothing is volatile here",
        },
        "verdicts": {
            "shared view peer policy": "parts of the core",
            "peer_index peer_said reported answered_ms": "for the question and the journal",
            "flapping": "counts changes without an authority only",
        },
        "handoff": {
            "shared orders mastership target resume hold_ms cooldown_ms bars": "parts of the core, settings",
            "ended_at_ms _since_ms": "moments",
        },
        "log": {"domain _reader": "parts of the core", "ring_bytes appended_bytes stored_index": "counts"},
    }
)

_GET: Mapping[str, Callable[[Any], tuple[Any, ...]]] = MappingProxyType(
    {name: attrgetter(*names) for name, names in PLAIN.items()}
)
_ATTEMPT = ("id", "reason", "dry_run", "hold_ms", "automatic", "last_index", "epoch", "final_index", "final_digest")
_PARTS = ("view", "peer", "commit", "role")
_IDLE = (0,) * len(PLAIN["source_busy"])
_RESTING = (0, 0, None)


def _put(holder: object, group: str, values: tuple[Any, ...]) -> None:
    for name, value in zip(PLAIN[group], values, strict=True):
        setattr(holder, name, value)


# -- taking apart ------------------------------------------------------------------------------------------------------


def value_of(core: Core, book: Book) -> Value:
    """All that its next steps rest on."""
    shared, mastership, source, target = core.shared, core.mastership, core.source, core.target
    state = shared.state
    assert not shared.outbox.effects
    idle = source.phase.value == "idle"
    return (
        _GET["shared"](shared),
        _GET["progress"](shared.progress),
        state.encode(),
        _log_value(shared.log, book),
        shared.machine.applied_index if shared.machine is not None else -1,
        tuple(record.log_index for record in shared.progress.pending),
        tuple(_GET[part](getattr(mastership, part)) for part in _PARTS),
        _mastership_value(mastership),
        _GET["source"](source),
        _IDLE if idle else _GET["source_busy"](source),
        _GET["target"](target),
        _target_value(core),
        _verdicts_value(core),
        _GET["handoff"](core.handoff),
        _attempt_value(core.handoff.open),
    )


def _log_value(log: DomainLog, book: Book) -> Value:
    parent = log.base_digest
    digests = []
    for entry in log.ring:
        book.note(entry, parent)
        parent = entry.digest
        digests.append(parent)
    assert parent == log.digest, "every record above the base is in memory"
    history = tuple((boundary.epoch, boundary.first_index) for boundary in log.history)
    return log.base_index, log.base_digest, log.base_epoch, tuple(digests), history


def _mastership_value(mastership: Mastership) -> Value:
    claim, hello, young = mastership.role.claim, mastership.peer.hello, mastership.view.young_since_ms
    serving = mastership.shared.serving
    return (
        None
        if claim is None
        else (claim.step, claim.members, claim.epoch, claim.desired, claim.reason, claim.forced, claim.ceded),
        None if hello is None else hello.SerializeToString(),
        mastership.peer.lost_at_ms is not None,
        mastership.claims.not_before_ms > NOW_MS,
        0 if young is None else 1 if young > NOW_MS - LONG_MS else 2,
        mastership.commit.alone_up_to if serving else 0,
        mastership.commit.epoch_first if serving or claim is not None else 0,
    )


def _target_value(core: Core) -> Value:
    target = core.target
    history = tuple((b.epoch, b.first_index) for b in attrgetter("_history")(target)) if target.full else ()
    base_index, fetching, ending = _GET["target_busy"](target) if target.active else _RESTING
    return (
        base_index if target.full else 0,
        fetching,
        None if ending is None else ending.SerializeToString(),
        history,
        target.named_in if target.named_in == core.shared.state.epoch else 0,
    )


def _verdicts_value(core: Core) -> Value:
    verdicts = core.mastership.verdicts
    known = verdicts.answer
    answer = None if known is None else (known.verdict, known.evidence, known.link_generation == verdicts.generation)
    asked = tuple(sorted(kind.value for kind in verdicts.asked))
    return (*_GET["verdicts"](verdicts), min(verdicts.generation, 1), asked, answer)


def _attempt_value(attempt: Attempt | None) -> Value | None:
    return None if attempt is None else tuple(getattr(attempt, name) for name in _ATTEMPT)


# -- putting together --------------------------------------------------------------------------------------------------


def put_back(core: Core, value: Value, book: Book) -> None:
    """Make this core the one that the value was taken from. Timers that were running still run."""
    (
        shared_plain, progress, state, log, applied, pending, mastership_plain, mastership, source, busy,
        target_plain, target, verdicts, handoff, attempt,
    ) = value  # fmt: skip
    shared = core.shared
    _put(shared, "shared", shared_plain)
    _put(shared.progress, "progress", progress)
    shared.state = shared.outbox.state = decode_state(state)
    _put_log(shared.log, log, book)
    shared.machine = None if applied < 0 else NoQueues(applied)  # type: ignore[assignment]  # stands in for it
    shared.progress.generation = 1
    base_index, digests = log[0], log[3]
    shared.progress.pending = deque(
        Pending(index, book.entries[digest].epoch, book.header(digest))
        for index in pending
        for digest in (digests[index - base_index - 1],)
    )
    shared.outbox.effects.clear()
    core.answered.clear()
    core.answered_up_to = shared.progress.commit_index
    for part, values in zip(_PARTS, mastership_plain, strict=True):
        _put(getattr(core.mastership, part), part, values)
    _put_mastership(core, mastership, book)
    _put(core.source, "source", source)
    _put(core.source, "source_busy", busy)
    core.source.in_flight.clear()
    core.source.in_flight_bytes = core.source.held_open = 0
    _put(core.target, "target", target_plain)
    _put_target(core, target)
    _put_verdicts(core, verdicts)
    _put(core.handoff, "handoff", handoff)
    core.handoff.open = None if attempt is None else _attempt(attempt)
    core.handoff.ended_at_ms = None
    setattr(core.handoff, "_since_ms", NOW_MS)  # noqa: B010 - no way in for others, and rightly so


def _put_log(log: DomainLog, value: Value, book: Book) -> None:
    log.base_index, log.base_digest, log.base_epoch, digests, history = value
    log.ring = deque(book.entries[digest] for digest in digests)
    log.ring_bytes = 0
    last = log.ring[-1] if log.ring else None
    log.last_index = last.log_index if last else log.base_index
    log.last_epoch = last.epoch if last else log.base_epoch
    log.digest = last.digest if last else log.base_digest
    log.history = [Boundary(*pair) for pair in history]


def _put_mastership(core: Core, value: Value, book: Book) -> None:
    mastership = core.mastership
    claim, hello, lost, waits, young, mastership.commit.alone_up_to, mastership.commit.epoch_first = value
    mastership.role.claim = None if claim is None else ClaimUnderWay(*claim)
    mastership.peer.hello = None if hello is None else book.hello(hello)
    mastership.peer.lost_at_ms = NOW_MS - LONG_MS if lost else None
    mastership.peer.refused = lost  # the claim need not wait for the bias: the step "lost" comes as late as it likes
    mastership.claims.not_before_ms = NOW_MS + LONG_MS if waits else 0
    mastership.view.young_since_ms = (None, NOW_MS, NOW_MS - LONG_MS)[young]
    mastership.now_ms = NOW_MS
    mastership.claims.failures = 0
    mastership.started_ms = NOW_MS - LONG_MS
    mastership.view.read_at_ms = NOW_MS
    mastership.commit.waiting = (core.shared.progress.commit_index, NOW_MS)


def _put_target(core: Core, value: Value) -> None:
    target = core.target
    target.base_index, target.fetching, ending, history, target.named_in = value
    target.ending = None if ending is None else SyncEnd.FromString(ending)
    setattr(target, "_history", [Boundary(*pair) for pair in history])  # noqa: B010 - as above


def _put_verdicts(core: Core, value: Value) -> None:
    verdicts = core.mastership.verdicts
    *plain, generation, asked, answer = value
    _put(verdicts, "verdicts", tuple(plain))
    verdicts.generation = generation
    verdicts.asked = {EventKind(kind): NOW_MS for kind in asked}
    verdicts.answered_ms = NOW_MS
    verdicts.answer = None
    if answer is not None:
        by = "authority" if verdicts.policy.by_authority else "model"
        number = generation if answer[2] else generation - 1
        verdicts.answer = Answer("", number, answer[0], "the register decides", evidence=answer[1], by=by)


def _attempt(value: Value) -> Attempt:
    attempt = Attempt(value[0], value[1])
    for name, part in zip(_ATTEMPT, value, strict=True):
        setattr(attempt, name, part)
    return attempt


def time_passes(core: Core) -> None:
    """Every timer but those of a handoff is over."""
    mastership = core.mastership
    mastership.claims.not_before_ms = 0
    mastership.view.read_at_ms = NOW_MS - LONG_MS
    if mastership.view.young_since_ms is not None:
        mastership.view.young_since_ms = NOW_MS - LONG_MS


def handoff_lasts_too_long(core: Core) -> None:
    """The deadline of the handoff's state has passed."""
    setattr(core.handoff, "_since_ms", NOW_MS - LONG_MS)  # noqa: B010 - as above


def handoff_state(core: Core) -> str:
    """As in the table; "replica" or "master" when none is under way."""
    name: str = core.handoff.state.value
    return name


__all__ = ["BY_HAND", "LEFT_OUT", "PLAIN", "handoff_state", "put_back", "time_passes", "value_of"]
