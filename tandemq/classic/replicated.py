"""A replicated queue of the first design (Tables 12, 13): one member's instance of a queue that both members hold."""

from __future__ import annotations

from tandemq.classic.queue import MessageQueue
from tandemq.classic.words import QUEUE_STATE, Replicated_Queue_Stats, state_of
from tandemq.errors import AlreadyExists, Refused
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import queue_admin_service_pb2 as admin


class ReplicatedQueue(MessageQueue):
    """An instance, at the member that its manager names. QueueManager.CreateReplicatedQueueInstance makes it.

    Its options (Tables 1, 3 and 13) stand in this object until QueueOpen gives them to the queue, or compares them with
    those of the other member's instance. Everything of Table 8 is as with any queue (R112).
    """

    _closed = False
    """By this object: after that its instance is CLOSED, before it was opened CONFIGURING."""

    def SetQueueAddress(self, Name: str, IP_Address: str = "", Port: int = 0) -> None:
        """Table 6: INVALID_STATE, for CreateReplicatedQueueInstance has named it (R099)."""
        text = f"the queue is {self.Name} at both members; its address is an option: SetQueueOptions"
        raise Refused("INVALID_STATE", text, definite=True)

    def _make(self, name: str, config: admin.QueueConfig) -> None:
        """The other member may have made it: then this is its second instance (R099, R100)."""
        try:
            self._client.create_replicated_queue(name)
        except AlreadyExists:
            if self._client.get_queue(name).config.replication == admin.REPLICATION_NONE:
                raise
        self._config.CopyFrom(config)

    def create(self, name: str) -> None:
        """Not for applications: what CreateReplicatedQueueInstance does."""
        self._make(name, self._manager.options_for(admin.QueueConfig()))
        self._name = name

    # -- Tables 1, 3 and 13: options -----------------------------------------------------------------------------------

    def _take(self, config: admin.QueueConfig, field: str) -> None:
        self._config.ClearField(field)
        self._config.MergeFrom(config)

    def _in_force(self) -> admin.QueueConfig:
        config = self._client.get_queue(self.Name).config
        config.MergeFrom(self._config)
        return config

    def SetQueueOptions(self, Options: admin.QueueConfig) -> None:
        """Table 13, R049: the options of this member's instance, which QueueOpen uses; unset ones are not spoken of."""
        self._config.CopyFrom(Options)

    def GetQueueOptions(self) -> admin.QueueConfig:
        """Table 13, R049: those that were set here, and for the others what is in force; at any time."""
        return self._in_force()

    # -- Table 12 --------------------------------------------------------------------------------------------------

    def QueueConfigure(self) -> None:
        """Table 12 has none: QueueOpen ends the configuration (R124). INVALID_STATE."""
        raise Refused("INVALID_STATE", "QueueOpen ends a replicated queue's configuration; call it", definite=True)

    def QueueOpen(self, MasterRequired: bool = False) -> None:
        """Table 12, R124: opens this member's instance, once its copy is synchronised (R115).

        The first instance brings its options; another one has the same (CONFIG_MISMATCH, R049). MasterRequired:
        E_MASTER_EXISTS unless this member is the master (R109).
        """
        self._client.open_replicated_queue(self.Name, master_required=MasterRequired, options=self._config)

    def QueueClose(self) -> None:
        """Table 12, R125: closes this member's instance; with the last one the volatile messages go."""
        self._client.close_replicated_queue(self.Name)
        self._closed = True

    def QueueStats(self) -> Replicated_Queue_Stats:
        """Table 12, R126: of the queue, as this member sees it."""
        info = self._client.get_queue(self.Name)
        domain = self._domain(info.config.domain)
        return Replicated_Queue_Stats(
            state=self._state_in(info),
            Replication_State=common.DataState.Name(domain.data_state).removeprefix("DATA_STATE_"),
            Master_Status=domain.role == common.ROLE_MASTER,
            Total_Messages_Queued=info.enqueued_total,
            Current_Messages_Queued=info.length,
            Highest_Queue_Depth=info.highest_length,
            Configured_Queue_Depth=info.config.max_length,
            Average_Queue_Process_Time=info.mean_process_time.ToNanoseconds(),
            Number_Of_Local_Clients=info.local_clients,
            Number_Of_Remote_Clients=info.remote_clients,
            Number_Of_Consumer_Clients=info.consumers,
            Number_Of_Producer_Clients=info.producers,
        )

    def _state_in(self, info: admin.QueueInfo) -> QUEUE_STATE:
        """This member's instance; what the master says is its own."""
        if self._manager.member in info.open_members:
            return state_of(info.state) if info.state == admin.QUEUE_STATE_FAILED else QUEUE_STATE.OPEN
        return QUEUE_STATE.CLOSED if self._closed else QUEUE_STATE.CONFIGURING

    def _domain(self, name: str) -> pair.DomainStatus:
        answers = self._client.pair_status()
        if answers[0].error is not None:
            raise answers[0].error
        assert answers[0].status is not None
        return next(domain for domain in answers[0].status.member.domains if domain.name == name)

    # -- Table 13 --------------------------------------------------------------------------------------------------

    def MasterHandoffRequest(self) -> bool:
        """Table 13, R133, R136: asks for the mastership of the queue's domain, or, at its master, offers it.

        False: it was refused, and nothing was changed (R134).
        """
        domain = self._client.get_queue(self.Name).config.domain
        return self._client.handoff(domain, reason="MasterHandoffRequest").done
