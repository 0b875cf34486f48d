from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import message_pb2 as _message_pb2
from tandemq.v1 import queue_service_pb2 as _queue_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueSettlements(_message.Message):
    __slots__ = ("queue", "settlements")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    settlements: _containers.RepeatedCompositeFieldContainer[_queue_service_pb2.Settlement]
    def __init__(self, queue: _Optional[str] = ..., settlements: _Optional[_Iterable[_Union[_queue_service_pb2.Settlement, _Mapping]]] = ...) -> None: ...

class QueueMessages(_message.Message):
    __slots__ = ("queue", "messages")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    def __init__(self, queue: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ...) -> None: ...

class TransactRequest(_message.Message):
    __slots__ = ("request_id", "settles", "puts", "min_copies", "epoch", "writer", "number", "after", "query_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SETTLES_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    settles: _containers.RepeatedCompositeFieldContainer[QueueSettlements]
    puts: _containers.RepeatedCompositeFieldContainer[QueueMessages]
    min_copies: int
    epoch: int
    writer: str
    number: int
    after: int
    query_id: str
    def __init__(self, request_id: _Optional[bytes] = ..., settles: _Optional[_Iterable[_Union[QueueSettlements, _Mapping]]] = ..., puts: _Optional[_Iterable[_Union[QueueMessages, _Mapping]]] = ..., min_copies: _Optional[int] = ..., epoch: _Optional[int] = ..., writer: _Optional[str] = ..., number: _Optional[int] = ..., after: _Optional[int] = ..., query_id: _Optional[str] = ...) -> None: ...

class QueueResults(_message.Message):
    __slots__ = ("queue", "results")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    results: _containers.RepeatedCompositeFieldContainer[_queue_service_pb2.EnqueueResult]
    def __init__(self, queue: _Optional[str] = ..., results: _Optional[_Iterable[_Union[_queue_service_pb2.EnqueueResult, _Mapping]]] = ...) -> None: ...

class TransactResponse(_message.Message):
    __slots__ = ("header", "puts", "duplicate", "differs")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    DIFFERS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    puts: _containers.RepeatedCompositeFieldContainer[QueueResults]
    duplicate: bool
    differs: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., puts: _Optional[_Iterable[_Union[QueueResults, _Mapping]]] = ..., duplicate: bool = ..., differs: bool = ...) -> None: ...
