"""The API of the first design, call by call, over the blocking client: its names, arguments and return values.

For programs that were written to it, and for tests that follow its tables; new programs use `tandemq.connect`.

manager = QueueManager("127.0.0.1:7600")
manager.QueueConfigure()
manager.QueueOpen()
queue = manager.CreateQInstance(Queue_Type.Actual)
queue.SetQueueAddress("orders")
queue.QueueConfigure()
queue.QueueOpen()
handle = queue.EnqueueMsg(b"...")
message = queue.DequeueMsg(-1)

docs/CLASSIC.md lists every call; docs/decisions/0015-classic.md says what was decided where the design is silent.
"""

from __future__ import annotations

from tandemq.classic.later import NotSupported
from tandemq.classic.manager import QueueManager
from tandemq.classic.messages import Message_Handle, QueueMessage
from tandemq.classic.queue import MessageQueue
from tandemq.classic.replicated import ReplicatedQueue
from tandemq.classic.words import (
    QUEUE_STATE,
    Actual_Queue_Stats,
    Queue_Manager_Consumer_Options,
    Queue_Manager_Model,
    Queue_Manager_Producer_Options,
    Queue_Manager_Queue_Relationship,
    Queue_Manager_Stats,
    Queue_Type,
    Replicated_Queue_Stats,
    RTNval,
    timestruc_t,
)

__all__ = [
    "QUEUE_STATE",
    "Actual_Queue_Stats",
    "MessageQueue",
    "Message_Handle",
    "NotSupported",
    "QueueManager",
    "QueueMessage",
    "Queue_Manager_Consumer_Options",
    "Queue_Manager_Model",
    "Queue_Manager_Producer_Options",
    "Queue_Manager_Queue_Relationship",
    "Queue_Manager_Stats",
    "Queue_Type",
    "RTNval",
    "ReplicatedQueue",
    "Replicated_Queue_Stats",
    "timestruc_t",
]
