from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MessageCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGE_CODE_UNSPECIFIED: _ClassVar[MessageCode]
    MESSAGE_CODE_OPEN_REQ: _ClassVar[MessageCode]
    MESSAGE_CODE_CLOSE_REQ: _ClassVar[MessageCode]
    MESSAGE_CODE_ENQUEUE_REQ: _ClassVar[MessageCode]
    MESSAGE_CODE_DEQUEUE_REQ: _ClassVar[MessageCode]
    MESSAGE_CODE_GET_STATS: _ClassVar[MessageCode]
    MESSAGE_CODE_GET_QMGR_STATS: _ClassVar[MessageCode]
    MESSAGE_CODE_OPEN_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_CLOSE_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_ENQUEUE_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_DEQUEUE_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_GET_STATS_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_GET_QMGR_STATS_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_ERROR_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_HELLO: _ClassVar[MessageCode]
    MESSAGE_CODE_SYNC_BEGIN: _ClassVar[MessageCode]
    MESSAGE_CODE_SYNC_END: _ClassVar[MessageCode]
    MESSAGE_CODE_OP: _ClassVar[MessageCode]
    MESSAGE_CODE_OP_ACK: _ClassVar[MessageCode]
    MESSAGE_CODE_HEARTBEAT: _ClassVar[MessageCode]
    MESSAGE_CODE_HANDOFF_REQ: _ClassVar[MessageCode]
    MESSAGE_CODE_HANDOFF_PROPOSE: _ClassVar[MessageCode]
    MESSAGE_CODE_HANDOFF_READY: _ClassVar[MessageCode]
    MESSAGE_CODE_HANDOFF_NACK: _ClassVar[MessageCode]
    MESSAGE_CODE_HANDOFF_ACK: _ClassVar[MessageCode]
MESSAGE_CODE_UNSPECIFIED: MessageCode
MESSAGE_CODE_OPEN_REQ: MessageCode
MESSAGE_CODE_CLOSE_REQ: MessageCode
MESSAGE_CODE_ENQUEUE_REQ: MessageCode
MESSAGE_CODE_DEQUEUE_REQ: MessageCode
MESSAGE_CODE_GET_STATS: MessageCode
MESSAGE_CODE_GET_QMGR_STATS: MessageCode
MESSAGE_CODE_OPEN_ACK: MessageCode
MESSAGE_CODE_CLOSE_ACK: MessageCode
MESSAGE_CODE_ENQUEUE_ACK: MessageCode
MESSAGE_CODE_DEQUEUE_ACK: MessageCode
MESSAGE_CODE_GET_STATS_ACK: MessageCode
MESSAGE_CODE_GET_QMGR_STATS_ACK: MessageCode
MESSAGE_CODE_ERROR_ACK: MessageCode
MESSAGE_CODE_HELLO: MessageCode
MESSAGE_CODE_SYNC_BEGIN: MessageCode
MESSAGE_CODE_SYNC_END: MessageCode
MESSAGE_CODE_OP: MessageCode
MESSAGE_CODE_OP_ACK: MessageCode
MESSAGE_CODE_HEARTBEAT: MessageCode
MESSAGE_CODE_HANDOFF_REQ: MessageCode
MESSAGE_CODE_HANDOFF_PROPOSE: MessageCode
MESSAGE_CODE_HANDOFF_READY: MessageCode
MESSAGE_CODE_HANDOFF_NACK: MessageCode
MESSAGE_CODE_HANDOFF_ACK: MessageCode

