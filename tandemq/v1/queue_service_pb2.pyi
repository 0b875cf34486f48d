import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import message_pb2 as _message_pb2
from tandemq.v1 import reaction_service_pb2 as _reaction_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FinalState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINAL_STATE_UNSPECIFIED: _ClassVar[FinalState]
    FINAL_STATE_CONSUMED: _ClassVar[FinalState]
    FINAL_STATE_REPLIED: _ClassVar[FinalState]
    FINAL_STATE_REJECTED: _ClassVar[FinalState]
    FINAL_STATE_EXPIRED: _ClassVar[FinalState]
    FINAL_STATE_DEAD_LETTERED: _ClassVar[FinalState]
    FINAL_STATE_PURGED: _ClassVar[FinalState]
    FINAL_STATE_REPLY_TIMEOUT: _ClassVar[FinalState]
    FINAL_STATE_DROPPED: _ClassVar[FinalState]
    FINAL_STATE_LOST: _ClassVar[FinalState]
    FINAL_STATE_REACTED: _ClassVar[FinalState]

class SettleMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLE_MODE_UNSPECIFIED: _ClassVar[SettleMode]
    SETTLE_MODE_LEASE: _ClassVar[SettleMode]
    SETTLE_MODE_IMMEDIATE: _ClassVar[SettleMode]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_ACK: _ClassVar[Outcome]
    OUTCOME_RELEASE: _ClassVar[Outcome]
    OUTCOME_REJECT: _ClassVar[Outcome]
    OUTCOME_EXTEND: _ClassVar[Outcome]

class DeliveryFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_FORMAT_UNSPECIFIED: _ClassVar[DeliveryFormat]
    DELIVERY_FORMAT_MESSAGES: _ClassVar[DeliveryFormat]
    DELIVERY_FORMAT_SEGMENTS: _ClassVar[DeliveryFormat]
FINAL_STATE_UNSPECIFIED: FinalState
FINAL_STATE_CONSUMED: FinalState
FINAL_STATE_REPLIED: FinalState
FINAL_STATE_REJECTED: FinalState
FINAL_STATE_EXPIRED: FinalState
FINAL_STATE_DEAD_LETTERED: FinalState
FINAL_STATE_PURGED: FinalState
FINAL_STATE_REPLY_TIMEOUT: FinalState
FINAL_STATE_DROPPED: FinalState
FINAL_STATE_LOST: FinalState
FINAL_STATE_REACTED: FinalState
SETTLE_MODE_UNSPECIFIED: SettleMode
SETTLE_MODE_LEASE: SettleMode
SETTLE_MODE_IMMEDIATE: SettleMode
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_ACK: Outcome
OUTCOME_RELEASE: Outcome
OUTCOME_REJECT: Outcome
OUTCOME_EXTEND: Outcome
DELIVERY_FORMAT_UNSPECIFIED: DeliveryFormat
DELIVERY_FORMAT_MESSAGES: DeliveryFormat
DELIVERY_FORMAT_SEGMENTS: DeliveryFormat

class EnqueueRequest(_message.Message):
    __slots__ = ("queue", "request_id", "messages", "min_copies", "epoch", "wait", "unit_id", "reaction")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    REACTION_FIELD_NUMBER: _ClassVar[int]
    queue: str
    request_id: bytes
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    min_copies: int
    epoch: int
    wait: _duration_pb2.Duration
    unit_id: bytes
    reaction: _reaction_service_pb2.Reaction
    def __init__(self, queue: _Optional[str] = ..., request_id: _Optional[bytes] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ..., min_copies: _Optional[int] = ..., epoch: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unit_id: _Optional[bytes] = ..., reaction: _Optional[_Union[_reaction_service_pb2.Reaction, _Mapping]] = ...) -> None: ...

class EnqueueResult(_message.Message):
    __slots__ = ("index", "id", "completion", "error", "warning", "handle", "duplicate", "final_state", "reply", "completed", "member_queue")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATE_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    MEMBER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    index: int
    id: bytes
    completion: _common_pb2.Completion
    error: _common_pb2.Error
    warning: _common_pb2.Warning
    handle: bytes
    duplicate: bool
    final_state: FinalState
    reply: _message_pb2.Message
    completed: bool
    member_queue: str
    def __init__(self, index: _Optional[int] = ..., id: _Optional[bytes] = ..., completion: _Optional[_Union[_common_pb2.Completion, str]] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., warning: _Optional[_Union[_common_pb2.Warning, str]] = ..., handle: _Optional[bytes] = ..., duplicate: bool = ..., final_state: _Optional[_Union[FinalState, str]] = ..., reply: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., completed: bool = ..., member_queue: _Optional[str] = ...) -> None: ...

