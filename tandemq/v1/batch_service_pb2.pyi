import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import journal_service_pb2 as _journal_service_pb2
from tandemq.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeasedBatch(_message.Message):
    __slots__ = ("number", "count", "lease_id", "expires_at")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    number: int
    count: int
    lease_id: int
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, number: _Optional[int] = ..., count: _Optional[int] = ..., lease_id: _Optional[int] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LeaseBatchRequest(_message.Message):
    __slots__ = ("queue", "consumer", "number", "max_messages", "max_bytes", "lease_duration", "seen")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    consumer: str
    number: int
    max_messages: int
    max_bytes: int
    lease_duration: _duration_pb2.Duration
    seen: _journal_service_pb2.JournalPosition
    def __init__(self, queue: _Optional[str] = ..., consumer: _Optional[str] = ..., number: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., seen: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class LeaseBatchResponse(_message.Message):
    __slots__ = ("header", "batch", "position")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    batch: LeasedBatch
    position: _journal_service_pb2.JournalPosition
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., batch: _Optional[_Union[LeasedBatch, _Mapping]] = ..., position: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class ReadBatchRequest(_message.Message):
    __slots__ = ("queue", "consumer", "number", "first", "max_messages", "seen")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    consumer: str
    number: int
    first: int
    max_messages: int
    seen: _journal_service_pb2.JournalPosition
    def __init__(self, queue: _Optional[str] = ..., consumer: _Optional[str] = ..., number: _Optional[int] = ..., first: _Optional[int] = ..., max_messages: _Optional[int] = ..., seen: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class ReadBatchResponse(_message.Message):
    __slots__ = ("header", "batch", "messages", "next")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    batch: LeasedBatch
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredMessage]
    next: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., batch: _Optional[_Union[LeasedBatch, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.DeliveredMessage, _Mapping]]] = ..., next: _Optional[int] = ...) -> None: ...

class AckBatchRequest(_message.Message):
    __slots__ = ("queue", "consumer", "number", "seen")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    consumer: str
    number: int
    seen: _journal_service_pb2.JournalPosition
    def __init__(self, queue: _Optional[str] = ..., consumer: _Optional[str] = ..., number: _Optional[int] = ..., seen: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class AckBatchResponse(_message.Message):
    __slots__ = ("header", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class GetBatchesRequest(_message.Message):
    __slots__ = ("queue", "consumer", "seen")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    consumer: str
    seen: _journal_service_pb2.JournalPosition
    def __init__(self, queue: _Optional[str] = ..., consumer: _Optional[str] = ..., seen: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class GetBatchesResponse(_message.Message):
    __slots__ = ("header", "last_number", "batches", "position")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LAST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    last_number: int
    batches: _containers.RepeatedCompositeFieldContainer[LeasedBatch]
    position: _journal_service_pb2.JournalPosition
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., last_number: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[LeasedBatch, _Mapping]]] = ..., position: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...
