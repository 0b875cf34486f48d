import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Persistence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PERSISTENCE_UNSPECIFIED: _ClassVar[Persistence]
    PERSISTENCE_PERSISTENT: _ClassVar[Persistence]
    PERSISTENCE_VOLATILE: _ClassVar[Persistence]
    PERSISTENCE_CONDITIONAL: _ClassVar[Persistence]

class Replication(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICATION_UNSPECIFIED: _ClassVar[Replication]
    REPLICATION_NONE: _ClassVar[Replication]
    REPLICATION_PRODUCER: _ClassVar[Replication]
    REPLICATION_FULL: _ClassVar[Replication]

class QueueState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_STATE_UNSPECIFIED: _ClassVar[QueueState]
    QUEUE_STATE_CONFIGURED: _ClassVar[QueueState]
    QUEUE_STATE_OPENING: _ClassVar[QueueState]
    QUEUE_STATE_OPEN: _ClassVar[QueueState]
    QUEUE_STATE_CLOSED: _ClassVar[QueueState]
    QUEUE_STATE_FAILED: _ClassVar[QueueState]
PERSISTENCE_UNSPECIFIED: Persistence
PERSISTENCE_PERSISTENT: Persistence
PERSISTENCE_VOLATILE: Persistence
PERSISTENCE_CONDITIONAL: Persistence
REPLICATION_UNSPECIFIED: Replication
REPLICATION_NONE: Replication
REPLICATION_PRODUCER: Replication
REPLICATION_FULL: Replication
QUEUE_STATE_UNSPECIFIED: QueueState
QUEUE_STATE_CONFIGURED: QueueState
QUEUE_STATE_OPENING: QueueState
QUEUE_STATE_OPEN: QueueState
QUEUE_STATE_CLOSED: QueueState
QUEUE_STATE_FAILED: QueueState

class QueueConfig(_message.Message):
    __slots__ = ("persistence", "replication", "domain", "max_length", "max_bytes", "max_message_bytes", "lease_duration", "max_deliveries", "dead_letter_queue", "enqueue_enabled", "dequeue_enabled", "require_two", "annotation", "default_ttl")
    PERSISTENCE_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_ENABLED_FIELD_NUMBER: _ClassVar[int]
    DEQUEUE_ENABLED_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_TWO_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TTL_FIELD_NUMBER: _ClassVar[int]
    persistence: Persistence
    replication: Replication
    domain: str
    max_length: int
    max_bytes: int
    max_message_bytes: int
    lease_duration: _duration_pb2.Duration
    max_deliveries: int
    dead_letter_queue: str
    enqueue_enabled: bool
    dequeue_enabled: bool
    require_two: bool
    annotation: str
    default_ttl: _duration_pb2.Duration
    def __init__(self, persistence: _Optional[_Union[Persistence, str]] = ..., replication: _Optional[_Union[Replication, str]] = ..., domain: _Optional[str] = ..., max_length: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_deliveries: _Optional[int] = ..., dead_letter_queue: _Optional[str] = ..., enqueue_enabled: bool = ..., dequeue_enabled: bool = ..., require_two: bool = ..., annotation: _Optional[str] = ..., default_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class QueueInfo(_message.Message):
    __slots__ = ("name", "config", "version", "state", "length", "ready", "leased", "bytes", "last_index", "created_at", "last_activity_at", "enqueued_total", "acked_total", "expired_total", "volatile_lost_total", "highest_length", "open_members")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTIVITY_AT_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ACKED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_LOST_TOTAL_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_LENGTH_FIELD_NUMBER: _ClassVar[int]
    OPEN_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    config: QueueConfig
    version: int
    state: QueueState
    length: int
    ready: int
    leased: int
    bytes: int
    last_index: int
    created_at: _timestamp_pb2.Timestamp
    last_activity_at: _timestamp_pb2.Timestamp
    enqueued_total: int
    acked_total: int
    expired_total: int
    volatile_lost_total: int
    highest_length: int
    open_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., version: _Optional[int] = ..., state: _Optional[_Union[QueueState, str]] = ..., length: _Optional[int] = ..., ready: _Optional[int] = ..., leased: _Optional[int] = ..., bytes: _Optional[int] = ..., last_index: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_activity_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., enqueued_total: _Optional[int] = ..., acked_total: _Optional[int] = ..., expired_total: _Optional[int] = ..., volatile_lost_total: _Optional[int] = ..., highest_length: _Optional[int] = ..., open_members: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    config: QueueConfig
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ...) -> None: ...

class CreateQueueResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class CreateReplicatedQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    config: QueueConfig
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ...) -> None: ...

class CreateReplicatedQueueResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class OpenReplicatedQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "master_required")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MASTER_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    master_required: bool
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., master_required: bool = ...) -> None: ...

class OpenReplicatedQueueResponse(_message.Message):
    __slots__ = ("header", "queue")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ...) -> None: ...

class CloseReplicatedQueueRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class CloseReplicatedQueueResponse(_message.Message):
    __slots__ = ("header", "queue")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ...) -> None: ...

class DestroyReplicatedQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "both_members")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BOTH_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    both_members: bool
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., both_members: bool = ...) -> None: ...

class DestroyReplicatedQueueResponse(_message.Message):
    __slots__ = ("header", "deleted")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    deleted: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., deleted: bool = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetQueueResponse(_message.Message):
    __slots__ = ("header", "queue")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("header", "queues", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queues: _containers.RepeatedCompositeFieldContainer[QueueInfo]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "config", "update_mask", "expected_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    config: QueueConfig
    update_mask: _field_mask_pb2.FieldMask
    expected_version: int
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class UpdateQueueResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class DeleteQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "if_empty")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IF_EMPTY_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    if_empty: bool
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., if_empty: bool = ...) -> None: ...

class DeleteQueueResponse(_message.Message):
    __slots__ = ("header", "removed", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    removed: int
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., removed: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class PurgeQueueRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class PurgeQueueResponse(_message.Message):
    __slots__ = ("header", "removed", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    removed: int
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., removed: _Optional[int] = ..., duplicate: bool = ...) -> None: ...
