"""Table 8: sending, receiving, and what became of a message."""

from __future__ import annotations

import threading
from itertools import product

import pytest

from tandemq.classic import (
    Message_Handle,
    MessageQueue,
    Queue_Manager_Model,
    QueueManager,
    QueueMessage,
    RTNval,
    timestruc_t,
)
from tandemq.classic.words import wait_of
from tandemq.errors import InvalidRequest, Refused, ResourceExhausted
from tests.classic.support import MS, S, opened
from tests.support.until import OUTER_S

ONE_WAY, ACKNOWLEDGED = Queue_Manager_Model.One_Way, Queue_Manager_Model.One_Way_Acknowledged
QUEUED, TWO_WAY = Queue_Manager_Model.One_Way_Queued_Acknowledged, Queue_Manager_Model.Two_Way


class Order(QueueMessage):
    """A class of the application's."""

    def __init__(self, number: int) -> None:
        super().__init__(b"order %d" % number, Priority=9)
        self.number = number


def received(queue: MessageQueue) -> QueueMessage:
    message = queue.DequeueMsg(10 * S)
    assert message is not None
    return message


@pytest.mark.requirement("R050")
def test_messages_and_raw_buffers_are_sent_in_both_forms(manager: QueueManager) -> None:
    queue = opened(manager, QUEUED)
    whole = b"0123456789"
    for given, form in product((Order(7), QueueMessage(whole, 4), whole, bytearray(whole), memoryview(whole)), (0, 1)):
        handle = queue.EnqueueMsg(given, 5 * S) if form else queue.EnqueueMsg(given)
        assert queue.CheckMessageCompletion(handle) is RTNval.RTNvalTrue
    got = [received(queue).Data for _ in range(10)]
    assert got == [b"order 7"] * 2 + [b"0123"] * 2 + [whole] * 6, "priority first, then as sent"
    with pytest.raises(InvalidRequest, match="Length"):
        QueueMessage(whole, 11)
    assert QueueMessage(whole, 4).Length == 4


@pytest.mark.requirement("R015", "R024")
def test_one_way_is_answered_at_once_whatever_the_wait(manager: QueueManager) -> None:
    queue = opened(manager, ONE_WAY)
    for handle in (queue.EnqueueMsg(b"x"), queue.EnqueueMsg(b"x", -1), queue.EnqueueMsg(b"x", 0)):
        assert queue.CheckMessageCompletion(handle) is RTNval.RTNvalTrue
        assert bytes(handle) == b"", "nobody has ordered it yet"
    assert [received(queue).Data for _ in range(3)] == [b"x"] * 3


@pytest.mark.requirement("R016", "R022", "R024", "R025")
def test_time_to_block_on_an_acknowledged_queue(manager: QueueManager) -> None:
    queue = opened(manager, ACKNOWLEDGED)
    handle = queue.EnqueueMsg(b"1", 0)
    assert queue.CheckMessageCompletion(handle) is RTNval.RTNvalFalse
    handle = queue.EnqueueMsg(b"2", 20 * MS)
    assert queue.CheckMessageCompletion(handle) is RTNval.RTNvalFalse, "a wait that ends is no error"
    for _ in range(2):
        received(queue)
    assert queue.CheckMessageCompletion(handle, TimeToBlock=10 * S) is RTNval.RTNvalTrue
    asked = queue.DequeueMsg(-1, None)
    forever = queue.EnqueueMsg(b"3")  # returns because somebody waits for it
    assert queue.CheckMessageCompletion(forever) is RTNval.RTNvalTrue
    assert queue.CheckMessageCompletion(asked, TimeToBlock=10 * S) is RTNval.RTNvalTrue


@pytest.mark.requirement("R032", "R158")
def test_enqueue_waits_for_room_or_is_refused(manager: QueueManager) -> None:
    queue = opened(manager, QUEUED, depth=1)
    queue.EnqueueMsg(b"1")
    for wait in (0, 20 * MS):
        with pytest.raises(ResourceExhausted, match="QUEUE_FULL"):
            queue.EnqueueMsg(b"2", wait)
    sender = threading.Thread(target=queue.EnqueueMsg, args=(b"2",))
    sender.start()
    assert [received(queue).Data for _ in range(2)] == [b"1", b"2"]
    sender.join(OUTER_S)
    assert not sender.is_alive()


