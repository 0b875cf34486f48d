import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PropertyValue(_message.Message):
    __slots__ = ("text", "integer", "number", "flag", "data")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    text: str
    integer: int
    number: float
    flag: bool
    data: bytes
    def __init__(self, text: _Optional[str] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., flag: bool = ..., data: _Optional[bytes] = ...) -> None: ...

class Properties(_message.Message):
    __slots__ = ("entries",)
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: PropertyValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[PropertyValue, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.MessageMap[str, PropertyValue]
    def __init__(self, entries: _Optional[_Mapping[str, PropertyValue]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("payload", "priority", "persistent", "ttl", "content_type", "correlation_id", "reply_to", "group_id", "properties", "delay", "deliver_at", "dedup_id", "inert", "group_sequence", "last_in_group")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: PropertyValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[PropertyValue, _Mapping]] = ...) -> None: ...
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    DEDUP_ID_FIELD_NUMBER: _ClassVar[int]
    INERT_FIELD_NUMBER: _ClassVar[int]
    GROUP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_IN_GROUP_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    priority: int
    persistent: bool
    ttl: _duration_pb2.Duration
    content_type: str
    correlation_id: str
    reply_to: str
    group_id: str
    properties: _containers.MessageMap[str, PropertyValue]
    delay: _duration_pb2.Duration
    deliver_at: _timestamp_pb2.Timestamp
    dedup_id: str
    inert: bool
    group_sequence: int
    last_in_group: bool
    def __init__(self, payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., persistent: bool = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., content_type: _Optional[str] = ..., correlation_id: _Optional[str] = ..., reply_to: _Optional[str] = ..., group_id: _Optional[str] = ..., properties: _Optional[_Mapping[str, PropertyValue]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., dedup_id: _Optional[str] = ..., inert: bool = ..., group_sequence: _Optional[int] = ..., last_in_group: bool = ...) -> None: ...

class MessageBatch(_message.Message):
    __slots__ = ("payloads", "priorities", "persistence", "ttls_ms", "content_types", "correlation_ids", "reply_tos", "group_ids", "properties", "delays_ms", "deliver_at_ms", "dedup_ids", "inerts", "group_sequences", "lasts_in_group")
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    PERSISTENCE_FIELD_NUMBER: _ClassVar[int]
    TTLS_MS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPES_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_IDS_FIELD_NUMBER: _ClassVar[int]
    REPLY_TOS_FIELD_NUMBER: _ClassVar[int]
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DELAYS_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DEDUP_IDS_FIELD_NUMBER: _ClassVar[int]
    INERTS_FIELD_NUMBER: _ClassVar[int]
    GROUP_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    LASTS_IN_GROUP_FIELD_NUMBER: _ClassVar[int]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    priorities: _containers.RepeatedScalarFieldContainer[int]
    persistence: _containers.RepeatedScalarFieldContainer[int]
    ttls_ms: _containers.RepeatedScalarFieldContainer[int]
    content_types: _containers.RepeatedScalarFieldContainer[str]
    correlation_ids: _containers.RepeatedScalarFieldContainer[str]
    reply_tos: _containers.RepeatedScalarFieldContainer[str]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    properties: _containers.RepeatedCompositeFieldContainer[Properties]
    delays_ms: _containers.RepeatedScalarFieldContainer[int]
    deliver_at_ms: _containers.RepeatedScalarFieldContainer[int]
    dedup_ids: _containers.RepeatedScalarFieldContainer[str]
    inerts: _containers.RepeatedScalarFieldContainer[bool]
    group_sequences: _containers.RepeatedScalarFieldContainer[int]
    lasts_in_group: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, payloads: _Optional[_Iterable[bytes]] = ..., priorities: _Optional[_Iterable[int]] = ..., persistence: _Optional[_Iterable[int]] = ..., ttls_ms: _Optional[_Iterable[int]] = ..., content_types: _Optional[_Iterable[str]] = ..., correlation_ids: _Optional[_Iterable[str]] = ..., reply_tos: _Optional[_Iterable[str]] = ..., group_ids: _Optional[_Iterable[str]] = ..., properties: _Optional[_Iterable[_Union[Properties, _Mapping]]] = ..., delays_ms: _Optional[_Iterable[int]] = ..., deliver_at_ms: _Optional[_Iterable[int]] = ..., dedup_ids: _Optional[_Iterable[str]] = ..., inerts: _Optional[_Iterable[bool]] = ..., group_sequences: _Optional[_Iterable[int]] = ..., lasts_in_group: _Optional[_Iterable[bool]] = ...) -> None: ...

class MessageFilter(_message.Message):
    __slots__ = ("selector", "ids", "correlation_id", "group_id")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    selector: str
    ids: _containers.RepeatedScalarFieldContainer[bytes]
    correlation_id: str
    group_id: str
    def __init__(self, selector: _Optional[str] = ..., ids: _Optional[_Iterable[bytes]] = ..., correlation_id: _Optional[str] = ..., group_id: _Optional[str] = ...) -> None: ...

class DeliveredMessage(_message.Message):
    __slots__ = ("queue", "index", "id", "message", "delivery_count", "enqueue_time", "lease_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    index: int
    id: bytes
    message: Message
    delivery_count: int
    enqueue_time: _timestamp_pb2.Timestamp
    lease_id: int
    def __init__(self, queue: _Optional[str] = ..., index: _Optional[int] = ..., id: _Optional[bytes] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., delivery_count: _Optional[int] = ..., enqueue_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_id: _Optional[int] = ...) -> None: ...

class DeliveredSegment(_message.Message):
    __slots__ = ("batch", "first_index", "indexes", "epoch", "log_index", "first_ordinal", "ordinals", "enqueue_time_ms", "delivery_counts", "id_domain")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    FIRST_ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    ID_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    batch: bytes
    first_index: int
    indexes: _containers.RepeatedScalarFieldContainer[int]
    epoch: int
    log_index: int
    first_ordinal: int
    ordinals: _containers.RepeatedScalarFieldContainer[int]
    enqueue_time_ms: int
    delivery_counts: _containers.RepeatedScalarFieldContainer[int]
    id_domain: int
    def __init__(self, batch: _Optional[bytes] = ..., first_index: _Optional[int] = ..., indexes: _Optional[_Iterable[int]] = ..., epoch: _Optional[int] = ..., log_index: _Optional[int] = ..., first_ordinal: _Optional[int] = ..., ordinals: _Optional[_Iterable[int]] = ..., enqueue_time_ms: _Optional[int] = ..., delivery_counts: _Optional[_Iterable[int]] = ..., id_domain: _Optional[int] = ...) -> None: ...
