"""Every call of the contract with a request that does no harm, and the right it needs, written down a second time.

It is not read from the product: each row says by hand what docs/SECURITY.md promises. A request is as its guard wants
it, and mostly goes no further: without an identity it is refused by whoever would carry it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

QUEUE = "@"
"""Where the queue that is asked about stands in a request."""
IDENTITY = "#"
"""Where a new one stands."""


class Verb(StrEnum):
    """What has to be granted."""

    PRODUCE = "produce"
    CONSUME = "consume"
    BROWSE = "browse"
    ADMINISTER = "administer"
    OBSERVE = "observe"
    OPERATE = "operate"
    SEE = "see"
    """Any right on the queue."""
    ANYBODY = "anybody"
    """Nothing but a certificate."""
    RIGHTS = "rights"
    """To be an administrator."""
    PRODUCE_SOMEWHERE = "produce somewhere"
    BROWSE_ALL = "browse **"


class Call(NamedTuple):
    """One request to ask the pair about."""

    path: str
    """Service and method, without the package."""
    verbs: tuple[Verb, ...]
    """All of them are needed, and asked about in this order."""
    fields: Mapping[str, Any]
    makes: bool = False
    """The queue need not be there."""
    about: str = ""
    """What distinguishes it from another request of this method."""

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.path} {self.about}".strip()

    @property
    def names_queue(self) -> bool:
        """Else it is asked once, and not for each queue."""
        return _has(self.fields)


def _has(fields: Any) -> bool:
    if isinstance(fields, Mapping):
        return any(_has(each) for each in fields.values())
    if isinstance(fields, list):
        return any(_has(each) for each in fields)
    return bool(fields == QUEUE)


def _of(service: str, verb: Verb, fields: Mapping[str, Any], *methods: str, makes: bool = False) -> list[Call]:
    return [Call(f"{service}/{method}", (verb,), fields, makes) for method in methods]


_ONE = {"queue": QUEUE}
_NAME = {"name": QUEUE}
_MESSAGE = {"payload": b"asked"}
_QUEUES, _ADMIN, _PAIR = "QueueService", "QueueAdminService", "PairService"
_REACTION: dict[str, Any] = {"target": {"group_id": "asked"}}

CALLS: tuple[Call, ...] = (
    Call(f"{_QUEUES}/Enqueue", (Verb.PRODUCE,), {**_ONE, "request_id": IDENTITY, "messages": [_MESSAGE]}),
    Call(
        f"{_QUEUES}/Enqueue", (Verb.PRODUCE, Verb.PRODUCE), {**_ONE, "messages": [{"reply_to": QUEUE}]}, about="reply"
    ),
    Call(f"{_QUEUES}/Produce", (Verb.PRODUCE,), {"open": {**_ONE, "client_id": IDENTITY}}),
    *_of(
        _QUEUES, Verb.PRODUCE, {**_ONE, "handles": [b"none"]}, "CheckCompletion", "WaitCompletion", "WatchCompletions"
    ),
    *_of("StageService", Verb.PRODUCE, {"batch": _ONE}, "Stage"),
    Call("TransactionService/Transact", (Verb.PRODUCE,), {"puts": [{**_ONE, "messages": [_MESSAGE]}]}, about="puts"),
    Call("TransactionService/Transact", (Verb.CONSUME,), {"settles": [_ONE]}, about="settles"),
    Call("TransactionService/TransactMany", (Verb.PRODUCE,), {"units": [{"puts": [_ONE]}]}, about="puts"),
    Call("TransactionService/TransactMany", (Verb.CONSUME,), {"units": [{"settles": [_ONE]}]}, about="settles"),
    Call("TransactionService/Commit", (Verb.PRODUCE,), {"puts": [_ONE]}),
    Call(f"{_QUEUES}/Dequeue", (Verb.CONSUME,), {**_ONE, "request_id": IDENTITY}),
    Call(f"{_QUEUES}/Consume", (Verb.CONSUME,), {"open": {**_ONE, "client_id": IDENTITY}}),
    *_of(_QUEUES, Verb.CONSUME, _ONE, "Settle", "Reply"),
    *_of("BatchService", Verb.CONSUME, _ONE, "LeaseBatch", "ReadBatch", "AckBatch", "GetBatches"),
    Call("ReactionService/React", (Verb.CONSUME,), {**_ONE, "reaction": {**_REACTION, "delete": {}}}, about="delete"),
    Call(
        "ReactionService/React",
        (Verb.CONSUME, Verb.PRODUCE),
        {**_ONE, "reaction": {**_REACTION, "update": {}}},
        about="update",
    ),
    *_of(_QUEUES, Verb.BROWSE, _ONE, "Browse", "BrowsePage"),
    *_of("JournalService", Verb.BROWSE, {"queues": [QUEUE]}, "GetJournalHead"),
    *_of("JournalService", Verb.BROWSE, {"selection": {"queues": [QUEUE]}}, "ReadJournal", "ReadJournalPage"),
    *_of("JournalService", Verb.BROWSE_ALL, {}, "RegisterReader", "AdvanceReader", "DeleteReader"),
    Call("JournalService/ReadJournalPage", (Verb.BROWSE_ALL,), {}, about="of all"),
    Call(f"{_QUEUES}/WatchQueues", (Verb.SEE,), {"watches": [_ONE]}),
    *_of("TransactionService", Verb.SEE, _ONE, "Begin"),
    *_of("TransactionService", Verb.SEE, {"begin": _ONE}, "Work"),
    *_of(_ADMIN, Verb.SEE, _NAME, "GetQueue"),
    *_of("MacroService", Verb.SEE, _NAME, "GetMacro"),
    *_of("ProxyService", Verb.SEE, _NAME, "GetProxy"),
    Call("ProxyService/CreateProxy", (Verb.ADMINISTER, Verb.OPERATE), _NAME, makes=True),
    *_of("ProxyService", Verb.ADMINISTER, _NAME, "DeleteProxy"),
    *_of("WeightsService", Verb.ADMINISTER, {"weights": [_ONE]}, "PublishWeights"),
    *_of("MacroService", Verb.ADMINISTER, {**_NAME, **_ONE}, "AddMember", "RemoveMember"),
    *_of("MacroService", Verb.ADMINISTER, _NAME, "DeleteMacro"),
    *_of("MacroService", Verb.ADMINISTER, _NAME, "CreateMacro", makes=True),
    *_of(_ADMIN, Verb.ADMINISTER, _NAME, "CreateQueue", "CreateReplicatedQueue", "OpenReplicatedQueue", makes=True),
    *_of(_ADMIN, Verb.ADMINISTER, _NAME, "CloseReplicatedQueue", "DestroyReplicatedQueue", "RestartSide"),
    *_of(_ADMIN, Verb.ADMINISTER, _NAME, "UpdateQueue", "DeleteQueue", "PurgeQueue", "ConfigureQueue"),
    *_of(_ADMIN, Verb.ADMINISTER, _NAME, "OpenQueue", "CloseQueue", "DeleteMessages", "RedriveQueue"),
    Call(f"{_ADMIN}/MoveMessages", (Verb.ADMINISTER, Verb.PRODUCE), {**_NAME, "to": QUEUE}),
    Call(f"{_ADMIN}/CreateAlias", (Verb.ADMINISTER,), {"alias": QUEUE, "name": QUEUE}, makes=True),
    Call(f"{_ADMIN}/DeleteAlias", (Verb.ADMINISTER,), {"alias": QUEUE}),
    Call(f"{_ADMIN}/RestoreQueue", (Verb.ADMINISTER, Verb.OPERATE), _NAME, makes=True),
    *_of(_ADMIN, Verb.OBSERVE, {}, "ListTransmissions", "GetDefaults"),
    *_of("JournalService", Verb.OBSERVE, {}, "ListReaders"),
    *_of("MacroService", Verb.OBSERVE, {}, "ListMacros"),
    *_of("ProxyService", Verb.OBSERVE, {}, "ListProxies"),
    *_of("TransactionService", Verb.OBSERVE, {}, "ListUnits"),
    *_of("WeightsService", Verb.OBSERVE, {}, "GetWeights", "ListWeights"),
    *_of(_PAIR, Verb.OBSERVE, {}, "GetPairStatus", "WatchPairStatus", "ListEvents", "WatchEvents"),
    *_of("WeightsService", Verb.OPERATE, {}, "DeleteWeights"),
    *_of(_ADMIN, Verb.OPERATE, {}, "ReleaseTransmission", "UpdateDefaults"),
    *_of(_PAIR, Verb.OPERATE, {"to": "nobody", "dry_run": True}, "Handoff"),
    *_of(_PAIR, Verb.OPERATE, {"domain": "none"}, "Decide", "Resync", "Verify", "Outdate", "Resolve"),
    *_of(_PAIR, Verb.OPERATE, {}, "ForceFailover", "SetAutomation", "SetMaintenance", "ListSalvage", "ReadSalvage"),
    *_of("ManagerAdminService", Verb.OPERATE, {"any_copy": True}, "Backup"),
    *_of("StageService", Verb.PRODUCE_SOMEWHERE, {}, "Publish", "Abort", "GetWriter", "ReleaseWriter"),
    *_of("RightsService", Verb.RIGHTS, {}, "GrantRight", "RevokeRight"),
    *_of("RightsService", Verb.ANYBODY, {}, "ListRights", "TestRight"),
    *_of(_ADMIN, Verb.ANYBODY, {}, "ListQueues"),
    *_of("ManagerAdminService", Verb.ANYBODY, {}, "GetManager"),
    *_of("TransactionService", Verb.ANYBODY, {}, "Rollback"),
)