@pytest.mark.requirement("R052")
def test_the_blocking_form_of_dequeue_is_made_to_wait(manager: QueueManager) -> None:
    queue = opened(manager, QUEUED)
    for nothing in (0, timestruc_t(0, 0)):
        with pytest.raises(InvalidRequest, match="must not be 0") as refused:
            queue.DequeueMsg(nothing)
        assert refused.value.definite
    assert queue.DequeueMsg(1) is None, "a nanosecond is a wait"
    assert queue.DequeueMsg(timestruc_t(0, 20 * MS)) is None
    waiting: list[QueueMessage | None] = []
    receiver = threading.Thread(target=lambda: waiting.append(queue.DequeueMsg(-1)))
    receiver.start()
    queue.EnqueueMsg(b"x")
    receiver.join(OUTER_S)
    assert [message and message.Data for message in waiting] == [b"x"]


@pytest.mark.requirement("R053")
def test_dequeue_removes(manager: QueueManager) -> None:
    queue = opened(manager, QUEUED)
    queue.EnqueueMsg(b"x")
    assert received(queue).Data == b"x"
    assert queue.GetStats().Current_Messages_Queued == 0
    assert queue.DequeueMsg(1 * MS) is None


@pytest.mark.requirement("R051")
def test_messages_are_asked_for_ahead_and_each_handle_completes(manager: QueueManager) -> None:
    queue = opened(manager, QUEUED)
    told: dict[Message_Handle, QueueMessage | None] = {}
    all_told = threading.Semaphore(0)

    def routine(handle: Message_Handle, message: QueueMessage | None) -> None:
        told[handle] = message
        all_told.release()

    asked = [queue.DequeueMsg(-1, routine) for _ in range(3)]
    short = queue.DequeueMsg(20 * MS, routine)
    assert all_told.acquire(timeout=OUTER_S)
    assert told == {short: None}, "each has a wait of its own"
    assert queue.CheckMessageCompletion(short) is RTNval.RTNvalInvalid_Handle
    assert queue.CheckMessageCompletion(asked[0]) is RTNval.RTNvalFalse
    for number in range(3):
        queue.EnqueueMsg(b"%d" % number)
    for _ in asked:
        assert all_told.acquire(timeout=OUTER_S)
    messages = [told[handle] for handle in asked]
    assert sorted(message.Data for message in messages if message is not None) == [b"0", b"1", b"2"]
    for handle in asked:
        into = QueueMessage()
        assert queue.CheckMessageCompletion(handle, into) is RTNval.RTNvalTrue
        assert into.Data == getattr(told[handle], "Data", None)
    once = queue.DequeueMsg(0, None)  # this form may look without waiting
    assert queue.CheckMessageCompletion(once, TimeToBlock=-1) is RTNval.RTNvalInvalid_Handle


@pytest.mark.requirement("R025", "R028")
def test_check_message_completion(manager: QueueManager) -> None:
    queue = opened(manager, TWO_WAY)
    handles = [queue.EnqueueMsg(b"%d" % number, 0) for number in range(20)]
    assert {queue.CheckMessageCompletion(handle) for handle in handles} == {RTNval.RTNvalFalse}
    requests = [received(queue) for _ in handles]
    for request in reversed(requests):
        queue.SendReply(request.Handle, b"answer to " + request.Data)
    for number in (7, 3, 19, 0):  # in any order
        answer = QueueMessage()
        assert queue.CheckMessageCompletion(handles[number], answer) is RTNval.RTNvalTrue
        assert answer.Data == b"answer to %d" % number
    kept = Message_Handle(bytes(handles[5]))  # written down, and used by another program
    assert kept == handles[5]
    again = QueueMessage()
    assert manager.BindToQueue(queue.Name).CheckMessageCompletion(kept, again) is RTNval.RTNvalTrue
    assert again.Data == b"answer to 5"
    unknown = Message_Handle(bytes(handles[0])[:8] + b"\xff" * 8)
    assert queue.CheckMessageCompletion(unknown) is RTNval.RTNvalInvalid_Handle
    assert queue.CheckMessageCompletion(requests[0].Handle) is RTNval.RTNvalInvalid_Handle
    with pytest.raises(InvalidRequest, match="16 bytes"):
        Message_Handle(b"short")


@pytest.mark.requirement("R025")
def test_a_message_that_ended_otherwise_is_completed_and_says_how(manager: QueueManager) -> None:
    queue = opened(manager, ACKNOWLEDGED)
    handle = queue.EnqueueMsg(b"x", 0)
    manager.client.purge_queue(queue.Name)
    ended = QueueMessage()
    assert queue.CheckMessageCompletion(handle, ended) is RTNval.RTNvalTrue
    assert ended.Completion is not None
    assert (ended.Completion.final.name, ended.Completion.succeeded) == ("PURGED", False)


