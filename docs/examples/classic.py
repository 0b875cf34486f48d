"""The API of the first design, call by call: a manager, a queue, a request and its answer, and what is refused.

Run it against a pair or a single manager:  python classic.py HOST:PORT[,HOST:PORT]
(or set TANDEMQ_TARGET; the default is 127.0.0.1:7600).
"""

from __future__ import annotations

import os
import sys
import threading

from tandemq.classic import Message_Handle, NotSupported, Queue_Manager_Model, Queue_Type, QueueManager, QueueMessage
from tandemq.errors import ResourceExhausted

SERVER = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "127.0.0.1:7600")
SECOND = 1_000_000_000  # nanoseconds


def unique(name: str) -> str:
    return f"examples/{name}-{os.urandom(4).hex()}"


def one_queue(manager: QueueManager) -> None:
    """Create, configure, open (Tables 4 and 7); send and receive (Table 8)."""
    queue = manager.CreateQInstance(Queue_Type.Actual)
    queue.SetQueueModel(Queue_Manager_Model.One_Way_Queued_Acknowledged)
    queue.SetMaxQueueDepth(2)
    queue.SetQueueAddress(unique("plain"))
    print(f"created: {queue.GetStats().state.name}")
    queue.QueueConfigure()
    queue.QueueOpen()
    print(f"opened: {queue.GetStats().state.name}, depth {queue.GetMaxQueueDepth()}")

    handle = queue.EnqueueMsg(QueueMessage(b"first"))
    print(f"sent: {queue.CheckMessageCompletion(handle).name}")
    queue.EnqueueMsg(b"second, a raw buffer", 0)
    try:
        queue.EnqueueMsg(b"third", SECOND // 100)  # waits ten milliseconds for room
    except ResourceExhausted as full:
        print(f"refused: {full.reason}")

    for _ in range(2):
        message = queue.DequeueMsg(5 * SECOND)
        print(f"received: {message.Data.decode() if message else None}")
    print(f"nothing more: {queue.DequeueMsg(SECOND // 100)}")
    stats = queue.GetStats()
    print(f"stats: {stats.Total_Messages_Queued} ever, {stats.Highest_Queue_Depth} at most")
    manager.DestroyQueueInstance(queue)


def requests(manager: QueueManager) -> None:
    """A Two_Way queue: asked ahead at one end, called back at the other."""
    queue = manager.CreateQInstance()
    queue.SetQueueModel(Queue_Manager_Model.Two_Way)
    queue.SetQueueAddress(unique("requests"))
    queue.QueueConfigure()
    queue.QueueOpen()

    def serve(handle: Message_Handle, request: QueueMessage | None) -> None:
        if request is not None:
            queue.SendReply(handle, request.Data.upper())

    answered = threading.Event()

    def completed(_handle: Message_Handle, answer: QueueMessage | None) -> None:
        print(f"answered: {answer.Data.decode() if answer else None}")
        answered.set()

    queue.DequeueMsg(-1, serve)
    queue.MessageCompletedFP = completed
    queue.EnqueueMsg(b"hello", 0)
    answered.wait(10)
    manager.DestroyQueueInstance(queue)


def elsewhere(manager: QueueManager) -> None:
    """What this package has not is refused, with what to use instead."""
    try:
        manager.CreateMacroQueueInstance()
    except NotSupported as refused:
        print(f"refused: {refused.reason}, use {refused.metadata['instead']}")


with QueueManager(SERVER) as manager:
    manager.QueueConfigure()
    manager.QueueOpen()
    one_queue(manager)
    requests(manager)
    elsewhere(manager)
print(f"manager: {manager.QueueStats().state.name}")
