import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import message_pb2 as _message_pb2
from tandemq.v1 import queue_service_pb2 as _queue_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_TYPE_UNSPECIFIED: _ClassVar[QueueType]
    QUEUE_TYPE_ONE_WAY: _ClassVar[QueueType]
    QUEUE_TYPE_ONE_WAY_ACK: _ClassVar[QueueType]
    QUEUE_TYPE_ONE_WAY_QUEUED_ACK: _ClassVar[QueueType]
    QUEUE_TYPE_TWO_WAY: _ClassVar[QueueType]

class Overflow(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERFLOW_UNSPECIFIED: _ClassVar[Overflow]
    OVERFLOW_REJECT: _ClassVar[Overflow]
    OVERFLOW_DROP_HEAD: _ClassVar[Overflow]

class GroupMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_MODE_UNSPECIFIED: _ClassVar[GroupMode]
    GROUP_MODE_NONE: _ClassVar[GroupMode]
    GROUP_MODE_ORDERED: _ClassVar[GroupMode]
    GROUP_MODE_COMPLETE: _ClassVar[GroupMode]

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

class Lockstep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCKSTEP_UNSPECIFIED: _ClassVar[Lockstep]
    LOCKSTEP_PLAIN: _ClassVar[Lockstep]
    LOCKSTEP_SELECTED: _ClassVar[Lockstep]

class QueueState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_STATE_UNSPECIFIED: _ClassVar[QueueState]
    QUEUE_STATE_CONFIGURED: _ClassVar[QueueState]
    QUEUE_STATE_OPENING: _ClassVar[QueueState]
    QUEUE_STATE_OPEN: _ClassVar[QueueState]
    QUEUE_STATE_CLOSED: _ClassVar[QueueState]
    QUEUE_STATE_FAILED: _ClassVar[QueueState]
    QUEUE_STATE_CONFIGURING: _ClassVar[QueueState]
    QUEUE_STATE_CLOSING: _ClassVar[QueueState]
    QUEUE_STATE_UNKNOWN: _ClassVar[QueueState]

class TransmissionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSMISSION_STATE_UNSPECIFIED: _ClassVar[TransmissionState]
    TRANSMISSION_STATE_IDLE: _ClassVar[TransmissionState]
    TRANSMISSION_STATE_CARRYING: _ClassVar[TransmissionState]
    TRANSMISSION_STATE_WAITING: _ClassVar[TransmissionState]
QUEUE_TYPE_UNSPECIFIED: QueueType
QUEUE_TYPE_ONE_WAY: QueueType
QUEUE_TYPE_ONE_WAY_ACK: QueueType
QUEUE_TYPE_ONE_WAY_QUEUED_ACK: QueueType
QUEUE_TYPE_TWO_WAY: QueueType
OVERFLOW_UNSPECIFIED: Overflow
OVERFLOW_REJECT: Overflow
OVERFLOW_DROP_HEAD: Overflow
GROUP_MODE_UNSPECIFIED: GroupMode
GROUP_MODE_NONE: GroupMode
GROUP_MODE_ORDERED: GroupMode
GROUP_MODE_COMPLETE: GroupMode
PERSISTENCE_UNSPECIFIED: Persistence
PERSISTENCE_PERSISTENT: Persistence
PERSISTENCE_VOLATILE: Persistence
PERSISTENCE_CONDITIONAL: Persistence
REPLICATION_UNSPECIFIED: Replication
REPLICATION_NONE: Replication
REPLICATION_PRODUCER: Replication
REPLICATION_FULL: Replication
LOCKSTEP_UNSPECIFIED: Lockstep
LOCKSTEP_PLAIN: Lockstep
LOCKSTEP_SELECTED: Lockstep
QUEUE_STATE_UNSPECIFIED: QueueState
QUEUE_STATE_CONFIGURED: QueueState
QUEUE_STATE_OPENING: QueueState
QUEUE_STATE_OPEN: QueueState
QUEUE_STATE_CLOSED: QueueState
QUEUE_STATE_FAILED: QueueState
QUEUE_STATE_CONFIGURING: QueueState
QUEUE_STATE_CLOSING: QueueState
QUEUE_STATE_UNKNOWN: QueueState
TRANSMISSION_STATE_UNSPECIFIED: TransmissionState
TRANSMISSION_STATE_IDLE: TransmissionState
TRANSMISSION_STATE_CARRYING: TransmissionState
TRANSMISSION_STATE_WAITING: TransmissionState

class QueueConfig(_message.Message):
    __slots__ = ("persistence", "replication", "domain", "max_length", "max_bytes", "max_message_bytes", "lease_duration", "max_deliveries", "dead_letter_queue", "enqueue_enabled", "dequeue_enabled", "require_two", "annotation", "default_ttl", "queue_type", "overflow", "enqueue_enabled_at", "dequeue_enabled_at", "empty_idle_expiry", "labels", "default_settle", "retry_delay_min", "retry_delay_max", "reply_timeout", "completion_retention", "dedup_window", "dedup_max", "group_mode", "max_consumers", "single_active", "remote_clients_allowed", "address", "reactions_enabled", "xmit_batch", "xmit_linger", "group_timeout", "lockstep", "max_sticky_ttl", "owner")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
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
    QUEUE_TYPE_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_ENABLED_AT_FIELD_NUMBER: _ClassVar[int]
    DEQUEUE_ENABLED_AT_FIELD_NUMBER: _ClassVar[int]
    EMPTY_IDLE_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_SETTLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_MIN_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_MAX_FIELD_NUMBER: _ClassVar[int]
    REPLY_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_RETENTION_FIELD_NUMBER: _ClassVar[int]
    DEDUP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    DEDUP_MAX_FIELD_NUMBER: _ClassVar[int]
    GROUP_MODE_FIELD_NUMBER: _ClassVar[int]
    MAX_CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    SINGLE_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    REMOTE_CLIENTS_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REACTIONS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    XMIT_BATCH_FIELD_NUMBER: _ClassVar[int]
    XMIT_LINGER_FIELD_NUMBER: _ClassVar[int]
    GROUP_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LOCKSTEP_FIELD_NUMBER: _ClassVar[int]
    MAX_STICKY_TTL_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
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
    queue_type: QueueType
    overflow: Overflow
    enqueue_enabled_at: _timestamp_pb2.Timestamp
    dequeue_enabled_at: _timestamp_pb2.Timestamp
    empty_idle_expiry: _duration_pb2.Duration
    labels: _containers.ScalarMap[str, str]
    default_settle: _queue_service_pb2.SettleMode
    retry_delay_min: _duration_pb2.Duration
    retry_delay_max: _duration_pb2.Duration
    reply_timeout: _duration_pb2.Duration
    completion_retention: _duration_pb2.Duration
    dedup_window: _duration_pb2.Duration
    dedup_max: int
    group_mode: GroupMode
    max_consumers: int
    single_active: bool
    remote_clients_allowed: bool
    address: str
    reactions_enabled: bool
    xmit_batch: int
    xmit_linger: _duration_pb2.Duration
    group_timeout: _duration_pb2.Duration
    lockstep: Lockstep
    max_sticky_ttl: _duration_pb2.Duration
    owner: str
    def __init__(self, persistence: _Optional[_Union[Persistence, str]] = ..., replication: _Optional[_Union[Replication, str]] = ..., domain: _Optional[str] = ..., max_length: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_deliveries: _Optional[int] = ..., dead_letter_queue: _Optional[str] = ..., enqueue_enabled: bool = ..., dequeue_enabled: bool = ..., require_two: bool = ..., annotation: _Optional[str] = ..., default_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queue_type: _Optional[_Union[QueueType, str]] = ..., overflow: _Optional[_Union[Overflow, str]] = ..., enqueue_enabled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., dequeue_enabled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., empty_idle_expiry: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., default_settle: _Optional[_Union[_queue_service_pb2.SettleMode, str]] = ..., retry_delay_min: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry_delay_max: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reply_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., completion_retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dedup_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dedup_max: _Optional[int] = ..., group_mode: _Optional[_Union[GroupMode, str]] = ..., max_consumers: _Optional[int] = ..., single_active: bool = ..., remote_clients_allowed: bool = ..., address: _Optional[str] = ..., reactions_enabled: bool = ..., xmit_batch: _Optional[int] = ..., xmit_linger: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., group_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lockstep: _Optional[_Union[Lockstep, str]] = ..., max_sticky_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class QueueInfo(_message.Message):
    __slots__ = ("name", "config", "version", "state", "length", "ready", "leased", "bytes", "last_index", "created_at", "last_activity_at", "enqueued_total", "acked_total", "expired_total", "volatile_lost_total", "highest_length", "open_members", "delayed", "dying", "ready_by_priority", "rejected_total", "dead_lettered_total", "dropped_total", "purged_total", "delivered_total", "redelivered_total", "replied_total", "refused_full_total", "mean_process_time", "consumers", "producers", "remote_clients", "waiters", "aliases", "volatile_length", "saving", "released_total", "duplicates_total", "reply_timeouts_total", "local_clients", "role", "data_state", "blocked", "copies_owed", "reacted_total", "locked", "groups_gathering", "sides", "last_selected")
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
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    READY_BY_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REJECTED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DROPPED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    PURGED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REPLIED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FULL_TOTAL_FIELD_NUMBER: _ClassVar[int]
    MEAN_PROCESS_TIME_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    REMOTE_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SAVING_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REPLY_TIMEOUTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LOCAL_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DATA_STATE_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    COPIES_OWED_FIELD_NUMBER: _ClassVar[int]
    REACTED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LOCKED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_GATHERING_FIELD_NUMBER: _ClassVar[int]
    SIDES_FIELD_NUMBER: _ClassVar[int]
    LAST_SELECTED_FIELD_NUMBER: _ClassVar[int]
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
    delayed: int
    dying: int
    ready_by_priority: _containers.RepeatedScalarFieldContainer[int]
    rejected_total: int
    dead_lettered_total: int
    dropped_total: int
    purged_total: int
    delivered_total: int
    redelivered_total: int
    replied_total: int
    refused_full_total: int
    mean_process_time: _duration_pb2.Duration
    consumers: int
    producers: int
    remote_clients: int
    waiters: int
    aliases: _containers.RepeatedScalarFieldContainer[str]
    volatile_length: int
    saving: bool
    released_total: int
    duplicates_total: int
    reply_timeouts_total: int
    local_clients: int
    role: _common_pb2.Role
    data_state: _common_pb2.DataState
    blocked: int
    copies_owed: int
    reacted_total: int
    locked: int
    groups_gathering: int
    sides: _containers.RepeatedCompositeFieldContainer[QueueSide]
    last_selected: int
    def __init__(self, name: _Optional[str] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., version: _Optional[int] = ..., state: _Optional[_Union[QueueState, str]] = ..., length: _Optional[int] = ..., ready: _Optional[int] = ..., leased: _Optional[int] = ..., bytes: _Optional[int] = ..., last_index: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_activity_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., enqueued_total: _Optional[int] = ..., acked_total: _Optional[int] = ..., expired_total: _Optional[int] = ..., volatile_lost_total: _Optional[int] = ..., highest_length: _Optional[int] = ..., open_members: _Optional[_Iterable[str]] = ..., delayed: _Optional[int] = ..., dying: _Optional[int] = ..., ready_by_priority: _Optional[_Iterable[int]] = ..., rejected_total: _Optional[int] = ..., dead_lettered_total: _Optional[int] = ..., dropped_total: _Optional[int] = ..., purged_total: _Optional[int] = ..., delivered_total: _Optional[int] = ..., redelivered_total: _Optional[int] = ..., replied_total: _Optional[int] = ..., refused_full_total: _Optional[int] = ..., mean_process_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., consumers: _Optional[int] = ..., producers: _Optional[int] = ..., remote_clients: _Optional[int] = ..., waiters: _Optional[int] = ..., aliases: _Optional[_Iterable[str]] = ..., volatile_length: _Optional[int] = ..., saving: bool = ..., released_total: _Optional[int] = ..., duplicates_total: _Optional[int] = ..., reply_timeouts_total: _Optional[int] = ..., local_clients: _Optional[int] = ..., role: _Optional[_Union[_common_pb2.Role, str]] = ..., data_state: _Optional[_Union[_common_pb2.DataState, str]] = ..., blocked: _Optional[int] = ..., copies_owed: _Optional[int] = ..., reacted_total: _Optional[int] = ..., locked: _Optional[int] = ..., groups_gathering: _Optional[int] = ..., sides: _Optional[_Iterable[_Union[QueueSide, _Mapping]]] = ..., last_selected: _Optional[int] = ...) -> None: ...

class QueueSide(_message.Message):
    __slots__ = ("member", "passed", "lost", "lost_until", "because")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LOST_UNTIL_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    member: str
    passed: int
    lost: bool
    lost_until: int
    because: str
    def __init__(self, member: _Optional[str] = ..., passed: _Optional[int] = ..., lost: bool = ..., lost_until: _Optional[int] = ..., because: _Optional[str] = ...) -> None: ...

class RestartSideRequest(_message.Message):
    __slots__ = ("name", "member", "request_id", "after")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    member: str
    request_id: bytes
    after: int
    def __init__(self, name: _Optional[str] = ..., member: _Optional[str] = ..., request_id: _Optional[bytes] = ..., after: _Optional[int] = ...) -> None: ...

class RestartSideResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class CreateQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "config", "configuring")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CONFIGURING_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    config: QueueConfig
    configuring: bool
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., configuring: bool = ...) -> None: ...

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
    __slots__ = ("name", "request_id", "master_required", "options")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MASTER_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    master_required: bool
    options: QueueConfig
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., master_required: bool = ..., options: _Optional[_Union[QueueConfig, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("name", "domain")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    domain: str
    def __init__(self, name: _Optional[str] = ..., domain: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("name", "request_id", "config", "update_mask", "expected_version", "domain")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    config: QueueConfig
    update_mask: _field_mask_pb2.FieldMask
    expected_version: int
    domain: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., expected_version: _Optional[int] = ..., domain: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("name", "request_id", "if_empty", "if_unused", "domain")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IF_EMPTY_FIELD_NUMBER: _ClassVar[int]
    IF_UNUSED_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    if_empty: bool
    if_unused: bool
    domain: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., if_empty: bool = ..., if_unused: bool = ..., domain: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("name", "request_id", "domain")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    domain: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., domain: _Optional[str] = ...) -> None: ...

class PurgeQueueResponse(_message.Message):
    __slots__ = ("header", "removed", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    removed: int
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., removed: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ConfigureQueueRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class ConfigureQueueResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class OpenQueueRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class OpenQueueResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class CloseQueueRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class CloseQueueResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class CreateAliasRequest(_message.Message):
    __slots__ = ("alias", "request_id", "name")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    alias: str
    request_id: bytes
    name: str
    def __init__(self, alias: _Optional[str] = ..., request_id: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...

class CreateAliasResponse(_message.Message):
    __slots__ = ("header", "queue", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class DeleteAliasRequest(_message.Message):
    __slots__ = ("alias", "request_id")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    alias: str
    request_id: bytes
    def __init__(self, alias: _Optional[str] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class DeleteAliasResponse(_message.Message):
    __slots__ = ("header", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class LeftBehind(_message.Message):
    __slots__ = ("reason", "queue", "count", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: _common_pb2.Reason
    queue: str
    count: int
    message: str
    def __init__(self, reason: _Optional[_Union[_common_pb2.Reason, str]] = ..., queue: _Optional[str] = ..., count: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class DeleteMessagesRequest(_message.Message):
    __slots__ = ("name", "request_id", "filter", "max_messages")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    filter: _message_pb2.MessageFilter
    max_messages: int
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., filter: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ..., max_messages: _Optional[int] = ...) -> None: ...

class DeleteMessagesResponse(_message.Message):
    __slots__ = ("header", "removed", "duplicate", "leased")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    removed: int
    duplicate: bool
    leased: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., removed: _Optional[int] = ..., duplicate: bool = ..., leased: _Optional[int] = ...) -> None: ...

class MoveMessagesRequest(_message.Message):
    __slots__ = ("name", "request_id", "filter", "to", "max_messages")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    filter: _message_pb2.MessageFilter
    to: str
    max_messages: int
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., filter: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ..., to: _Optional[str] = ..., max_messages: _Optional[int] = ...) -> None: ...

class MoveMessagesResponse(_message.Message):
    __slots__ = ("header", "moved", "left", "duplicate", "leased", "behind")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    moved: int
    left: int
    duplicate: bool
    leased: int
    behind: _containers.RepeatedCompositeFieldContainer[LeftBehind]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., moved: _Optional[int] = ..., left: _Optional[int] = ..., duplicate: bool = ..., leased: _Optional[int] = ..., behind: _Optional[_Iterable[_Union[LeftBehind, _Mapping]]] = ...) -> None: ...

class RedriveQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "filter", "to", "max_messages")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    filter: _message_pb2.MessageFilter
    to: str
    max_messages: int
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., filter: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ..., to: _Optional[str] = ..., max_messages: _Optional[int] = ...) -> None: ...

class RedriveQueueResponse(_message.Message):
    __slots__ = ("header", "moved", "left", "duplicate", "leased", "behind")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    moved: int
    left: int
    duplicate: bool
    leased: int
    behind: _containers.RepeatedCompositeFieldContainer[LeftBehind]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., moved: _Optional[int] = ..., left: _Optional[int] = ..., duplicate: bool = ..., leased: _Optional[int] = ..., behind: _Optional[_Iterable[_Union[LeftBehind, _Mapping]]] = ...) -> None: ...

class GetDefaultsRequest(_message.Message):
    __slots__ = ("domain",)
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    domain: str
    def __init__(self, domain: _Optional[str] = ...) -> None: ...

class GetDefaultsResponse(_message.Message):
    __slots__ = ("header", "config", "profile", "version")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    config: QueueConfig
    profile: str
    version: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., profile: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class UpdateDefaultsRequest(_message.Message):
    __slots__ = ("domain", "request_id", "config", "update_mask", "expected_version")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    domain: str
    request_id: bytes
    config: QueueConfig
    update_mask: _field_mask_pb2.FieldMask
    expected_version: int
    def __init__(self, domain: _Optional[str] = ..., request_id: _Optional[bytes] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class UpdateDefaultsResponse(_message.Message):
    __slots__ = ("header", "config", "version", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    config: QueueConfig
    version: int
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., config: _Optional[_Union[QueueConfig, _Mapping]] = ..., version: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class RestoreQueueRequest(_message.Message):
    __slots__ = ("name", "request_id", "source")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: bytes
    source: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[bytes] = ..., source: _Optional[str] = ...) -> None: ...

class RestoreQueueResponse(_message.Message):
    __slots__ = ("header", "queue", "restored", "present", "lost", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: QueueInfo
    restored: int
    present: int
    lost: int
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[_Union[QueueInfo, _Mapping]] = ..., restored: _Optional[int] = ..., present: _Optional[int] = ..., lost: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ListTransmissionsRequest(_message.Message):
    __slots__ = ("domain",)
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    domain: str
    def __init__(self, domain: _Optional[str] = ...) -> None: ...

class Transmission(_message.Message):
    __slots__ = ("target", "queue", "messages", "state", "waiting", "why", "last_batch", "open_batches", "open_messages", "addresses", "via")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_FIELD_NUMBER: _ClassVar[int]
    OPEN_BATCHES_FIELD_NUMBER: _ClassVar[int]
    OPEN_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    target: str
    queue: str
    messages: int
    state: TransmissionState
    waiting: _duration_pb2.Duration
    why: str
    last_batch: int
    open_batches: _containers.RepeatedScalarFieldContainer[int]
    open_messages: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    via: str
    def __init__(self, target: _Optional[str] = ..., queue: _Optional[str] = ..., messages: _Optional[int] = ..., state: _Optional[_Union[TransmissionState, str]] = ..., waiting: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., why: _Optional[str] = ..., last_batch: _Optional[int] = ..., open_batches: _Optional[_Iterable[int]] = ..., open_messages: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ..., via: _Optional[str] = ...) -> None: ...

class ListTransmissionsResponse(_message.Message):
    __slots__ = ("header", "transmissions")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TRANSMISSIONS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    transmissions: _containers.RepeatedCompositeFieldContainer[Transmission]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., transmissions: _Optional[_Iterable[_Union[Transmission, _Mapping]]] = ...) -> None: ...

class ReleaseTransmissionRequest(_message.Message):
    __slots__ = ("target", "domain", "unasked")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    UNASKED_FIELD_NUMBER: _ClassVar[int]
    target: str
    domain: str
    unasked: bool
    def __init__(self, target: _Optional[str] = ..., domain: _Optional[str] = ..., unasked: bool = ...) -> None: ...

class ReleaseTransmissionResponse(_message.Message):
    __slots__ = ("header", "released", "acknowledged", "silence", "in_doubt", "batches")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    released: int
    acknowledged: int
    silence: str
    in_doubt: int
    batches: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., released: _Optional[int] = ..., acknowledged: _Optional[int] = ..., silence: _Optional[str] = ..., in_doubt: _Optional[int] = ..., batches: _Optional[_Iterable[int]] = ...) -> None: ...
