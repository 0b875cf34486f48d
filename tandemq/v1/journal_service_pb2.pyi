import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JournalKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOURNAL_KIND_UNSPECIFIED: _ClassVar[JournalKind]
    JOURNAL_KIND_ENQUEUED: _ClassVar[JournalKind]
    JOURNAL_KIND_LEASED: _ClassVar[JournalKind]
    JOURNAL_KIND_TAKEN: _ClassVar[JournalKind]
    JOURNAL_KIND_ACKED: _ClassVar[JournalKind]
    JOURNAL_KIND_RELEASED: _ClassVar[JournalKind]
    JOURNAL_KIND_REJECTED: _ClassVar[JournalKind]
    JOURNAL_KIND_EXTENDED: _ClassVar[JournalKind]
    JOURNAL_KIND_REPLIED: _ClassVar[JournalKind]
    JOURNAL_KIND_EXPIRED: _ClassVar[JournalKind]
    JOURNAL_KIND_LEASE_ENDED: _ClassVar[JournalKind]
    JOURNAL_KIND_LOST: _ClassVar[JournalKind]
    JOURNAL_KIND_MATURED: _ClassVar[JournalKind]
    JOURNAL_KIND_REPLY_TIMED_OUT: _ClassVar[JournalKind]
    JOURNAL_KIND_MOVED: _ClassVar[JournalKind]
    JOURNAL_KIND_DEAD_LETTERED: _ClassVar[JournalKind]
    JOURNAL_KIND_DROPPED: _ClassVar[JournalKind]
    JOURNAL_KIND_REMOVED: _ClassVar[JournalKind]
    JOURNAL_KIND_PURGED: _ClassVar[JournalKind]
    JOURNAL_KIND_SAVED: _ClassVar[JournalKind]
    JOURNAL_KIND_QUEUE_CREATED: _ClassVar[JournalKind]
    JOURNAL_KIND_QUEUE_DELETED: _ClassVar[JournalKind]
    JOURNAL_KIND_CONFIGURED: _ClassVar[JournalKind]
    JOURNAL_KIND_EPOCH_BEGAN: _ClassVar[JournalKind]
    JOURNAL_KIND_STAGED: _ClassVar[JournalKind]
    JOURNAL_KIND_PUBLISHED: _ClassVar[JournalKind]
    JOURNAL_KIND_UNSTAGED: _ClassVar[JournalKind]
    JOURNAL_KIND_NOTHING: _ClassVar[JournalKind]
    JOURNAL_KIND_SELECTED: _ClassVar[JournalKind]