class EnqueueResponse(_message.Message):
    __slots__ = ("header", "results", "duplicate", "forwarded", "id_epoch", "reacted", "member_queue")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    ID_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REACTED_FIELD_NUMBER: _ClassVar[int]
    MEMBER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    results: _containers.RepeatedCompositeFieldContainer[EnqueueResult]
    duplicate: bool
    forwarded: str
    id_epoch: int
    reacted: _reaction_service_pb2.ReactResponse
    member_queue: str
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., results: _Optional[_Iterable[_Union[EnqueueResult, _Mapping]]] = ..., duplicate: bool = ..., forwarded: _Optional[str] = ..., id_epoch: _Optional[int] = ..., reacted: _Optional[_Union[_reaction_service_pb2.ReactResponse, _Mapping]] = ..., member_queue: _Optional[str] = ...) -> None: ...

class ProduceOpen(_message.Message):
    __slots__ = ("client_id", "queue", "min_copies", "epoch", "full_wait")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FULL_WAIT_FIELD_NUMBER: _ClassVar[int]
    client_id: bytes
    queue: str
    min_copies: int
    epoch: int
    full_wait: _duration_pb2.Duration
    def __init__(self, client_id: _Optional[bytes] = ..., queue: _Optional[str] = ..., min_copies: _Optional[int] = ..., epoch: _Optional[int] = ..., full_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class EnqueueBatch(_message.Message):
    __slots__ = ("queue", "first_sequence", "messages")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_sequence: int
    messages: _message_pb2.MessageBatch
    def __init__(self, queue: _Optional[str] = ..., first_sequence: _Optional[int] = ..., messages: _Optional[_Union[_message_pb2.MessageBatch, _Mapping]] = ...) -> None: ...

class ProduceRequest(_message.Message):
    __slots__ = ("open", "batch")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    open: ProduceOpen
    batch: EnqueueBatch
    def __init__(self, open: _Optional[_Union[ProduceOpen, _Mapping]] = ..., batch: _Optional[_Union[EnqueueBatch, _Mapping]] = ...) -> None: ...

class ProduceOpened(_message.Message):
    __slots__ = ("header", "last_sequence", "max_batches", "max_batch_bytes", "max_batch_messages")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCHES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    last_sequence: int
    max_batches: int
    max_batch_bytes: int
    max_batch_messages: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., last_sequence: _Optional[int] = ..., max_batches: _Optional[int] = ..., max_batch_bytes: _Optional[int] = ..., max_batch_messages: _Optional[int] = ...) -> None: ...

