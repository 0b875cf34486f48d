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

class ManagerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MANAGER_STATE_UNSPECIFIED: _ClassVar[ManagerState]
    MANAGER_STATE_OPENING: _ClassVar[ManagerState]
    MANAGER_STATE_OPEN: _ClassVar[ManagerState]
    MANAGER_STATE_FAILED: _ClassVar[ManagerState]
MANAGER_STATE_UNSPECIFIED: ManagerState
MANAGER_STATE_OPENING: ManagerState
MANAGER_STATE_OPEN: ManagerState
MANAGER_STATE_FAILED: ManagerState

class GetManagerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetManagerResponse(_message.Message):
    __slots__ = ("header", "version", "format_version", "protocol_min", "protocol_max", "max_message_bytes", "max_batch_bytes", "max_batch_messages", "dedup_sequences", "dedup_window", "queues", "clients", "pid", "resident_bytes", "store_used_bytes", "store_map_bytes", "state", "stats")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DEDUP_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    DEDUP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_MAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    version: str
    format_version: int
    protocol_min: int
    protocol_max: int
    max_message_bytes: int
    max_batch_bytes: int
    max_batch_messages: int
    dedup_sequences: int
    dedup_window: _duration_pb2.Duration
    queues: int
    clients: int
    pid: int
    resident_bytes: int
    store_used_bytes: int
    store_map_bytes: int
    state: ManagerState
    stats: ManagerStats
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., version: _Optional[str] = ..., format_version: _Optional[int] = ..., protocol_min: _Optional[int] = ..., protocol_max: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., max_batch_bytes: _Optional[int] = ..., max_batch_messages: _Optional[int] = ..., dedup_sequences: _Optional[int] = ..., dedup_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queues: _Optional[int] = ..., clients: _Optional[int] = ..., pid: _Optional[int] = ..., resident_bytes: _Optional[int] = ..., store_used_bytes: _Optional[int] = ..., store_map_bytes: _Optional[int] = ..., state: _Optional[_Union[ManagerState, str]] = ..., stats: _Optional[_Union[ManagerStats, _Mapping]] = ...) -> None: ...

class ManagerStats(_message.Message):
    __slots__ = ("macro_queues", "queue_counts", "client_counts", "waiters", "message_counts", "totals", "refused_after_accept_total")
    MACRO_QUEUES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_COUNTS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_AFTER_ACCEPT_TOTAL_FIELD_NUMBER: _ClassVar[int]
    macro_queues: int
    queue_counts: QueueCounts
    client_counts: ClientCounts
    waiters: int
    message_counts: MessageCounts
    totals: MessageTotals
    refused_after_accept_total: int
    def __init__(self, macro_queues: _Optional[int] = ..., queue_counts: _Optional[_Union[QueueCounts, _Mapping]] = ..., client_counts: _Optional[_Union[ClientCounts, _Mapping]] = ..., waiters: _Optional[int] = ..., message_counts: _Optional[_Union[MessageCounts, _Mapping]] = ..., totals: _Optional[_Union[MessageTotals, _Mapping]] = ..., refused_after_accept_total: _Optional[int] = ...) -> None: ...

class QueueCounts(_message.Message):
    __slots__ = ("replicated", "unreplicated", "one_way", "one_way_ack", "one_way_queued_ack", "two_way", "open", "not_open", "aliases")
    REPLICATED_FIELD_NUMBER: _ClassVar[int]
    UNREPLICATED_FIELD_NUMBER: _ClassVar[int]
    ONE_WAY_FIELD_NUMBER: _ClassVar[int]
    ONE_WAY_ACK_FIELD_NUMBER: _ClassVar[int]
    ONE_WAY_QUEUED_ACK_FIELD_NUMBER: _ClassVar[int]
    TWO_WAY_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    NOT_OPEN_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    replicated: int
    unreplicated: int
    one_way: int
    one_way_ack: int
    one_way_queued_ack: int
    two_way: int
    open: int
    not_open: int
    aliases: int
    def __init__(self, replicated: _Optional[int] = ..., unreplicated: _Optional[int] = ..., one_way: _Optional[int] = ..., one_way_ack: _Optional[int] = ..., one_way_queued_ack: _Optional[int] = ..., two_way: _Optional[int] = ..., open: _Optional[int] = ..., not_open: _Optional[int] = ..., aliases: _Optional[int] = ...) -> None: ...

