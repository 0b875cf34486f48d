"""Messages and handles as the first design has them: a buffer with its length, and what is asked for later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from tandemq.client.blocking import Handle, ReceivedBatch
from tandemq.client.completion import Completion
from tandemq.client.delivery import ReceivedMessage
from tandemq.client.outgoing import Attributes
from tandemq.errors import InvalidRequest

HANDLE_BYTES = 16
RawBuffer = bytes | bytearray | memoryview


class Message_Handle:
    """One message that was sent or asked for. Opaque: give it to CheckMessageCompletion or SendReply.

    `bytes(handle)` of a sent message outlives the program; `Message_Handle(kept)` is the same handle again.
    """

    __slots__ = ("_given", "_place", "_value", "asked", "sent")

    def __init__(
        self,
        Kept: bytes = b"",
        *,
        sent: Handle | None = None,
        asked: Future[ReceivedBatch] | None = None,
        place: tuple[int, int] | None = None,
    ) -> None:
        if Kept and len(Kept) != HANDLE_BYTES:
            text = f"a handle that was kept has {HANDLE_BYTES} bytes, not {len(Kept)}"
            raise InvalidRequest("BAD_REQUEST", text, definite=True)
        self._value = sent.value if sent is not None else bytes(Kept)
        self.sent = sent
        """Of EnqueueMsg: what the SDK knows of it."""
        self.asked = asked
        """Of DequeueMsg with a routine: the answer to come."""
        self._place = place
        self._given: QueueMessage | None = None

    def __bytes__(self) -> bytes:
        return self._value

    def __eq__(self, other: object) -> bool:
        """Two handles of one sent message are the same; all others are themselves alone."""
        if isinstance(other, Message_Handle) and (self._value or other._value):
            return self._value == other._value
        return self is other

    def __hash__(self) -> int:
        return hash(self._value) if self._value else id(self)

    @property
    def place(self) -> tuple[int, int] | None:
        """Lease and index of a received message, also of one that was asked for and has come."""
        given = self.received()
        return self._place if given is None else given.Handle.place

    def received(self) -> QueueMessage | None:
        """The message that was asked for; None before it has come, and when its wait ended without one."""
        if self._given is None and self.asked is not None and self.asked.done():
            batch = self.asked.result()
            self._given = QueueMessage.of(batch[0], batch.lease_id) if batch else None
        return self._given

    def __repr__(self) -> str:
        if self.asked is not None:
            return f"Message_Handle({'completed' if self.asked.done() else 'asked for'})"
        if self._place is not None:
            return f"Message_Handle(received, index {self._place[1]})"
        return f"Message_Handle({self._value.hex() or 'accepted'})"


class QueueMessage:
    """A message: a data buffer and its length (Table 8). Applications may derive classes of their own from it."""

    def __init__(self, Data: RawBuffer = b"", Length: int | None = None, Priority: int = 4) -> None:
        whole = bytes(Data)
        if Length is not None and not 0 <= Length <= len(whole):
            text = f"Length is 0 to the size of the buffer, {len(whole)}, not {Length}"
            raise InvalidRequest("BAD_REQUEST", text, definite=True)
        self.Data = whole if Length is None else whole[:Length]
        self.Priority = Priority
        self.Handle = Message_Handle()
        """Of a received message: for SendReply."""
        self.Completion: Completion | None = None
        """After CheckMessageCompletion: how the message ended, also when it was rejected or has expired."""

    @property
    def Length(self) -> int:
        """Bytes of Data."""
        return len(self.Data)

    @classmethod
    def of(cls, message: ReceivedMessage, lease_id: int) -> QueueMessage:
        """One that was received."""
        found = cls(message.payload, Priority=message.attributes.get("priority", 4))
        found.Handle = Message_Handle(place=(lease_id, message.index))
        return found

    def take(self, other: QueueMessage) -> None:
        """Becomes the other one: an argument that a call fills in."""
        self.Data, self.Priority, self.Handle = other.Data, other.Priority, other.Handle

    def attributes(self) -> Attributes:
        """What it says besides its data."""
        if not 0 <= self.Priority <= 9:
            raise InvalidRequest("BAD_ATTRIBUTE", f"Priority is 0 to 9, 9 first, not {self.Priority}", definite=True)
        return {"priority": self.Priority} if self.Priority != 4 else {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.Length} bytes)"


Buffer = QueueMessage | RawBuffer
"""What may be sent: a message object, or a raw buffer (R050)."""
CompletionRoutine = Callable[[Message_Handle, QueueMessage | None], None]
"""QueueCompletionRoutine and MessageCompletedFP: handle and message; None when there is none."""


def message_of(given: Buffer) -> QueueMessage:
    """A raw buffer becomes a message."""
    return given if isinstance(given, QueueMessage) else QueueMessage(given)