class EntryError(_message.Message):
    __slots__ = ("ordinal", "error")
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    error: _common_pb2.Error
    def __init__(self, ordinal: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class EnqueueAck(_message.Message):
    __slots__ = ("queue", "first_sequence", "count", "first_index", "log_index", "epoch", "copies", "level", "duplicate", "errors", "warning", "handle_prefix", "duplicates", "forwarded", "id_epoch", "id_domain", "member_queue", "members")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    HANDLE_PREFIX_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    ID_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ID_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_sequence: int
    count: int
    first_index: int
    log_index: int
    epoch: int
    copies: int
    level: _common_pb2.Level
    duplicate: bool
    errors: _containers.RepeatedCompositeFieldContainer[EntryError]
    warning: _common_pb2.Warning
    handle_prefix: bytes
    duplicates: _containers.RepeatedCompositeFieldContainer[EntryDuplicate]
    forwarded: str
    id_epoch: int
    id_domain: int
    member_queue: str
    members: _containers.RepeatedCompositeFieldContainer[MemberEntries]
    def __init__(self, queue: _Optional[str] = ..., first_sequence: _Optional[int] = ..., count: _Optional[int] = ..., first_index: _Optional[int] = ..., log_index: _Optional[int] = ..., epoch: _Optional[int] = ..., copies: _Optional[int] = ..., level: _Optional[_Union[_common_pb2.Level, str]] = ..., duplicate: bool = ..., errors: _Optional[_Iterable[_Union[EntryError, _Mapping]]] = ..., warning: _Optional[_Union[_common_pb2.Warning, str]] = ..., handle_prefix: _Optional[bytes] = ..., duplicates: _Optional[_Iterable[_Union[EntryDuplicate, _Mapping]]] = ..., forwarded: _Optional[str] = ..., id_epoch: _Optional[int] = ..., id_domain: _Optional[int] = ..., member_queue: _Optional[str] = ..., members: _Optional[_Iterable[_Union[MemberEntries, _Mapping]]] = ...) -> None: ...

class MemberEntries(_message.Message):
    __slots__ = ("queue", "first_index", "ordinals", "handle_prefix")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    HANDLE_PREFIX_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_index: int
    ordinals: _containers.RepeatedScalarFieldContainer[int]
    handle_prefix: bytes
    def __init__(self, queue: _Optional[str] = ..., first_index: _Optional[int] = ..., ordinals: _Optional[_Iterable[int]] = ..., handle_prefix: _Optional[bytes] = ...) -> None: ...

class EntryDuplicate(_message.Message):
    __slots__ = ("ordinal", "index")
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    index: int
    def __init__(self, ordinal: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class EnqueueReject(_message.Message):
    __slots__ = ("queue", "first_sequence", "count", "error", "last_sequence")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_sequence: int
    count: int
    error: _common_pb2.Error
    last_sequence: int
    def __init__(self, queue: _Optional[str] = ..., first_sequence: _Optional[int] = ..., count: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class Goaway(_message.Message):
    __slots__ = ("error", "master_endpoint", "epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MASTER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    master_endpoint: str
    epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., master_endpoint: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("opened", "ack", "reject", "goaway", "more_acks")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    GOAWAY_FIELD_NUMBER: _ClassVar[int]
    MORE_ACKS_FIELD_NUMBER: _ClassVar[int]
    opened: ProduceOpened
    ack: EnqueueAck
    reject: EnqueueReject
    goaway: Goaway
    more_acks: _containers.RepeatedCompositeFieldContainer[EnqueueAck]
    def __init__(self, opened: _Optional[_Union[ProduceOpened, _Mapping]] = ..., ack: _Optional[_Union[EnqueueAck, _Mapping]] = ..., reject: _Optional[_Union[EnqueueReject, _Mapping]] = ..., goaway: _Optional[_Union[Goaway, _Mapping]] = ..., more_acks: _Optional[_Iterable[_Union[EnqueueAck, _Mapping]]] = ...) -> None: ...

class DequeueRequest(_message.Message):
    __slots__ = ("queue", "request_id", "max_messages", "max_bytes", "wait", "settle_mode", "lease_duration", "client_id", "epoch", "filter", "unit_id", "format")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_MODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    request_id: bytes
    max_messages: int
    max_bytes: int
    wait: _duration_pb2.Duration
    settle_mode: SettleMode
    lease_duration: _duration_pb2.Duration
    client_id: bytes
    epoch: int
    filter: _message_pb2.MessageFilter
    unit_id: bytes
    format: DeliveryFormat
    def __init__(self, queue: _Optional[str] = ..., request_id: _Optional[bytes] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., settle_mode: _Optional[_Union[SettleMode, str]] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., client_id: _Optional[bytes] = ..., epoch: _Optional[int] = ..., filter: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ..., unit_id: _Optional[bytes] = ..., format: _Optional[_Union[DeliveryFormat, str]] = ...) -> None: ...

class DequeueResponse(_message.Message):
    __slots__ = ("header", "lease_id", "messages", "duplicate", "segments", "member_queue")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    lease_id: int
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredMessage]
    duplicate: bool
    segments: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredSegment]
    member_queue: str
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., lease_id: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.DeliveredMessage, _Mapping]]] = ..., duplicate: bool = ..., segments: _Optional[_Iterable[_Union[_message_pb2.DeliveredSegment, _Mapping]]] = ..., member_queue: _Optional[str] = ...) -> None: ...

class ConsumeOpen(_message.Message):
    __slots__ = ("queue", "client_id", "format", "settle_mode", "lease_duration", "epoch", "last_lease_id", "filter")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_MODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    queue: str
    client_id: bytes
    format: DeliveryFormat
    settle_mode: SettleMode
    lease_duration: _duration_pb2.Duration
    epoch: int
    last_lease_id: int
    filter: _message_pb2.MessageFilter
    def __init__(self, queue: _Optional[str] = ..., client_id: _Optional[bytes] = ..., format: _Optional[_Union[DeliveryFormat, str]] = ..., settle_mode: _Optional[_Union[SettleMode, str]] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., epoch: _Optional[int] = ..., last_lease_id: _Optional[int] = ..., filter: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ...) -> None: ...

