"""A message queue of the first design (Tables 1, 3, 6, 7, 8): its calls become those of the blocking client."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Protocol, overload

from tandemq.classic.later import misplaced
from tandemq.classic.messages import Buffer, CompletionRoutine, Message_Handle, QueueMessage, message_of
from tandemq.classic.options import BaseQueue
from tandemq.classic.words import FOREVER, QUEUE_STATE, Actual_Queue_Stats, Queue_Type, RTNval, Time, state_of, wait_of
from tandemq.client.blocking import Client, Handle, ReceivedBatch
from tandemq.client.completion import Completion, Final
from tandemq.client.consumer import Mode
from tandemq.errors import Closed, InvalidRequest, NotFound, Refused, TandemqError
from tandemq.v1 import queue_admin_service_pb2 as admin


class Home(Protocol):
    """What a queue asks of the manager that made it."""

    @property
    def client(self) -> Client:
        """The client that everything is done with. INVALID_STATE unless the manager is open."""

    @property
    def member(self) -> str:
        """The member that runs inside, or that is spoken with."""

    def options_for(self, own: admin.QueueConfig) -> admin.QueueConfig:
        """What a new queue says: what was set on it, else what was set at the manager."""

    def defaults(self) -> admin.QueueConfig:
        """What the manager gives to a queue that says nothing."""

    def GetServerRequired(self) -> bool:
        """Table 3, R033."""

    def call_back(self, routine: Callable[[], None]) -> None:
        """Runs it on a thread that may call the manager and its queues; one at a time."""

    def made(self, queue: MessageQueue) -> None:
        """Notes a queue that got its name."""


class _Form(Enum):
    """Which form of DequeueMsg is meant."""

    BLOCKING = 1


BLOCKING = _Form.BLOCKING


class MessageQueue(BaseQueue):
    """One queue. QueueManager.CreateQInstance and BindToQueue make it; its constructor is not for applications.

    A queue of CreateQInstance is made at its manager by SetQueueAddress, which names it; what was set before then is
    given to it. Calls raise what `tandemq.errors` lists.
    """

    def __init__(self, manager: Home, name: str = "") -> None:
        self._manager = manager
        self._name = name
        self._config = admin.QueueConfig()  # before it has a name: what was set
        self._known_model: admin.QueueType | None = None
        self.MessageCompletedFP: CompletionRoutine | None = None
        """Table 8, R026: called with handle and message when the acknowledgement or answer of a sent message has come,
        on a thread of the manager's own. The message is the answer, of a Two_Way queue; else it is empty. None: how
        the message ended cannot be told. Not called for One_Way."""

    @property
    def Name(self) -> str:
        """What SetQueueAddress or BindToQueue gave it."""
        if not self._name:
            raise Refused("INVALID_STATE", "the queue has no name yet: call SetQueueAddress first", definite=True)
        return self._name

    @property
    def _client(self) -> Client:
        return self._manager.client

    # -- Table 6 ---------------------------------------------------------------------------------------------------

    def SetQueueAddress(self, Name: str, IP_Address: str = "", Port: int = 0) -> None:
        """Table 6, R011: names the queue, and makes it at its manager, in state CONFIGURING (R093).

        IP_Address, Port: where clients are to look for it; by default at its manager, who serves all its queues. No
        other port is opened for it. QUEUE_EXISTS when the name is taken: BindToQueue gives that queue.
        """
        address = address_of(IP_Address, Port)
        if self._name:
            text = f"the queue is {self._name} already; a name is for life, create_alias of tandemq.Client adds others"
            raise Refused("INVALID_STATE", text, definite=True)
        config = self._manager.options_for(self._config)
        config.address = address
        self._make(Name, config)
        self._name = Name
        self._manager.made(self)

    def _make(self, name: str, config: admin.QueueConfig) -> None:
        config.replication = admin.REPLICATION_NONE
        self._client.create_queue(name, config, configuring=True)

    def GetQueueType(self) -> Queue_Type:
        """Table 3, R034: Remote_Proxy of a name that leads to a queue of another manager, else Actual."""
        if not self._name:
            return Queue_Type.Actual
        try:
            self._client.get_proxy(self._name)
        except NotFound:
            return Queue_Type.Actual
        return Queue_Type.Remote_Proxy

    def GetStats(self) -> Actual_Queue_Stats:
        """Table 6, R048."""
        info = self._client.get_queue(self.Name)
        return Actual_Queue_Stats(
            state=self._state_in(info),
            Current_Messages_Queued=info.length,
            Total_Messages_Queued=info.enqueued_total,
            Average_Queue_Process_Time=info.mean_process_time.ToNanoseconds(),
            Highest_Queue_Depth=info.highest_length,
            Configured_Queue_Depth=info.config.max_length,
            Number_Of_Remote_Clients=info.remote_clients,
            Number_Of_Consumer_Clients=info.consumers,
            Number_Of_Producer_Clients=info.producers,
        )

    def _state_in(self, info: admin.QueueInfo) -> QUEUE_STATE:
        return state_of(info.state)

    # -- Tables 1 and 3 --------------------------------------------------------------------------------------------

    def _take(self, config: admin.QueueConfig, field: str) -> None:
        if self._name:
            self._client.update_queue(self._name, config, [field])
        else:
            self._config.MergeFrom(config)

    def _in_force(self) -> admin.QueueConfig:
        if self._name:
            return self._client.get_queue(self._name).config
        config = self._manager.defaults()
        config.MergeFrom(self._config)
        return config

    def SetServerRequired(self, Required: bool) -> None:
        """Table 1, R033: CONFIG_ERROR, for one listener serves all queues of a manager."""
        raise misplaced("SetServerRequired", "set it on the manager, before its QueueConfigure")

    def GetServerRequired(self) -> bool:
        """Table 3, R033: the manager's."""
        return self._manager.GetServerRequired()

    # -- Table 7 ---------------------------------------------------------------------------------------------------

    def QueueConfigure(self) -> None:
        """Table 7, R040: ends the configuration: the model cannot be changed any more. INVALID_STATE unless CONFIGURING
        (R095)."""
        self._client.configure_queue(self.Name)

    def QueueOpen(self) -> None:
        """Table 7, R041: from now on messages are taken and given. INVALID_STATE unless CONFIGURED or CLOSED (R095)."""
        self._client.open_queue(self.Name)

    def QueueClose(self) -> None:
        """Table 7, R042: sends its clients away. Volatile messages go; persistent ones come back at QueueOpen."""
        self._client.close_queue(self.Name)

    # -- Table 8 ---------------------------------------------------------------------------------------------------

    def EnqueueMsg(self, Message: Buffer, TimeToBlock: Time = FOREVER) -> Message_Handle:
        """Table 8, R050: sends a message, or a raw buffer; the handle tells what becomes of it.

        TimeToBlock: how long to wait for room in a full queue and then for the acknowledgement or the answer; 0: not at
        all (R022). One_Way ignores it: nothing is awaited (R024). An acknowledgement that does not come in time is no
        error. Raises ResourceExhausted (QUEUE_FULL) when there is no room (R032).
        """
        message = message_of(Message)
        wait = wait_of(TimeToBlock)
        routine = self.MessageCompletedFP
        tell = None if routine is None or self._model() == admin.QUEUE_TYPE_ONE_WAY else self._telling(routine)
        sent = self._client.send(
            self.Name,
            message.Data,
            wait=FOREVER if wait is None else wait,
            on_completion=tell,
            **message.attributes(),
        )
        message.Handle = Message_Handle(sent=sent)
        return message.Handle

    def _telling(self, routine: CompletionRoutine) -> Callable[[Handle, Completion], None]:
        def tell(sent: Handle, completion: Completion) -> None:
            message = None if completion.error is not None else filled(QueueMessage(), completion)
            self._manager.call_back(lambda: routine(Message_Handle(sent=sent), message))

        return tell

    @overload
    def DequeueMsg(self, TimeToBlock: Time = FOREVER) -> QueueMessage | None: ...
    @overload
    def DequeueMsg(self, TimeToBlock: Time, QueueCompletionRoutine: CompletionRoutine | None) -> Message_Handle: ...
    def DequeueMsg(
        self,
        TimeToBlock: Time = FOREVER,
        QueueCompletionRoutine: CompletionRoutine | _Form | None = BLOCKING,
    ) -> QueueMessage | Message_Handle | None:
        """Table 8: removes the next message and gives it to the caller, who alone has it (R053).

        DequeueMsg(TimeToBlock) waits for it: None when none came in time. A wait of 0 is refused (BAD_REQUEST): this
        form is made to wait (R052).
        DequeueMsg(TimeToBlock, QueueCompletionRoutine) asks ahead and goes on (R051): the routine is called with the
        handle and the message, or None when none came in time, on a thread of the manager's own. None for the routine:
        ask CheckMessageCompletion. Several may be asked for.
        A message of a Two_Way queue is leased instead, until SendReply (R018).
        """
        wait = wait_of(TimeToBlock)
        if QueueCompletionRoutine is BLOCKING and wait == timedelta():
            text = "DequeueMsg(TimeToBlock) waits for a message: TimeToBlock must not be 0; "
            text += "DequeueMsg(0, None) asks without waiting"
            raise InvalidRequest("BAD_REQUEST", text, definite=True)
        mode: Mode = "lease" if self._model() == admin.QUEUE_TYPE_TWO_WAY else "immediate"
        asked = self._client.dequeue_ahead(self.Name, wait=FOREVER if wait is None else wait, mode=mode)
        handle = Message_Handle(asked=asked)
        if isinstance(QueueCompletionRoutine, _Form):
            try:
                self._wait_for(asked, None)
            finally:
                asked.cancel()  # does nothing unless the caller was interrupted
            return handle.received()
        if QueueCompletionRoutine is not None:
            tell = partial(self._tell, QueueCompletionRoutine, handle)
            asked.add_done_callback(lambda _: self._manager.call_back(tell))
        return handle

    def _wait_for(self, asked: Future[ReceivedBatch], seconds: float | None) -> None:
        try:
            with suppress(TimeoutError):
                asked.result(seconds)
        except CancelledError:
            raise Closed("CLOSED", f"the manager was closed while {self.Name} was waited for") from None

    @staticmethod
    def _tell(routine: CompletionRoutine, handle: Message_Handle) -> None:
        assert handle.asked is not None
        failed = handle.asked.cancelled() or handle.asked.exception() is not None
        routine(handle, None if failed else handle.received())

    def CheckMessageCompletion(
        self, Handle: Message_Handle, Message: QueueMessage | None = None, TimeToBlock: Time = 0
    ) -> RTNval:
        """Table 8, R025: whether a message that was sent is done, or one that was asked for is there.

        RTNvalTrue: it is, and Message, if given, is filled in: with the answer (Two_Way), with what was received, and
        with how the message ended (`Message.Completion`). RTNvalFalse: not yet. RTNvalInvalid_Handle: nobody knows the
        handle, or no longer. TimeToBlock: how long to wait for it (Fig. 17).
        """
        wait = wait_of(TimeToBlock)
        if Handle.asked is not None:
            return self._check_asked(Handle, Handle.asked, Message, wait)
        if Handle.place is not None or not (Handle.sent or bytes(Handle)):
            return RTNval.RTNvalInvalid_Handle
        try:
            completion = self._completion(Handle, wait)
        except TandemqError as error:
            if error.reason != "INVALID_HANDLE":
                raise
            return RTNval.RTNvalInvalid_Handle
        if not completion.completed:
            return RTNval.RTNvalFalse
        if Message is not None:
            filled(Message, completion)
        return RTNval.RTNvalTrue

    def _completion(self, handle: Message_Handle, wait: timedelta | None) -> Completion:
        if handle.sent is not None and (not handle.sent.value or _is_whole(handle.sent.completion)):
            return handle.sent.completion
        timeout = FOREVER if wait is None else wait
        (completion,) = self._client.wait_completions(self.Name, [bytes(handle)], timeout)
        if completion.error is not None:
            raise completion.error
        return completion

    def _check_asked(
        self,
        handle: Message_Handle,
        asked: Future[ReceivedBatch],
        message: QueueMessage | None,
        wait: timedelta | None,
    ) -> RTNval:
        self._wait_for(asked, None if wait is None else wait.total_seconds())
        if not asked.done():
            return RTNval.RTNvalFalse
        found = handle.received()
        if found is None:  # its wait is over: nothing will come for it
            return RTNval.RTNvalInvalid_Handle
        if message is not None:
            message.take(found)
        return RTNval.RTNvalTrue

    def SendReply(self, Handle: Message_Handle, Message: Buffer = b"") -> None:
        """Table 8, R027: answers a message that was received from a Two_Way queue; NOT_TWO_WAY on any other one.

        Handle: of DequeueMsg, or the `Handle` of the message. The answer alone travels back (R019).
        """
        if Handle.place is None:
            text = "SendReply takes the handle of a message that was received"
            raise InvalidRequest("INVALID_HANDLE", text, definite=True)
        lease_id, index = Handle.place
        answer = message_of(Message)
        self._client.reply(self.Name, lease_id, index, answer.Data, **answer.attributes())

    # ----------------------------------------------------------------------------------------------------------------

    def _model(self) -> admin.QueueType:
        """Asked for once: QueueConfigure freezes it."""
        if self._known_model is None:
            info = self._client.get_queue(self.Name)
            if info.state == admin.QUEUE_STATE_CONFIGURING:
                return info.config.queue_type
            self._known_model = info.config.queue_type
        return self._known_model


def address_of(host: str, port: int) -> str:
    """host:port; empty when neither is given, for then the queue is where its manager is."""
    if not host and not port:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_whole(completion: Completion) -> bool:
    """Nothing more will be told; an answer that came after the wait has yet to be fetched."""
    return completion.completed and not (completion.final is Final.REPLIED and completion.reply is None)


def filled(message: QueueMessage, completion: Completion) -> QueueMessage:
    """How it ended, and the answer if there is one."""
    if completion.reply is not None:
        message.take(QueueMessage.of(completion.reply, 0))
    message.Completion = completion
    return message
