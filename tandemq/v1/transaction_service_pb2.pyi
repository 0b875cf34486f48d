import datetime

from google.protobuf import duration_pb2 as _duration_pb2
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
    __slots__ = ("request_id", "settles", "puts", "min_copies", "epoch", "writer", "number", "after", "query_id", "forwarder", "domain", "digest")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SETTLES_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    FORWARDER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    settles: _containers.RepeatedCompositeFieldContainer[QueueSettlements]
    puts: _containers.RepeatedCompositeFieldContainer[QueueMessages]
    min_copies: int
    epoch: int
    writer: str
    number: int
    after: int
    query_id: str
    forwarder: str
    domain: str
    digest: int
    def __init__(self, request_id: _Optional[bytes] = ..., settles: _Optional[_Iterable[_Union[QueueSettlements, _Mapping]]] = ..., puts: _Optional[_Iterable[_Union[QueueMessages, _Mapping]]] = ..., min_copies: _Optional[int] = ..., epoch: _Optional[int] = ..., writer: _Optional[str] = ..., number: _Optional[int] = ..., after: _Optional[int] = ..., query_id: _Optional[str] = ..., forwarder: _Optional[str] = ..., domain: _Optional[str] = ..., digest: _Optional[int] = ...) -> None: ...

class QueueResults(_message.Message):
    __slots__ = ("queue", "results", "forwarded")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    queue: str
    results: _containers.RepeatedCompositeFieldContainer[_queue_service_pb2.EnqueueResult]
    forwarded: str
    def __init__(self, queue: _Optional[str] = ..., results: _Optional[_Iterable[_Union[_queue_service_pb2.EnqueueResult, _Mapping]]] = ..., forwarded: _Optional[str] = ...) -> None: ...

class TransactResponse(_message.Message):
    __slots__ = ("header", "puts", "duplicate", "differs", "last_number", "digest", "known_digest")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    DIFFERS_FIELD_NUMBER: _ClassVar[int]
    LAST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KNOWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    puts: _containers.RepeatedCompositeFieldContainer[QueueResults]
    duplicate: bool
    differs: bool
    last_number: int
    digest: int
    known_digest: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., puts: _Optional[_Iterable[_Union[QueueResults, _Mapping]]] = ..., duplicate: bool = ..., differs: bool = ..., last_number: _Optional[int] = ..., digest: _Optional[int] = ..., known_digest: _Optional[int] = ...) -> None: ...

class TransactManyRequest(_message.Message):
    __slots__ = ("units",)
    UNITS_FIELD_NUMBER: _ClassVar[int]
    units: _containers.RepeatedCompositeFieldContainer[TransactRequest]
    def __init__(self, units: _Optional[_Iterable[_Union[TransactRequest, _Mapping]]] = ...) -> None: ...

class TransactAnswer(_message.Message):
    __slots__ = ("done", "refused")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    done: TransactResponse
    refused: _common_pb2.Error
    def __init__(self, done: _Optional[_Union[TransactResponse, _Mapping]] = ..., refused: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class TransactManyResponse(_message.Message):
    __slots__ = ("header", "answers")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    answers: _containers.RepeatedCompositeFieldContainer[TransactAnswer]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., answers: _Optional[_Iterable[_Union[TransactAnswer, _Mapping]]] = ...) -> None: ...

class BeginRequest(_message.Message):
    __slots__ = ("queue", "request_id", "timeout", "client_id", "epoch")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    queue: str
    request_id: bytes
    timeout: _duration_pb2.Duration
    client_id: bytes
    epoch: int
    def __init__(self, queue: _Optional[str] = ..., request_id: _Optional[bytes] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., client_id: _Optional[bytes] = ..., epoch: _Optional[int] = ...) -> None: ...

class BeginResponse(_message.Message):
    __slots__ = ("header", "unit_id", "timeout", "puts_at_commit")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    PUTS_AT_COMMIT_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    unit_id: bytes
    timeout: _duration_pb2.Duration
    puts_at_commit: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., unit_id: _Optional[bytes] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., puts_at_commit: bool = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("unit_id", "min_copies", "epoch", "puts")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    unit_id: bytes
    min_copies: int
    epoch: int
    puts: _containers.RepeatedCompositeFieldContainer[_queue_service_pb2.EnqueueRequest]
    def __init__(self, unit_id: _Optional[bytes] = ..., min_copies: _Optional[int] = ..., epoch: _Optional[int] = ..., puts: _Optional[_Iterable[_Union[_queue_service_pb2.EnqueueRequest, _Mapping]]] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("header", "puts", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    puts: _containers.RepeatedCompositeFieldContainer[QueueResults]
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., puts: _Optional[_Iterable[_Union[QueueResults, _Mapping]]] = ..., duplicate: bool = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("unit_id", "epoch")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    unit_id: bytes
    epoch: int
    def __init__(self, unit_id: _Optional[bytes] = ..., epoch: _Optional[int] = ...) -> None: ...

class RollbackResponse(_message.Message):
    __slots__ = ("header", "returned")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    returned: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., returned: _Optional[int] = ...) -> None: ...

class ListUnitsRequest(_message.Message):
    __slots__ = ("domain", "max_units")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    MAX_UNITS_FIELD_NUMBER: _ClassVar[int]
    domain: str
    max_units: int
    def __init__(self, domain: _Optional[str] = ..., max_units: _Optional[int] = ...) -> None: ...

class OpenUnit(_message.Message):
    __slots__ = ("unit_id", "client_id", "age", "left", "messages_locked", "messages_put", "calls", "queues", "reactions")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_LOCKED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_PUT_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    REACTIONS_FIELD_NUMBER: _ClassVar[int]
    unit_id: bytes
    client_id: bytes
    age: _duration_pb2.Duration
    left: _duration_pb2.Duration
    messages_locked: int
    messages_put: int
    calls: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    reactions: int
    def __init__(self, unit_id: _Optional[bytes] = ..., client_id: _Optional[bytes] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., messages_locked: _Optional[int] = ..., messages_put: _Optional[int] = ..., calls: _Optional[int] = ..., queues: _Optional[_Iterable[str]] = ..., reactions: _Optional[int] = ...) -> None: ...

class ListUnitsResponse(_message.Message):
    __slots__ = ("header", "units", "total")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    units: _containers.RepeatedCompositeFieldContainer[OpenUnit]
    total: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., units: _Optional[_Iterable[_Union[OpenUnit, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ("begin",)
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    begin: BeginRequest
    def __init__(self, begin: _Optional[_Union[BeginRequest, _Mapping]] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("begun", "error")
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    begun: BeginResponse
    error: _common_pb2.Error
    def __init__(self, begun: _Optional[_Union[BeginResponse, _Mapping]] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...