class ConsumeCredit(_message.Message):
    __slots__ = ("messages", "bytes")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    bytes: int
    def __init__(self, messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("lease_id", "ranges", "outcome", "extension", "reason", "delay", "queue")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    outcome: Outcome
    extension: _duration_pb2.Duration
    reason: str
    delay: _duration_pb2.Duration
    queue: str
    def __init__(self, lease_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., extension: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reason: _Optional[str] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queue: _Optional[str] = ...) -> None: ...

class ConsumeReply(_message.Message):
    __slots__ = ("settle_id", "lease_id", "index", "message")
    SETTLE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    settle_id: int
    lease_id: int
    index: int
    message: _message_pb2.Message
    def __init__(self, settle_id: _Optional[int] = ..., lease_id: _Optional[int] = ..., index: _Optional[int] = ..., message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ...) -> None: ...

class ConsumeSettle(_message.Message):
    __slots__ = ("settle_id", "settlements")
    SETTLE_ID_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    settle_id: int
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    def __init__(self, settle_id: _Optional[int] = ..., settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ...) -> None: ...

class ConsumePing(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("open", "credit", "settle", "ping", "reply")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    open: ConsumeOpen
    credit: ConsumeCredit
    settle: ConsumeSettle
    ping: ConsumePing
    reply: ConsumeReply
    def __init__(self, open: _Optional[_Union[ConsumeOpen, _Mapping]] = ..., credit: _Optional[_Union[ConsumeCredit, _Mapping]] = ..., settle: _Optional[_Union[ConsumeSettle, _Mapping]] = ..., ping: _Optional[_Union[ConsumePing, _Mapping]] = ..., reply: _Optional[_Union[ConsumeReply, _Mapping]] = ...) -> None: ...

class ConsumeOpened(_message.Message):
    __slots__ = ("header", "lease_duration")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    lease_duration: _duration_pb2.Duration
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Deliveries(_message.Message):
    __slots__ = ("header", "queue", "lease_id", "messages", "segments")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: str
    lease_id: int
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredMessage]
    segments: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredSegment]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[str] = ..., lease_id: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.DeliveredMessage, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[_message_pb2.DeliveredSegment, _Mapping]]] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("settled", "error", "refused")
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    settled: int
    error: _common_pb2.Error
    refused: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    def __init__(self, settled: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., refused: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ...) -> None: ...

class ConsumeSettled(_message.Message):
    __slots__ = ("header", "settle_id", "results")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SETTLE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    settle_id: int
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., settle_id: _Optional[int] = ..., results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class ConsumeProgress(_message.Message):
    __slots__ = ("header", "nonce")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    nonce: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., nonce: _Optional[int] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("opened", "deliveries", "settled", "progress", "goaway")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    GOAWAY_FIELD_NUMBER: _ClassVar[int]
    opened: ConsumeOpened
    deliveries: Deliveries
    settled: ConsumeSettled
    progress: ConsumeProgress
    goaway: Goaway
    def __init__(self, opened: _Optional[_Union[ConsumeOpened, _Mapping]] = ..., deliveries: _Optional[_Union[Deliveries, _Mapping]] = ..., settled: _Optional[_Union[ConsumeSettled, _Mapping]] = ..., progress: _Optional[_Union[ConsumeProgress, _Mapping]] = ..., goaway: _Optional[_Union[Goaway, _Mapping]] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("queue", "request_id", "settlements", "epoch", "unit_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    request_id: bytes
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    epoch: int
    unit_id: bytes
    def __init__(self, queue: _Optional[str] = ..., request_id: _Optional[bytes] = ..., settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ..., epoch: _Optional[int] = ..., unit_id: _Optional[bytes] = ...) -> None: ...

class SettleResponse(_message.Message):
    __slots__ = ("header", "results", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., duplicate: bool = ...) -> None: ...

class BrowseRequest(_message.Message):
    __slots__ = ("queue", "from_index", "max_messages", "filter")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    queue: str
    from_index: int
    max_messages: int
    filter: _message_pb2.MessageFilter
    def __init__(self, queue: _Optional[str] = ..., from_index: _Optional[int] = ..., max_messages: _Optional[int] = ..., filter: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ...) -> None: ...

class BrowseResponse(_message.Message):
    __slots__ = ("header", "messages")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredMessage]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.DeliveredMessage, _Mapping]]] = ...) -> None: ...

class BrowsePageRequest(_message.Message):
    __slots__ = ("queue", "from_index", "max_messages", "filter")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    queue: str
    from_index: int
    max_messages: int
    filter: _message_pb2.MessageFilter
    def __init__(self, queue: _Optional[str] = ..., from_index: _Optional[int] = ..., max_messages: _Optional[int] = ..., filter: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ...) -> None: ...