class JournalPayload(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOURNAL_PAYLOAD_UNSPECIFIED: _ClassVar[JournalPayload]
    JOURNAL_PAYLOAD_PRESENT: _ClassVar[JournalPayload]
    JOURNAL_PAYLOAD_VOLATILE: _ClassVar[JournalPayload]
    JOURNAL_PAYLOAD_LEFT_OUT: _ClassVar[JournalPayload]
JOURNAL_KIND_UNSPECIFIED: JournalKind
JOURNAL_KIND_ENQUEUED: JournalKind
JOURNAL_KIND_LEASED: JournalKind
JOURNAL_KIND_TAKEN: JournalKind
JOURNAL_KIND_ACKED: JournalKind
JOURNAL_KIND_RELEASED: JournalKind
JOURNAL_KIND_REJECTED: JournalKind
JOURNAL_KIND_EXTENDED: JournalKind
JOURNAL_KIND_REPLIED: JournalKind
JOURNAL_KIND_EXPIRED: JournalKind
JOURNAL_KIND_LEASE_ENDED: JournalKind
JOURNAL_KIND_LOST: JournalKind
JOURNAL_KIND_MATURED: JournalKind
JOURNAL_KIND_REPLY_TIMED_OUT: JournalKind
JOURNAL_KIND_MOVED: JournalKind
JOURNAL_KIND_DEAD_LETTERED: JournalKind
JOURNAL_KIND_DROPPED: JournalKind
JOURNAL_KIND_REMOVED: JournalKind
JOURNAL_KIND_PURGED: JournalKind
JOURNAL_KIND_SAVED: JournalKind
JOURNAL_KIND_QUEUE_CREATED: JournalKind
JOURNAL_KIND_QUEUE_DELETED: JournalKind
JOURNAL_KIND_CONFIGURED: JournalKind
JOURNAL_KIND_EPOCH_BEGAN: JournalKind
JOURNAL_KIND_STAGED: JournalKind
JOURNAL_KIND_PUBLISHED: JournalKind
JOURNAL_KIND_UNSTAGED: JournalKind
JOURNAL_KIND_NOTHING: JournalKind
JOURNAL_KIND_SELECTED: JournalKind
JOURNAL_PAYLOAD_UNSPECIFIED: JournalPayload
JOURNAL_PAYLOAD_PRESENT: JournalPayload
JOURNAL_PAYLOAD_VOLATILE: JournalPayload
JOURNAL_PAYLOAD_LEFT_OUT: JournalPayload

class JournalPosition(_message.Message):
    __slots__ = ("log_index", "epoch", "row", "history_id")
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    HISTORY_ID_FIELD_NUMBER: _ClassVar[int]
    log_index: int
    epoch: int
    row: int
    history_id: bytes
    def __init__(self, log_index: _Optional[int] = ..., epoch: _Optional[int] = ..., row: _Optional[int] = ..., history_id: _Optional[bytes] = ...) -> None: ...

class JournalIndex(_message.Message):
    __slots__ = ("index", "epoch", "history_id")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HISTORY_ID_FIELD_NUMBER: _ClassVar[int]
    index: int
    epoch: int
    history_id: bytes
    def __init__(self, index: _Optional[int] = ..., epoch: _Optional[int] = ..., history_id: _Optional[bytes] = ...) -> None: ...

class JournalSelection(_message.Message):
    __slots__ = ("domain", "queues", "position", "index", "until_log_index", "kinds", "without_payloads", "with_attributes", "this_member", "reader", "without_rows", "every_record")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UNTIL_LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    THIS_MEMBER_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    EVERY_RECORD_FIELD_NUMBER: _ClassVar[int]
    domain: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    position: JournalPosition
    index: JournalIndex
    until_log_index: int
    kinds: _containers.RepeatedScalarFieldContainer[JournalKind]
    without_payloads: bool
    with_attributes: bool
    this_member: bool
    reader: str
    without_rows: bool
    every_record: bool
    def __init__(self, domain: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., position: _Optional[_Union[JournalPosition, _Mapping]] = ..., index: _Optional[_Union[JournalIndex, _Mapping]] = ..., until_log_index: _Optional[int] = ..., kinds: _Optional[_Iterable[_Union[JournalKind, str]]] = ..., without_payloads: bool = ..., with_attributes: bool = ..., this_member: bool = ..., reader: _Optional[str] = ..., without_rows: bool = ..., every_record: bool = ...) -> None: ...

class JournalQueue(_message.Message):
    __slots__ = ("queue_id", "name")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    name: str
    def __init__(self, queue_id: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class JournalColumns(_message.Message):
    __slots__ = ("count", "log_indexes", "epochs", "times_ms", "kinds", "queue_ids", "indexes", "counts", "ids", "lease_ids", "producers", "sequences", "payload_states", "payload_offsets", "payloads", "attribute_offsets", "attributes", "queues", "producer_ids")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEXES_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    TIMES_MS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_STATES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    count: int
    log_indexes: bytes
    epochs: bytes
    times_ms: bytes
    kinds: bytes
    queue_ids: bytes
    indexes: bytes
    counts: bytes
    ids: bytes
    lease_ids: bytes
    producers: bytes
    sequences: bytes
    payload_states: bytes
    payload_offsets: bytes
    payloads: bytes
    attribute_offsets: bytes
    attributes: bytes
    queues: _containers.RepeatedCompositeFieldContainer[JournalQueue]
    producer_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, count: _Optional[int] = ..., log_indexes: _Optional[bytes] = ..., epochs: _Optional[bytes] = ..., times_ms: _Optional[bytes] = ..., kinds: _Optional[bytes] = ..., queue_ids: _Optional[bytes] = ..., indexes: _Optional[bytes] = ..., counts: _Optional[bytes] = ..., ids: _Optional[bytes] = ..., lease_ids: _Optional[bytes] = ..., producers: _Optional[bytes] = ..., sequences: _Optional[bytes] = ..., payload_states: _Optional[bytes] = ..., payload_offsets: _Optional[bytes] = ..., payloads: _Optional[bytes] = ..., attribute_offsets: _Optional[bytes] = ..., attributes: _Optional[bytes] = ..., queues: _Optional[_Iterable[_Union[JournalQueue, _Mapping]]] = ..., producer_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetJournalHeadRequest(_message.Message):
    __slots__ = ("domain", "queues", "this_member")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    THIS_MEMBER_FIELD_NUMBER: _ClassVar[int]
    domain: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    this_member: bool
    def __init__(self, domain: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., this_member: bool = ...) -> None: ...

class JournalQueueHead(_message.Message):
    __slots__ = ("queue", "queue_id", "first_index", "next_index")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    queue: str
    queue_id: int
    first_index: int
    next_index: int
    def __init__(self, queue: _Optional[str] = ..., queue_id: _Optional[int] = ..., first_index: _Optional[int] = ..., next_index: _Optional[int] = ...) -> None: ...

class GetJournalHeadResponse(_message.Message):
    __slots__ = ("header", "first", "next", "queues", "every_record")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    EVERY_RECORD_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    first: JournalPosition
    next: JournalPosition
    queues: _containers.RepeatedCompositeFieldContainer[JournalQueueHead]
    every_record: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., first: _Optional[_Union[JournalPosition, _Mapping]] = ..., next: _Optional[_Union[JournalPosition, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[JournalQueueHead, _Mapping]]] = ..., every_record: bool = ...) -> None: ...

class ReadJournalRequest(_message.Message):
    __slots__ = ("selection", "max_rows")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    selection: JournalSelection
    max_rows: int
    def __init__(self, selection: _Optional[_Union[JournalSelection, _Mapping]] = ..., max_rows: _Optional[int] = ...) -> None: ...

class ReadJournalResponse(_message.Message):
    __slots__ = ("header", "columns", "next", "at_end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    AT_END_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    columns: JournalColumns
    next: JournalPosition
    at_end: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., columns: _Optional[_Union[JournalColumns, _Mapping]] = ..., next: _Optional[_Union[JournalPosition, _Mapping]] = ..., at_end: bool = ...) -> None: ...

class ReadJournalPageRequest(_message.Message):
    __slots__ = ("selection", "max_rows")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    selection: JournalSelection
    max_rows: int
    def __init__(self, selection: _Optional[_Union[JournalSelection, _Mapping]] = ..., max_rows: _Optional[int] = ...) -> None: ...

class ReadJournalPageResponse(_message.Message):
    __slots__ = ("header", "columns", "next", "at_end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    AT_END_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    columns: JournalColumns
    next: JournalPosition
    at_end: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., columns: _Optional[_Union[JournalColumns, _Mapping]] = ..., next: _Optional[_Union[JournalPosition, _Mapping]] = ..., at_end: bool = ...) -> None: ...

class JournalReader(_message.Message):
    __slots__ = ("name", "position", "ttl", "expires_at", "lost_until_log_index", "lost_because", "lag_records", "registered_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    LOST_UNTIL_LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    LOST_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    LAG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    position: JournalPosition
    ttl: _duration_pb2.Duration
    expires_at: _timestamp_pb2.Timestamp
    lost_until_log_index: int
    lost_because: str
    lag_records: int
    registered_at: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., position: _Optional[_Union[JournalPosition, _Mapping]] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lost_until_log_index: _Optional[int] = ..., lost_because: _Optional[str] = ..., lag_records: _Optional[int] = ..., registered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RegisterReaderRequest(_message.Message):
    __slots__ = ("request_id", "domain", "name", "position", "at_end", "ttl", "restart")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    AT_END_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    domain: str
    name: str
    position: JournalPosition
    at_end: bool
    ttl: _duration_pb2.Duration
    restart: bool
    def __init__(self, request_id: _Optional[bytes] = ..., domain: _Optional[str] = ..., name: _Optional[str] = ..., position: _Optional[_Union[JournalPosition, _Mapping]] = ..., at_end: bool = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., restart: bool = ...) -> None: ...

class RegisterReaderResponse(_message.Message):
    __slots__ = ("header", "reader", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    reader: JournalReader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., reader: _Optional[_Union[JournalReader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class AdvanceReaderRequest(_message.Message):
    __slots__ = ("request_id", "domain", "name", "position")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    domain: str
    name: str
    position: JournalPosition
    def __init__(self, request_id: _Optional[bytes] = ..., domain: _Optional[str] = ..., name: _Optional[str] = ..., position: _Optional[_Union[JournalPosition, _Mapping]] = ...) -> None: ...

class AdvanceReaderResponse(_message.Message):
    __slots__ = ("header", "reader", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    reader: JournalReader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., reader: _Optional[_Union[JournalReader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class DeleteReaderRequest(_message.Message):
    __slots__ = ("request_id", "domain", "name")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    domain: str
    name: str
    def __init__(self, request_id: _Optional[bytes] = ..., domain: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteReaderResponse(_message.Message):
    __slots__ = ("header", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class ListReadersRequest(_message.Message):
    __slots__ = ("domain",)
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    domain: str
    def __init__(self, domain: _Optional[str] = ...) -> None: ...

class ListReadersResponse(_message.Message):
    __slots__ = ("header", "readers")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    readers: _containers.RepeatedCompositeFieldContainer[JournalReader]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., readers: _Optional[_Iterable[_Union[JournalReader, _Mapping]]] = ...) -> None: ...
