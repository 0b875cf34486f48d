"""Says which right each call of a client needs, and on what. One row a call; a call without a row is refused."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from replica.machine.state.rights import ADMINISTER, BROWSE, CONSUME, OBSERVE, OPERATE, PRODUCE
from replica.machine.state.system_names import CONSUMER

ADMINISTRATOR = -1
"""Only whoever the configuration names."""
SEE = 0
"""Any right on the queue."""
LINK = -2
"""To bring messages as that manager's link: members of the pair of that name alone."""
LINK_WRITERS = f"{CONSUMER}/"
"""What the writers of links begin with; the manager that sends follows."""


class Need(NamedTuple):
    """One right that a call needs. Without a path it is on the pair, or for ADMINISTRATOR on everything."""

    right: int
    path: str = ""
    """Where the request names queues: fields, joined by dots; each name is asked about."""
    optional: bool = False
    """Nothing is named there often, and nothing is needed then."""
    or_all: bool = False
    """Where nothing is named all queues are meant: the right has to be on `**`."""
    when: str = ""
    """Only if this field of the request is set."""
    makes: bool = False
    """The queue need not be there."""
    some: bool = False
    """The right on some queue is enough: the call does not say which, and works by an id or a name of the caller's."""
    begins: str = ""
    """Only names that begin so are asked about."""


def on(right: int, *paths: str) -> tuple[Need, ...]:
    """The right on each queue that is named there."""
    return tuple(Need(right, path) for path in paths)


def perhaps(right: int, *paths: str) -> tuple[Need, ...]:
    """The same, where nothing need be named."""
    return tuple(Need(right, path, optional=True) for path in paths)


def pair(right: int) -> tuple[Need, ...]:
    """A right on the pair."""
    return (Need(right),)


def _reaction(at: str, *queues: str) -> tuple[Need, ...]:
    """V16: DELETE needs the right to consume, UPDATE also to produce, MOVE to produce there. What a program is asked
    about may come to either, and a report goes to a queue as well.
    """
    consumed = tuple(Need(CONSUME, queue, when=at, optional=queue != queues[0]) for queue in queues)
    kinds = (f"{at}.update", f"{at}.custom")
    produced = tuple(Need(PRODUCE, queue, when=kind, optional=queue != queues[0]) for queue in queues for kind in kinds)
    return (*consumed, *produced, *perhaps(PRODUCE, f"{at}.move.queue", f"{at}.report_to"))


def _unit(at: str = "") -> tuple[Need, ...]:
    """A whole unit of work; `at`: the path to where it stands."""
    return (
        *perhaps(CONSUME, f"{at}settles.queue"),
        *perhaps(PRODUCE, f"{at}puts.queue", f"{at}puts.messages.reply_to"),
        *perhaps(LINK, f"{at}forwarder"),
        Need(LINK, f"{at}writer", optional=True, begins=LINK_WRITERS),
    )


ANYBODY: tuple[Need, ...] = ()
"""Whoever has a certificate of the authority. What is answered goes by the caller's rights."""
ADMINISTRATORS = (Need(ADMINISTRATOR),)
ALL_MESSAGES = (Need(BROWSE, or_all=True),)
AS_LINK = Need(LINK, "writer", optional=True, begins=LINK_WRITERS)
OWN_BATCHES = (Need(PRODUCE, some=True),)
OWN_WRITER = (*OWN_BATCHES, AS_LINK)
_MADE = (Need(ADMINISTER, "name", makes=True), *perhaps(PRODUCE, "config.dead_letter_queue"))
_OWN = on(ADMINISTER, "name")