class BrowsePageResponse(_message.Message):
    __slots__ = ("header", "messages", "next_index")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.DeliveredMessage]
    next_index: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.DeliveredMessage, _Mapping]]] = ..., next_index: _Optional[int] = ...) -> None: ...

class ReplyRequest(_message.Message):
    __slots__ = ("queue", "request_id", "lease_id", "index", "message", "epoch", "unit_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    request_id: bytes
    lease_id: int
    index: int
    message: _message_pb2.Message
    epoch: int
    unit_id: bytes
    def __init__(self, queue: _Optional[str] = ..., request_id: _Optional[bytes] = ..., lease_id: _Optional[int] = ..., index: _Optional[int] = ..., message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., epoch: _Optional[int] = ..., unit_id: _Optional[bytes] = ...) -> None: ...

class ReplyResponse(_message.Message):
    __slots__ = ("header", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class CompletionStatus(_message.Message):
    __slots__ = ("handle", "completion", "final_state", "reply", "error", "completed")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATE_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    handle: bytes
    completion: _common_pb2.Completion
    final_state: FinalState
    reply: _message_pb2.Message
    error: _common_pb2.Error
    completed: bool
    def __init__(self, handle: _Optional[bytes] = ..., completion: _Optional[_Union[_common_pb2.Completion, str]] = ..., final_state: _Optional[_Union[FinalState, str]] = ..., reply: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., completed: bool = ...) -> None: ...

class CheckCompletionRequest(_message.Message):
    __slots__ = ("queue", "handles")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    handles: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, queue: _Optional[str] = ..., handles: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CheckCompletionResponse(_message.Message):
    __slots__ = ("header", "statuses")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    statuses: _containers.RepeatedCompositeFieldContainer[CompletionStatus]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., statuses: _Optional[_Iterable[_Union[CompletionStatus, _Mapping]]] = ...) -> None: ...

class WaitCompletionRequest(_message.Message):
    __slots__ = ("queue", "handles", "wait")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    handles: _containers.RepeatedScalarFieldContainer[bytes]
    wait: _duration_pb2.Duration
    def __init__(self, queue: _Optional[str] = ..., handles: _Optional[_Iterable[bytes]] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WaitCompletionResponse(_message.Message):
    __slots__ = ("header", "statuses")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    statuses: _containers.RepeatedCompositeFieldContainer[CompletionStatus]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., statuses: _Optional[_Iterable[_Union[CompletionStatus, _Mapping]]] = ...) -> None: ...

class WatchCompletionsRequest(_message.Message):
    __slots__ = ("queue", "handles")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    handles: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, queue: _Optional[str] = ..., handles: _Optional[_Iterable[bytes]] = ...) -> None: ...

class WatchCompletionsResponse(_message.Message):
    __slots__ = ("header", "queue", "statuses", "goaway")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    GOAWAY_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    queue: str
    statuses: _containers.RepeatedCompositeFieldContainer[CompletionStatus]
    goaway: Goaway
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., queue: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[CompletionStatus, _Mapping]]] = ..., goaway: _Optional[_Union[Goaway, _Mapping]] = ...) -> None: ...

class WatchedQueue(_message.Message):
    __slots__ = ("queue", "depth")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    queue: str
    depth: int
    def __init__(self, queue: _Optional[str] = ..., depth: _Optional[int] = ...) -> None: ...

class WatchQueuesRequest(_message.Message):
    __slots__ = ("watches", "epoch")
    WATCHES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    watches: _containers.RepeatedCompositeFieldContainer[WatchedQueue]
    epoch: int
    def __init__(self, watches: _Optional[_Iterable[_Union[WatchedQueue, _Mapping]]] = ..., epoch: _Optional[int] = ...) -> None: ...

class DepthReached(_message.Message):
    __slots__ = ("watch", "depth", "at_opening")
    WATCH_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    AT_OPENING_FIELD_NUMBER: _ClassVar[int]
    watch: int
    depth: int
    at_opening: bool
    def __init__(self, watch: _Optional[int] = ..., depth: _Optional[int] = ..., at_opening: bool = ...) -> None: ...

class WatchQueuesResponse(_message.Message):
    __slots__ = ("header", "reached", "goaway")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    GOAWAY_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    reached: _containers.RepeatedCompositeFieldContainer[DepthReached]
    goaway: Goaway
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., reached: _Optional[_Iterable[_Union[DepthReached, _Mapping]]] = ..., goaway: _Optional[_Union[Goaway, _Mapping]] = ...) -> None: ...
