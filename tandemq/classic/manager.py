"""The queue manager of the first design (Tables 3, 4, 5): configured, opened, makes queues, closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import MappingProxyType, TracebackType
from typing import NoReturn, Self

import msgspec

from tandemq import embedded
from tandemq.classic.later import macro, misplaced, proxy
from tandemq.classic.options import BaseQueue
from tandemq.classic.queue import MessageQueue, address_of
from tandemq.classic.replicated import ReplicatedQueue
from tandemq.classic.words import (
    QUEUE_STATE,
    Queue_Manager_Consumer_Options,
    Queue_Manager_Producer_Options,
    Queue_Manager_Queue_Relationship,
    Queue_Manager_Stats,
    Queue_Type,
)
from tandemq.client import blocking
from tandemq.config import ManagerConfig
from tandemq.errors import Refused
from tandemq.v1 import manager_admin_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin

TIMEOUT_S = 30.0
_STATES = MappingProxyType(
    {
        pb.MANAGER_STATE_OPENING: QUEUE_STATE.OPENING,
        pb.MANAGER_STATE_OPEN: QUEUE_STATE.OPEN,
        pb.MANAGER_STATE_FAILED: QUEUE_STATE.FAILED,
    }
)


class QueueManager(BaseQueue):
    """One manager: one that runs somewhere, or one inside this process.

    Target: where it runs, as `tandemq.connect` takes it; None: the default one of this user, host or site.
    Inside: run one in this process instead, from QueueOpen to QueueClose: a directory for it (profile classic, so its
        defaults are those of Table 5), or its configuration.
    What is set on it (Table 1) is for queues that it makes from then on (R047); what is not set is the manager's
    default. A `with` block ends in QueueClose.
    """

    def __init__(
        self,
        Target: str | Sequence[str] | None = None,
        *,
        Inside: ManagerConfig | str | os.PathLike[str] | None = None,
        Timeout: float = TIMEOUT_S,
    ) -> None:
        if isinstance(Inside, str | os.PathLike):
            Inside = ManagerConfig(member="inside", data_dir=os.fspath(Inside), profile="classic")
        self._target, self._inside, self._timeout = Target, Inside, Timeout
        self._state = QUEUE_STATE.CONFIGURING
        self._config = admin.QueueConfig()
        self._made: dict[str, MessageQueue] = {}
        self._stack = ExitStack()
        self._client: blocking.Client | None = None
        self.member = ""
        """Name of the member, once it is open."""
        self._caller: ThreadPoolExecutor | None = None
        self._routines_on = 0  # the thread of routines, once there was one

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is QUEUE_STATE.OPEN:
            self.QueueClose()

    @property
    def client(self) -> blocking.Client:
        """The client that everything is done with. INVALID_STATE unless the manager is open (R009, R041)."""
        if self._client is None:
            self._illegal("open it first")
        return self._client

    def _illegal(self, advice: str) -> NoReturn:
        raise Refused("INVALID_STATE", f"the manager is {self._state.name}: {advice}", definite=True)

    # -- Tables 1, 3 and 5 -----------------------------------------------------------------------------------------

    def _take(self, config: admin.QueueConfig, field: str) -> None:
        self._config.MergeFrom(config)

    def _in_force(self) -> admin.QueueConfig:
        config = self.defaults()
        config.MergeFrom(self._config)
        return config

    def defaults(self) -> admin.QueueConfig:
        """What the manager gives to a queue that says nothing; an unreplicated one (CreateQInstance)."""
        return self.client.get_defaults("local").config

    def options_for(self, own: admin.QueueConfig) -> admin.QueueConfig:
        """What a new queue says: what was set on it, else what was set here."""
        config = admin.QueueConfig()
        config.CopyFrom(self._config)
        config.MergeFrom(own)
        return config

    def SetServerRequired(self, Required: bool) -> None:
        """Table 1, R033: whether other processes may reach it. Of a manager inside this process, before QueueConfigure;
        CONFIG_ERROR for one that runs elsewhere and serves already."""
        if self._inside is None:
            if not Required:
                raise misplaced("SetServerRequired", "this manager runs already, and serves: [manager] server_required")
            return
        if self._state is not QUEUE_STATE.CONFIGURING:
            self._illegal("server_required is set before QueueConfigure")
        self._inside = msgspec.structs.replace(self._inside, server_required=Required)

    def GetServerRequired(self) -> bool:
        """Table 3, R033."""
        return True if self._inside is None else self._inside.server_required

    def SetQueueRelationship(self, Relationship: Queue_Manager_Queue_Relationship) -> None:
        """Table 1, R030: NOT_SUPPORTED; create_macro and create_proxy take it."""
        raise macro("SetQueueRelationship")

    def SetConsumerOptions(self, Options: Queue_Manager_Consumer_Options) -> None:
        """Tables 1 and 9, R031: NOT_SUPPORTED; create_macro takes the policy."""
        raise macro("SetConsumerOptions")

    def SetProducerOptions(self, Options: Queue_Manager_Producer_Options) -> None:
        """Tables 1 and 9, R031: NOT_SUPPORTED; create_macro takes the policy."""
        raise macro("SetProducerOptions")

    def GetConsumerOptions(self) -> Queue_Manager_Consumer_Options:
        """Tables 3 and 5, R046: what a macro queue will begin with."""
        return Queue_Manager_Consumer_Options.Prioritized

    def GetProducerOptions(self) -> Queue_Manager_Producer_Options:
        """Tables 3 and 5, R046: what a macro queue will begin with."""
        return Queue_Manager_Producer_Options.First_Available

    # -- Table 4: its life -----------------------------------------------------------------------------------------

    def QueueConfigure(self) -> None:
        """Table 4, R040: ends its configuration. INVALID_STATE unless CONFIGURING (R095)."""
        if self._state is not QUEUE_STATE.CONFIGURING:
            self._illegal("it is configured once, before it is opened")
        self._state = QUEUE_STATE.CONFIGURED

    def QueueOpen(self) -> None:
        """Table 4, R041: starts it, or connects to it; from now on it makes queues. INVALID_STATE unless CONFIGURED,
        CLOSED or FAILED (R095); FAILED when it cannot be opened."""
        if self._state not in (QUEUE_STATE.CONFIGURED, QUEUE_STATE.CLOSED, QUEUE_STATE.FAILED):
            self._illegal("QueueOpen follows QueueConfigure or QueueClose")
        self._state = QUEUE_STATE.FAILED
        with ExitStack() as undo:
            self._caller = undo.enter_context(ThreadPoolExecutor(1, "tandemq classic"))
            if self._inside is not None:
                client = undo.enter_context(embedded.open_client(self._inside, timeout=self._timeout))
            else:
                # One manager is meant: what concerns a member (local queues, instances) must not move to its master.
                opened = blocking.connect(self._target, timeout=self._timeout, follow_master=False)
                client = undo.enter_context(opened)
            self.member = client.manager_info().header.member
            self._stack = undo.pop_all()
        self._client, self._state = client, QUEUE_STATE.OPEN

    def QueueClose(self) -> None:
        """Table 4, R042: closes its queues, then ends it, or the connection. INVALID_STATE unless OPEN (R095).

        Of a manager inside this process, all its queues; of one elsewhere, those that this object has made.
        """
        client = self.client
        if threading.get_ident() == self._routines_on:
            self._illegal("a routine cannot close it, for closing waits for the routines; let another thread")
        self._state = QUEUE_STATE.CLOSING
        try:
            for queue in self._open_queues(client):
                self._close(client, queue)
        finally:
            self._state, self._client = QUEUE_STATE.CLOSED, None
            self._stack.close()

    def _open_queues(self, client: blocking.Client) -> list[admin.QueueInfo]:
        everything = self._inside is not None
        found = [queue for queue in client.list_queues() if everything or queue.name in self._made]
        return [queue for queue in found if self.member in queue.open_members]

    def _close(self, client: blocking.Client, queue: admin.QueueInfo) -> None:
        """A replicated queue stays open at the other member."""
        if isinstance(self._made.get(queue.name), ReplicatedQueue):
            client.close_replicated_queue(queue.name)
        else:
            client.close_queue(queue.name)

    def call_back(self, routine: Callable[[], None]) -> None:
        """Runs it on a thread that may call this manager and its queues; one at a time."""
        if self._caller is not None and self._client is not None:
            self._caller.submit(self._run, routine).add_done_callback(Future.result)  # what it raised is logged

    def _run(self, routine: Callable[[], None]) -> None:
        self._routines_on = threading.get_ident()
        routine()

    # -- Table 4: its queues ---------------------------------------------------------------------------------------

    def CreateQInstance(self, Type: Queue_Type = Queue_Type.Actual) -> MessageQueue:
        """Table 4, R035: a queue of this manager, unreplicated; SetQueueAddress names it. INVALID_STATE unless open.

        Remote_Proxy (R036): NOT_SUPPORTED; create_proxy of the client makes one, and BindToQueue uses it.
        """
        if self._client is None:
            self._illegal("open it first")
        if Type is Queue_Type.Remote_Proxy:
            raise proxy("CreateQInstance(Remote_Proxy)")
        return MessageQueue(self)

    def DestroyQueueInstance(self, Queue: MessageQueue) -> None:
        """Table 4, R037: deletes a queue with its messages; its name is free at once (R014)."""
        self._made.pop(Queue.Name, None)
        self.client.delete_queue(Queue.Name)

    CreateQueueInstance = CreateQInstance
    DestroyQInstance = DestroyQueueInstance

    def BindToQueue(self, Name: str, IP_Address: str = "", Port: int = 0) -> MessageQueue:
        """R009, R067: a queue or a proxy that somebody made at this manager. QUEUE_NOT_FOUND when there is none of that
        name, CONFIG_MISMATCH when an address is given and the queue has another one."""
        config, address = self.client.get_queue(Name).config, address_of(IP_Address, Port)
        if address and address != config.address:
            text = f"queue {Name} has the address {config.address or 'of its manager'}, not {address}"
            raise Refused("CONFIG_MISMATCH", text, {"attribute": "address"}, definite=True)
        return MessageQueue(self, Name)

    def CreateMacroQueueInstance(self) -> NoReturn:
        """Table 4, R038: NOT_SUPPORTED."""
        raise macro("CreateMacroQueueInstance")

    CreateMacroQInstance = CreateMacroQueueInstance

    def DestroyMacroQueueInstance(self, Queue: MessageQueue) -> NoReturn:
        """Table 4, R039: NOT_SUPPORTED."""
        raise macro("DestroyMacroQueueInstance")

    # -- Table 12 --------------------------------------------------------------------------------------------------

    def CreateReplicatedQueueInstance(self, Name: str, Peer_Address: str = "") -> ReplicatedQueue:
        """Table 12, R044, R099: this member's instance of a queue that both members hold, with the manager's options.

        The queue is made unless the other member has made it. Peer_Address: where the other member serves clients, if
        it is to be said; CONFIG_ERROR when the pair's is another one: a pair is formed by its configuration.
        """
        client = self.client
        if Peer_Address:
            peers = {answer.status.peer_endpoint for answer in client.pair_status() if answer.status is not None}
            if Peer_Address not in peers:
                known = ", ".join(sorted(peers - {""})) or "nobody"
                raise misplaced("CreateReplicatedQueueInstance", f"the peer of this manager is {known}")
        queue = ReplicatedQueue(self)
        queue.create(Name)
        self.made(queue)
        return queue

    def DestroyReplicatedQueueInstance(self, Queue: ReplicatedQueue, BothMembers: bool = False) -> bool:
        """Table 12, R045: this member's instance goes, or both; True when the queue is gone from the pair."""
        self._made.pop(Queue.Name, None)
        return self.client.destroy_replicated_queue(Queue.Name, both_members=BothMembers)

    def made(self, queue: MessageQueue) -> None:
        """Notes a queue that got its name: QueueClose closes it."""
        self._made[queue.Name] = queue

    # -- Table 4: what it has to say -------------------------------------------------------------------------------

    def QueueStats(self) -> Queue_Manager_Stats:
        """Table 4, R043. FAILED: the store of the member takes no more, or a copy there is damaged or lost."""
        if self._client is None:
            return Queue_Manager_Stats(self._state, 0, 0, 0)
        info = self._client.manager_info()
        remote = info.stats.client_counts.remote
        return Queue_Manager_Stats(_STATES.get(info.state, self._state), info.stats.macro_queues, info.queues, remote)
