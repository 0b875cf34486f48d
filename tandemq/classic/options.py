"""The options of Tables 1 and 3, the same calls on a manager and on a queue; each decides where it keeps them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tandemq.classic.later import misplaced
from tandemq.classic.words import (
    Queue_Manager_Consumer_Options,
    Queue_Manager_Model,
    Queue_Manager_Producer_Options,
    Queue_Manager_Queue_Relationship,
    Queue_Type,
)
from tandemq.errors import InvalidRequest
from tandemq.v1 import queue_admin_service_pb2 as admin

_DEPTH_MAX = (1 << 64) - 1
PLAIN = "a plain queue has none; it is an option of macro queues"
EVERYBODY = "a plain queue has none: everybody may send to it and receive from it"


class BaseQueue(ABC):
    """Set and get. What is set on a manager is for queues that it makes from then on (R047)."""

    @abstractmethod
    def _take(self, config: admin.QueueConfig, field: str) -> None:
        """One attribute is to have its value in `config`."""

    @abstractmethod
    def _in_force(self) -> admin.QueueConfig:
        """Every attribute has a value."""

    # -- Table 1 ---------------------------------------------------------------------------------------------------

    def SetQueueModel(self, Model: Queue_Manager_Model) -> None:
        """Table 1, R029: when senders are told that their messages are done. READ_ONLY after QueueConfigure (R040)."""
        self._take(admin.QueueConfig(queue_type=admin.QueueType.Name(Model.value)), "queue_type")

    def SetMaxQueueDepth(self, Depth: int) -> None:
        """Table 1, R032: how many messages a queue holds; one more is an error. May be changed at any time (R159)."""
        if not 0 <= Depth <= _DEPTH_MAX:
            text = f"Depth is at least 1 and has at most 64 bits, not {Depth}: say how many messages the queue may hold"
            raise InvalidRequest("BAD_ATTRIBUTE", text, definite=True)
        self._take(admin.QueueConfig(max_length=Depth), "max_length")

    def SetRemoteClientsAllowed(self, Allowed: bool) -> None:
        """Table 1, R033, R013: whether clients of other hosts may attach."""
        self._take(admin.QueueConfig(remote_clients_allowed=Allowed), "remote_clients_allowed")

    def SetQueueRelationship(self, Relationship: Queue_Manager_Queue_Relationship) -> None:
        """Table 1, R030: of proxies and macro queues, said when they are made; CONFIG_ERROR on a queue."""
        raise misplaced("SetQueueRelationship", EVERYBODY)

    def SetConsumerOptions(self, Options: Queue_Manager_Consumer_Options) -> None:
        """Tables 1 and 9, R031: of macro queues alone; CONFIG_ERROR on a plain queue."""
        raise misplaced("SetConsumerOptions", PLAIN)

    def SetProducerOptions(self, Options: Queue_Manager_Producer_Options) -> None:
        """Tables 1 and 9, R031: of macro queues alone; CONFIG_ERROR on a plain queue."""
        raise misplaced("SetProducerOptions", PLAIN)

    # -- Table 3 ---------------------------------------------------------------------------------------------------

    def GetQueueModel(self) -> Queue_Manager_Model:
        """Table 3, R029."""
        return Queue_Manager_Model(self._in_force().queue_type)

    def GetMaxQueueDepth(self) -> int:
        """Table 3, R032."""
        return self._in_force().max_length

    def GetRemoteClientsAllowed(self) -> bool:
        """Table 3, R033."""
        return self._in_force().remote_clients_allowed

    def GetQueueRelationship(self) -> Queue_Manager_Queue_Relationship:
        """Table 3, R030: CONFIG_ERROR, for a plain queue has no relationship."""
        raise misplaced("GetQueueRelationship", EVERYBODY)

    def GetConsumerOptions(self) -> Queue_Manager_Consumer_Options:
        """Table 3, R031: CONFIG_ERROR on a plain queue."""
        raise misplaced("GetConsumerOptions", PLAIN)

    def GetProducerOptions(self) -> Queue_Manager_Producer_Options:
        """Table 3, R031: CONFIG_ERROR on a plain queue."""
        raise misplaced("GetProducerOptions", PLAIN)

    def GetQueueType(self) -> Queue_Type:
        """Table 3, R034: what CreateQInstance made, or makes."""
        return Queue_Type.Actual

    def GetQueueReplication(self) -> bool:
        """Table 3, R034: whether it lives on both members of a pair."""
        return self._in_force().replication not in (admin.REPLICATION_UNSPECIFIED, admin.REPLICATION_NONE)