NEEDS = MappingProxyType(
    {
        "QueueService/Enqueue": (
            *on(PRODUCE, "queue"),
            *perhaps(PRODUCE, "messages.reply_to"),
            *_reaction("reaction", "queue"),
        ),
        "QueueService/Produce": on(PRODUCE, "open.queue"),
        "QueueService/Dequeue": on(CONSUME, "queue"),
        "QueueService/Consume": on(CONSUME, "open.queue"),
        "QueueService/Settle": on(CONSUME, "queue"),
        "QueueService/Browse": on(BROWSE, "queue"),
        "QueueService/BrowsePage": on(BROWSE, "queue"),
        "QueueService/Reply": on(CONSUME, "queue"),
        "QueueService/CheckCompletion": on(PRODUCE, "queue"),
        "QueueService/WaitCompletion": on(PRODUCE, "queue"),
        "QueueService/WatchCompletions": on(PRODUCE, "queue"),
        "QueueService/WatchQueues": on(SEE, "watches.queue"),
        "ReactionService/React": (*_reaction("reaction", "queue", "more_queues"), AS_LINK),
        "TransactionService/Transact": _unit(),
        "TransactionService/TransactMany": _unit("units."),
        "TransactionService/Begin": on(SEE, "queue"),
        "TransactionService/Work": on(SEE, "begin.queue"),
        "TransactionService/Commit": (
            *perhaps(PRODUCE, "puts.queue", "puts.messages.reply_to"),
            *_reaction("puts.reaction", "puts.queue"),
        ),
        "TransactionService/Rollback": ANYBODY,  # a unit is its principal's alone
        "TransactionService/ListUnits": pair(OBSERVE),
        "StageService/Stage": (*on(PRODUCE, "batch.queue"), *perhaps(PRODUCE, "batch.messages.reply_tos")),
        "StageService/Publish": OWN_WRITER,  # and once more where its rows enter (services/messages/stage.py)
        "StageService/Abort": OWN_BATCHES,
        "StageService/GetWriter": OWN_WRITER,
        "StageService/ReleaseWriter": OWN_WRITER,
        "BatchService/LeaseBatch": on(CONSUME, "queue"),
        "BatchService/ReadBatch": on(CONSUME, "queue"),
        "BatchService/AckBatch": on(CONSUME, "queue"),
        "BatchService/GetBatches": on(CONSUME, "queue"),
        "JournalService/GetJournalHead": (Need(BROWSE, "queues", or_all=True),),
        "JournalService/ReadJournal": (Need(BROWSE, "selection.queues", or_all=True),),
        "JournalService/ReadJournalPage": (Need(BROWSE, "selection.queues", or_all=True),),
        "JournalService/RegisterReader": ALL_MESSAGES,
        "JournalService/AdvanceReader": ALL_MESSAGES,
        "JournalService/DeleteReader": ALL_MESSAGES,
        "JournalService/ListReaders": pair(OBSERVE),
        "WeightsService/PublishWeights": on(ADMINISTER, "weights.queue"),
        "WeightsService/GetWeights": pair(OBSERVE),
        "WeightsService/ListWeights": pair(OBSERVE),
        "WeightsService/DeleteWeights": pair(OPERATE),
        "MacroService/CreateMacro": (Need(ADMINISTER, "name", makes=True),),
        "MacroService/AddMember": on(ADMINISTER, "name", "queue"),
        "MacroService/RemoveMember": on(ADMINISTER, "name", "queue"),
        "MacroService/GetMacro": on(SEE, "name"),
        "MacroService/ListMacros": pair(OBSERVE),
        "MacroService/DeleteMacro": _OWN,
        "ProxyService/CreateProxy": (Need(ADMINISTER, "name", makes=True), *pair(OPERATE)),
        "ProxyService/GetProxy": on(SEE, "name"),
        "ProxyService/ListProxies": pair(OBSERVE),
        "ProxyService/DeleteProxy": _OWN,
        "QueueAdminService/CreateQueue": _MADE,
        "QueueAdminService/CreateReplicatedQueue": _MADE,
        "QueueAdminService/OpenReplicatedQueue": (
            Need(ADMINISTER, "name", makes=True),
            *perhaps(PRODUCE, "options.dead_letter_queue"),
        ),
        "QueueAdminService/CloseReplicatedQueue": _OWN,
        "QueueAdminService/DestroyReplicatedQueue": _OWN,
        "QueueAdminService/GetQueue": on(SEE, "name"),
        "QueueAdminService/ListQueues": ANYBODY,  # those that one may see
        "QueueAdminService/UpdateQueue": (*_OWN, *perhaps(PRODUCE, "config.dead_letter_queue")),
        "QueueAdminService/DeleteQueue": _OWN,
        "QueueAdminService/PurgeQueue": _OWN,
        "QueueAdminService/ConfigureQueue": _OWN,
        "QueueAdminService/RestartSide": _OWN,
        "QueueAdminService/OpenQueue": _OWN,
        "QueueAdminService/CloseQueue": _OWN,
        "QueueAdminService/CreateAlias": (Need(ADMINISTER, "alias", makes=True), *_OWN),
        "QueueAdminService/DeleteAlias": on(ADMINISTER, "alias"),
        "QueueAdminService/DeleteMessages": _OWN,
        "QueueAdminService/MoveMessages": (*_OWN, *on(PRODUCE, "to")),
        "QueueAdminService/RedriveQueue": (*_OWN, *perhaps(PRODUCE, "to")),
        "QueueAdminService/RestoreQueue": (Need(ADMINISTER, "name", makes=True), *pair(OPERATE)),
        "QueueAdminService/ListTransmissions": pair(OBSERVE),
        "QueueAdminService/ReleaseTransmission": pair(OPERATE),
        "QueueAdminService/GetDefaults": pair(OBSERVE),
        "QueueAdminService/UpdateDefaults": (*pair(OPERATE), *perhaps(PRODUCE, "config.dead_letter_queue")),
        "ManagerAdminService/GetManager": ANYBODY,  # how a client finds out which manager it has reached
        "ManagerAdminService/Backup": pair(OPERATE),
        "PairService/GetPairStatus": pair(OBSERVE),
        "PairService/WatchPairStatus": pair(OBSERVE),
        "PairService/ListEvents": pair(OBSERVE),
        "PairService/WatchEvents": pair(OBSERVE),
        "PairService/Handoff": pair(OPERATE),
        "PairService/ForceFailover": pair(OPERATE),
        "PairService/Decide": pair(OPERATE),
        "PairService/SetAutomation": pair(OPERATE),
        "PairService/SetMaintenance": pair(OPERATE),
        "PairService/Resync": pair(OPERATE),
        "PairService/Verify": pair(OPERATE),
        "PairService/Outdate": pair(OPERATE),
        "PairService/Resolve": pair(OPERATE),
        "PairService/ListSalvage": pair(OPERATE),
        "PairService/ReadSalvage": pair(OPERATE),
        "RightsService/GrantRight": ADMINISTRATORS,
        "RightsService/RevokeRight": ADMINISTRATORS,
        "RightsService/ListRights": ANYBODY,  # one's own, of others an administrator's
        "RightsService/TestRight": ANYBODY,  # about oneself, of others an administrator's
    }
)
"""By service and method, without the package."""
ADMINISTRATIVE = frozenset((ADMINISTER, OPERATE, ADMINISTRATOR))
"""Calls that need one of these are orders: who gave them is written down."""
