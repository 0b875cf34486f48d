import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import journal_service_pb2 as _journal_service_pb2
from tandemq.v1 import queue_service_pb2 as _queue_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StageRequest(_message.Message):
    __slots__ = ("stage_id", "batch", "part", "ttl", "epoch", "seen")
    STAGE_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    stage_id: bytes
    batch: _queue_service_pb2.EnqueueBatch
    part: int
    ttl: _duration_pb2.Duration
    epoch: int
    seen: _journal_service_pb2.JournalPosition
    def __init__(self, stage_id: _Optional[bytes] = ..., batch: _Optional[_Union[_queue_service_pb2.EnqueueBatch, _Mapping]] = ..., part: _Optional[int] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., epoch: _Optional[int] = ..., seen: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class StageResponse(_message.Message):
    __slots__ = ("header", "rows", "payload_bytes", "expires_at", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    rows: int
    payload_bytes: int
    expires_at: _timestamp_pb2.Timestamp
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., rows: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("writer", "query_id", "batch", "stage_ids", "domain", "min_copies", "epoch", "seen", "previous_batch")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_BATCH_FIELD_NUMBER: _ClassVar[int]
    writer: str
    query_id: str
    batch: int
    stage_ids: _containers.RepeatedScalarFieldContainer[bytes]
    domain: str
    min_copies: int
    epoch: int
    seen: _journal_service_pb2.JournalPosition
    previous_batch: int
    def __init__(self, writer: _Optional[str] = ..., query_id: _Optional[str] = ..., batch: _Optional[int] = ..., stage_ids: _Optional[_Iterable[bytes]] = ..., domain: _Optional[str] = ..., min_copies: _Optional[int] = ..., epoch: _Optional[int] = ..., seen: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ..., previous_batch: _Optional[int] = ...) -> None: ...

class PublishedRows(_message.Message):
    __slots__ = ("queue", "first_index", "last_index", "rows")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_index: int
    last_index: int
    rows: int
    def __init__(self, queue: _Optional[str] = ..., first_index: _Optional[int] = ..., last_index: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("header", "duplicate", "queues", "position")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    queues: _containers.RepeatedCompositeFieldContainer[PublishedRows]
    position: _journal_service_pb2.JournalPosition
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ..., queues: _Optional[_Iterable[_Union[PublishedRows, _Mapping]]] = ..., position: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("stage_ids", "domain")
    STAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    stage_ids: _containers.RepeatedScalarFieldContainer[bytes]
    domain: str
    def __init__(self, stage_ids: _Optional[_Iterable[bytes]] = ..., domain: _Optional[str] = ...) -> None: ...

class AbortResponse(_message.Message):
    __slots__ = ("header", "dropped")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    dropped: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., dropped: _Optional[int] = ...) -> None: ...

class GetWriterRequest(_message.Message):
    __slots__ = ("writer", "domain", "digests")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    writer: str
    domain: str
    digests: bool
    def __init__(self, writer: _Optional[str] = ..., domain: _Optional[str] = ..., digests: bool = ...) -> None: ...

class GetWriterResponse(_message.Message):
    __slots__ = ("header", "known", "query_id", "batch", "published_at", "position", "unit_numbers", "unit_digests")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    UNIT_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    UNIT_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    known: bool
    query_id: str
    batch: int
    published_at: _timestamp_pb2.Timestamp
    position: _journal_service_pb2.JournalPosition
    unit_numbers: _containers.RepeatedScalarFieldContainer[int]
    unit_digests: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., known: bool = ..., query_id: _Optional[str] = ..., batch: _Optional[int] = ..., published_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., position: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ..., unit_numbers: _Optional[_Iterable[int]] = ..., unit_digests: _Optional[_Iterable[int]] = ...) -> None: ...

class ReleaseWriterRequest(_message.Message):
    __slots__ = ("writer", "domain", "seen")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    writer: str
    domain: str
    seen: _journal_service_pb2.JournalPosition
    def __init__(self, writer: _Optional[str] = ..., domain: _Optional[str] = ..., seen: _Optional[_Union[_journal_service_pb2.JournalPosition, _Mapping]] = ...) -> None: ...

class ReleaseWriterResponse(_message.Message):
    __slots__ = ("header", "released")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    released: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., released: bool = ...) -> None: ...