class ClientCounts(_message.Message):
    __slots__ = ("consumers", "producers", "remote", "local")
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    consumers: int
    producers: int
    remote: int
    local: int
    def __init__(self, consumers: _Optional[int] = ..., producers: _Optional[int] = ..., remote: _Optional[int] = ..., local: _Optional[int] = ...) -> None: ...

class MessageCounts(_message.Message):
    __slots__ = ("total", "ready", "leased", "delayed", "dying", "bytes", "blocked")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    total: int
    ready: int
    leased: int
    delayed: int
    dying: int
    bytes: int
    blocked: int
    def __init__(self, total: _Optional[int] = ..., ready: _Optional[int] = ..., leased: _Optional[int] = ..., delayed: _Optional[int] = ..., dying: _Optional[int] = ..., bytes: _Optional[int] = ..., blocked: _Optional[int] = ...) -> None: ...

class MessageTotals(_message.Message):
    __slots__ = ("enqueued", "delivered", "acked", "released", "redelivered", "rejected", "expired", "dropped", "dead_lettered", "purged", "replied", "reply_timeouts", "duplicates", "volatile_lost", "refused_full", "reacted")
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    REPLIED_FIELD_NUMBER: _ClassVar[int]
    REPLY_TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_LOST_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FULL_FIELD_NUMBER: _ClassVar[int]
    REACTED_FIELD_NUMBER: _ClassVar[int]
    enqueued: int
    delivered: int
    acked: int
    released: int
    redelivered: int
    rejected: int
    expired: int
    dropped: int
    dead_lettered: int
    purged: int
    replied: int
    reply_timeouts: int
    duplicates: int
    volatile_lost: int
    refused_full: int
    reacted: int
    def __init__(self, enqueued: _Optional[int] = ..., delivered: _Optional[int] = ..., acked: _Optional[int] = ..., released: _Optional[int] = ..., redelivered: _Optional[int] = ..., rejected: _Optional[int] = ..., expired: _Optional[int] = ..., dropped: _Optional[int] = ..., dead_lettered: _Optional[int] = ..., purged: _Optional[int] = ..., replied: _Optional[int] = ..., reply_timeouts: _Optional[int] = ..., duplicates: _Optional[int] = ..., volatile_lost: _Optional[int] = ..., refused_full: _Optional[int] = ..., reacted: _Optional[int] = ...) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ("any_copy",)
    ANY_COPY_FIELD_NUMBER: _ClassVar[int]
    any_copy: bool
    def __init__(self, any_copy: bool = ...) -> None: ...

class BackupResponse(_message.Message):
    __slots__ = ("header", "chunk", "footer")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FOOTER_FIELD_NUMBER: _ClassVar[int]
    header: BackupHeader
    chunk: bytes
    footer: BackupFooter
    def __init__(self, header: _Optional[_Union[BackupHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ..., footer: _Optional[_Union[BackupFooter, _Mapping]] = ...) -> None: ...

class BackupHeader(_message.Message):
    __slots__ = ("header", "format_version", "version", "pair", "member", "peer", "instance_id", "incarnation", "taken_at", "domains", "records", "bytes_estimate", "whole")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    format_version: int
    version: str
    pair: str
    member: str
    peer: str
    instance_id: str
    incarnation: int
    taken_at: _timestamp_pb2.Timestamp
    domains: _containers.RepeatedCompositeFieldContainer[BackupDomain]
    records: int
    bytes_estimate: int
    whole: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., format_version: _Optional[int] = ..., version: _Optional[str] = ..., pair: _Optional[str] = ..., member: _Optional[str] = ..., peer: _Optional[str] = ..., instance_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., taken_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., domains: _Optional[_Iterable[_Union[BackupDomain, _Mapping]]] = ..., records: _Optional[int] = ..., bytes_estimate: _Optional[int] = ..., whole: bool = ...) -> None: ...

class BackupDomain(_message.Message):
    __slots__ = ("name", "epoch", "log_index", "digest", "data_state", "records")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DATA_STATE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    log_index: int
    digest: str
    data_state: _common_pb2.DataState
    records: int
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., log_index: _Optional[int] = ..., digest: _Optional[str] = ..., data_state: _Optional[_Union[_common_pb2.DataState, str]] = ..., records: _Optional[int] = ...) -> None: ...

class BackupFooter(_message.Message):
    __slots__ = ("bytes", "blake2b", "records")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BLAKE2B_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    blake2b: bytes
    records: int
    def __init__(self, bytes: _Optional[int] = ..., blake2b: _Optional[bytes] = ..., records: _Optional[int] = ...) -> None: ...