class EpochBoundary(_message.Message):
    __slots__ = ("epoch", "first_index", "digest")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    first_index: int
    digest: bytes
    def __init__(self, epoch: _Optional[int] = ..., first_index: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("pair", "member", "instance_id", "incarnation", "protocol_min", "protocol_max", "endpoint", "domains", "process_id", "seen_incarnation", "seen_process_id")
    PAIR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MAX_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    SEEN_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEEN_PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    pair: str
    member: str
    instance_id: str
    incarnation: int
    protocol_min: int
    protocol_max: int
    endpoint: str
    domains: _containers.RepeatedCompositeFieldContainer[DomainHello]
    process_id: bytes
    seen_incarnation: int
    seen_process_id: bytes
    def __init__(self, pair: _Optional[str] = ..., member: _Optional[str] = ..., instance_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., protocol_min: _Optional[int] = ..., protocol_max: _Optional[int] = ..., endpoint: _Optional[str] = ..., domains: _Optional[_Iterable[_Union[DomainHello, _Mapping]]] = ..., process_id: _Optional[bytes] = ..., seen_incarnation: _Optional[int] = ..., seen_process_id: _Optional[bytes] = ...) -> None: ...

class DomainHello(_message.Message):
    __slots__ = ("domain", "name", "role", "data_state", "epoch", "promised_epoch", "last_index", "base_index", "digest", "history", "volatile_floor", "owner", "register", "solo_since", "leaving", "wants_full", "sends_sync_id", "stays_with_transfer")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DATA_STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROMISED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    BASE_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_FLOOR_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    SOLO_SINCE_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    WANTS_FULL_FIELD_NUMBER: _ClassVar[int]
    SENDS_SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    STAYS_WITH_TRANSFER_FIELD_NUMBER: _ClassVar[int]
    domain: int
    name: str
    role: _common_pb2.Role
    data_state: _common_pb2.DataState
    epoch: int
    promised_epoch: int
    last_index: int
    base_index: int
    digest: bytes
    history: _containers.RepeatedCompositeFieldContainer[EpochBoundary]
    volatile_floor: int
    owner: str
    register: bytes
    solo_since: int
    leaving: bool
    wants_full: bool
    sends_sync_id: int
    stays_with_transfer: bool
    def __init__(self, domain: _Optional[int] = ..., name: _Optional[str] = ..., role: _Optional[_Union[_common_pb2.Role, str]] = ..., data_state: _Optional[_Union[_common_pb2.DataState, str]] = ..., epoch: _Optional[int] = ..., promised_epoch: _Optional[int] = ..., last_index: _Optional[int] = ..., base_index: _Optional[int] = ..., digest: _Optional[bytes] = ..., history: _Optional[_Iterable[_Union[EpochBoundary, _Mapping]]] = ..., volatile_floor: _Optional[int] = ..., owner: _Optional[str] = ..., register: _Optional[bytes] = ..., solo_since: _Optional[int] = ..., leaving: bool = ..., wants_full: bool = ..., sends_sync_id: _Optional[int] = ..., stays_with_transfer: bool = ...) -> None: ...

class DigestQuery(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class DigestReply(_message.Message):
    __slots__ = ("index", "epoch", "digest")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    index: int
    epoch: int
    digest: bytes
    def __init__(self, index: _Optional[int] = ..., epoch: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class SyncBegin(_message.Message):
    __slots__ = ("sync_id", "full", "base_index", "base_digest", "target_index", "history")
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    BASE_INDEX_FIELD_NUMBER: _ClassVar[int]
    BASE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TARGET_INDEX_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    sync_id: int
    full: bool
    base_index: int
    base_digest: bytes
    target_index: int
    history: _containers.RepeatedCompositeFieldContainer[EpochBoundary]
    def __init__(self, sync_id: _Optional[int] = ..., full: bool = ..., base_index: _Optional[int] = ..., base_digest: _Optional[bytes] = ..., target_index: _Optional[int] = ..., history: _Optional[_Iterable[_Union[EpochBoundary, _Mapping]]] = ...) -> None: ...

class SyncEnd(_message.Message):
    __slots__ = ("sync_id", "last_index", "count", "digest", "state_digest")
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    sync_id: int
    last_index: int
    count: int
    digest: bytes
    state_digest: bytes
    def __init__(self, sync_id: _Optional[int] = ..., last_index: _Optional[int] = ..., count: _Optional[int] = ..., digest: _Optional[bytes] = ..., state_digest: _Optional[bytes] = ...) -> None: ...

class OpenAck(_message.Message):
    __slots__ = ("sync_id", "durable_index", "done", "refusal", "diverged")
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    DURABLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_FIELD_NUMBER: _ClassVar[int]
    sync_id: int
    durable_index: int
    done: bool
    refusal: str
    diverged: bool
    def __init__(self, sync_id: _Optional[int] = ..., durable_index: _Optional[int] = ..., done: bool = ..., refusal: _Optional[str] = ..., diverged: bool = ...) -> None: ...

class HeldKey(_message.Message):
    __slots__ = ("client_id", "queue", "first_sequence")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    client_id: bytes
    queue: str
    first_sequence: int
    def __init__(self, client_id: _Optional[bytes] = ..., queue: _Optional[str] = ..., first_sequence: _Optional[int] = ...) -> None: ...

class OpEntry(_message.Message):
    __slots__ = ("record", "held")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    record: bytes
    held: HeldKey
    def __init__(self, record: _Optional[bytes] = ..., held: _Optional[_Union[HeldKey, _Mapping]] = ...) -> None: ...

class Op(_message.Message):
    __slots__ = ("entries", "commit_index")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[OpEntry]
    commit_index: int
    def __init__(self, entries: _Optional[_Iterable[_Union[OpEntry, _Mapping]]] = ..., commit_index: _Optional[int] = ...) -> None: ...

class OpAck(_message.Message):
    __slots__ = ("durable_index", "applied_index", "index")
    DURABLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    durable_index: int
    applied_index: int
    index: int
    def __init__(self, durable_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("key", "batch", "request_id", "min_copies", "full_wait_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    FULL_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    key: HeldKey
    batch: bytes
    request_id: bytes
    min_copies: int
    full_wait_ms: int
    def __init__(self, key: _Optional[_Union[HeldKey, _Mapping]] = ..., batch: _Optional[bytes] = ..., request_id: _Optional[bytes] = ..., min_copies: _Optional[int] = ..., full_wait_ms: _Optional[int] = ...) -> None: ...

class HoldReject(_message.Message):
    __slots__ = ("key", "error", "last_sequence", "duplicate_of")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_OF_FIELD_NUMBER: _ClassVar[int]
    key: HeldKey
    error: _common_pb2.Error
    last_sequence: int
    duplicate_of: int
    def __init__(self, key: _Optional[_Union[HeldKey, _Mapping]] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., last_sequence: _Optional[int] = ..., duplicate_of: _Optional[int] = ...) -> None: ...

class FetchBody(_message.Message):
    __slots__ = ("indexes",)
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, indexes: _Optional[_Iterable[int]] = ...) -> None: ...

class VolatileBody(_message.Message):
    __slots__ = ("index", "body", "held")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    index: int
    body: bytes
    held: bool
    def __init__(self, index: _Optional[int] = ..., body: _Optional[bytes] = ..., held: bool = ...) -> None: ...

class VolatileBodies(_message.Message):
    __slots__ = ("bodies",)
    BODIES_FIELD_NUMBER: _ClassVar[int]
    bodies: _containers.RepeatedCompositeFieldContainer[VolatileBody]
    def __init__(self, bodies: _Optional[_Iterable[_Union[VolatileBody, _Mapping]]] = ...) -> None: ...

class HandoffRequest(_message.Message):
    __slots__ = ("id", "reason", "dry_run")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    reason: str
    dry_run: bool
    def __init__(self, id: _Optional[bytes] = ..., reason: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class HandoffPropose(_message.Message):
    __slots__ = ("id", "last_index", "deadline_ms", "dry_run", "reason", "automatic")
    ID_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    last_index: int
    deadline_ms: int
    dry_run: bool
    reason: str
    automatic: bool
    def __init__(self, id: _Optional[bytes] = ..., last_index: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., dry_run: bool = ..., reason: _Optional[str] = ..., automatic: bool = ...) -> None: ...

class HandoffReady(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    def __init__(self, id: _Optional[bytes] = ...) -> None: ...

class HandoffNack(_message.Message):
    __slots__ = ("id", "reasons", "retry_after_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    reasons: _containers.RepeatedScalarFieldContainer[str]
    retry_after_ms: int
    def __init__(self, id: _Optional[bytes] = ..., reasons: _Optional[_Iterable[str]] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class HandoffAck(_message.Message):
    __slots__ = ("id", "final_index", "final_digest", "ceded_epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    FINAL_INDEX_FIELD_NUMBER: _ClassVar[int]
    FINAL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CEDED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    final_index: int
    final_digest: bytes
    ceded_epoch: int
    def __init__(self, id: _Optional[bytes] = ..., final_index: _Optional[int] = ..., final_digest: _Optional[bytes] = ..., ceded_epoch: _Optional[int] = ...) -> None: ...

class VerifyQuery(_message.Message):
    __slots__ = ("verify_id", "first_index", "last_index", "indexes")
    VERIFY_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    verify_id: int
    first_index: int
    last_index: int
    indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, verify_id: _Optional[int] = ..., first_index: _Optional[int] = ..., last_index: _Optional[int] = ..., indexes: _Optional[_Iterable[int]] = ...) -> None: ...

class VerifyReply(_message.Message):
    __slots__ = ("verify_id", "first_index", "last_index", "records", "digest", "kept_from", "damaged")
    VERIFY_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KEPT_FROM_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    verify_id: int
    first_index: int
    last_index: int
    records: int
    digest: bytes
    kept_from: int
    damaged: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, verify_id: _Optional[int] = ..., first_index: _Optional[int] = ..., last_index: _Optional[int] = ..., records: _Optional[int] = ..., digest: _Optional[bytes] = ..., kept_from: _Optional[int] = ..., damaged: _Optional[_Iterable[int]] = ...) -> None: ...

class VerifyDone(_message.Message):
    __slots__ = ("verify_id", "difference")
    VERIFY_ID_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    verify_id: int
    difference: str
    def __init__(self, verify_id: _Optional[int] = ..., difference: _Optional[str] = ...) -> None: ...

class PeerError(_message.Message):
    __slots__ = ("code", "error")
    CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    code: MessageCode
    error: _common_pb2.Error
    def __init__(self, code: _Optional[_Union[MessageCode, str]] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class PeerFrame(_message.Message):
    __slots__ = ("domain", "epoch", "hello", "digest_query", "digest_reply", "sync_begin", "sync_end", "open_ack", "op", "op_ack", "hold", "hold_reject", "fetch_body", "error", "handoff_request", "handoff_propose", "handoff_ready", "handoff_nack", "handoff_ack", "verify_query", "verify_reply", "verify_done", "volatile_bodies")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    DIGEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_REPLY_FIELD_NUMBER: _ClassVar[int]
    SYNC_BEGIN_FIELD_NUMBER: _ClassVar[int]
    SYNC_END_FIELD_NUMBER: _ClassVar[int]
    OPEN_ACK_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    OP_ACK_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    HOLD_REJECT_FIELD_NUMBER: _ClassVar[int]
    FETCH_BODY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_REQUEST_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_PROPOSE_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_READY_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_NACK_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_ACK_FIELD_NUMBER: _ClassVar[int]
    VERIFY_QUERY_FIELD_NUMBER: _ClassVar[int]
    VERIFY_REPLY_FIELD_NUMBER: _ClassVar[int]
    VERIFY_DONE_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_BODIES_FIELD_NUMBER: _ClassVar[int]
    domain: int
    epoch: int
    hello: Hello
    digest_query: DigestQuery
    digest_reply: DigestReply
    sync_begin: SyncBegin
    sync_end: SyncEnd
    open_ack: OpenAck
    op: Op
    op_ack: OpAck
    hold: Hold
    hold_reject: HoldReject
    fetch_body: FetchBody
    error: PeerError
    handoff_request: HandoffRequest
    handoff_propose: HandoffPropose
    handoff_ready: HandoffReady
    handoff_nack: HandoffNack
    handoff_ack: HandoffAck
    verify_query: VerifyQuery
    verify_reply: VerifyReply
    verify_done: VerifyDone
    volatile_bodies: VolatileBodies
    def __init__(self, domain: _Optional[int] = ..., epoch: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., digest_query: _Optional[_Union[DigestQuery, _Mapping]] = ..., digest_reply: _Optional[_Union[DigestReply, _Mapping]] = ..., sync_begin: _Optional[_Union[SyncBegin, _Mapping]] = ..., sync_end: _Optional[_Union[SyncEnd, _Mapping]] = ..., open_ack: _Optional[_Union[OpenAck, _Mapping]] = ..., op: _Optional[_Union[Op, _Mapping]] = ..., op_ack: _Optional[_Union[OpAck, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., hold_reject: _Optional[_Union[HoldReject, _Mapping]] = ..., fetch_body: _Optional[_Union[FetchBody, _Mapping]] = ..., error: _Optional[_Union[PeerError, _Mapping]] = ..., handoff_request: _Optional[_Union[HandoffRequest, _Mapping]] = ..., handoff_propose: _Optional[_Union[HandoffPropose, _Mapping]] = ..., handoff_ready: _Optional[_Union[HandoffReady, _Mapping]] = ..., handoff_nack: _Optional[_Union[HandoffNack, _Mapping]] = ..., handoff_ack: _Optional[_Union[HandoffAck, _Mapping]] = ..., verify_query: _Optional[_Union[VerifyQuery, _Mapping]] = ..., verify_reply: _Optional[_Union[VerifyReply, _Mapping]] = ..., verify_done: _Optional[_Union[VerifyDone, _Mapping]] = ..., volatile_bodies: _Optional[_Union[VolatileBodies, _Mapping]] = ...) -> None: ...

class HeartbeatFrame(_message.Message):
    __slots__ = ("member", "number", "heard_ago_ms", "domains", "write_stall_ms", "room_bytes", "full")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HEARD_AGO_MS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    WRITE_STALL_MS_FIELD_NUMBER: _ClassVar[int]
    ROOM_BYTES_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    member: str
    number: int
    heard_ago_ms: int
    domains: _containers.RepeatedCompositeFieldContainer[DomainHeartbeat]
    write_stall_ms: int
    room_bytes: int
    full: bool
    def __init__(self, member: _Optional[str] = ..., number: _Optional[int] = ..., heard_ago_ms: _Optional[int] = ..., domains: _Optional[_Iterable[_Union[DomainHeartbeat, _Mapping]]] = ..., write_stall_ms: _Optional[int] = ..., room_bytes: _Optional[int] = ..., full: bool = ...) -> None: ...

class DomainHeartbeat(_message.Message):
    __slots__ = ("domain", "epoch", "role", "durable_index", "commit_index", "passed", "asks")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    domain: int
    epoch: int
    role: _common_pb2.Role
    durable_index: int
    commit_index: int
    passed: _containers.RepeatedCompositeFieldContainer[SidePassed]
    asks: _containers.RepeatedCompositeFieldContainer[SideAsk]
    def __init__(self, domain: _Optional[int] = ..., epoch: _Optional[int] = ..., role: _Optional[_Union[_common_pb2.Role, str]] = ..., durable_index: _Optional[int] = ..., commit_index: _Optional[int] = ..., passed: _Optional[_Iterable[_Union[SidePassed, _Mapping]]] = ..., asks: _Optional[_Iterable[_Union[SideAsk, _Mapping]]] = ...) -> None: ...

class SideAsk(_message.Message):
    __slots__ = ("queue_id", "until")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    until: int
    def __init__(self, queue_id: _Optional[int] = ..., until: _Optional[int] = ...) -> None: ...

class SidePassed(_message.Message):
    __slots__ = ("queue_id", "index", "restarted_ms")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RESTARTED_MS_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    index: int
    restarted_ms: int
    def __init__(self, queue_id: _Optional[int] = ..., index: _Optional[int] = ..., restarted_ms: _Optional[int] = ...) -> None: ...

class TransferFrame(_message.Message):
    __slots__ = ("domain", "sync_id", "member", "queue_begin", "segments", "queue_end", "state", "volatile_body", "end")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_BEGIN_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_END_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_BODY_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    domain: int
    sync_id: int
    member: str
    queue_begin: QueueSyncBegin
    segments: QueueSegments
    queue_end: QueueSyncEnd
    state: StateChunk
    volatile_body: VolatileBody
    end: TransferEnd
    def __init__(self, domain: _Optional[int] = ..., sync_id: _Optional[int] = ..., member: _Optional[str] = ..., queue_begin: _Optional[_Union[QueueSyncBegin, _Mapping]] = ..., segments: _Optional[_Union[QueueSegments, _Mapping]] = ..., queue_end: _Optional[_Union[QueueSyncEnd, _Mapping]] = ..., state: _Optional[_Union[StateChunk, _Mapping]] = ..., volatile_body: _Optional[_Union[VolatileBody, _Mapping]] = ..., end: _Optional[_Union[TransferEnd, _Mapping]] = ...) -> None: ...

class QueueSyncBegin(_message.Message):
    __slots__ = ("queue_id", "name")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    name: str
    def __init__(self, queue_id: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class QueueSegments(_message.Message):
    __slots__ = ("records", "saved")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    SAVED_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedScalarFieldContainer[bytes]
    saved: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, records: _Optional[_Iterable[bytes]] = ..., saved: _Optional[_Iterable[int]] = ...) -> None: ...

class QueueSyncEnd(_message.Message):
    __slots__ = ("queue_id", "records", "messages", "last_index", "digest")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    records: int
    messages: int
    last_index: int
    digest: bytes
    def __init__(self, queue_id: _Optional[int] = ..., records: _Optional[int] = ..., messages: _Optional[int] = ..., last_index: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class StateChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class TransferEnd(_message.Message):
    __slots__ = ("state_bytes", "state_digest", "log_digest", "queues")
    STATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LOG_DIGEST_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    state_bytes: int
    state_digest: bytes
    log_digest: bytes
    queues: int
    def __init__(self, state_bytes: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., log_digest: _Optional[bytes] = ..., queues: _Optional[int] = ...) -> None: ...