@pytest.mark.requirement("R026")
@pytest.mark.parametrize("model", [ACKNOWLEDGED, QUEUED, TWO_WAY])
def test_message_completed_fp_is_called_with_handle_and_answer(
    manager: QueueManager, model: Queue_Manager_Model
) -> None:
    queue = opened(manager, model)
    told: list[tuple[Message_Handle, bytes | None]] = []
    called = threading.Event()

    def completed(handle: Message_Handle, message: QueueMessage | None) -> None:
        assert queue.CheckMessageCompletion(handle) is RTNval.RTNvalTrue, "a routine may call what it likes"
        told.append((handle, message.Data if message is not None else None))
        called.set()

    queue.MessageCompletedFP = completed
    handle = queue.EnqueueMsg(b"x", 0)
    if model is QUEUED:
        assert called.wait(OUTER_S)
    request = received(queue)
    if model is TWO_WAY:
        assert not told
        queue.SendReply(request.Handle, QueueMessage(b"answer"))
    assert called.wait(OUTER_S)
    assert told == [(handle, b"answer" if model is TWO_WAY else b"")]


@pytest.mark.requirement("R026")
def test_message_completed_fp_is_not_for_one_way(manager: QueueManager) -> None:
    queue = opened(manager, ONE_WAY)
    told: list[Message_Handle] = []
    queue.MessageCompletedFP = lambda handle, _message: told.append(handle)
    queue.EnqueueMsg(b"x")
    done = threading.Event()
    queue.DequeueMsg(-1, lambda _handle, _message: done.set())  # routines are called one after another
    assert done.wait(OUTER_S)
    assert told == []


@pytest.mark.requirement("R018", "R019", "R027")
def test_send_reply_answers_the_handle_of_either_form(manager: QueueManager) -> None:
    queue = opened(manager, TWO_WAY)
    answered = threading.Event()

    def serve(handle: Message_Handle, message: QueueMessage | None) -> None:
        queue.SendReply(handle, b"ahead")
        answered.set()

    queue.DequeueMsg(-1, serve)
    answer = QueueMessage()
    assert queue.CheckMessageCompletion(queue.EnqueueMsg(b"1"), answer) is RTNval.RTNvalTrue
    assert answer.Data == b"ahead"
    handle = queue.EnqueueMsg(b"2", 0)
    queue.SendReply(received(queue).Handle)
    assert queue.CheckMessageCompletion(handle, answer, 10 * S) is RTNval.RTNvalTrue
    assert answer.Data == b""


@pytest.mark.requirement("R027")
@pytest.mark.parametrize("model", [ONE_WAY, ACKNOWLEDGED, QUEUED])
def test_send_reply_is_refused_on_other_types(manager: QueueManager, model: Queue_Manager_Model) -> None:
    queue = opened(manager, model)
    queue.EnqueueMsg(b"x", 0)
    with pytest.raises(Refused, match="NOT_TWO_WAY"):
        queue.SendReply(received(queue).Handle, b"answer")


def test_send_reply_takes_what_was_received(manager: QueueManager) -> None:
    queue = opened(manager, TWO_WAY)
    with pytest.raises(InvalidRequest, match="INVALID_HANDLE"):
        queue.SendReply(queue.EnqueueMsg(b"x", 0), b"answer")
    with pytest.raises(InvalidRequest, match="INVALID_HANDLE"):
        queue.SendReply(queue.DequeueMsg(0, None) if received(queue) else Message_Handle(), b"nothing came")


@pytest.mark.requirement("R022", "R023")
@pytest.mark.parametrize(
    ("given", "microseconds"),
    [(0, 0), (1, 1), (1_000, 1), (1_001, 2), (timestruc_t(2, 1), 2_000_001), (timestruc_t(0), 0), (3 * S, 3_000_000)],
)
def test_a_time_to_block_is_in_nanoseconds_and_never_shortened(given: int | timestruc_t, microseconds: int) -> None:
    wait = wait_of(given)
    assert wait is not None
    assert wait / type(wait)(microseconds=1) == microseconds


def test_a_time_to_block_that_cannot_be_is_refused() -> None:
    assert wait_of(-1) is None
    for given in (-2, timestruc_t(0, 1_000_000_000), timestruc_t(0, -1), 10**18):
        with pytest.raises(InvalidRequest, match="BAD_REQUEST"):
            wait_of(given)


@pytest.mark.parametrize("priority", [-1, 10, 1 << 33])
def test_a_priority_that_cannot_be_is_refused(manager: QueueManager, priority: int) -> None:
    queue = opened(manager)
    with pytest.raises(InvalidRequest, match=r"BAD_ATTRIBUTE: Priority is 0 to 9.*not"):
        queue.EnqueueMsg(QueueMessage(b"x", Priority=priority), 0)
    assert queue.GetStats().Current_Messages_Queued == 0
